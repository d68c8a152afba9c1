"""The calls that graders make: run tests, call functions, run programs, each confined."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from chimera.cache import cache_dir, write_atomically
from chimera.errors import EnvironmentFault, GraderError
from chimera.sandbox.inner import codec
from chimera.sandbox.inner.judge import MOST_WHY, limit_of
from chimera.sandbox.inner.link import CALL_TIME, CALL_WALL_TIME, LOAD
from chimera.sandbox.inner.transcript import CUT
from chimera.sandbox.pool import Worker, with_worker
from chimera.sandbox.values import Call, Limits, Outcome, ProgramResult

TIME_LIMITS = frozenset({"CPU time", "wall time", CALL_TIME, CALL_WALL_TIME, LOAD})
DEFAULT = Limits()
SEED = "#"  # before the seed, which is the first line of a stored record
#: The records that verdicts are derived from instead of running programs, while `replaying`.
_records: ContextVar[Mapping[str, Sequence[str]] | None] = ContextVar("records", default=None)


def run_tests(
    program: str,
    tests: str,
    *,
    limits: Limits = DEFAULT,
    data: Any = None,
    names: Sequence[str] = (),
    packages: Sequence[str] = (),
    shared: bool = False,
    reference: str | None = None,
) -> Outcome:
    """Run trusted test code against a program that lives in another process.

    Names that the tests use and do not define are the program's; a built-in's name is the program's
    only when `names` lists it. `data` (plain) is a global of the tests. `shared=True` runs both in
    one process, for tests that need the program's own classes; the outcome says so. `reference` is
    a right program: what breaks the judge with it too is a fault of the tests.
    """
    checks = {
        "kind": "tests",
        "tests": tests,
        "names": list(names),
        "data": data,
        "has_data": data is not None,
    }
    report = _judged(program, checks, limits, packages, shared=shared, reference=reference)
    return report.outcome()


def judge_calls(
    program: str,
    entry_point: str,
    inputs: Sequence[Sequence[Any]],
    expected: Sequence[Any],
    *,
    oracle: str,
    limits: Limits = DEFAULT,
    seconds_per_call: float | Sequence[float] | None = None,
    stop_at_first_failure: bool = True,
    packages: Sequence[str] = (),
    reference: str | None = None,
) -> Outcome:
    """Call a function on each input and let trusted `oracle` code compare.

    `oracle` is source that defines `matches(input, expected, actual)`; it runs in the judge and
    sees each input as it was before the call. What it keeps between inputs lasts for this answer.
    `reference` is as in `run_tests`.
    """
    if len(inputs) != len(expected):
        raise GraderError(f"{len(inputs)} inputs and {len(expected)} expected values")
    checks = {
        **_calls(entry_point, inputs, seconds_per_call, stop_at_first_failure),
        "expected": list(expected),
        "oracle": oracle,
    }
    report = _judged(program, checks, limits, packages, reference=reference)
    outcome = report.outcome(tuple(map(bool, report.found.get("results", ()))))
    if outcome.passed and len(outcome.results or ()) != len(inputs):
        raise GraderError("the judge passed an answer without trying every input")
    return outcome


def call_function(
    program: str,
    entry_point: str,
    inputs: Sequence[Sequence[Any]],
    *,
    limits: Limits = DEFAULT,
    seconds_per_call: float | Sequence[float] | None = None,
    stop_at_first_failure: bool = False,
    packages: Sequence[str] = (),
) -> list[Call]:
    """What a program's function returns for each input, as plain data; one entry for each input."""
    checks = _calls(entry_point, inputs, seconds_per_call, stop_at_first_failure)
    report = _judged(program, checks, limits, packages)
    calls = [_call(result) for result in report.found.get("results", ())]
    outcome = report.outcome()
    rest = Call(error=outcome.why or "not called", limit=outcome.limit)
    return [*calls, *[rest] * (len(inputs) - len(calls))]


def run_program(
    program: str,
    stdin: bytes | str = b"",
    *,
    limits: Limits = DEFAULT,
    packages: Sequence[str] = (),
) -> ProgramResult:
    """Run a script on an input; what it wrote is for the caller to compare."""
    return run_cases(program, [stdin], limits=limits, packages=packages)[0]


def run_cases(
    program: str,
    stdins: Sequence[bytes | str],
    *,
    limits: Limits = DEFAULT,
    packages: Sequence[str] = (),
    stop: Callable[[int, ProgramResult], bool] | None = None,
) -> list[ProgramResult]:
    """Run a script once for each input, in a process each; `stop` may end the series early."""
    results: list[ProgramResult] = []
    for number, stdin in enumerate(stdins):
        text = stdin.encode("utf-8", "surrogateescape") if isinstance(stdin, str) else stdin
        results.append(_program(program, text, limits, packages))
        if stop is not None and stop(number, results[-1]):
            break
    return results


@contextmanager
def replaying(records: Mapping[str, Sequence[str]]) -> Iterator[None]:
    """Within this block, outcomes come from stored records (`Outcome.records`) alone: nothing of an
    answer runs. A check of a program that has no whole record there raises `GraderError`."""
    token = _records.set(records)
    try:
        yield
    finally:
        _records.reset(token)


# How a request is made


@contextmanager
def _files(*contents: bytes) -> Iterator[list[int]]:
    """Anonymous files in memory, one for each content; they are gone when the block ends."""
    descriptors: list[int] = []
    try:
        for content in contents:
            descriptor = os.memfd_create("chimera", os.MFD_CLOEXEC)
            descriptors.append(descriptor)
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _read(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    parts, offset = [], 0
    while offset < size and (part := os.pread(descriptor, size - offset, offset)):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def _limits(limits: Limits) -> dict[str, Any]:
    return {
        "cpu_seconds": limits.cpu_seconds,
        "wall_seconds": limits.wall,
        "memory_bytes": limits.memory_bytes,
        "processes": limits.processes
        + 4,  # the server, the judge, the answer itself, and one spare
        "file_bytes": limits.file_bytes,
        "output_bytes": limits.output_bytes,
    }


def _calls(
    entry_point: str,
    inputs: Sequence[Sequence[Any]],
    seconds: float | Sequence[float] | None,
    stop: bool,
) -> dict[str, Any]:
    if seconds is not None and isinstance(seconds, (int, float)):
        seconds = [float(seconds)] * len(inputs)
    if seconds is not None and len(seconds) != len(inputs):
        raise GraderError(f"{len(inputs)} inputs and {len(seconds)} limits of time")
    return {
        "kind": "calls",
        "entry_point": entry_point,
        "inputs": [list(arguments) for arguments in inputs],
        "seconds": list(seconds) if seconds is not None else None,
        "stop": stop,
    }


class _Report:
    """What the judge wrote, and what the server saw of the processes."""

    def __init__(self, found: dict[str, Any], reply: dict[str, Any], isolation: Any) -> None:
        self.found = found
        self.isolation = isolation
        self.cpu_seconds = float(reply["cpu_seconds"])
        self.limit: str | None = reply["limit"] or found.get("limit")
        self.ended_at: str | None = reply["limit"]
        self.key, self.seed = "", 0

    def outcome(self, results: tuple[bool, ...] | None = None) -> Outcome:
        passed = self.found.get("passed") is True and self.ended_at is None
        why = str(self.found.get("why", ""))[:MOST_WHY]
        if self.ended_at is not None:
            why = f"the answer reached its limit of {self.ended_at}"
        elif self.limit is not None:
            why = f"{why} (limit: {self.limit})"
        lines = self.found.get("transcript")
        return Outcome(
            passed=passed,
            why="" if passed else why or "the judge did not report a pass",
            limit=None if passed else self.limit,
            isolation=self.isolation,
            results=results,
            cpu_seconds=self.cpu_seconds,
            handles=tuple(self.found.get("handles", ())),
            records={self.key: (f"{SEED}{self.seed}", *lines)} if lines else {},
        )


def _judged(
    program: str,
    checks: dict[str, Any],
    limits: Limits,
    packages: Sequence[str],
    *,
    shared: bool = False,
    reference: str | None = None,
) -> _Report:
    """One verdict; when time ran out, another with nothing else running, and that one counts."""
    source = program.encode("utf-8", "surrogatepass")
    instructions = _dumped(checks)
    key = hashlib.sha256(source + b"\0" + instructions).hexdigest()[:16]
    seed = _seed(key)
    if (records := _records.get()) is not None:
        seed, lines = _stored(records, key)
        source, instructions = b"", _dumped({**checks, "transcript": lines, "seed": seed})
    else:
        instructions = _dumped({**checks, "seed": seed})
    report = _tried(source, instructions, limits, packages, shared)
    if report.limit in TIME_LIMITS and records is None:
        report = _tried(source, instructions, limits, packages, shared, alone=True)
        _by_the_answer(report.limit)
    if broken := report.found.get("broken"):
        _control(reference, checks, limits, packages, str(broken))
        report.found["why"] = f"while this answer was under test: {broken}"
    report.key, report.seed = key, seed
    return report


def _seed(key: str) -> int:
    """The chance of the checks: the same for the same program, and known to no answer."""
    return int.from_bytes(hmac.digest(_secret(), key.encode(), "sha256")[:6])


@functools.cache
def _secret() -> bytes:
    """Kept for this user, so that a verdict is the same every time; else for this process."""
    file = cache_dir() / "sandbox.key"
    with contextlib.suppress(OSError):
        if not file.exists():
            write_atomically(file, secrets.token_bytes(32))  # readable by its owner alone
        return file.read_bytes()
    return secrets.token_bytes(32)


def _dumped(checks: Mapping[str, Any]) -> bytes:
    try:
        return codec.dump(checks)
    except codec.NotPlain as error:
        raise GraderError(f"the checks hold something that is not plain data: {error}") from None


def _stored(records: Mapping[str, Sequence[str]], key: str) -> tuple[int, list[str]]:
    """The seed and the lines of a record."""
    first, *lines = records.get(key, ("",))
    if not first.startswith(SEED) or lines[-1:] == [CUT]:
        raise GraderError(f"there is no whole record of this program and these checks ({key})")
    return int(first.removeprefix(SEED)), lines


def _tried(
    source: bytes,
    instructions: bytes,
    limits: Limits,
    packages: Sequence[str],
    shared: bool,
    *,
    alone: bool = False,
) -> _Report:
    def once(worker: Worker) -> _Report:
        with _files(source, instructions, b"") as descriptors:
            request = {"kind": "shared" if shared else "judged", "limits": _limits(limits)}
            reply = worker.ask(request, descriptors, limits.wall)
            return _report(reply, _read(descriptors[2]), worker, shared)

    report: _Report = with_worker(once, packages, alone=alone)
    return report


def _control(
    reference: str | None,
    checks: Mapping[str, Any],
    limits: Limits,
    packages: Sequence[str],
    broken: str,
) -> None:
    """What broke with an answer is the answer's fault, unless it breaks with the reference as well
    (or, where none is known, with an answer that returns nothing): then `GraderError`."""
    if reference is None:
        report = _tried(b"", _dumped({**checks, "control": True}), limits, packages, False)
    else:
        source = reference.encode("utf-8", "surrogatepass")
        report = _tried(source, _dumped(checks), limits, packages, False)
    if report.found.get("broken"):
        raise GraderError(f"the checks themselves are broken: {broken}")


def _report(reply: dict[str, Any], written: bytes, worker: Worker, shared: bool) -> _Report:
    found: dict[str, Any] = {}
    if shared:
        found = _told(written) if written else {}
        ended = f"the process ended before the tests did (exit code {reply['answer']})"
        found = {"passed": found.get("passed") is True, "why": str(found.get("why", ended))[:500]}
    elif written and reply["limit"] is None:
        found = _told(written)
    elif reply["limit"] is None:
        found = {"broken": f"the judge ended without a report (exit code {reply.get('judge')})"}
    if found.get("fault"):
        raise GraderError(f"the checks themselves are broken: {found['fault']}")
    return _Report(found, reply, "shared" if shared else worker.isolation)


def _told(written: bytes) -> dict[str, Any]:
    try:
        found = codec.from_bytes(written)
    except codec.Malformed:
        found = None
    return found if type(found) is dict else {"broken": "the judge's report cannot be read"}


def _call(result: Any) -> Call:
    if result[0] == "value":
        try:
            return Call(value=codec.load(result[1].encode("utf-8", "surrogatepass")))
        except codec.Malformed as error:
            return Call(error=str(error))
    return Call(error=str(result[1]), limit=result[2])


def _program(program: str, stdin: bytes, limits: Limits, packages: Sequence[str]) -> ProgramResult:
    if _records.get() is not None:
        raise GraderError("what a program writes is not kept in a record")
    source = program.encode("utf-8", "surrogatepass")

    def once(worker: Worker) -> ProgramResult:
        with _files(source, stdin, b"", b"") as descriptors:
            request = {"kind": "program", "limits": _limits(limits)}
            reply = worker.ask(request, descriptors, limits.wall)
            stderr = _read(descriptors[3])
            if reply["answer"] != 0 and reply["limit"] is None:
                last = stderr[-500:].decode("utf-8", "replace").strip().rpartition("\n")[2]
                reply["limit"] = limit_of([last.partition(":")[0]], last)
            return ProgramResult(
                stdout=_read(descriptors[2]),
                stderr=stderr,
                exit_code=reply["answer"],
                limit=reply["limit"],
                why=_why(reply),
                isolation=worker.isolation,
                cpu_seconds=reply["cpu_seconds"],
            )

    result: ProgramResult = with_worker(once, packages)
    if result.limit in TIME_LIMITS:
        result = with_worker(once, packages, alone=True)
        _by_the_answer(result.limit)
    return result


def _by_the_answer(limit: str | None) -> None:
    """Raise where nothing but the load of this machine ended an answer that was at work."""
    if limit == LOAD:
        raise EnvironmentFault(
            "this machine is too busy: the answer waited for a processor until its time was up",
            retryable=True,
        )


def _why(reply: dict[str, Any]) -> str:
    if reply["limit"] is not None:
        return f"the program reached its limit of {reply['limit']}"
    if reply["answer"] < 0:
        return f"the program ended by signal {-reply['answer']}"
    return f"exit code {reply['answer']}" if reply["answer"] else ""
