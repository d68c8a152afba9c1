"""The judge's process: runs trusted checks against an answer that lives in another process.

What it reports is the only evidence of a pass. It says "passed" after the last statement of the
checks has run, and not if the answer's process ended or left the protocol on the way.
"""

from __future__ import annotations

import builtins
import functools
import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import CodeType
from typing import Any

from .answer import read_all, seed, write_all
from .codec import MALFORMED, dump, load, to_bytes
from .link import AnswerEnded, AnswerExit, Link, Remote, described

MODULE_ALIASES = {"np": "numpy"}


class Report(dict[str, Any]):
    """passed, why, limit, results, fault, unsupported: what the host is told."""


def sit(bench: int) -> None:
    """Decide one case after another: (link, checks, report) come as descriptors."""
    with socket.socket(fileno=bench) as seat:
        limit = sys.getrecursionlimit()
        while True:
            data, (link, checks, report), _, _ = socket.recv_fds(seat, 64, 3)
            try:
                request = load(read_all(checks))
                found = judge(Link(link, trusting=False, answer_pid=int(data)), request)
                write_all(report, to_bytes(found))
            finally:
                os.close(link)
                os.close(report)
            sys.setrecursionlimit(limit)
            seat.send(b"done")


def decide_shared(program: bytes, checks: int, report: int) -> None:
    write_all(report, to_bytes(shared(program, load(read_all(checks)))))


def judge(link: Link, request: dict[str, Any]) -> Report:
    """Do what the request asks and say what came of it."""
    report = Report(passed=False, why="", limit=None)
    try:
        message = link.receive(None)
        if len(message) != 2 or message[0] != "loaded":
            link.end("the answer's process left the protocol (no greeting)")
        if message[1] is not None:
            names, text = message[1]
            report.update(why=f"the answer does not load: {names[0]}: {text}"[:500])
            report["limit"] = limit_of(names, text)
            return report
        checks = {"tests": run_tests, "calls": run_calls}[request["kind"]]
        checks(link, request, report)
    except (AnswerEnded, AnswerExit) as problem:
        report.update(passed=False, why=str(problem), limit=getattr(problem, "limit", None))
    except MALFORMED as problem:
        report.update(passed=False, why=f"the answer's process left the protocol ({problem})")
    if link.broken is not None:
        report.update(passed=False, why=str(link.broken), limit=link.broken.limit)
    report["unsupported"] = link.unsupported
    return report


def run_tests(link: Link, request: dict[str, Any], report: Report) -> None:
    """Execute test code whose free names are the answer's."""
    try:
        code = compiled(request["tests"])
    except (SyntaxError, ValueError) as problem:
        report["fault"] = f"{type(problem).__name__}: {problem}"
        return
    seed(request["tests"].encode("utf-8", "surrogatepass"))
    names: dict[str, Any] = {}
    if request.get("has_data"):
        names["data"] = request["data"]
    wanted = set(request["names"])
    asked = {name for name in global_names(code) if name in wanted or not hasattr(builtins, name)}
    for name, value in link.ask("names", sorted(asked - names.keys())).items():
        names[name] = own_module(name, value)
    try:
        exec(code, names)
    except Exception as problem:  # noqa: BLE001 - this is how tests fail
        report["why"] = failure(problem, request["tests"])
        report["limit"] = limit_of([type(problem).__name__], str(problem))
        return
    report["passed"] = True


@functools.lru_cache(256)
def compiled(tests: str) -> CodeType:
    """Test code; a judge meets the same again when an answer is one of many samples."""
    return compile(tests, "<tests>", "exec", dont_inherit=True)


def shared(program: bytes, request: dict[str, Any]) -> Report:
    """The answer and the tests in this one process, where a hostile answer can forge anything."""
    report = Report(passed=False, why="", limit=None)
    names: dict[str, Any] = {}
    try:
        exec(compile(program, "<answer>", "exec", dont_inherit=True), names)
    except BaseException as problem:  # noqa: BLE001 - whatever an answer raises is its failure
        kinds, text = described(problem)
        report.update(why=f"the answer does not load: {kinds[0]}: {text}"[:500])
        return report
    if request.get("has_data"):
        names["data"] = request["data"]
    try:
        exec(compiled(request["tests"]), names)
    except BaseException as problem:  # noqa: BLE001 - this is how tests fail
        report["why"] = failure(problem, request["tests"])
        return report
    report["passed"] = True
    return report


def own_module(name: str, value: Any) -> Any:
    """A module that the answer imported and the tests use is the judge's own copy of it."""
    module = MODULE_ALIASES.get(name, name)
    known = module in sys.stdlib_module_names or name in MODULE_ALIASES
    if known and isinstance(value, Remote) and value._kind == "module":
        with suppress(ImportError):
            return __import__(module)
    return value


def run_calls(link: Link, request: dict[str, Any], report: Report) -> None:
    """Call one function on many inputs; compare with the oracle, or hand the values back."""
    inputs = request["inputs"]
    expected = request.get("expected", ())
    matches = oracle(request["oracle"]) if "oracle" in request else None
    found = link.ask("names", [request["entry_point"]])
    if request["entry_point"] not in found:
        report["why"] = f"the answer defines no '{request['entry_point']}'"
        return
    function = found[request["entry_point"]]
    seconds = request["seconds"]
    results: list[Any] = []
    report["results"] = results
    for number, arguments in enumerate(inputs):
        link.seconds = seconds[number] if seconds else None
        original = dump(arguments)
        try:
            value = function(*arguments)
            if matches is None:
                results.append(["value", dump(value).decode("utf-8", "surrogatepass")])
                continue
            given = load(original) if link.changed else arguments
            held = bool(matches(given, expected[number], value))
            results.append(held)
            if held:
                continue
            report["why"] = report["why"] or f"input {number}: {shown(value)} is not right"
        except (AnswerEnded, AnswerExit) as problem:
            limit = getattr(problem, "limit", None)
            results.append(["error", str(problem), limit] if matches is None else False)
            report.update(why=f"input {number}: {problem}", limit=limit)
            if link.broken is not None:
                link.broken.args = (report["why"],)
                return
        except Exception as problem:  # noqa: BLE001 - this is how a call fails
            names, text = described(problem)
            limit = limit_of(names, text)
            results.append(["error", f"{names[0]}: {text}", limit] if matches is None else False)
            report["why"] = report["why"] or f"input {number}: {names[0]}: {text}"[:500]
            report["limit"] = report["limit"] or limit
        if request["stop"]:
            return
    report["passed"] = len(results) == len(inputs) and (
        all(results) if matches is not None else not report["why"]
    )


def oracle(source: str) -> Callable[[Any, Any, Any], Any]:
    """The function `matches(input, expected, actual)` that trusted source defines."""
    names: dict[str, Any] = {}
    exec(compile(source, "<oracle>", "exec", dont_inherit=True), names)
    matches: Callable[[Any, Any, Any], Any] = names["matches"]
    return matches


def global_names(code: CodeType) -> Iterator[str]:
    """Every name that code or a function in it looks up or mentions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from global_names(constant)


def failure(problem: BaseException, source: str) -> str:
    """The line of the tests that failed, and with what."""
    import traceback

    line = ""
    lines = source.splitlines()
    for frame in traceback.extract_tb(problem.__traceback__):
        if frame.filename == "<tests>" and frame.lineno and frame.lineno <= len(lines):
            line = lines[frame.lineno - 1].strip()
    name, text = type(problem).__name__, str(problem)
    said = name if name == "AssertionError" and not text else f"{name}: {text}"
    return f"{line[:300]} → {said}"[:500] if line else said[:500]


def limit_of(names: Iterable[str], text: str) -> str | None:
    """The limit that an error of the answer speaks of."""
    names = set(names)
    if "MemoryError" in names:
        return "memory"
    if "can't start new thread" in text or "Resource temporarily unavailable" in text:
        return "processes"
    if "File too large" in text or "No space left" in text:
        return "file size"
    return None


def shown(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 200 else f"{text[:200]}…"
