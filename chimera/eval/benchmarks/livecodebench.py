"""LiveCodeBench: contest problems by date, in four scenarios.

`passed` follows the repository's grader (28fef95), stand-in for standard input included; where that
fails a program which a real standard input would pass, `metrics["corrected"]` says so.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

from chimera.environments.base import Environment
from chimera.errors import DatasetError, UsageError
from chimera.eval.benchmark import AttackKind, Export, StartEnvironment
from chimera.eval.benchmarks._livecodebench import grading, programs, prompts, replies
from chimera.eval.benchmarks._livecodebench.cases import Case, read_cases
from chimera.eval.benchmarks._livecodebench.official_results import export
from chimera.eval.data.datasets import Dataset, DatasetBenchmark
from chimera.eval.data.predictions import common_predictions
from chimera.eval.data.rows import Row, rows
from chimera.eval.data.sources import HubFile, Item
from chimera.eval.kits import mutate
from chimera.eval.options import Options, option
from chimera.eval.values import Prediction, Submission, Task, Verdict
from chimera.types import JSON

Scenario = Literal["codegeneration", "selfrepair", "codeexecution", "testoutputprediction"]
#: The shards of code generation, as upstream names and publishes them.
SHARDS: Mapping[str, str] = {
    "test.jsonl": "2bd02b38beb48e8c46b5b9987095d999ff38cd8efc255ea5d58974317c48f63f",
    "test2.jsonl": "095df7c5daf15f882c51a9deb84085cff1e073495a5dbcf95015a564d485f3a3",
    "test3.jsonl": "28ed26cc83363ce3f1fe2d5fad9f8393077beb1907b167a31bd3b32f80801b79",
    "test4.jsonl": "d711138ddaebfcf5f8ec6a4283ee677298c0f5c5d374a235af92aaf0584510da",
    "test5.jsonl": "7f77571c2a6df0c2a72a3277650309f67e01e0008e18117e624633df53f81214",
    "test6.jsonl": "bb4c364f71921c4495a6ad15abe1a927350b720009f4933e2e71f8af0f6fd1f5",
}
RELEASES = len(SHARDS)
#: The last commit of the repository that each rule was read from.
COMMITS = {"2025-05": "28fef95", "2025-01": "15808c7"}
FILES: Mapping[str, tuple[str, ...]] = {
    "codegeneration": ("codegeneration_private_subset.jsonl.gz", "codegeneration*.jsonl*"),
    "selfrepair": ("selfrepair*.json*", "*_eval_all.json"),
    "codeexecution": ("codeexecution*.jsonl*", "execution*.jsonl*"),
    "testoutputprediction": ("testoutputprediction*.jsonl*", "test_generation*.jsonl*"),
}
#: Values that try to pass where a value is asked for.
HOSTILE_VALUES: Mapping[str, str] = {
    "equals-everything": "type('All', (), {'__eq__': lambda self, other: True})()",
    "equals-nothing-else": "type('All', (), {'__ne__': lambda self, other: False})()",
    "ends-the-process": "__import__('os')._exit(0)",
    "leaves": "exit(0)",
}
HUB = "livecodebench/code_generation_lite"
REVISION = "0fe84c3912ea0c4d4a78037083943e8f0c4dd505"
#: Problems whose tests accept only one of several right answers, or are wrong (errata upstream).
DISPUTED = frozenset(
    {"abc311_c", "abc326_d", "abc327_b", "abc333_e", "abc337_e", "abc343_a", "abc343_e"}
    | {"abc350_c", "abc355_e", "abc362_c", "arc185_c", "arc189_a"}
)


@dataclass(frozen=True, slots=True)
class LiveCodeOptions(Options):
    scenario: Literal[Scenario, "testoutput"] = option(
        "codegeneration", "what is asked for; `testoutput` is short for testoutputprediction"
    )
    start_date: str | None = option(None, "the first contest date, included")
    end_date: str | None = option(None, "the last contest date, included")
    difficulty: Literal["easy", "medium", "hard"] | None = option(None, "only problems of this one")
    release_version: str = option(
        f"release_v{RELEASES}", "all shards up to one (`release_v3`), one (`v3`) or some (`v2_v4`)"
    )
    platform: Literal["leetcode", "atcoder", "codeforces"] | None = option(
        None, "only problems of this one"
    )
    tests: Literal["all", "public"] = option(
        "all", "`public` grades with the samples alone: quick, marked, and not the official score"
    )
    thinking: bool = option(False, "code execution: the prompt and the extraction with [THOUGHT]")
    rule: Literal["2025-05", "2025-01"] = option(
        "2025-05",
        "the repository's grader from then on; that of January has a plain `StringIO` for "
        "`sys.stdin`, without a `buffer`",
        quiet=True,
    )

    def __post_init__(self) -> None:
        Options.__post_init__(self)
        if self.scenario == "testoutput":
            object.__setattr__(self, "scenario", "testoutputprediction")
        _shards(self.release_version)
        for name in ("start_date", "end_date"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, _date(given, UsageError).isoformat())


class LiveCodeTask(Task):
    """`public` and `private` are the fields of the row: decoded when the task is graded."""

    scenario: str
    starter: str
    function: str | None
    public: Any
    private: Any
    code: str  # codeexecution: the function that is called
    call: str
    expected: str
    gold: str | None


class LiveCodeBench(DatasetBenchmark[LiveCodeTask]):
    slug = "livecodebench"
    aliases = ("lcb", "live-code-bench")
    description = "Contest problems by date, in four scenarios"
    setup = "Or put test.jsonl, test2.jsonl, … there."
    sources = tuple(Item(n, HubFile(HUB, n, REVISION), sha256=s) for n, s in SHARDS.items())
    licence = "CC (statements belong to the contest sites)"
    grading = "none"
    decided_by_answer = True
    exports: ClassVar[Mapping[str, Export]] = {"livecodebench": export}
    scenarios: ClassVar = get_args(Scenario)

    option_type = LiveCodeOptions
    settings: LiveCodeOptions

    @classmethod
    def rotated_window(cls, model_cutoff: str | date, months: int = 3, **options: Any) -> Self:
        """Problems from a model's cut-off on, for `months` times 30 days, both ends included."""
        start = _date(str(model_cutoff), UsageError)
        end = start + timedelta(days=30 * months)
        return cls(start_date=start.isoformat(), end_date=end.isoformat(), **options)

    def name(self) -> str:
        scenario = self.settings.scenario
        return self.slug if scenario == "codegeneration" else f"{self.slug}:{scenario}"

    @property
    def attack_kind(self) -> AttackKind:  # type: ignore[override]  # read off the options
        return "python scripts" if self._asks_for_program else "text"

    @property
    def _asks_for_program(self) -> bool:
        return self.settings.scenario in ("codegeneration", "selfrepair")

    def graded_as(self) -> str:
        rule = f"LiveCodeBench {COMMITS[self.settings.rule]}"
        return rule if self.settings.tests == "all" else f"{rule}, public tests alone"

    # Rows

    def dataset(self) -> Dataset:
        return self._dataset(self.settings.scenario)

    def _dataset(self, scenario: str) -> Dataset:
        """For code generation the upstream shards come first: the directory they lie in."""
        files = FILES[scenario]
        if scenario != "codegeneration":
            return replace(super().dataset(), files=files)
        if self.settings.tests == "public":
            files = ("*public*.jsonl*", *files)
        return replace(
            super().dataset(), files=files, locate=lambda place: place if _files(place) else None
        )

    def rows(self) -> Iterator[Row]:
        source = self.dataset().source()
        for file in _files(source) or [source]:
            number = re.fullmatch(r"test(\d?)\.jsonl", file.name)
            shard = {"release": f"v{number[1] or 1}"} if number else {}
            for row in rows(file):
                yield {**shard, **row}

    def task(self, row: Row) -> LiveCodeTask | None:
        if not self._selected(row):
            return None
        if self.settings.scenario == "codeexecution":
            return self._execution_task(row)
        if self.settings.scenario == "testoutputprediction":
            return self._test_output_task(row)
        return self._program_task(row)

    def _selected(self, row: Row) -> bool:
        wanted = self.settings
        if wanted.difficulty is not None and row["difficulty"] != wanted.difficulty:
            return False
        if wanted.platform is not None and row.get("platform", "leetcode") != wanted.platform:
            return False
        held = _date(str(row["contest_date"]), ValueError).isoformat()
        if not (wanted.start_date or held) <= held <= (wanted.end_date or held):
            return False
        release = row.get("release")
        shards = _shards(wanted.release_version)
        return release is None or int(str(release).removeprefix("v")) in shards

    def _task(self, row: Row, identifier: str, prompt: str, **fields: Any) -> LiveCodeTask:
        empty: dict[str, Any] = {
            "starter": row.get("starter_code") or "",
            "function": None,
            "public": None,
            "private": None,
            "code": "",
            "call": "",
            "expected": "",
            "gold": None,
        }
        scenario = self.settings.scenario
        known = {
            "scenario": scenario,
            "difficulty": row["difficulty"],
            "platform": row.get("platform", "leetcode"),
            "date": str(row["contest_date"])[:10],
        }
        base = {"id": identifier, "prompt": prompt, "scenario": scenario, "metadata": known}
        return LiveCodeTask(**{**base, **empty, **fields})  # type: ignore[typeddict-item]

    def _program_task(self, row: Row) -> LiveCodeTask | None:
        identifier = str(row["question_id"])
        problem = row if "public_test_cases" in row else self._problems().get(identifier)
        if problem is None:
            return None  # an eval file may cover more problems than there are tests for
        public, private = problem["public_test_cases"], problem.get("private_test_cases")
        if "private_test_cases" not in problem and self.settings.tests == "all":
            raise ValueError(
                f"{identifier} has no private tests; --option tests=public grades with the samples "
                "alone, which is not the official score"
            )
        private = private if self.settings.tests == "all" else None
        if not _cases(public, private) and self.settings.tests == "public":
            return None
        metadata = problem.get("metadata") or "{}"
        metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
        starter = row.get("starter_code") or ""
        prompt = prompts.code_generation(row["question_content"], starter)
        if self.settings.scenario == "selfrepair":
            if row["graded_list"][0]:
                return None  # there is nothing to repair
            fault = row["metadata"][0]
            fault = json.loads(fault) if isinstance(fault, str) else dict(fault)
            program = str(row["code_list"][0])
            prompt = prompts.self_repair(row["question_content"], starter, program, fault)
        return self._task(
            row,
            identifier,
            prompt,
            function=metadata.get("func_name"),
            public=public,
            private=private,
            gold=row.get("solution") or self._reference(identifier),
        )

    def _problems(self) -> Mapping[str, Row]:
        """Code generation rows by id: the tests of a scenario whose own rows have none."""
        dataset = self._dataset("codegeneration")
        return _by_id(dataset.source()) if dataset.place().is_dir() else {}

    def _reference(self, identifier: str) -> str | None:
        """A program of ours, or one that an evaluation file beside the data says passed."""
        place = self.dataset().place()
        stored = _passing(place) if place.is_dir() else {}
        return _references().get(identifier) or stored.get(identifier)

    def _execution_task(self, row: Row) -> LiveCodeTask:
        prompt = prompts.code_execution(row["code"], row["input"], thinking=self.settings.thinking)
        return self._task(
            row,
            str(row["id"]),
            prompt,
            code=row["code"],
            call=row["input"],
            expected=row["output"],
            gold=row["output"],
        )

    def _test_output_task(self, row: Row) -> LiveCodeTask:
        cases = read_cases(row["test"], "test")
        if len(cases) != 1:
            raise ValueError(f"expected one test, found {len(cases)}")
        call = row.get("assertion") or _call_text(row["function_name"], cases[0])
        expected = cases[0]["output"]
        return self._task(
            row,
            f"{row['question_id']}_{row['test_id']}",
            prompts.test_output(row["question_content"], row["starter_code"], call),
            call=call,
            expected=expected,
            gold=f"assert {call} == {json.loads(expected)!r}",
        )

    # Answers

    def extract(self, task: LiveCodeTask, reply: str) -> Submission:
        if self.settings.scenario == "codeexecution":
            answer = replies.execution_answer(reply, thinking=self.settings.thinking)
        elif self.settings.scenario == "testoutputprediction":
            answer = replies.test_output(reply)
        else:
            answer = replies.code(reply)
        return Submission(text=answer, raw=reply)

    def check_task(self, task: LiveCodeTask, start: StartEnvironment) -> None:
        if self._asks_for_program:
            self._cases(task)

    def _cases(self, task: LiveCodeTask) -> list[Case]:
        cases = _cases(task["public"], task["private"])
        if not cases:
            raise DatasetError(f"{task['id']} has no tests, so that nothing could decide it")
        return cases

    def grade(self, task: LiveCodeTask, submission: Submission, env: Environment) -> Verdict:
        answer = submission.text
        if self.settings.scenario == "codeexecution":
            verdict = grading.code_execution(task["call"], task["expected"], answer)
        elif self.settings.scenario == "testoutputprediction":
            verdict = grading.test_output(answer, task["expected"])
        else:
            stand_in: programs.StandIn = "own" if self.settings.rule == "2025-05" else "plain"
            function = task["function"]
            verdict = grading.program(answer, self._cases(task), function, stand_in=stand_in)
        extra: dict[str, JSON] = dict(task.get("metadata", {}))
        if task["id"] in DISPUTED:
            extra["disputed"] = True
        if self.settings.tests == "public":
            extra["tests"] = "public"
        metrics = {**verdict.metrics, **extra}
        return Verdict(verdict.passed, verdict.why, metrics=metrics, evidence=verdict.evidence)

    def gold(self, task: LiveCodeTask) -> Submission | None:
        return Submission(text=task["gold"]) if task["gold"] else None

    def mutants(self, task: LiveCodeTask) -> Iterable[Submission]:
        gold = task["gold"]
        if not gold:
            return
        if self._asks_for_program:
            wrong: Iterable[str] = mutate.python(gold)
        elif self.settings.scenario == "codeexecution":
            wrong = (repr(value) for value in mutate.values(ast.literal_eval(gold)))
        else:
            values = mutate.values(json.loads(task["expected"]))
            wrong = (f"assert {task['call']} == {value!r}" for value in values)
        yield from map(Submission, wrong)

    def attacks(self, task: LiveCodeTask) -> Iterable[tuple[str, Submission]]:
        if not self._asks_for_program:
            yield from ((name, Submission(text)) for name, text in HOSTILE_VALUES.items())

    def read_predictions(self, path: Path) -> Iterable[Prediction]:
        """Also the files of the repository: lists of codes, outputs or predictions per problem."""
        found = list(rows(path))
        if not any(_LISTS & row.keys() for row in found):
            yield from common_predictions(self, path)
            return
        tasks = {task["id"]: task for task in self.tasks()}
        for number, row in enumerate(found):
            identifier = self._prediction_id(row, f"{path}: entry {number}")
            if identifier not in tasks:
                raise DatasetError(f"{path}: {self.name()} has no task {identifier!r}")
            answers = row.get("code_list") or row.get("pred_list")
            if answers is not None:
                make = partial(Submission, form="solution")
            else:
                answers, make = row["output_list"], partial(self.extract, tasks[identifier])
            for answer in answers:
                yield Prediction(identifier, make(answer or ""))

    def _prediction_id(self, row: Row, where: str) -> str:
        scenario = self.settings.scenario
        if scenario == "testoutputprediction" and "test_id" in row:
            return f"{row['question_id']}_{row['test_id']}"
        identifier = row.get("id") if scenario == "codeexecution" else row.get("question_id")
        if identifier is None:
            raise DatasetError(f"{where}: no id of a {scenario} problem")
        return str(identifier)


_LISTS = frozenset({"code_list", "output_list", "pred_list"})


def _files(place: Path) -> list[Path]:
    """The shards of code generation in a directory."""
    return [place / name for name in SHARDS if (place / name).exists()]


def _cases(public: Any, private: Any) -> list[Case]:
    cases = read_cases(public, "public tests")
    return cases if private in (None, "") else cases + read_cases(private, "private tests")


def _date(text: str, refusal: type[Exception]) -> datetime:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except (TypeError, ValueError):
        raise refusal(f"livecodebench: not a date (YYYY-MM-DD): {text!r}") from None


def _shards(release: str) -> range:
    """release_v3 is the first three shards, v3 the third alone, v2_v4 the second to fourth."""
    if release == "release_latest":
        return range(1, RELEASES + 1)
    if found := re.fullmatch(rf"release_v([1-{RELEASES}])", release):
        return range(1, int(found[1]) + 1)
    if found := re.fullmatch(rf"v([1-{RELEASES}])(?:_v([1-{RELEASES}]))?", release):
        return range(int(found[1]), int(found[2] or found[1]) + 1)
    raise UsageError(
        f"livecodebench: no release '{release}'; there are release_v1 to release_v{RELEASES}, "
        f"release_latest, v1 to v{RELEASES}, and ranges such as v2_v4"
    )


def _call_text(function: str, case: Case) -> str:
    arguments = ", ".join(repr(json.loads(line)) for line in case["input"].split("\n"))
    return f"{function}({arguments})"


@lru_cache(maxsize=1)
def _by_id(source: Path) -> dict[str, Row]:
    files = _files(source) or [source]
    return {str(row["question_id"]): row for file in files for row in rows(file)}


@lru_cache(maxsize=1)
def _references() -> Mapping[str, str]:
    """Programs of our own for some problems, since the data have none."""
    return tomllib.loads((Path(grading.__file__).parent / "references.toml").read_text("utf-8"))


@lru_cache(maxsize=4)
def _passing(folder: Path) -> dict[str, str]:
    """Programs that the evaluation files in a folder say passed upstream."""
    found: dict[str, str] = {}
    for pattern in FILES["selfrepair"]:
        for file in sorted(folder.glob(pattern)):
            for row in rows(file):
                codes = zip(row.get("code_list", ()), row.get("graded_list", ()), strict=False)
                for code, passed in codes:
                    if passed:
                        found.setdefault(str(row["question_id"]), code)
    return found
