"""Condensation: no orphans, within the budget, for any conversation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimera.agents.compaction import (
    SMALLEST_BUDGET,
    SummaryCompaction,
    estimated_tokens,
)
from chimera.errors import UsageError
from chimera.providers import create_provider
from chimera.types import Message, ToolCall

texts = st.text(max_size=400) | st.integers(1, 3000).map(lambda size: "word " * size)


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """A user message, or an assistant's with calls and all their results."""
    if draw(st.booleans()):
        return [Message.user(draw(texts))]
    number = draw(st.integers(0, 3))
    calls = [
        ToolCall(draw(st.uuids()).hex, "bash", {"command": text}, "")
        for text in draw(st.lists(texts, min_size=number, max_size=number))
    ]
    results = [Message.tool(draw(texts), call.id) for call in calls]
    return [Message.assistant(draw(texts), calls), *results]


conversations = st.lists(turns(), max_size=12).map(
    lambda parts: [
        Message.system("Be good."),
        Message.user("The task."),
        *(message for part in parts for message in part),
    ]
)


def check_whole(messages: list[Message]) -> None:
    """Every result follows its call, and every call has its result before anything else is said."""
    waiting: set[str | None] = set()
    for message in messages:
        if message.role == "tool":
            assert message.call_id in waiting
            waiting.discard(message.call_id)
        else:
            assert not waiting
            waiting = {call.id for call in message.tool_calls}
    assert not waiting


@settings(max_examples=150, deadline=None)
@given(
    messages=conversations,
    budget=st.integers(0, 20_000),
    keep_first=st.integers(1, 4),
    keep_last=st.integers(0, 12),
    summary=st.integers(1, 600),
)
def test_nothing_is_orphaned_and_the_budget_holds(
    messages: list[Message], budget: int, keep_first: int, keep_last: int, summary: int
):
    compaction = SummaryCompaction(
        keep_first=keep_first, keep_last=keep_last, summary_max_tokens=summary
    )

    shorter = compaction.compact(messages, budget)

    check_whole(shorter)
    assert estimated_tokens(shorter) <= max(budget, SMALLEST_BUDGET)
    assert shorter[0].role == "system"
    assert [m.role for m in shorter].count("user") >= 1


def worked(steps: int) -> list[Message]:
    messages = [Message.system("Be good."), Message.user("The task.")]
    for step in range(steps):
        call = ToolCall(f"c{step}", "bash", {"command": f"step {step} " + "x" * 200}, "")
        messages += [Message.assistant("", [call]), Message.tool("out " * 100, call.id)]
    return messages


def test_the_middle_becomes_one_message_and_the_ends_stay():
    messages = worked(30)

    shorter = SummaryCompaction(keep_last=4).compact(messages, 50_000)

    assert shorter[:2] == messages[:2]
    assert shorter[3:] == messages[-4:]
    assert shorter[2].content.startswith("[Compacted 56 messages]")
    assert "bash" in shorter[2].content


def test_what_fits_and_saves_nothing_is_left_alone():
    messages = worked(1)

    assert SummaryCompaction().compact(messages, 50_000) == messages


def test_condensing_again_keeps_the_earlier_account():
    compaction = SummaryCompaction(keep_last=4)
    once = compaction.compact(worked(30), 50_000)

    twice = compaction.compact([*once, *worked(30)[2:]], 50_000)

    assert sum(m.content.startswith("[Compacted") for m in twice) == 1
    assert "[Compacted 56 messages]" in twice[2].content


def test_a_model_writes_the_summary_when_there_is_one():
    provider = create_provider("scripted/text:the door was opened")

    shorter = SummaryCompaction(provider=provider, keep_last=2).compact(worked(20), 50_000)

    assert shorter[2].content == "[Compacted 38 messages]\nthe door was opened"


def test_results_nobody_asked_for_are_dropped():
    messages = [Message.system("s"), Message.tool("lost", "c9"), Message.user("u" * 3000)]

    check_whole(SummaryCompaction().compact(messages, 200))


def test_keeping_no_first_message_is_refused():
    with pytest.raises(UsageError):
        SummaryCompaction(keep_first=0)
