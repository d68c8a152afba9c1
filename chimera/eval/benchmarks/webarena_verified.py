"""WebArena-Verified: ServiceNow's revision of the 812 tasks, with graders of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from chimera.environments.base import Environment
from chimera.environments.browser import BrowserEnvironment
from chimera.errors import UsageError
from chimera.eval.benchmarks._webarena_verified.grading import VerifiedGrader
from chimera.eval.benchmarks.webarena import WebArena, WebArenaTask
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.data.rows import Row
from chimera.eval.values import Submission, Verdict
from chimera.types import JSON, AgentResult

PROMPT = """\
{intent}

When you are done, hand in one JSON object with the browser's stop action:
{{"task_type": "RETRIEVE" | "MUTATE" | "NAVIGATE", "status": "SUCCESS" | "NOT_FOUND_ERROR" | \
"ACTION_NOT_ALLOWED_ERROR" | "PERMISSION_DENIED_ERROR" | "DATA_VALIDATION_ERROR" | \
"UNKNOWN_ERROR", "retrieved_data": [...] or null, "error_details": null or text}}
task_type is the kind of work the task asks for. retrieved_data is the list of what was asked for, \
for RETRIEVE only, in the form the task names."""


class WebArenaVerified(WebArena):
    """Decided by the reply and the archive of the network alone."""

    slug: ClassVar[str] = "webarena-verified"
    setup: ClassVar[str] = (
        "Copy webarena-verified.json of the package webarena-verified into it (812 tasks), start "
        "the sites, and set CHIMERA_WEBARENA_SHOPPING, …_REDDIT, … to their URLs."
    )
    files: ClassVar[Sequence[str]] = ("webarena-verified.json", "webarena-verified.json.gz")
    packaged: ClassVar[tuple[str, str] | None] = (
        "webarena_verified",
        "assets/dataset/webarena-verified.json",
    )
    grading: Literal["same", "fresh", "none"] = "none"
    record_network: ClassVar[bool] = True

    def __init__(
        self,
        dataset_path: str | Path | None = None,
        limit: int | None = None,
        *,
        sites: Sequence[str] | None = None,
        urls: Sequence[str] | Mapping[str, str] | None = None,
        subset: Path | None = None,
        auth_dir: str | Path | None = None,
        log_in: bool = True,
        viewport_only: bool = True,
        browser: bool = True,
    ) -> None:
        """`subset`: an official file whose `task_ids` are to be run (the hard 258, say)."""
        super().__init__(
            dataset_path,
            limit,
            sites=sites,
            urls=urls,
            auth_dir=auth_dir,
            log_in=log_in,
            viewport_only=viewport_only,
            browser=browser,
        )
        self.subset = _subset(subset) if subset is not None else None

    def options(self) -> dict[str, JSON]:
        return {
            "sites": self.sites,
            "urls": self.urls,
            "subset": self.subset,
            "viewport_only": self.viewport_only,
            "browser": self.browser,
        }

    def task(self, row: Row) -> WebArenaTask | None:
        if self.subset is not None and row["task_id"] not in self.subset:
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

    def gold(self, task: WebArenaTask) -> Submission | None:
        """The expected reply of tasks that are decided by it alone."""
        if len(task["eval"]) > 1:
            return None
        reply = VerifiedGrader.expected_reply(task["eval"])
        return Submission(text=json.dumps(reply)) if reply is not None else None

    def oracle(self, task: WebArenaTask, env: Environment) -> Submission:
        gold = DatasetBenchmark.oracle(self, task, env)
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


def _subset(path: Path) -> list[int]:
    try:
        return sorted(json.loads(Path(path).read_text(encoding="utf-8"))["task_ids"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is not a subset file: {error!r}") from None
