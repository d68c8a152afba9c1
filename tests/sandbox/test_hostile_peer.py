"""A peer that speaks the protocol and lies: no pass it has not earned, no error, no crash."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chimera.eval.kits.python.grading import EQUAL
from chimera.sandbox.inner.codec import (
    READERS,
    TYPES,
    Malformed,
    NotPlain,
    dump,
    load,
    parsed,
    to_bytes,
    to_text,
)
from chimera.sandbox.inner.judge import decided, judge
from chimera.sandbox.inner.link import OPERATIONS, Deadline, Link
from chimera.sandbox.inner.transcript import Replay

TESTS = """
def check(candidate):
    assert candidate(1) == 2
    assert abs(candidate(2, key=len) - 4.0) < 1e-6
    assert candidate([3]) == [1, {"a": (2,)}]
    assert len(candidate("x")) == 2 and sorted(candidate("x")) == [1, 2]
    assert math.isclose(candidate(lambda n: n + 1), 0.5)

check(f)
"""
RIGHT = [2, 4.0, [1, {"d": [["a", {"t": [2]}]]}], [2, 1], [1, 2], 0.5]
CHECKS = dump({"kind": "tests", "tests": TESTS, "names": [], "data": None, "has_data": False})
EXPECTED = [load(to_bytes(each)) for each in RIGHT]
CALLS = dump(
    {
        "kind": "calls", "entry_point": "f", "inputs": [[n, [n]] for n in range(len(RIGHT))],
        "expected": EXPECTED, "oracle": EQUAL, "seconds": None, "stop": True,
    }
)  # fmt: skip
MOST_MESSAGES = 30

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(["", "a", "0x1", "ff", "sNaN", "1e999999999", "2020-01-01T00:00:00+00:00"])
    | st.sampled_from(["<f8", "(1,", "O", "V8", "M8[25s]", "U2", "int64,int64", "\ud800", *TYPES])
    | st.sampled_from(RIGHT[:2])
)
tags = st.sampled_from([*READERS, "own", "object", "builtin", "unknown"])
handles = st.tuples(st.integers(-1, 3), st.sampled_from(["function", "module", "list"])).map(list)
encoded = st.recursive(
    scalars | handles.map(lambda pair: {"object": pair}) | st.sampled_from(RIGHT),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(tags, inner, min_size=1, max_size=1)
        | st.dictionaries(tags, st.lists(inner, max_size=4), max_size=2)
        | st.dictionaries(tags, st.lists(st.lists(inner, min_size=2, max_size=2), max_size=3))
    ),
    max_leaves=8,
)
names = st.sampled_from(["f", "math", "abs", "sorted", "len", "check", "data", "__builtins__", ""])
kinds = st.lists(st.sampled_from(["AssertionError", "StopIteration", "SystemExit", "E", 5]))
texts = st.sampled_from(["", "x", "\ud800", None])
errors = (
    st.none()
    | st.tuples(kinds, texts).map(list)
    | st.tuples(kinds, texts, encoded | st.lists(scalars, max_size=12)).map(list)
)
changes = st.just([]) | st.lists(st.tuples(st.integers(-1, 2), encoded).map(list)) | encoded


@st.composite
def replies(draw: st.DrawFn, question: list[Any] | None, truth: list[Any]) -> Any:
    """What a peer may say to a question: the truth, something like an answer, or anything."""
    way = draw(st.integers(0, 25))
    if way == 0:
        return draw(encoded)
    if question is None:
        return truth
    number, operation = question[1:3]
    if way == 1:
        return [
            "ask",
            draw(scalars),
            draw(st.sampled_from([*OPERATIONS])),
            *draw(st.lists(encoded)),
        ]
    if way == 2:
        return ["done", draw(scalars), draw(encoded), draw(errors), draw(changes)]
    if operation == "names" and way < 5:
        pairs = draw(st.lists(st.tuples(names, encoded).map(list), max_size=4))
        return ["done", number, {"d": pairs}, None, []]
    if way < 5:
        return ["done", number, draw(encoded), draw(errors), draw(changes)]
    return truth


class Peer(Link):
    """The judge's end of a conversation whose other end is made up, and says the truth."""

    def __init__(self) -> None:
        super().__init__(-1, trusting=False)
        self.asked: list[Any] | None = None
        self.calls = 0

    def put(self, text: str) -> None:
        self.asked = parsed(text)

    def take(self, deadline: Deadline | None) -> str:
        if len(self.transcript) > MOST_MESSAGES:
            self.cut("it has said enough")
        right: Any = None
        if self.asked is not None and self.asked[2] == "names":
            named = {"f": {"object": [0, "function"]}, "math": {"object": [1, "module"]}}
            right = {"d": [[name, named[name]] for name in self.asked[3] if name in named]}
        elif self.asked is not None and self.asked[2] == "call":
            right = RIGHT[self.calls % len(RIGHT)]
            self.calls += 1
        truth = ["loaded", None] if self.asked is None else ["done", self.asked[1], right, None, []]
        return to_text(self.say(self.asked, truth))

    def say(self, question: list[Any] | None, truth: list[Any]) -> Any:
        return truth


class Liar(Peer):
    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        super().__init__()
        self.draw = draw

    def say(self, question: list[Any] | None, truth: list[Any]) -> Any:
        return self.draw(replies(question, truth))


def called(lines: list[str]) -> list[Any]:
    """The values that calls were answered with, read from a record without the judge."""
    said = [(line[0], parsed(line[1:])) for line in lines if line[0] in "<>"]
    asked = {each[1]: each[2] for side, each in said if side == ">" and each[0] == "ask"}
    return [
        load(to_bytes(each[2]))
        for side, each in said
        if side == "<" and each[0] == "done" and asked[each[1]] == "call" and each[3] is None
    ]


def earned(values: list[Any]) -> bool:
    """Whether these are the values that the tests want."""
    first, second, third, fourth, fifth, sixth = values
    return (
        first == 2
        and abs(second - 4.0) < 1e-6
        and third == [1, {"a": (2,)}]
        and len(fourth) == 2
        and sorted(fifth) == [1, 2]
        and math.isclose(sixth, 0.5)
    )


def hold(data: st.DataObject) -> None:
    checks = data.draw(st.sampled_from([CHECKS, CALLS]))
    peer = Liar(data.draw)

    report = judge(peer, checks)

    assert not {"fault", "broken"} & report.keys(), report
    assert to_bytes(report)
    if report["passed"]:
        values = called(peer.transcript)
        assert earned(values) if checks is CHECKS else values == EXPECTED
    again = decided(Replay(peer.transcript), load(checks))
    assert (again["passed"], again["why"]) == (report["passed"], report["why"])


def refuse_or_read(encoded: Any) -> None:
    try:
        value = load(to_bytes(encoded))
    except Malformed:
        return
    with suppress(NotPlain, RecursionError):
        dump(value)


LENIENT = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
some = settings(max_examples=250, deadline=None, suppress_health_check=LENIENT)
many = settings(max_examples=5_000, deadline=None, suppress_health_check=LENIENT)

test_a_lying_peer_earns_nothing = some(given(st.data())(hold))
test_a_lying_peer_earns_nothing_for_long = pytest.mark.full(many(given(st.data())(hold)))
test_the_codec_reads_or_refuses = some(given(encoded)(refuse_or_read))
test_the_codec_reads_or_refuses_for_long = pytest.mark.full(many(given(encoded)(refuse_or_read)))


@pytest.mark.parametrize("checks", [CHECKS, CALLS])
def test_a_peer_that_says_the_truth_passes(checks: bytes) -> None:
    assert judge(Peer(), checks)["passed"]
