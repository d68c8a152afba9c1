"""Calls in batches: sent together, half the price, and paid once although the run is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path

import pytest

from chimera.errors import UsageError
from chimera.providers import CallFailed, Provider, batch, create_provider, http
from chimera.providers.batch import in_batches
from chimera.providers.meter import Budget, Meter, metered
from chimera.types import Message, Response
from tests.providers.batch_server import BatchServer

QUESTIONS = ["abc", "def", "ghi", "jkl"]
both = pytest.mark.parametrize("service", ["openai", "anthropic"])


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(batch, "QUIET_SECONDS", 0.3)
    monkeypatch.setattr(batch, "POLL_SECONDS", 0.1)
    yield
    batch._batchers.clear()


@pytest.fixture
def server() -> Iterator[BatchServer]:
    server = BatchServer()
    yield server
    server.close()


def provider_of(service: str, server: BatchServer, file: Path) -> Provider:
    path = "/v1" if service == "openai" else ""
    usual = create_provider(
        f"{service}/m", base_url=server.address + path, api_key="k", price="100/1000", attempts=1
    )
    return in_batches(usual, file)


def ask_all(provider: Provider, questions: list[str]) -> list[Response | CallFailed]:
    def ask(question: str) -> Response | CallFailed:
        try:
            return provider.complete([Message.user(question)], max_tokens=20)
        except CallFailed as error:
            return error

    with ThreadPoolExecutor(len(questions)) as threads:
        return list(threads.map(ask, questions))


@both
def test_calls_that_come_together_are_one_batch_at_half_the_price(
    service: str, server: BatchServer, tmp_path: Path
):
    answers = ask_all(provider_of(service, server, tmp_path / "b"), [*QUESTIONS, "abc"])

    assert [each.content for each in answers] == ["cba", "fed", "ihg", "lkj", "cba"]  # type: ignore
    assert [len(calls) for calls in server.made] == [4]
    usual = (100 * 100 + 10 * 1000) / 1_000_000
    assert [each.cost for each in answers] == [pytest.approx(usual / 2)] * 5  # type: ignore


@both
def test_an_answer_that_was_paid_for_is_not_asked_for_again(
    service: str, server: BatchServer, tmp_path: Path
):
    ask_all(provider_of(service, server, tmp_path / "b"), QUESTIONS)
    batch._batchers.clear()  # as another process finds the file

    answers = ask_all(provider_of(service, server, tmp_path / "b"), QUESTIONS)

    assert [each.content for each in answers] == ["cba", "fed", "ihg", "lkj"]  # type: ignore
    assert len(server.made) == 1


@both
def test_a_call_that_failed_in_its_batch_says_whether_it_can_pass(
    service: str, server: BatchServer, tmp_path: Path
):
    provider = provider_of(service, server, tmp_path / "b")
    good, expired, wrong = ask_all(provider, ["abc", "expired", "wrong"])

    assert isinstance(good, Response)
    assert isinstance(expired, CallFailed)
    assert isinstance(wrong, CallFailed)
    assert (expired.retryable, wrong.retryable) == (True, False)
    ask_all(provider, ["expired"])
    assert len(server.made) == 2


@both
def test_a_batch_whose_making_was_cut_off_is_found_again(
    service: str, server: BatchServer, tmp_path: Path
):
    server.lose_answer_of_create = True
    lost = ask_all(provider_of(service, server, tmp_path / "b"), QUESTIONS)
    batch._batchers.clear()
    server.lose_answer_of_create = False

    answers = ask_all(provider_of(service, server, tmp_path / "b"), QUESTIONS)

    assert all(isinstance(each, CallFailed) for each in lost)
    assert [each.content for each in answers] == ["cba", "fed", "ihg", "lkj"]  # type: ignore
    assert len(server.made) == 1


@both
def test_another_batch_is_not_taken_for_one_that_was_never_made(
    service: str, server: BatchServer, tmp_path: Path
):
    others = [question.upper() for question in QUESTIONS]
    ask_all(provider_of(service, server, tmp_path / "b"), QUESTIONS)
    server.lose_create = True
    ask_all(provider_of(service, server, tmp_path / "b"), others)
    batch._batchers.clear()
    server.lose_create = False

    answers = ask_all(provider_of(service, server, tmp_path / "b"), others)

    assert [each.content for each in answers] == ["CBA", "FED", "IHG", "LKJ"]  # type: ignore
    assert len(server.made) == 2


KILLED = """
import sys
from pathlib import Path
from chimera.providers import batch
from tests.providers.test_batch import QUESTIONS, ask_all, provider_of
batch.QUIET_SECONDS, batch.POLL_SECONDS = 0.3, 0.1

class Server:
    address = sys.argv[1]

answers = ask_all(provider_of(sys.argv[2], Server, Path(sys.argv[3])), QUESTIONS)
print(*(each.content for each in answers))
"""


@both
def test_a_killed_run_waits_for_the_batch_that_it_sent(service: str, tmp_path: Path):
    server = BatchServer(finished=False)
    command = [sys.executable, "-c", KILLED, server.address, service, str(tmp_path / "b")]
    try:
        first = subprocess.Popen(command)
        assert server.created.wait(120)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        server.finished = True
        second = subprocess.run(command, capture_output=True, text=True, check=True)
    finally:
        server.close()

    assert second.stdout.split() == ["cba", "fed", "ihg", "lkj"]
    assert len(server.made) == 1


def test_only_services_with_batches_are_asked_for_them(tmp_path: Path):
    with pytest.raises(UsageError, match="--batch is for models of OpenAI and Anthropic"):
        in_batches(create_provider("scripted/echo"), tmp_path / "b")


@both
def test_money_that_a_killed_run_set_aside_is_not_set_aside_again(
    service: str, server: BatchServer, tmp_path: Path
):
    question = [Message.user("abc")]
    provider = provider_of(service, server, tmp_path / "b")
    with metered(Meter(budget=Budget(1.0))) as first:
        provider.complete(question, max_tokens=20)
    batch._batchers.clear()

    with metered(Meter(budget=Budget(1.0, spent=1.0))) as second:  # as a killed run has booked it
        answer = provider.complete(question, max_tokens=20)

    assert answer.content == "cba"
    assert (second.cost, second.budget.spent) == (first.cost, 1.0)  # type: ignore[union-attr]


@both
def test_one_odd_line_is_one_calls_own(service: str, server: BatchServer, tmp_path: Path):
    """Files of answers have lines of JSON, in which some ends of lines can stand as they are."""
    server.odd_lines = ["", "no JSON", "[1]", "{}", '{"custom_id": 5, "response": 7, "result": 7}']
    questions = ["abc\u2028d", "e\x85f\u2029g"]

    answers = ask_all(provider_of(service, server, tmp_path / "calls"), questions)

    assert [answer.content for answer in answers] == [question[::-1] for question in questions]


@both
def test_a_file_of_answers_may_be_longer_than_an_answer(
    service: str, server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(http, "_most", ContextVar("small", default=1500))
    questions = [letter * 500 for letter in "abcdef"]
    provider = provider_of(service, server, tmp_path / "calls")

    assert [answer.content for answer in ask_all(provider, questions)] == questions


@both
def test_a_file_that_is_cut_off_is_asked_for_again(
    service: str, server: BatchServer, tmp_path: Path
):
    server.cut_off = 2

    (answer,) = ask_all(provider_of(service, server, tmp_path / "calls"), ["abc"])

    assert (answer.content, server.cut_off) == ("cba", 0)
