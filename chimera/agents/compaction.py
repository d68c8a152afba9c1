"""Long conversations made short: the middle becomes a summary, calls keep their results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from chimera.errors import UsageError
from chimera.providers.base import ContextOverflow, Provider
from chimera.types import JSON, Message

BYTES_PER_TOKEN = 3  # below what tokenizers make of English and code, so that estimates are high
MESSAGE_TOKENS = 8
IMAGE_TOKENS = 2_000
MARK = "[Compacted {count} messages]"
CUT = "\n[… cut …]\n"
SMALLEST_BUDGET = 64  # tokens; enough for the mark, the beginning of the task and nothing else
TRANSCRIPT_TOKENS = 24_000

INSTRUCTION = (
    "You summarise the middle part of an agent's work on a task, so that the agent can go on "
    "without it. State what was found out, which files were changed and how, which commands "
    "mattered and what they showed, and what is still to be done. Be exact with names, paths and "
    "numbers. Write plain text, no introduction."
)

Group = list[Message]


def estimated_tokens(messages: Sequence[Message]) -> int:
    """About how many tokens the messages have; rather too many than too few."""
    return sum(_tokens(message) for message in messages)


@dataclass(frozen=True, slots=True)
class SummaryCompaction:
    """Keeps the first and last messages and replaces those between by one summary.

    With a provider the model writes the summary; without, it is an account of the calls that were
    made. A tool call and its results are kept or replaced together, never one without the other.
    """

    provider: Provider | None = None
    keep_first: int = 2
    keep_last: int = 10
    summary_max_tokens: int = 500

    def __post_init__(self) -> None:
        if self.keep_first < 1 or self.keep_last < 0 or self.summary_max_tokens < 1:
            raise UsageError(
                "condensation keeps at least the first message, and its summary needs some tokens"
            )

    def identity(self) -> dict[str, JSON]:
        return {
            "provider": None if self.provider is None else self.provider.identity(),
            "keep_first": self.keep_first,
            "keep_last": self.keep_last,
            "summary_max_tokens": self.summary_max_tokens,
        }

    def compact(self, messages: Sequence[Message], budget: int) -> list[Message]:
        """The conversation in at most `budget` (estimated) tokens.

        Returns it unchanged when it fits and a summary would save nothing. Budgets below 64 tokens
        are taken as 64.
        """
        budget = max(budget, SMALLEST_BUDGET)
        head, middle, tail = self._parts(_groups(messages))
        allowance = budget - self.summary_max_tokens - MESSAGE_TOKENS
        fits = _size([*head, *middle, *tail]) <= budget
        if fits and _size(middle) <= self.summary_max_tokens + MESSAGE_TOKENS:
            return _flat([*head, *middle, *tail])
        while not fits and tail and _size(head) + _size(tail) > allowance:
            middle.append(tail.pop(0))
        replaced = _flat(middle)
        summary: list[Message] = []
        if replaced:
            text = MARK.format(count=len(replaced)) + "\n" + self._summary(replaced)
            summary = [_cut(Message.user(text), self.summary_max_tokens)]
        return _fitted(_flat(head), summary, _flat(tail), budget)

    def _parts(self, groups: list[Group]) -> tuple[list[Group], list[Group], list[Group]]:
        head: list[Group] = []
        while groups and sum(map(len, head)) < self.keep_first:
            head.append(groups.pop(0))
        tail: list[Group] = []
        while groups and sum(map(len, tail)) < self.keep_last:
            tail.insert(0, groups.pop())
        return head, groups, tail

    def _summary(self, messages: list[Message]) -> str:
        if self.provider is None:
            return account(messages)
        asked = [Message.system(INSTRUCTION), Message.user(_transcript(messages))]
        try:
            return self.provider.complete(asked, max_tokens=self.summary_max_tokens).content
        except ContextOverflow:
            return account(messages)


def account(messages: Sequence[Message]) -> str:
    """What happened in the messages, without a model: how many of whom, and the calls made."""
    roles = Counter(message.role for message in messages)
    lines = ["Messages: " + ", ".join(f"{count} {role}" for role, count in sorted(roles.items()))]
    for message in messages:
        if message.role == "user" and message.content.startswith("[Compacted"):
            lines.append(message.content)
        lines.extend(f"- {call.name} {_arguments(call)[:120]}" for call in message.tool_calls)
    return "\n".join(lines)


def _groups(messages: Sequence[Message]) -> list[Group]:
    """Messages that belong together: a call with its results, every other message alone."""
    groups: list[Group] = []
    waiting: set[str | None] = set()
    for message in messages:
        if message.role == "tool":
            if message.call_id in waiting:
                waiting.discard(message.call_id)
                groups[-1].append(message)
            continue  # a result nobody asked for: no interface accepts it
        groups.append([message])
        waiting = {call.id for call in message.tool_calls}
    return groups


def _fitted(
    head: list[Message], summary: list[Message], tail: list[Message], budget: int
) -> list[Message]:
    """All of it within the budget: long texts are cut, the last messages' least of all."""
    whole = [*head, *summary, *tail]
    excess = estimated_tokens(whole) - budget
    if excess <= 0:
        return whole
    fixed = sum(_tokens(_cut(message, 0)) for message in whole)
    if fixed + MESSAGE_TOKENS > budget and tail:
        return _fitted(head, summary, [], budget)
    if fixed + MESSAGE_TOKENS > budget:
        first = [_bare(message) for message in head if message.role != "tool"]
        return _fitted(first[:2], summary, [], budget)
    # One ceiling for every text, as high as the budget allows.
    low, high = 0, budget
    while low < high:
        ceiling = (low + high + 1) // 2
        if estimated_tokens([_cut(message, ceiling) for message in whole]) <= budget:
            low = ceiling
        else:
            high = ceiling - 1
    return [_cut(message, low) for message in whole]


def _cut(message: Message, tokens: int) -> Message:
    """The message with a content of at most `tokens` tokens: its beginning and its end.

    A turn with calls that its service wants back as it came stays whole.
    """
    if message.native is not None and message.tool_calls:
        return message
    limit = tokens * BYTES_PER_TOKEN
    data = message.content.encode("utf-8", "replace")
    if len(data) <= limit:
        return message
    room = limit - len(CUT.encode())
    if room < 8:
        return message.with_content(data[:limit].decode("utf-8", "ignore"))
    start, end = data[: room * 2 // 3], data[len(data) - room // 3 :]
    text = start.decode("utf-8", "ignore") + CUT + end.decode("utf-8", "ignore")
    return message.with_content(text)


def _bare(message: Message) -> Message:
    """Its text alone."""
    return Message(message.role, message.content)


def _transcript(messages: Sequence[Message]) -> str:
    each = max(100, TRANSCRIPT_TOKENS // max(1, len(messages)))
    lines = []
    for message in messages:
        lines.append(f"<{message.role}>\n{_cut(message, each).content}")
        lines.extend(
            f"<call {call.name}>\n{_arguments(call)[: each * 3]}" for call in message.tool_calls
        )
    return "\n".join(lines)


def _tokens(message: Message) -> int:
    size = len(message.content.encode("utf-8", "replace"))
    if message.native is not None:
        size = max(size, len(json.dumps(message.native.content)))
    else:
        size += sum(len(call.name) + len(_arguments(call).encode()) for call in message.tool_calls)
    size += len(message.images) * IMAGE_TOKENS * BYTES_PER_TOKEN
    return MESSAGE_TOKENS * (1 + len(message.tool_calls)) + -(-size // BYTES_PER_TOKEN)


def _arguments(call: object) -> str:
    raw = getattr(call, "raw_arguments", "")
    return raw or json.dumps(getattr(call, "arguments", None) or {}, ensure_ascii=False)


def _size(groups: Sequence[Group]) -> int:
    return sum(estimated_tokens(group) for group in groups)


def _flat(groups: Sequence[Group]) -> list[Message]:
    return [message for group in groups for message in group]
