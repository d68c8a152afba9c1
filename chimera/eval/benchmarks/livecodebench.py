"""LiveCodeBench: contest problems by date, in four scenarios.

`passed` follows the repository's grader (28fef95), stand-in for standard input included; where that
fails a program which a real standard input would pass, `metrics["corrected"]` says so.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

from chimera.environments.base import Environment
from chimera.errors import DatasetError
from chimera.eval.benchmarks._livecodebench import grading, prompts, replies
from chimera.eval.benchmarks._livecodebench.cases import Case, read_cases
from chimera.eval.data.datasets import DatasetBenchmark, Row, rows
from chimera.eval.kits import mutate
from chimera.eval.values import Prediction, Submission, Task, Verdict
from chimera.types import JSON

Scenario = Literal["codegeneration", "selfrepair", "codeexecution", "testoutputprediction"]
Tests = Literal["all", "public"]
RELEASES = 6
FILES: Mapping[str, tuple[str, ...]] = {
    "codegeneration": ("codegeneration_private_subset.jsonl.gz", "codegeneration*.jsonl*"),
    "selfrepair": ("selfrepair*.json*", "*_eval_all.json"),
    "codeexecution": ("codeexecution*.jsonl*", "execution*.jsonl*"),
    "testoutputprediction": ("testoutputprediction*.jsonl*", "test_generation*.jsonl*"),
}
#: Problems whose tests accept only one of several right answers, or are wrong (errata upstream).
DISPUTED = frozenset(
    {"abc311_c", "abc326_d", "abc327_b", "abc333_e", "abc337_e", "abc343_a", "abc343_e"}
    | {"abc350_c", "abc355_e", "abc362_c", "arc185_c", "arc189_a"}
)


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
    setup = "Get it with `chimera datasets pull livecodebench`: test.jsonl, test2.jsonl, … in it."
    grading = "none"
    scenarios: ClassVar = get_args(Scenario)

    def __init__(
        self,
        scenario: Scenario = "codegeneration",
        start_date: str | None = None,
        end_date: str | None = None,
        difficulty: str | None = None,
        release_version: str = "release_v6",
        dataset_path: str | Path | None = None,
        limit: int | None = None,
        platform: str | None = None,
        tests: Tests = "all",
        thinking: bool = False,
    ) -> None:
        """`tests="public"` grades with the samples alone: quick, and not the official score."""
        super().__init__(dataset_path, limit)
        if scenario not in get_args(Scenario):
            known = ", ".join(get_args(Scenario))
            raise DatasetError(f"livecodebench: no scenario '{scenario}'; there are: {known}")
        if tests not in get_args(Tests):
            raise DatasetError(f"livecodebench: tests={tests}: either all or public")
        self.scenario, self.difficulty, self.platform = scenario, difficulty, platform
        self.start_date, self.end_date = _date(start_date), _date(end_date)
        self.release_version, self.shards = release_version, _shards(release_version)
        self.tests, self.thinking = tests, thinking
        self._problems: dict[str, Row] | None = None

    @classmethod
    def rotated_window(cls, model_cutoff: str, months: int = 3, **options: Any) -> Self:
        """Problems from a model's cut-off on, for `months` times 30 days, both ends included."""
        start = _date(model_cutoff)
        if start is None:
            raise DatasetError("livecodebench: rotated_window needs a model's cut-off date")
        end = start + timedelta(days=30 * months)
        return cls(start_date=start.isoformat(), end_date=end.isoformat(), **options)

    def name(self) -> str:
        return self.slug if self.scenario == "codegeneration" else f"{self.slug}:{self.scenario}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_problems": None}

    # Rows

    def files_of(self, scenario: str) -> list[Path]:
        """The files a scenario reads; for code generation the upstream shards come first."""
        place = self.place()
        if not place.is_dir():
            return [place]
        if scenario == "codegeneration":
            names = ["test.jsonl", *(f"test{number}.jsonl" for number in range(2, RELEASES + 1))]
            shards = [place / n for n in names if (place / n).exists()]
            if shards:
                return shards
            if self.tests == "public" and (found := sorted(place.glob("*public*.jsonl*"))):
                return found[:1]
        for pattern in FILES[scenario]:
            if found := sorted(place.glob(pattern)):
                return found[:1]
        raise self._missing(place)

    def source(self) -> Path:
        files = self.files_of(self.scenario)
        return files[0] if len(files) == 1 else files[0].parent

    def rows(self) -> Iterator[Row]:
        for file in self.files_of(self.scenario):
            number = re.fullmatch(r"test(\d?)\.jsonl", file.name)
            shard = {"release": f"v{number[1] or 1}"} if number else {}
            for row in rows(file):
                yield {**shard, **row}

    def problems(self) -> dict[str, Row]:
        """Code generation rows by id: the tests of the other scenarios that run programs."""
        if self._problems is None:
            self._problems = {}
            if self.place().is_dir():
                for file in self.files_of("codegeneration"):
                    self._problems |= {str(row["question_id"]): row for row in rows(file)}
        return self._problems

    def task(self, row: Row) -> LiveCodeTask | None:
        if not self._selected(row):
            return None
        if self.scenario == "codeexecution":
            return self._execution_task(row)
        if self.scenario == "testoutputprediction":
            return self._test_output_task(row)
        return self._program_task(row)

    def _selected(self, row: Row) -> bool:
        if self.difficulty is not None and row["difficulty"] != self.difficulty:
            return False
        if self.platform is not None and row.get("platform", "leetcode") != self.platform:
            return False
        date = _date(str(row["contest_date"]))
        assert date is not None
        if self.start_date is not None and date < self.start_date:
            return False
        if self.end_date is not None and date > self.end_date:
            return False
        release = row.get("release")
        return release is None or int(str(release).removeprefix("v")) in self.shards

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
        known = {
            "scenario": self.scenario,
            "difficulty": row["difficulty"],
            "platform": row.get("platform", "leetcode"),
            "date": str(row["contest_date"])[:10],
        }
        base = {"id": identifier, "prompt": prompt, "scenario": self.scenario, "metadata": known}
        return LiveCodeTask(**{**base, **empty, **fields})  # type: ignore[typeddict-item]

    def _program_task(self, row: Row) -> LiveCodeTask | None:
        identifier = str(row["question_id"])
        problem = row if "public_test_cases" in row else self.problems().get(identifier)
        if problem is None:
            return None  # an eval file may cover more problems than there are tests for
        public, private = problem["public_test_cases"], problem.get("private_test_cases")
        if private is None and self.tests == "all":
            raise ValueError(
                f"{identifier} has no private tests; --option tests=public grades with the samples "
                "alone, which is not the official score"
            )
        private = private if self.tests == "all" else None
        cases = read_cases(public, "public tests") + self._private_cases(private)
        if not cases:
            if self.tests == "public":
                return None
            raise ValueError(f"{identifier} has no tests")
        metadata = problem.get("metadata") or "{}"
        metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
        starter = row.get("starter_code") or ""
        prompt = prompts.code_generation(row["question_content"], starter)
        if self.scenario == "selfrepair":
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
            gold=row.get("solution") or self._stored_solution(identifier),
        )

    def _private_cases(self, private: Any) -> list[Case]:
        return [] if private in (None, "") else read_cases(private, "private tests")

    def _stored_solution(self, identifier: str) -> str | None:
        """A program that an evaluation file beside the data says upstream passed."""
        if not self.place().is_dir():
            return None
        return _passing(self.place()).get(identifier)

    def _execution_task(self, row: Row) -> LiveCodeTask:
        prompt = prompts.code_execution(row["code"], row["input"], thinking=self.thinking)
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
        if self.scenario == "codeexecution":
            answer = replies.execution_answer(reply, thinking=self.thinking)
        elif self.scenario == "testoutputprediction":
            answer = replies.test_output(reply)
        else:
            answer = replies.code(reply)
        return Submission(text=answer, raw=reply)

    def grade(self, task: LiveCodeTask, submission: Submission, env: Environment) -> Verdict:
        answer = submission.text
        if self.scenario == "codeexecution":
            verdict = grading.code_execution(task["call"], task["expected"], answer)
        elif self.scenario == "testoutputprediction":
            verdict = grading.test_output(answer, task["expected"])
        else:
            cases = read_cases(task["public"], "public tests")
            cases += self._private_cases(task["private"])
            verdict = grading.program(answer, cases, task["function"])
        extra: dict[str, JSON] = dict(task.get("metadata", {}))
        if task["id"] in DISPUTED:
            extra["disputed"] = True
        if self.tests == "public":
            extra["tests"] = "public"
        metrics = {**verdict.metrics, **extra}
        return Verdict(verdict.passed, verdict.why, metrics=metrics, evidence=verdict.evidence)

    def gold(self, task: LiveCodeTask) -> Submission | None:
        return Submission(text=task["gold"]) if task["gold"] else None

    def mutants(self, task: LiveCodeTask) -> Iterable[Submission]:
        gold = task["gold"]
        if not gold:
            return
        if self.scenario in ("codegeneration", "selfrepair"):
            wrong: Iterable[str] = mutate.python(gold)
        elif self.scenario == "codeexecution":
            wrong = (repr(value) for value in mutate.values(ast.literal_eval(gold)))
        else:
            values = mutate.values(json.loads(task["expected"]))
            wrong = (f"assert {task['call']} == {value!r}" for value in values)
        yield from map(Submission, wrong)

    def read_predictions(self, path: Path) -> Iterable[Prediction]:
        """Also the files of the repository: lists of codes, outputs or predictions per problem."""
        found = list(rows(path))
        if not any(_LISTS & row.keys() for row in found):
            yield from super().read_predictions(path)
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
        if self.scenario == "testoutputprediction" and "test_id" in row:
            return f"{row['question_id']}_{row['test_id']}"
        identifier = row.get("id") if self.scenario == "codeexecution" else row.get("question_id")
        if identifier is None:
            raise DatasetError(f"{where}: no id of a {self.scenario} problem")
        return str(identifier)

    def options(self) -> dict[str, JSON]:
        return {
            "scenario": self.scenario,
            "start_date": self.start_date and self.start_date.isoformat(),
            "end_date": self.end_date and self.end_date.isoformat(),
            "difficulty": self.difficulty,
            "platform": self.platform,
            "release_version": self.release_version,
            "tests": self.tests,
            "thinking": self.thinking,
        }


_LISTS = frozenset({"code_list", "output_list", "pred_list"})


def _date(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        raise DatasetError(f"livecodebench: not a date (YYYY-MM-DD): {text!r}") from None


def _shards(release: str) -> range:
    """release_v3 is the first three shards, v3 the third alone, v2_v4 the second to fourth."""
    if release == "release_latest":
        return range(1, RELEASES + 1)
    if found := re.fullmatch(rf"release_v([1-{RELEASES}])", release):
        return range(1, int(found[1]) + 1)
    if found := re.fullmatch(rf"v([1-{RELEASES}])(?:_v([1-{RELEASES}]))?", release):
        return range(int(found[1]), int(found[2] or found[1]) + 1)
    raise DatasetError(
        f"livecodebench: no release '{release}'; there are release_v1 to release_v{RELEASES}, "
        f"release_latest, v1 to v{RELEASES}, and ranges such as v2_v4"
    )


def _call_text(function: str, case: Case) -> str:
    arguments = ", ".join(repr(json.loads(line)) for line in case["input"].split("\n"))
    return f"{function}({arguments})"


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
