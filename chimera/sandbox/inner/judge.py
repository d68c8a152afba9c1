"""The judge's process: runs trusted checks against an answer that lives in another process.

What it reports is the only evidence of a pass. The checks run twice: with the answer, which makes
the record of their conversation, and with that record alone, which decides. It says "passed" after
the last statement of the checks has run both times, and not if the answer's process ended or left
the protocol on the way.
"""

from __future__ import annotations

import ast
import builtins
import functools
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import CodeType
from typing import Any

from .answer import read_all, seed, write_all
from .codec import dump, load, to_bytes
from .groups import cpu_seconds
from .link import AnswerEnded, AnswerExit, Link, Remote, described
from .transcript import Diverged, Neutral, Replay, bounded, cut, last_call, shown

MODULE_ALIASES = {"np": "numpy"}
MOST_KINDS = 20
MOST_WHY = 2000
MOST_SAID = 400


class Report(dict[str, Any]):
    """What the host is told: passed, why, limit, results; `fault` where the checks are broken,
    `broken` where something ended them that a control must explain; transcript and handles."""


def sit(bench: int, clock: int | None = None) -> None:
    """Decide one case after another: (link, checks, report, waits) come as descriptors. `clock` is
    the account of all CPU time of the answers and of the server, our parent, if there is one."""
    server = (~os.getppid() << 3) | 2

    def used_by_all() -> float:
        return 0.0 if clock is None else cpu_seconds(clock) - time.clock_gettime(server)

    with socket.socket(fileno=bench) as seat:
        limit = sys.getrecursionlimit()
        while True:
            data, (link, checks, report, waits), _, _ = socket.recv_fds(seat, 64, 4)
            try:
                speaking = Link(link, trusting=False, answer_pid=int(data), waits=waits)
                speaking.used_by_all = used_by_all
                found = judge(speaking, read_all(checks))
                write_all(report, to_bytes(found))
            finally:
                os.close(link)
                os.close(report)
                os.close(waits)
            sys.setrecursionlimit(limit)
            seat.send(b"done")


def decide_shared(program: bytes, checks: int, report: int) -> None:
    write_all(report, to_bytes(shared(program, load(read_all(checks)))))


def judge(link: Link, checks: bytes) -> Report:
    """Do what the checks ask and say what came of it. What passes must pass again by the record."""
    request = load(checks)
    if "transcript" in request:
        return decided(Replay(request["transcript"]), request)
    if "control" in request:
        return decided(Neutral(), request)
    report = decided(link, request)
    if report["passed"]:
        again = decided(Replay(link.transcript), load(checks))
        if again["passed"] is not True:
            again["broken"] = again.get("broken") or f"by the record alone: {again['why']}"
            report = again
    report["transcript"] = bounded(link.transcript)
    return report


def decided(link: Link, request: dict[str, Any]) -> Report:
    """The checks run once, in names of their own, with whatever `link` leads to."""
    report = Report(passed=False, why="", limit=None)
    try:
        if loads(link, report):
            {"tests": run_tests, "calls": run_calls}[request["kind"]](link, request, report)
    except (AnswerEnded, AnswerExit) as problem:
        report.update(passed=False, why=str(problem), limit=getattr(problem, "limit", None))
    if link.broken is None and link.rest:
        report.update(passed=False, why="the answer's process spoke without being asked")
    if link.broken is not None:
        report.update(passed=False, why=str(link.broken), limit=link.broken.limit)
    if isinstance(link.broken, Diverged):
        report["broken"] = report["why"]
    elif link.unsupported is not None:
        report.update(passed=False, broken=f"{link.unsupported}; such tests need shared=True")
    report["why"] = cut(report["why"], MOST_WHY).encode("utf-8", "backslashreplace").decode()
    report["handles"] = sorted(link.looked_at)[:MOST_KINDS]
    return report


def loads(link: Link, report: Report) -> bool:
    """Whether the answer says that its program has run to its end."""
    match link.receive(None):
        case ["loaded", None]:
            return True
        case ["loaded", [[str(name), *others], str(text)]] if all(
            type(each) is str for each in others
        ):
            report["why"] = f"the answer does not load: {name}: {text}"[:500]
            report["limit"] = limit_of([name, *others], text)
            return False
    link.end("the answer's process left the protocol (no greeting)")


def run_tests(link: Link, request: dict[str, Any], report: Report) -> None:
    """Execute test code whose free names are the answer's."""
    try:
        code, used = compiled(request["tests"])
    except (SyntaxError, ValueError) as problem:
        report["fault"] = f"{type(problem).__name__}: {problem}"
        return
    seed(request["tests"].encode("utf-8", "surrogatepass"), request.get("seed", 0))
    names: dict[str, Any] = {}
    if request.get("has_data"):
        names["data"] = request["data"]
    asked = used.union(request["names"]) - names.keys()
    for name, value in link.ask("names", sorted(asked)).items():
        module = module_meant(name, value, request["tests"])
        with suppress(ImportError):
            names[name] = value if module is None else __import__(module)
    try:
        exec(code, names)
    except Exception as problem:  # noqa: BLE001 - this is how tests fail
        report["why"] = failure(problem, request["tests"], link)
        report["limit"] = limit_of([type(problem).__name__], str(problem))
        return
    report["passed"] = True


@functools.lru_cache(256)
def compiled(tests: str) -> tuple[CodeType, frozenset[str]]:
    """Test code and the names in it that are no built-in's, which may be the answer's.

    A judge meets the same again for each record, and when an answer is one of many samples.
    """
    code = compile(tests, "<tests>", "exec", dont_inherit=True)
    names = (name for name in global_names(code) if not hasattr(builtins, name))
    return code, frozenset(name for name in names if not name.startswith("__"))


def shared(program: bytes, request: dict[str, Any]) -> Report:
    """The answer and the tests in this one process, where a hostile answer can forge anything."""
    report = Report(passed=False, why="", limit=None)
    names: dict[str, Any] = {}
    try:
        exec(compile(program, "<answer>", "exec", dont_inherit=True), names)
    except BaseException as problem:  # noqa: BLE001 - whatever an answer raises is its failure
        kinds, text, *_ = described(problem)
        report.update(why=f"the answer does not load: {kinds[0]}: {text}"[:500])
        return report
    if request.get("has_data"):
        names["data"] = request["data"]
    try:
        exec(compiled(request["tests"])[0], names)
    except BaseException as problem:  # noqa: BLE001 - this is how tests fail
        report["why"] = failure(problem, request["tests"])
        return report
    report["passed"] = True
    return report


def module_meant(name: str, value: Any, tests: str) -> str | None:
    """The module that tests mean by a name of the answer's: they get the judge's own copy of it."""
    module = MODULE_ALIASES.get(name, name)
    if module not in sys.stdlib_module_names and name not in MODULE_ALIASES:
        return None
    is_module = isinstance(value, Remote) and value._kind == "module"
    return module if is_module or re.search(rf"\b{name}\s*\.", tests) else None


def run_calls(link: Link, request: dict[str, Any], report: Report) -> None:
    """Call one function on many inputs; compare with the oracle, or hand the values back."""
    inputs = request["inputs"]
    expected = request.get("expected", ())
    try:
        matches = oracle(request["oracle"]) if "oracle" in request else None
    except Exception as problem:  # noqa: BLE001 - no answer has had a word in it yet
        report["fault"] = f"{type(problem).__name__}: {problem}"
        return
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
            report["why"] = report["why"] or (
                f"input {number}: {last_call(link.transcript) or f'got {shown(value)}'}, "
                f"expected {shown(expected[number])}"
            )
        except (AnswerEnded, AnswerExit) as problem:
            limit = getattr(problem, "limit", None)
            results.append(["error", str(problem), limit] if matches is None else False)
            report.update(why=f"input {number}: {problem}", limit=limit)
            if link.broken is not None:
                link.broken.args = (report["why"],)
                return
        except Exception as problem:  # noqa: BLE001 - this is how a call fails
            names, text, *_ = described(problem)
            limit = limit_of(names, text)
            results.append(["error", f"{names[0]}: {text}", limit] if matches is None else False)
            said = text if names[0] == "AssertionError" and text else f"{names[0]}: {text}"
            report["why"] = report["why"] or f"input {number}: {cut(said, MOST_SAID)}"
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


def failure(problem: BaseException, source: str, link: Link | None = None) -> str:
    """The line of the tests that failed, with what, and what the answer had said."""
    import traceback

    line, frame = 0, None
    for frame_of, number in traceback.walk_tb(problem.__traceback__):
        if frame_of.f_code.co_filename == "<tests>":
            line, frame = number, frame_of
    text = statement_at(source, line) if line else ""
    name, message = type(problem).__name__, str(problem)
    said = name if name == "AssertionError" and not message else f"{name}: {message}"
    said = cut(said, MOST_SAID)
    told = f"{cut(text, MOST_SAID)} → {said}" if text else said
    if link is None or link.broken is not None or name != "AssertionError":
        return told
    call = last_call(link.transcript)
    wanted = expected_value(source, line, {**frame.f_globals, **frame.f_locals}) if frame else None
    return f"{call}, expected {wanted}" if call and wanted else f"{told}; {call}" if call else told


def statement_at(source: str, line: int) -> str:
    """The whole statement that a line belongs to, in one line; of a block, its head."""
    around = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    if not around:
        return source.splitlines()[line - 1].strip()
    inner = sorted(around, key=lambda node: (node.lineno, -(node.end_lineno or 0)))[-1]
    block = getattr(inner, "body", None)
    end = block[0].lineno - 1 if block else inner.end_lineno
    return " ".join(each.strip() for each in source.splitlines()[inner.lineno - 1 : end])


def expected_value(source: str, line: int, names: dict[str, Any]) -> str | None:
    """What a statement `assert f(…) == value` wants of a function of the answer."""
    asserts = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assert)]
    for node in asserts:
        match node:
            case ast.Assert(
                test=ast.Compare(
                    left=ast.Call(func=ast.Name(id=name)), ops=[ast.Eq()], comparators=[value]
                )
            ) if node.lineno <= line <= (node.end_lineno or 0) and type(names.get(name)) is Remote:
                try:
                    return shown(ast.literal_eval(value))
                except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                    return None
    return None


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
