"""From recorded calls to a trajectory: a request holds the whole conversation up to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from chimera.types import JSON, Message, Response, Step


@dataclass(slots=True)
class _Conversation:
    """What was said so far, and the steps in which it was."""

    messages: list[Message] = field(default_factory=list)
    calls: int = 0
    tools: bool = False

    def shared(self, messages: tuple[Message, ...]) -> int:
        """How many of these messages are known. A client may retell the model's words."""
        count = 0
        for known, said in zip(self.messages, messages, strict=False):
            if known.role != said.role or (
                known.role != "assistant" and known.content != said.content
            ):
                break
            count += 1
        return count


class Recording:
    """The calls of one client as steps, in the order in which they were answered.

    Of each request only what is new in its conversation becomes a step.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._of: list[int] = []  # the conversation of each step
        self._conversations: list[_Conversation] = []
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
            number, known = self._find(messages)
            conversation, now = self._conversations[number], time.time()
            answer = response.message()
            new = [Step(message, timestamp=now) for message in messages[known:]]
            new.append(Step(answer, response.usage, response.cost, now, metadata))
            self.steps += new
            self._of += [number] * len(new)
            conversation.messages = [*messages, answer]
            conversation.calls += 1
            conversation.tools |= tools

    def _find(self, messages: tuple[Message, ...]) -> tuple[int, int]:
        """The conversation that a request goes on with, and how much of it is known."""
        shared = [each.shared(messages) for each in self._conversations]
        known = max(shared, default=0)
        if any(message.role != "system" for message in messages[:known]):
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
