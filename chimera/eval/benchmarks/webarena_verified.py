"""WebArena-Verified: ServiceNow's revision of the 812 tasks, with graders of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from chimera.environments.base import Environment
from chimera.environments.browser import BrowserEnvironment
from chimera.errors import UsageError
from chimera.eval.benchmark import Lack
from chimera.eval.benchmarks._webarena_verified.grading import (
    VerifiedGrader,
    needs_package,
    package_python,
)
from chimera.eval.benchmarks._webarena_verified.plain import PYTHON_VARIABLE
from chimera.eval.benchmarks.webarena import SiteBenchmark, SiteOptions, WebArenaTask
from chimera.eval.data.rows import Row
from chimera.eval.data.sources import Item, PackageFile
from chimera.eval.options import option
from chimera.eval.values import Submission, Verdict
from chimera.types import AgentResult

PROMPT = """\
{intent}

When you are done, hand in one JSON object with the browser's stop action:
{{"task_type": "RETRIEVE" | "MUTATE" | "NAVIGATE", "status": "SUCCESS" | "NOT_FOUND_ERROR" | \
"ACTION_NOT_ALLOWED_ERROR" | "PERMISSION_DENIED_ERROR" | "DATA_VALIDATION_ERROR" | \
"UNKNOWN_ERROR", "retrieved_data": [...] or null, "error_details": null or text}}
task_type is the kind of work the task asks for. retrieved_data is the list of what was asked for, \
for RETRIEVE only, in the form the task names."""


@dataclass(frozen=True, slots=True)
class VerifiedOptions(SiteOptions):
    subset: Path | Sequence[int] | None = option(
        None, "an official file whose `task_ids` are to be run (the hard 258, say)"
    )

    def __post_init__(self) -> None:
        SiteOptions.__post_init__(self)
        if isinstance(self.subset, str | Path):
            object.__setattr__(self, "subset", _task_ids(Path(self.subset)))


class WebArenaVerified(SiteBenchmark):
    """Decided by the reply and the archive of the network alone."""

    slug = "webarena-verified"
    description = "WebArena's tasks revised by ServiceNow, decided by reply and network alone"
    setup = (
        "Or copy webarena-verified.json of the package webarena-verified there. Start the sites "
        "and set CHIMERA_WEBARENA_SHOPPING, …_REDDIT, … to their URLs."
    )
    sources = (
        Item(
            "webarena-verified.json",
            PackageFile(
                "webarena-verified==1.2.3",
                "webarena_verified/assets/dataset/webarena-verified.json",
            ),
            sha256="d65275660814663375028e9017e1f929e3c38321041b125795e2713b52243d30",
        ),
    )
    licence = "Apache-2.0"
    files = ("webarena-verified.json", "webarena-verified.json.gz")
    packaged = ("webarena_verified", "assets/dataset/webarena-verified.json")
    grading = "none"
    record_network = True

    option_type = VerifiedOptions
    settings: VerifiedOptions

    def task(self, row: Row) -> WebArenaTask | None:
        chosen = self.settings.subset
        if isinstance(chosen, tuple) and row["task_id"] not in chosen:
            return None
        VerifiedGrader.check(row["eval"])
        return self._task(row, PROMPT, list(row["start_urls"]), list(row["eval"]))

    def extract(self, task: WebArenaTask, reply: str) -> Submission:
        return Submission(text=reply, raw=reply)

    def collect(self, task: WebArenaTask, result: AgentResult, env: Environment) -> Submission:
        if not isinstance(env, BrowserEnvironment):
            return self.extract(task, result.output)
        answer = result.output if env.answer is None else env.answer
        return Submission(text=answer, raw=result.output, files=env.finish())

    def graded_as(self) -> str:
        return "webarena-verified 1.2.3 evaluators"

    def gold(self, task: WebArenaTask) -> Submission | None:
        """The expected reply of tasks that are decided by it alone."""
        if len(task["eval"]) > 1:
            return None
        reply = VerifiedGrader.expected_reply(task["eval"])
        return Submission(text=json.dumps(reply)) if reply is not None else None

    def has_reference(self, task: WebArenaTask) -> bool:
        return self.gold(task) is not None

    def has_untouched(self, task: WebArenaTask) -> bool:
        """What an agent changed on a site stays there."""
        return self.gold(task) is not None

    def missing(self, tasks: Sequence[WebArenaTask] | None = None) -> Sequence[Lack]:
        lacks = super().missing(tasks)
        needing = (task["id"] for task in tasks or () if needs_package(task["eval"]))
        if package_python() is None and (ids := frozenset(needing)):
            remedy = f"install it in a virtual environment, set {PYTHON_VARIABLE} to its python"
            return [*lacks, Lack("the package webarena-verified", remedy, ids)]
        return lacks

    def oracle(self, task: WebArenaTask, env: Environment) -> Submission:
        gold = super().oracle(task, env)
        files = env.finish() if isinstance(env, BrowserEnvironment) else {}
        return Submission(text=gold.text, files=files)

    def mutants(self, task: WebArenaTask) -> Iterator[Submission]:
        gold = self.gold(task)
        if gold is None:
            return
        reply = json.loads(gold.text)
        yield Submission(text="")
        yield Submission(text=json.dumps(reply | {"status": "UNKNOWN_ERROR"}))
        yield Submission(text=json.dumps(reply | {"task_type": "NAVIGATE"}))
        if reply["retrieved_data"]:
            more = [*reply["retrieved_data"], *reply["retrieved_data"]]
            yield Submission(text=json.dumps(reply | {"retrieved_data": more}))

    def attacks(self, task: WebArenaTask) -> Iterable[tuple[str, Submission]]:
        reply = {"task_type": "RETRIEVE", "status": "SUCCESS", "retrieved_data": [".*"]}
        for name, text in {
            "empty": "",
            "not-applicable": "N/A",
            "pattern-for-data": json.dumps(reply),
            "everything-null": json.dumps(dict.fromkeys(reply)),
        }.items():
            yield name, Submission(text=text)

    def grade(self, task: WebArenaTask, submission: Submission, env: Environment) -> Verdict:
        decided = env.evaluate_task(task, submission.raw or submission.text)
        if decided is not NotImplemented:
            return Verdict.of(decided)
        return VerifiedGrader(self.urls).grade(
            task["id"], task["eval"], submission.text, submission.files
        )


def _task_ids(path: Path) -> tuple[int, ...]:
    try:
        return tuple(sorted(json.loads(path.read_text(encoding="utf-8"))["task_ids"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is not a subset file: {error!r}") from None
