"""Tokens, limits, models, faults: what the gateway lets through and what it tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from chimera.errors import BudgetExceeded, LimitReached, ProviderError
from chimera.gateway.session import MOST_ASKED_TOKENS
from chimera.providers import create_provider
from chimera.providers.journal import Journal
from chimera.providers.meter import Budget, Meter, TrialLimits
from chimera.providers.sdk import MOST_PARTS
from tests.gateway.conftest import provider_of
from tests.gateway.upstream import KEY, cost, truth

QUESTION = {"model": "m", "messages": [{"role": "user", "content": "Well?"}]}


def ask(
    door, body: Any = QUESTION, *, token: str | None = None, path: str = "/v1/chat/completions"
):
    bearer = {"authorization": f"Bearer {token or door.token}"}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(
        door.address + path, content=content, headers=bearer, trust_env=False, timeout=60
    )


@pytest.mark.parametrize(
    ("body", "path", "status"),
    [
        (QUESTION, "/v1/chat/completions", 200),
        (QUESTION, "/v1/embeddings", 404),
        ({"model": "m"}, "/v1/chat/completions", 400),
        ({"messages": [{"role": "assistant", "tool_calls": 7}]}, "/v1/chat/completions", 400),
        ({"input": [{"type": 7}]}, "/v1/responses", 400),
        (b"no json", "/v1/messages", 400),
        (b"[" * 200_000, "/v1/messages", 400),
        (b"[1]", "/v1/messages", 400),
        (b'{"messages": [' + b"[]," * MOST_PARTS + b"1]}", "/v1/messages", 400),
        (QUESTION, "/v1/messages/count_tokens", 200),
    ],
)
def test_what_is_no_request_is_refused_and_costs_nothing(upstream, door, body, path, status):
    service = upstream(["Yes."])
    opened = door(provider_of(service, "chat"))

    assert ask(opened, body, path=path).status_code == status
    assert len(service.seen) == (status == 200 and "count" not in path)


def test_only_the_token_opens_it_and_the_key_does_not(upstream, door):
    service = upstream(["Yes."])
    opened = door(provider_of(service, "chat"))

    assert [ask(opened, token=t).status_code for t in ("wrong", KEY)] == [401, 401]
    assert service.seen == []


def test_a_limit_on_money_is_kept_and_told(upstream, door):
    service = upstream(["Yes."])
    meter = Meter(TrialLimits(max_cost=2 * cost(truth(0)) - 1e-9))
    opened = door(provider_of(service, "chat"), meter)

    assert [ask(opened).status_code for _ in range(4)] == [200, 200, 402, 402]
    assert isinstance(opened.session.limit, LimitReached)
    assert opened.session.limit.limit == "cost"
    assert opened.session.stopped.is_set()
    assert len(service.seen) == 2


def test_a_limit_on_steps_counts_calls(upstream, door):
    opened = door(provider_of(upstream(["Yes."]), "chat"), Meter(TrialLimits(max_steps=1)))

    assert [ask(opened).status_code for _ in range(2)] == [200, 402]
    assert opened.session.limit.limit == "steps"


def test_the_budget_of_the_run_is_reserved_before_a_call(upstream, door):
    service = upstream(["Yes."])
    opened = door(provider_of(service, "chat"), Meter(budget=Budget(0.5)))

    assert ask(opened).status_code == 402  # its worst case does not fit
    assert isinstance(opened.session.limit, BudgetExceeded)
    assert service.seen == []


def test_an_answer_is_bounded_where_the_budget_needs_it(upstream, door):
    service = upstream(["Yes."])
    budget = Budget(1000.0)
    opened = door(provider_of(service, "chat"), Meter(budget=budget))

    assert ask(opened).status_code == 200
    assert ask(opened, {**QUESTION, "max_tokens": 10**9}).status_code == 200
    assert [body["max_tokens"] for _, _, body in service.seen] == [8192, MOST_ASKED_TOKENS]
    assert (budget.spent, budget.reserved) == (pytest.approx(2 * cost(truth(0))), 0.0)


@pytest.mark.parametrize(
    ("failures", "status", "calls"), [([500, 429], 200, 3), ([500] * 9, 424, 3), ([401], 424, 1)]
)
def test_faults_of_the_service_are_tried_again_here(upstream, door, failures, status, calls):
    service = upstream(["Yes."], failures=list(failures))
    opened = door(provider_of(service, "chat"))

    reply = ask(opened)

    assert (reply.status_code, len(service.seen)) == (status, calls)
    assert isinstance(opened.session.failure, ProviderError) == (status != 200)
    assert KEY not in reply.text


@pytest.mark.parametrize(("policy", "status"), [("rewrite", 200), ("refuse", 404)])
def test_other_models_are_rewritten_or_refused(upstream, door, policy, status):
    service = upstream(["Yes."])
    opened = door(provider_of(service, "chat"), other_models=policy)

    assert ask(opened, {**QUESTION, "model": "small"}).status_code == status
    assert ask(opened, {**QUESTION, "model": "scripted"}).status_code == 200
    assert {body["model"] for _, _, body in service.seen} == {"scripted"}
    asked_for = [step.metadata.get("asked_for") for step in opened.session.recording.steps]
    assert ("small" in asked_for) == (policy == "rewrite")


def test_the_list_of_models_has_the_one(door):
    opened = door(create_provider("scripted/echo"))
    bearer = {"authorization": f"Bearer {opened.token}"}

    listed = httpx.get(
        f"{opened.address}/v1/models", headers=bearer, trust_env=False, timeout=60
    ).json()

    assert [model["id"] for model in listed["data"]] == ["echo"]


@pytest.mark.parametrize("service_speaks", ["chat", "anthropic"])
def test_what_was_paid_before_a_kill_is_not_paid_again(
    upstream, door, tmp_path: Path, service_speaks: str
):
    """The first process ends without a word; the second asks the same and is answered from the
    journal, then goes on where that ends."""
    service = upstream(["Yes."])
    file = tmp_path / "run.sqlite.calls" / "trial.jsonl"
    first = door(
        provider_of(service, service_speaks), Meter(journal=Journal(file.parent, file.name))
    )
    answered = ask(first).json()
    with file.open("ab") as torn:
        torn.write(b'{"key": "cut off in the mid')

    journal = Journal(file.parent, file.name)
    again = door(provider_of(service, service_speaks), Meter(journal=journal))

    assert [call.account.cost for call in journal.left] == [pytest.approx(cost(truth(0)))]
    assert ask(again).json() == answered
    assert len(service.seen) == 1
    assert again.session.meter.calls == []  # the trial takes the account over from the journal
    ask(again)
    assert len(service.seen) == 2
    journal.remove()
    assert not file.parent.exists()


def test_conversations_on_the_side_are_told_apart(upstream, door):
    opened = door(provider_of(upstream(["Yes."]), "chat"))
    tools = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]
    title = {"model": "m", "messages": [{"role": "user", "content": "A title?"}]}
    work = {"model": "m", "messages": [{"role": "user", "content": "Work!"}], "tools": tools}

    for body in (title, work):
        ask(opened, body)

    steps = opened.session.recording.trajectory()
    assert [(s.message.content, s.metadata.get("conversation")) for s in steps] == [
        ("A title?", 0), ("Yes.", 0), ("Work!", None), ("Yes.", None)
    ]  # fmt: skip
