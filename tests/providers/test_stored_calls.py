"""Stored calls: the same call of the same sample is made once."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

import pytest

from chimera.errors import UsageError
from chimera.providers import Provider, Request, create_provider
from chimera.providers.meter import Meter, metered
from chimera.providers.prices import FlatPrice
from chimera.providers.stored_calls import CallStore
from chimera.types import Message, Response, ToolCall, Usage

QUESTION = [Message.user("?")]


@dataclass(frozen=True, kw_only=True)
class Counting(Provider):
    log: Path

    def _call(self, request: Request) -> Response:
        with self.log.open("a") as log:
            log.write(".")
        call = ToolCall("c", "bash", {"command": "ls"}, '{"command": "ls"}')
        return Response(f"{len(self.log.read_text())}", (call,), Usage(5, 6))


@pytest.fixture
def provider(tmp_path: Path) -> Counting:
    return Counting(
        name="counting",
        model="m",
        log=tmp_path / "log",
        cache=tmp_path / "deep" / "cache.sqlite",
        price_override=FlatPrice(1e6, 1e6),
    )


def ask(provider: Provider, sample: int = 0, **parameters: object) -> Response:
    with metered(Meter(sample=sample)):
        return provider.complete(QUESTION, **parameters)  # type: ignore[arg-type]


def test_the_same_call_is_answered_again_for_nothing(provider: Counting):
    with metered(Meter()) as meter:
        first = provider.complete(QUESTION)
        again = provider.complete(QUESTION)

    assert again.content == first.content == "1"
    assert again.tool_calls == first.tool_calls
    assert (first.cost, again.cost) == (11.0, 0.0)
    assert [call.cached for call in meter.calls] == [False, True]
    assert [call.usage for call in meter.calls] == [Usage(5, 6)] * 2
    assert meter.cost == 11.0


def test_whatever_can_change_the_answer_is_part_of_the_key(provider: Counting):
    ask(provider)
    different = [
        ask(provider, sample=1),
        ask(provider, temperature=0.5),
        ask(provider, max_tokens=3),
        ask(provider, stop=["x"]),
        ask(provider, seed=4),
        Counting(name="other", model="m", log=provider.log, cache=provider.cache).complete(
            QUESTION
        ),
        provider.complete([Message.system("s"), *QUESTION]),
    ]

    assert [response.content for response in different] == list("2345678")
    assert ask(provider).content == "1"


def test_failures_are_not_kept(tmp_path: Path):
    failing = create_provider(
        "openai/x", base_url="http://127.0.0.1:9/v1", cache=tmp_path / "c", attempts=1
    )
    for _ in range(2):
        with pytest.raises(Exception, match="no connection"):
            failing.complete(QUESTION)

    assert (
        CallStore.at(tmp_path / "c")._connection.execute("select * from answers").fetchall() == []
    )


def test_a_file_that_is_no_cache_is_said(tmp_path: Path):
    path = tmp_path / "cache.sqlite"
    path.write_text("not a database, but long enough to be taken for one" * 40)

    with pytest.raises(UsageError, match="cannot be used"):
        create_provider("scripted/echo", cache=path).complete(QUESTION)


@pytest.mark.parametrize("damaged", ["", "{}", "[]", '{"content": "x", "usage": 5}'])
def test_an_answer_that_cannot_be_read_is_asked_for_anew(provider: Counting, damaged: str):
    ask(provider)
    assert provider.cache is not None
    with sqlite3.connect(provider.cache) as connection:
        connection.execute("UPDATE answers SET answer = ?", (damaged,))

    assert [ask(provider).content for _ in range(2)] == ["2", "2"]


def test_a_call_that_is_nested_too_deep_to_be_kept_is_made(provider: Counting):
    deep: dict[str, object] = {}
    for _ in range(5000):
        deep = {"a": deep}
    asked = [*QUESTION, Message("assistant", "", (ToolCall("c", "bash", deep, "{}"),))]

    assert [provider.complete(asked).content for _ in range(2)] == ["1", "2"]


@pytest.mark.parametrize("broken", ["PRAGMA query_only = on", "DROP TABLE answers"])
def test_an_answer_that_cannot_be_kept_is_one_all_the_same(provider: Counting, broken: str):
    assert provider.cache is not None
    CallStore.at(provider.cache)._connection.execute(broken)
    with metered(Meter()) as meter:
        assert provider.complete(QUESTION).content == "1"

    assert (meter.cost, [call.error for call in meter.calls]) == (11.0, [None])
