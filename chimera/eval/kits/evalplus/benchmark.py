"""HumanEval+ and MBPP+ by EvalPlus's rules: inputs, expected outputs, limits, verdicts.

`release` names the grader that `passed` follows: "head" is the repository's (26d6d00), "0.3.1" the
package's, which has a shorter time limit and can never pass HumanEval/32.
"""

from __future__ import annotations

import hashlib
import inspect
import marshal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from chimera.environments.base import Environment
from chimera.errors import DatasetError
from chimera.eval.data.datasets import DatasetBenchmark, Row, rows
from chimera.eval.kits import mutate
from chimera.eval.kits import replies as extract
from chimera.eval.kits.evalplus import cache
from chimera.eval.kits.evalplus import oracle as evalplus_oracle
from chimera.eval.kits.evalplus.sanitize import sanitize
from chimera.eval.kits.python.grading import evidence, handles, joined, packages_of
from chimera.eval.kits.python.guard import guarded
from chimera.eval.values import Prediction, Submission, Task, Verdict
from chimera.sandbox import Limits, Outcome, call_function, judge_calls
from chimera.types import JSON

Release = Literal["head", "0.3.1"]
Version = Literal["plus", "base"]
#: Shortest time limit of one call, in seconds.
MINIMUM_SECONDS: Mapping[str, float] = {"head": 4.0, "0.3.1": 1.0}
REFERENCE_FACTOR = 4.0
PROCESS_SECONDS = 60.0
_EXPECTED_VERSION = 2  # part of the cache's key: raise it when expected outputs are made otherwise

#: Some results are gigabytes (Mbpp/255). What is larger than this crosses as a digest instead: an
#: answer cannot know the right digest without the right value.
_LARGE = 100_000
_CALLER = """
def _chimera_caller():
    import marshal, time
    name = {entry_point!r}
    if name not in globals():
        raise NameError("the answer defines no " + repr(name))
    function = globals()[name]

    def is_large(value):
        if type(value) in (list, tuple) and value and all(type(each) is float for each in value):
            return False
        room, waiting = {large}, [value]
        while waiting:
            each = waiting.pop()
            kind = type(each)
            if kind in (str, bytes):
                room -= len(each)
            elif kind in (list, tuple):
                room -= len(each)
                if room >= 0:
                    waiting.extend(each)
            elif kind not in (int, float, bool, complex, type(None)):
                return False
            if room < 0:
                return True
        return False

    def digest(value):
        import hashlib
        total = hashlib.sha256(type(value).__name__.encode())
        step = 1 << 20 if type(value) in (str, bytes) else 10_000
        for start in range(0, len(value), step):
            total.update(marshal.dumps(value[start:start + step], 2))
        return ("digest of a large value", len(value), total.hexdigest())

    def call(*arguments):
        result = function(*arguments)
        return digest(result) if is_large(result) else result

    def timed(*arguments):
        begin = time.process_time()
        result = call(*arguments)
        return {result}, time.process_time() - begin

    return call, timed

chimera_call, chimera_timed = _chimera_caller()
"""
#: Many inputs in one question: a thousand round trips between processes cost more than the calls.
_BATCH = """
def _chimera_batch():
    import marshal
    inputs = marshal.loads({inputs!r})
    plain = frozenset((bool, bytes, complex, float, int, str, type(None)))

    def snapshot(value):
        if type(value) in plain:
            return value
        if type(value) in (list, tuple) and plain.issuperset(map(type, value)):
            return type(value)(value)
        import copy
        try:
            return copy.deepcopy(value)
        except Exception:
            return value

    def batch(start, stop):
        results = []
        for arguments in inputs[start:stop]:
            try:
                results.append((snapshot(chimera_call(*arguments)),))
            except BaseException as error:
                results.append(type(error).__name__)
                break
        return results

    return batch

chimera_batch = _chimera_batch()
"""
_BATCH_ORACLE = """
from reprlib import repr as _shown

_matches_one = matches

def matches(bounds, expected, actual):
    for number, (inputs, wanted) in enumerate(expected, bounds[0]):
        offset = number - bounds[0]
        found = actual[offset] if type(actual) is list and offset < len(actual) else "nothing"
        if type(found) is not tuple or len(found) != 1:
            raise AssertionError(f"input {number}: {found}")
        if not _matches_one(inputs, wanted, found[0]):
            raise AssertionError(
                f"input {number}: got {_shown(found[0])}, expected {_shown(wanted)}"
            )
    return True
"""
_NEED_INPUTS = frozenset({"find_zero", "surface_Area", "digit_distance_nums"})
_LARGEST_BATCH = 1024


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
    dataset: ClassVar[Literal["humaneval", "mbpp"]]

    def __init__(
        self,
        dataset_path: str | Path | None = None,
        limit: int | None = None,
        version: Version = "plus",
        release: Release = "head",
    ) -> None:
        super().__init__(dataset_path, limit)
        for name, value, known in (
            ("version", version, get_args(Version)),
            ("release", release, get_args(Release)),
        ):
            if value not in known:
                raise DatasetError(
                    f"{self.slug}: no {name} '{value}'; there are: {', '.join(known)}"
                )
        self.version, self.release = version, release
        self._expected: dict[tuple[str, str], Expected] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_expected": {}}

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
        kinds = ("base", "plus") if self.version == "plus" else ("base",)
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
        if self.release == "0.3.1" and task["entry_point"] == "find_zero" and right:
            why = "evalplus 0.3.1 never records a result of find_zero; the answer itself is right"
            metrics |= {"base": False, "plus": False}
            return Verdict(False, why, metrics=metrics, evidence=records)
        why = "" if right else f"{list(held)[-1]} tests: {outcome.why}"
        return Verdict(right, why, metrics=metrics, evidence=records)

    def _outcome(self, task: EvalPlusTask, program: str, kind: str) -> Outcome:
        inputs = task["inputs"][kind]
        expected = self.expected(task, kind)
        return check(
            program,
            dataset=self.dataset,
            entry_point=task["entry_point"],
            inputs=inputs,
            expected=expected.outputs,
            tolerance=task["tolerance"],
            seconds=[max(MINIMUM_SECONDS[self.release], each) for each in expected.seconds],
            costs=expected.seconds,
        )

    def expected(self, task: EvalPlusTask, kind: str) -> Expected:
        """The reference's outputs, made once in confinement and kept by the task's digest."""
        key = task["id"], kind
        if key not in self._expected:
            parts = (str(_EXPECTED_VERSION), self.dataset, task["entry_point"], task["solution"])
            name = hashlib.sha256("\0".join([*parts, repr(task["inputs"][kind])]).encode())
            outputs, seconds = cache.plain_data(
                "evalplus", name.hexdigest(), lambda: _reference(task, kind)
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
        yield from super().read_predictions(path)

    def options(self) -> dict[str, JSON]:
        return {"version": self.version, "release": self.release}


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
    oracle = inspect.getsource(evalplus_oracle) + settings
    total = min(PROCESS_SECONDS, sum(seconds)) + 1.0
    limits = Limits(cpu_seconds=total, wall_seconds=10 * total)
    source = guarded(program, without=("open",)) + _caller(entry_point)
    packages = packages_of(program)
    if inputs:
        with_inputs = entry_point in _NEED_INPUTS
        bounds = _batches(seconds, costs or [0.0] * len(seconds))
        pairs = [(i if with_inputs else None, e) for i, e in zip(inputs, expected, strict=True)]
        outcome = judge_calls(
            source + _BATCH.format(inputs=marshal.dumps([list(each) for each in inputs])),
            "chimera_batch",
            bounds,
            [pairs[start:stop] for start, stop in bounds],
            oracle=oracle + _BATCH_ORACLE,
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
        source,
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


def _caller(entry_point: str, result: str = "result") -> str:
    return _CALLER.format(entry_point=entry_point, large=_LARGE, result=result)


def _reference(task: EvalPlusTask, kind: str) -> tuple[list[Any], list[float]]:
    name = task["entry_point"]
    result = "result is not None" if name in evalplus_oracle.NOT_NONE_TASKS else "result"
    calls = call_function(
        f"{task['solution']}\n{_caller(name, result)}",
        "chimera_timed",
        task["inputs"][kind],
        limits=Limits(cpu_seconds=600.0),
        packages=packages_of(task["solution"]),
    )
    for number, call in enumerate(calls):
        if not call.ok:
            raise DatasetError(
                f"{task['id']}: the reference fails on {kind} input {number}: {call.error}"
            )
    seconds = [round(REFERENCE_FACTOR * call.value[1], 1) for call in calls]
    return [call.value[0] for call in calls], seconds
