"""From recorded calls to a trajectory: a request holds the whole conversation up to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile

from chimera.types import JSON, Message, Response, Step

#: What clients said is kept whole up to this; then the start of each message is.
MOST_CHARACTERS = 64 * 1024**2
SHOWN_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class _Said:
    """A message by its digests, which are 0 of nothing."""

    role: str
    words: int
    calls: int

    @classmethod
    def of(cls, message: Message) -> _Said:
        names = tuple(call.name for call in message.tool_calls)
        return cls(message.role, hash(message.content.strip()), hash(names) if names else 0)

    def goes_on_from(self, known: _Said) -> bool:
        """Whether it is the known message; a client may retell the model's words."""
        return self == known or self.role == known.role == "assistant"

    def leaves_out(self, known: _Said) -> bool:
        """Whether it says nothing that the known message did not."""
        return self.words in (0, known.words) and self.calls in (0, known.calls)


@dataclass(slots=True)
class _Conversation:
    """What was said so far, and how often the model was asked."""

    said: list[_Said] = field(default_factory=list)
    calls: int = 0
    tools: bool = False

    def shared(self, said: list[_Said]) -> int:
        """How many of these messages are known."""
        pairs = zip(self.said, said, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[1].goes_on_from(pair[0]), pairs))


class Recording:
    """The calls of one client as steps, in the order in which they were answered.

    Of each request only what is new in its conversation becomes a step. Words that a client puts
    into the model's mouth are marked as `retold`.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._of: list[int] = []  # the conversation of each step
        self._conversations: list[_Conversation] = []
        self._characters = 0
        self._lock = threading.Lock()

    def add(
        self,
        messages: tuple[Message, ...],
        response: Response,
        metadata: Mapping[str, JSON],
        *,
        tools: bool = False,
    ) -> None:
        """A request with these messages, by a client that offers `tools`, was answered."""
        with self._lock:
            said = [_Said.of(message) for message in messages]
            number, known = self._find(said)
            conversation, now = self._conversations[number], time.time()
            answer = response.message()
            before = conversation.said[:known]
            new = [
                self._step(message, now)
                for index, message in enumerate(messages)
                if index >= known or not said[index].leaves_out(before[index])
            ]
            new.append(Step(answer, response.usage, response.cost, now, metadata))
            self.steps += new
            self._of += [number] * len(new)
            conversation.said = [*said, _Said.of(answer)]
            conversation.calls += 1
            conversation.tools |= tools

    def _step(self, message: Message, now: float) -> Step:
        size = len(message.content) + sum(len(image.data) for image in message.images)
        self._characters += size
        if self._characters > MOST_CHARACTERS and size > SHOWN_CHARACTERS:
            left = f"\n[{size - SHOWN_CHARACTERS} characters more: the record is full]"
            shown = message.content[:SHOWN_CHARACTERS] + left
            message = replace(message, content=shown, images=(), native=None)
        retold: Mapping[str, JSON] = {"retold": True} if message.role == "assistant" else {}
        return Step(message, timestamp=now, metadata=retold)

    def _find(self, said: list[_Said]) -> tuple[int, int]:
        """The conversation that a request goes on with, and how much of it is known."""
        shared = [each.shared(said) for each in self._conversations]
        known = max(shared, default=0)
        if any(each.role != "system" for each in said[:known]):
            return shared.index(known), known
        self._conversations.append(_Conversation())
        return len(self._conversations) - 1, 0

    def _main(self) -> int:
        """The conversation that is the work: clients have others on the side (a title, say)."""
        ranked = [
            (each.tools, each.calls, -number) for number, each in enumerate(self._conversations)
        ]
        return -max(ranked)[2] if ranked else 0

    def trajectory(self) -> tuple[Step, ...]:
        """The steps; those of conversations on the side say so in their metadata."""
        main = self._main()
        return tuple(
            step
            if number == main
            else replace(step, metadata={**step.metadata, "conversation": number})
            for step, number in zip(self.steps, self._of, strict=True)
        )

    def answer(self) -> str:
        """The last words of the main conversation."""
        said = [
            step.message.content
            for step, number in zip(self.steps, self._of, strict=True)
            if number == self._main() and step.message.role == "assistant" and step.message.content
        ]
        return said[-1] if said else ""
