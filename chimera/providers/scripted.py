"""Models without a model: replies that were written down, for demonstrations and tests.

`scripted/echo` repeats the last user message, `scripted/text:WORDS` says WORDS, and
`scripted/FILE.json` answers from a file:

    ["first reply", {"content": "", "tool_calls": [{"name": "bash", "arguments": {…}}]}, …]
    {"rules": [{"match": "REGEX over the last user message", "replies": […]}, …], "replies": […]}

A reply is chosen by counting the model's earlier messages in the conversation, so that nothing is
remembered between calls; past the end the last reply is given again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from chimera.errors import UsageError
from chimera.providers.base import Provider, Request
from chimera.providers.prices import FREE, Price
from chimera.types import JSON, Message, Response, ToolCall, Usage

BYTES_PER_TOKEN = 4  # of the simulated usage


@dataclass(frozen=True, slots=True)
class Reply:
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """Replies by order; those of the first rule whose pattern is found in the last user message."""

    replies: tuple[Reply, ...] = ()
    rules: tuple[tuple[re.Pattern[str], tuple[Reply, ...]], ...] = ()

    def reply(self, messages: Sequence[Message]) -> Reply:
        asked = next((m.content for m in reversed(messages) if m.role == "user"), "")
        replies = self.replies
        for pattern, answers in self.rules:
            if pattern.search(asked):
                replies = answers
                break
        if not replies:
            return Reply()
        said = sum(message.role == "assistant" for message in messages)
        return replies[min(said, len(replies) - 1)]


@dataclass(frozen=True, kw_only=True)
class ScriptedProvider(Provider):
    """Deterministic, free, and with a usage simulated from the length of the texts."""

    script: Script | None = field(default=None, repr=False)  # None: echo
    price_override: Price | None = FREE

    def identity(self) -> dict[str, JSON]:
        return {"model": self.name, "script": repr(self.script), **self.settings.identity()}

    def _call(self, request: Request) -> Response:
        if self.script is None:
            asked = (m.content for m in reversed(request.messages) if m.role == "user")
            reply = Reply(next(asked, ""))
        else:
            reply = self.script.reply(request.messages)
        read = sum(len(message.content) for message in request.messages)
        written = len(reply.content) + sum(len(call.raw_arguments) for call in reply.tool_calls)
        return Response(
            content=reply.content,
            tool_calls=reply.tool_calls,
            usage=Usage(1 + read // BYTES_PER_TOKEN, 1 + written // BYTES_PER_TOKEN),
            stop_reason="tool_calls" if reply.tool_calls else "stop",
            model=self.model,
        )


def scripted_provider(*, name: str, model: str, **values: Any) -> ScriptedProvider:
    """`echo`, `text:WORDS` or the path of a script."""
    if model == "echo":
        script = None
    elif model.startswith("text:"):
        script = Script((Reply(model.removeprefix("text:")),))
    else:
        path = Path(model).expanduser()
        try:
            script = _read_script(path, path.stat().st_mtime_ns)
        except (OSError, ValueError, TypeError, KeyError, re.error) as error:
            raise UsageError(
                f"'{name}' is no script: {error}\n"
                "  Use scripted/echo, scripted/text:WORDS, or scripted/FILE.json (a reply list)."
            ) from None
    return ScriptedProvider(name=name, model=model, script=script, **values)


@lru_cache(maxsize=32)
def _read_script(path: Path, modified: int) -> Script:
    content = json.loads(path.read_text("utf-8"))
    if isinstance(content, list):
        return Script(_replies(content))
    if not isinstance(content, dict) or not content.keys() <= {"rules", "replies"}:
        raise ValueError("expected a list of replies, or an object with 'rules' and 'replies'")
    rules = tuple(
        (re.compile(rule["match"], re.DOTALL), _replies(rule["replies"]))
        for rule in content.get("rules", ())
    )
    return Script(_replies(content.get("replies", ())), rules)


def _replies(entries: Sequence[JSON]) -> tuple[Reply, ...]:
    return tuple(_reply(entry, number) for number, entry in enumerate(entries))


def _reply(entry: JSON, number: int) -> Reply:
    if isinstance(entry, str):
        return Reply(entry)
    if not isinstance(entry, Mapping) or not entry.keys() <= {"content", "tool_calls"}:
        raise ValueError(f"reply {number}: expected text, or 'content' and 'tool_calls'")
    calls = []
    for index, call in enumerate(entry.get("tool_calls", ())):
        arguments = call.get("arguments", {})
        malformed = isinstance(arguments, str)  # written as text: a model's broken JSON
        calls.append(
            ToolCall(
                id=f"call_{number}_{index}",
                name=call["name"],
                arguments=None if malformed else arguments,
                raw_arguments=arguments if malformed else json.dumps(arguments),
            )
        )
    return Reply(str(entry.get("content", "")), tuple(calls))
