"""From recorded calls to a trajectory: a request holds the whole conversation up to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from chimera.types import JSON, Message, Response, Step


@dataclass(slots=True)
class _Conversation:
    """What was said so far; `number` tells conversations of one client apart."""

    number: int
    messages: list[Message] = field(default_factory=list)

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

    Of each request only what is new in its conversation becomes a step. Clients have other
    conversations on the side (a title, a summary); their steps say so in their metadata.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._conversations: list[_Conversation] = []
        self._lock = threading.Lock()

    def add(
        self,
        messages: tuple[Message, ...],
        response: Response,
        metadata: Mapping[str, JSON],
    ) -> None:
        with self._lock:
            conversation, known = self._find(messages)
            side: dict[str, JSON] = {}
            if conversation.number:
                side = {"conversation": conversation.number}
            now = time.time()
            answer = Message.assistant(response.content, response.tool_calls)
            for message in messages[known:]:
                self.steps.append(Step(message, timestamp=now, metadata=side))
            self.steps.append(
                Step(answer, response.usage, response.cost, now, {**metadata, **side})
            )
            conversation.messages = [*messages, answer]

    def _find(self, messages: tuple[Message, ...]) -> tuple[_Conversation, int]:
        """The conversation that a request goes on with, and how much of it is known."""
        shared = [(each.shared(messages), each) for each in self._conversations]
        known, best = max(shared, key=lambda pair: pair[0], default=(0, None))
        talk = [message.role for message in messages[:known]]
        if best is not None and any(role != "system" for role in talk):
            return best, known
        opened = _Conversation(len(self._conversations))
        self._conversations.append(opened)
        return opened, 0

    def answer(self) -> str:
        """The last words of the main conversation."""
        said = (
            step.message.content
            for step in reversed(self.steps)
            if step.message.role == "assistant" and "conversation" not in step.metadata
        )
        return next((text for text in said if text), "")
