"""Both official SDKs against a real llama.cpp server with a real model."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from typing import ClassVar

import pytest

from chimera.errors import LimitReached
from chimera.providers import ContextOverflow, Provider, create_provider
from chimera.providers.base import CallFailed
from chimera.providers.local import LocalServer
from chimera.providers.meter import Meter, TrialLimits, metered
from chimera.providers.settings import ModelSettings
from chimera.types import Message, ToolCall

QUESTION = [Message.system("You are brief."), Message.user("Name a colour.")]


class Clock:
    name = "clock"
    description = "The time of day"
    parameters: ClassVar = {"type": "object", "properties": {"zone": {"type": "string"}}}


@pytest.fixture(params=["openai", "anthropic"])
def provider(request: pytest.FixtureRequest, server: LocalServer) -> Provider:
    path = "/v1" if request.param == "openai" else ""
    return create_provider(
        f"{request.param}/smollm2", base_url=server.address + path, api_key=server.api_key
    )


def test_the_answer_comes_with_its_tokens_and_an_unknown_price(provider: Provider):
    first = provider.complete(QUESTION, temperature=0.0, max_tokens=8)
    again = pickle.loads(pickle.dumps(provider)).complete(QUESTION, temperature=0.0, max_tokens=8)

    assert first.content
    assert first.content == again.content
    assert 10 < first.usage.input_tokens < 60
    assert 1 <= first.usage.output_tokens <= 8
    assert first.cost is None
    assert first.stop_reason in ("length", "stop")


def test_an_answer_cut_by_max_tokens_says_so(provider: Provider):
    assert provider.complete(QUESTION, temperature=0.0, max_tokens=2).stop_reason == "length"


def test_both_interfaces_and_the_embedded_model_give_the_same_answer(provider: Provider):
    local = create_provider("local/smollm2").complete(QUESTION, max_tokens=8)

    assert provider.complete(QUESTION, temperature=0.0, max_tokens=8).content == local.content
    assert local.cost == 0.0


def test_a_conversation_with_tools_and_broken_calls_is_accepted(provider: Provider):
    calls = [
        ToolCall("call_1", "clock", {"zone": "UTC"}, '{"zone": "UTC"}'),
        ToolCall("call_2", "clock", None, '{"zone": '),
    ]
    messages = [
        *QUESTION,
        Message.assistant("", calls),
        Message.tool("12:00", "call_1"),
        Message.tool("", "call_2"),
        Message.user("Go on."),
        Message.assistant(""),
        Message.user(""),
    ]

    assert provider.complete(messages, tools=[Clock()], max_tokens=4).usage.output_tokens >= 1


def test_a_wrong_key_is_not_tried_again_and_not_shown(server: LocalServer):
    key = "very-secret-key-of-somebody"
    provider = create_provider("openai/smollm2", base_url=f"{server.address}/v1", api_key=key)
    with metered(Meter()) as meter, pytest.raises(CallFailed) as caught:
        provider.complete(QUESTION)

    assert caught.value.retryable is False
    assert key not in f"{caught.value} {provider!r} {meter.calls}"
    assert meter.calls[0].attempts == 1
    assert meter.calls[0].cost == 0.0


def test_a_prompt_beyond_the_context_is_said_plainly(provider: Provider):
    with pytest.raises(ContextOverflow, match="exceeds the available context") as caught:
        provider.complete([Message.user("long " * 9000)], max_tokens=4)

    assert caught.value.retryable is False


def test_answers_do_not_depend_on_what_else_is_asked(server: LocalServer):
    provider = create_provider("local/smollm2")
    prompts = [f"Count from {number}." for number in range(2)]
    alone = [provider.complete([Message.user(p)], max_tokens=6).content for p in prompts]
    found: dict[int, str] = {}

    def ask(number: int) -> None:
        prompt = prompts[number % 2]
        found[number] = provider.complete([Message.user(prompt)], max_tokens=6).content

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [found[number] for number in range(4)] == alone * 2


def test_samples_differ_by_their_seed_and_each_can_be_repeated(server: LocalServer):
    provider = create_provider("local/smollm2")

    def sample(number: int) -> str:
        with metered(Meter(sample=number)):
            return provider.complete(
                [Message.user("Tell me something.")], temperature=1.0, max_tokens=6, seed=7
            ).content

    assert sample(0) == sample(0)
    assert sample(1) == sample(1)
    assert sample(0) != sample(1)


def test_the_trial_time_ends_a_long_generation(server: LocalServer):
    provider = create_provider("local/smollm2")
    meter = Meter(limits=TrialLimits(seconds=1.0), deadline=time.monotonic() + 1.0)
    with metered(meter), pytest.raises(CallFailed, match="when the trial's time ran out"):
        provider.complete([Message.user("Write a very long story.")], max_tokens=4000)


def test_the_tokens_of_the_trial_are_counted_and_bounded(
    through_proxy: Callable[..., Provider],
):
    with metered(Meter(limits=TrialLimits(max_tokens=12))) as meter:
        through_proxy().complete(QUESTION, max_tokens=4)
        with pytest.raises(LimitReached, match="tokens are used"):
            through_proxy().complete(QUESTION, max_tokens=4)

    assert len(meter.calls) == 1


def test_the_responses_interface_is_spoken_too(server: LocalServer):
    provider = create_provider(
        "openai/smollm2",
        base_url=f"{server.address}/v1",
        api_key=server.api_key,
        settings=ModelSettings(protocol="responses"),
    )
    call = ToolCall("call_1", "clock", {"zone": "UTC"}, '{"zone": "UTC"}')
    said = provider.complete(QUESTION, temperature=0.0, max_tokens=8)
    messages = [
        *QUESTION,
        said.message(),
        Message.user("And now?"),
        Message.assistant("", [call]),
        Message.tool("12:00", "call_1"),
    ]

    assert said.content
    assert provider.complete(messages, tools=[Clock()], max_tokens=4).usage.output_tokens >= 1
