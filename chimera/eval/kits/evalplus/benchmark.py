"""HumanEval+ and MBPP+ by EvalPlus's rules: inputs, expected outputs, limits, verdicts.

`release` names the grader that `passed` follows: "head" is the repository's (26d6d00), "0.3.1" the
package's, which has a shorter time limit and can never pass HumanEval/32.
"""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from chimera.cache import stored_value
from chimera.environments.base import Environment
from chimera.errors import DatasetError
from chimera.eval.benchmark import Export, OfficialGrader
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.data.predictions import common_predictions
from chimera.eval.data.rows import Row, rows
from chimera.eval.kits import mutate
from chimera.eval.kits import replies as extract
from chimera.eval.kits.evalplus import oracle as evalplus_oracle
from chimera.eval.kits.evalplus.inside import batches, calls
from chimera.eval.kits.evalplus.official_results import export
from chimera.eval.kits.evalplus.sanitize import sanitize
from chimera.eval.kits.python.grading import evidence, handles, joined, packages_of
from chimera.eval.kits.python.inside import answer
from chimera.eval.kits.python.steps import program as program_of
from chimera.eval.kits.python.steps import source_of, step
from chimera.eval.options import Options, option
from chimera.eval.values import Prediction, Submission, Task, Verdict
from chimera.sandbox import Limits, Outcome, call_function, dump_plain, judge_calls, load_plain
from chimera.types import JSON

Release = Literal["head", "0.3.1"]
Version = Literal["plus", "base"]
#: Shortest time limit of one call, in seconds.
MINIMUM_SECONDS: Mapping[str, float] = {"head": 4.0, "0.3.1": 1.0}
REFERENCE_FACTOR = 4.0
PROCESS_SECONDS = 60.0
SWITCHED_OFF = ["exit", "quit", "help", "open"]
OFFICIAL = Path(__file__).with_name("official.py")
RELEASES = "https://github.com/evalplus"
_EXPECTED_VERSION = 3  # part of the cache's key: raise it when expected outputs are made otherwise

_NEED_INPUTS = frozenset({"find_zero", "surface_Area", "digit_distance_nums"})
_LARGEST_BATCH = 1024


@dataclass(frozen=True, slots=True)
class EvalPlusOptions(Options):
    version: Version = option("plus", "all inputs, or those of the original set alone")
    release: Release = option("head", "the evalplus that `passed` follows")


class EvalPlusTask(Task):
    entry_point: str
    code_prompt: str  # the prompt of the data set: what a completion follows
    solution: str
    inputs: Mapping[str, list[list[Any]]]  # "base", "plus"
    tolerance: float


@dataclass(frozen=True, slots=True)
class Expected:
    """What the reference returns for each input, and how many seconds each call may take."""

    outputs: list[Any]
    seconds: list[float]


class EvalPlusBenchmark(DatasetBenchmark[EvalPlusTask]):
    """What both sets share; a subclass names the data set and how a row's inputs are read."""

    grading = "none"
    decided_by_answer = False  # `corrected` follows from the whole reply
    exports: ClassVar[Mapping[str, Export]] = {"evalplus": export}
    attack_kind = "python calls"
    #: What EvalPlus calls the set that it extends.
    origin: ClassVar[str]

    option_type = EvalPlusOptions
    settings: EvalPlusOptions

    @cached_property
    def _expected(self) -> dict[tuple[str, str], Expected]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_expected": {}}

    def graded_as(self) -> str:
        release = "evalplus 26d6d00" if self.settings.release == "head" else "evalplus 0.3.1"
        return release if self.settings.version == "plus" else f"{release}, base inputs only"

    def read_inputs(self, task_id: str, inputs: list[Any]) -> list[list[Any]]:
        """The argument lists of a row, as the reference takes them."""
        return inputs

    def task(self, row: Row) -> EvalPlusTask:
        identifier = str(row["task_id"])
        inputs = {
            kind: self.read_inputs(identifier, list(row[f"{kind}_input"] or ()))
            for kind in ("base", "plus")
        }
        if not inputs["base"]:
            raise ValueError(f"{identifier} has no tests (base_input is empty)")
        return EvalPlusTask(
            id=identifier,
            prompt=PROMPT.format(prompt=row["prompt"].strip()),
            entry_point=row["entry_point"],
            code_prompt=row["prompt"],
            solution=row["prompt"] + row["canonical_solution"],
            inputs=inputs,
            tolerance=float(row["atol"]),
        )

    def extract(self, task: EvalPlusTask, reply: str) -> Submission:
        return Submission(text=sanitize(reply, task["entry_point"]), raw=reply)

    def grade(self, task: EvalPlusTask, submission: Submission, env: Environment) -> Verdict:
        program = submission.text
        if submission.form == "completion":
            program = task["code_prompt"] + program
        verdict = self._verdict(task, program)
        if verdict.passed or submission.raw is None:
            return verdict
        careful = extract.python_program(
            submission.raw, entry_point=task["entry_point"], prompt=task["code_prompt"]
        )
        if careful == program:
            return verdict
        other = self._verdict(task, careful)
        metrics = {**verdict.metrics, "corrected": other.metrics["corrected"]}
        return Verdict(False, verdict.why, metrics=metrics, evidence=joined(verdict, other))

    def _verdict(self, task: EvalPlusTask, program: str) -> Verdict:
        kinds = ("base", "plus") if self.settings.version == "plus" else ("base",)
        held: dict[str, bool] = {}
        outcomes: list[Outcome] = []
        for kind in kinds:
            outcome = self._outcome(task, program, kind)
            outcomes.append(outcome)
            held[kind] = outcome.passed
            if not outcome.passed:
                break
        right, records = outcome.passed, evidence(*outcomes)
        metrics: dict[str, JSON] = {"isolation": outcome.isolation, "corrected": right}
        metrics |= handles(outcome)
        metrics |= {kind: held.get(kind, False) for kind in kinds}
        if outcome.limit:
            metrics["limit"] = outcome.limit
        if self.settings.release == "0.3.1" and task["entry_point"] == "find_zero" and right:
            why = "evalplus 0.3.1 never records a result of find_zero; the answer itself is right"
            metrics |= {"base": False, "plus": False}
            return Verdict(False, why, metrics=metrics, evidence=records)
        why = "" if right else f"{list(held)[-1]} tests: {outcome.why}"
        return Verdict(right, why, metrics=metrics, evidence=records)

    def _outcome(self, task: EvalPlusTask, program: str, kind: str) -> Outcome:
        inputs = task["inputs"][kind]
        expected = self.expected(task, kind)
        shortest = MINIMUM_SECONDS[self.settings.release]
        return check(
            program,
            dataset=self.origin,
            entry_point=task["entry_point"],
            inputs=inputs,
            expected=expected.outputs,
            tolerance=task["tolerance"],
            seconds=[max(shortest, each) for each in expected.seconds],
            costs=expected.seconds,
        )

    def expected(self, task: EvalPlusTask, kind: str) -> Expected:
        """The reference's outputs, made once in confinement and kept by the task's digest."""
        key = task["id"], kind
        if key not in self._expected:
            parts = (str(_EXPECTED_VERSION), self.origin, task["entry_point"], task["solution"])
            name = hashlib.sha256("\0".join([*parts, repr(task["inputs"][kind])]).encode())
            outputs, seconds = stored_value(
                "evalplus",
                name.hexdigest(),
                lambda: _reference(task, kind),
                dump=dump_plain,
                load=load_plain,
            )
            self._expected[key] = Expected(outputs, seconds)
        return self._expected[key]

    def gold(self, task: EvalPlusTask) -> Submission:
        return Submission(text=task["solution"], form="solution")

    def mutants(self, task: EvalPlusTask) -> Iterable[Submission]:
        for program in mutate.python(task["solution"]):
            yield Submission(text=program, form="solution")

    def read_predictions(self, path: Path) -> Iterable[Prediction]:
        """Also EvalPlus's folders (TASK_ID/n.py), and the programs in its results files."""
        if path.is_dir() and (programs := sorted(path.glob("*_*/*.py"), key=_sample)):
            known = {task["id"].replace("/", "_"): task["id"] for task in self.tasks()}
            for file in programs:
                if file.parent.name not in known:
                    raise DatasetError(f"{file}: {self.slug} has no task '{file.parent.name}'")
                text = file.read_text(encoding="utf-8", errors="surrogateescape")
                yield Prediction(known[file.parent.name], Submission(text, form="solution"))
            return
        if path.name.endswith("eval_results.json"):
            ((content,), known_ids) = list(rows(path)), {task["id"] for task in self.tasks()}
            for task_id, samples in content["eval"].items():
                if task_id not in known_ids:
                    raise DatasetError(f"{path}: {self.slug} has no task {task_id!r}")
                for sample in samples:
                    yield Prediction(task_id, Submission(sample["solution"], form="solution"))
            return
        yield from common_predictions(self, path)

    def official_grader(self, tasks: Sequence[EvalPlusTask]) -> OfficialGrader:
        settings = {
            "dataset": self.origin,
            "tasks": [task["id"] for task in tasks],
            "base_only": self.settings.version == "base",
            "seconds": 8.0,  # generous: on a busy machine its wall-clock limit fails honest answers
            "workers": 2,
        }
        name = f"{self.origin.upper()}_OVERRIDE_PATH"
        variables = {name: str(self.dataset().source())}
        return OfficialGrader("evalplus", OFFICIAL, settings, variables)


def _sample(file: Path) -> tuple[str, int, str]:
    return file.parent.name, int(file.stem) if file.stem.isdecimal() else -1, file.stem


PROMPT = (
    "Write a self-contained Python script that solves the following problem, "
    "in one Markdown code block:\n```python\n{prompt}\n```"
)


def check(
    program: str,
    *,
    dataset: str,
    entry_point: str,
    inputs: Sequence[Sequence[Any]],
    expected: Sequence[Any],
    tolerance: float,
    seconds: Sequence[float],
    costs: Sequence[float] = (),
) -> Outcome:
    """Run a program on inputs and compare as EvalPlus does.

    Inputs go in batches that leave a call no more than its own limit. Where time runs out, the
    inputs are tried again one by one, so that each call has exactly its own. `costs` are the
    seconds the calls are expected to take at most: dear ones make small batches.
    """
    settings = (
        f"\nDATASET = {dataset!r}\nENTRY_POINT = {entry_point!r}\nTOLERANCE = {tolerance!r}\n"
    )
    oracle = (
        f"{source_of(evalplus_oracle.__name__)}{settings}{source_of(calls.__name__)}\n"
        "matches = with_digests(matches)\n"
    )
    total = min(PROCESS_SECONDS, sum(seconds)) + 1.0
    limits = Limits(cpu_seconds=total, wall_seconds=10 * total)
    run = step(answer.run_guarded, program, SWITCHED_OFF)
    packages = packages_of(program)
    if inputs:
        marshalled = marshal.dumps([list(each) for each in inputs])
        with_inputs = entry_point in _NEED_INPUTS
        bounds = _batches(seconds, costs or [0.0] * len(seconds))
        pairs = [(i if with_inputs else None, e) for i, e in zip(inputs, expected, strict=True)]
        outcome = judge_calls(
            program_of(run, step(calls.offer, entry_point, marshalled)),
            "chimera_batch",
            bounds,
            [pairs[start:stop] for start, stop in bounds],
            oracle=f"{oracle}{source_of(batches.__name__)}\nmatches = batched(matches)\n",
            limits=limits,
            seconds_per_call=[min(seconds[start:stop]) for start, stop in bounds],
            packages=packages,
        )
        if outcome.limit is None or "time" not in outcome.limit:
            return outcome
        tried = outcome.records
    else:
        tried = {}
    outcome = judge_calls(
        program_of(run, step(calls.offer, entry_point, b"")),
        "chimera_call",
        inputs,
        expected,
        oracle=oracle,
        limits=limits,
        seconds_per_call=list(seconds),
        packages=packages,
    )
    return replace(outcome, records={**tried, **outcome.records})


def _batches(seconds: Sequence[float], costs: Sequence[float]) -> list[tuple[int, int]]:
    """Ranges of inputs, small ones first, each of calls that are quick together."""
    bounds: list[tuple[int, int]] = []
    start, size, cost = 0, 8, 0.0
    for number, (limit, each) in enumerate(zip(seconds, costs, strict=True)):
        cost += each
        if number + 1 - start >= size or cost > limit / 2:
            bounds.append((start, number + 1))
            start, size, cost = number + 1, min(2 * size, _LARGEST_BATCH), 0.0
    if start < len(seconds):
        bounds.append((start, len(seconds)))
    return bounds


def _reference(task: EvalPlusTask, kind: str) -> tuple[list[Any], list[float]]:
    name = task["entry_point"]
    timed = step(calls.offer_timed, name, name in evalplus_oracle.NOT_NONE_TASKS)
    made = call_function(
        program_of(step(answer.run, task["solution"]), timed),
        "chimera_timed",
        task["inputs"][kind],
        limits=Limits(cpu_seconds=600.0),
        packages=packages_of(task["solution"]),
    )
    for number, call in enumerate(made):
        if not call.ok:
            raise DatasetError(
                f"{task['id']}: the reference fails on {kind} input {number}: {call.error}"
            )
    seconds = [round(REFERENCE_FACTOR * call.value[1], 1) for call in made]
    return [call.value[0] for call in made], seconds
