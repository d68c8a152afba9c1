"""OpenAI's chat completions."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from chimera.gateway.wires.base import (
    Asked,
    Event,
    Medium,
    OfferedTool,
    Wire,
    cut_off,
    is_address,
    is_picture,
    limit,
    linked,
    mapping,
    new_id,
    real,
    texts,
)
from chimera.providers.wire import chat
from chimera.providers.wire.common import objects
from chimera.types import JSON, Response

FIELDS = frozenset({
    "model", "messages", "tools", "tool_choice", "functions", "function_call",
    "parallel_tool_calls", "stream", "stream_options", "stop", "max_tokens",
    "max_completion_tokens", "temperature", "top_p", "top_k", "min_p", "seed",
    "frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias", "logprobs",
    "top_logprobs", "response_format", "verbosity", "user", "metadata", "safety_identifier",
    "prompt_cache_key", "store", "reasoning", "reasoning_effort", "reasoning_split",
    "include_reasoning", "thinking", "enable_thinking", "thinking_budget",
    "chat_template_kwargs",
})  # fmt: skip
CLIENT_TOOLS = re.compile("function|custom")
OTHER_MEDIA = ("file", "input_audio", "audio", "video")
BOUNDS = ("max_completion_tokens", "max_tokens")


class ChatWire(Wire):
    name = "chat"
    codec: ClassVar[Any] = chat
    conversation = "messages"
    fields = FIELDS
    last_line = b"data: [DONE]\n\n"

    def settings(self, body: Mapping[str, Any]) -> Asked:
        return Asked(
            tools=tuple(
                OfferedTool(
                    str(function.get("name")),
                    str(function.get("description") or ""),
                    mapping(function.get("parameters")),
                )
                for tool in objects(body.get("tools"))
                if (function := mapping(tool.get("function")))
            ),
            max_tokens=limit(*map(body.get, BOUNDS)),
            temperature=real(body.get("temperature")),
            stop=texts(body.get("stop")),
        )

    def is_reference(self, part: dict[str, Any]) -> bool:
        """Other services also take `video_url`, `audio_url` and films as lists of pictures."""
        film = part.get("video")
        links = [*linked(part), *(film if isinstance(film, list) else [film])]
        return any(map(is_address, links)) or part.get("file_id") is not None

    def medium(self, part: dict[str, Any]) -> Medium | None:
        links = linked(part)
        named = any(part.get(name) is not None for name in OTHER_MEDIA)
        if named or not all(map(is_picture, links)):
            return "other"
        return "picture" if links else None

    def runs_at_client(self, tool: dict[str, Any]) -> bool:
        return CLIENT_TOOLS.fullmatch(str(tool.get("type"))) is not None

    def bounded(self, body: dict[str, JSON], most: int) -> dict[str, JSON]:
        name = next((name for name in BOUNDS if limit(body.get(name))), "max_tokens")
        return {**{key: body[key] for key in body if key not in BOUNDS}, name: most}

    def prepared(self, body: dict[str, JSON], model: str) -> dict[str, JSON]:
        sent = {**body, "model": model}
        if self.streamed(body):
            sent["stream_options"] = {**mapping(body.get("stream_options")), "include_usage": True}
        return sent

    def whole(self, events: Iterable[JSON]) -> dict[str, JSON]:
        body: dict[str, JSON] = {}
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        texts: dict[str, list[str]] = {}
        calls: dict[int, dict[str, Any]] = {}
        reason = None
        for event in events:
            chunk = mapping(event)
            body |= {key: chunk[key] for key in ("id", "model", "usage", "error") if chunk.get(key)}
            for choice in objects(chunk.get("choices"))[:1]:
                reason = choice.get("finish_reason") or reason
                _add(message, texts, calls, mapping(choice.get("delta")))
        if reason is None and not body.keys() & {"usage", "error"}:
            raise cut_off()
        message |= {key: "".join(parts) for key, parts in texts.items()}
        if calls:
            message["tool_calls"] = [calls[index] for index in sorted(calls)]
        return {**body, "choices": [{"index": 0, "message": message, "finish_reason": reason}]}

    def reply(self, response: Response, asked: Asked, model: str) -> dict[str, JSON]:
        message: dict[str, JSON] = {"role": "assistant", "content": response.content}
        if response.tool_calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.raw_arguments},
                }
                for call in response.tool_calls
            ]
        usage = response.usage
        return {
            "id": new_id("chatcmpl-"),
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": response.stop_reason}],
            "usage": {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.total_tokens,
                "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            },
        }

    def events(self, reply: Mapping[str, Any]) -> Iterator[Event]:
        choice = reply["choices"][0]
        message = choice["message"]
        calls = [
            {"index": index, **call} for index, call in enumerate(message.get("tool_calls", ()))
        ]
        delta = {"role": "assistant", "content": message["content"]}
        head = {**reply, "object": "chat.completion.chunk", "usage": None}
        yield "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        if calls:
            delta = {"tool_calls": calls}
            yield "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        ended = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
        yield "", {**head, "choices": [ended]}
        yield "", {**head, "choices": [], "usage": reply["usage"]}


def _add(
    message: dict[str, Any],
    texts: dict[str, list[str]],
    calls: dict[int, dict[str, Any]],
    delta: dict[str, Any],
) -> None:
    """Take a part of the answer into the whole."""
    for key, value in delta.items():
        if key == "tool_calls":
            for part in objects(value):
                _add_call(calls, part)
        elif isinstance(value, str) and key != "role":
            texts.setdefault(key, []).append(value)
        elif value is not None and key != "role":
            message[key] = value


def _add_call(calls: dict[int, dict[str, Any]], part: dict[str, Any]) -> None:
    index = part.get("index")
    empty: dict[str, Any] = {"type": "function", "function": {"name": "", "arguments": ""}}
    call = calls.setdefault(index if isinstance(index, int) else len(calls), empty)
    for key, value in part.items():
        if key == "function":
            for name, text in mapping(value).items():
                if isinstance(text, str):
                    call["function"][name] = call["function"].get(name, "") + text
        elif key != "index" and value is not None:
            call[key] = value
