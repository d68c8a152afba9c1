"""Anthropic's messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from chimera.gateway.wires.base import (
    Asked,
    Event,
    Medium,
    OfferedTool,
    Wire,
    cut_off,
    every_object,
    limit,
    mapping,
    new_id,
    real,
    texts,
)
from chimera.providers.sdk import tool_arguments
from chimera.providers.wire import messages
from chimera.providers.wire.common import objects
from chimera.types import JSON, Response

REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
ERRORS = {400: "invalid_request_error", 401: "authentication_error", 402: "billing_error",
          404: "not_found_error", 413: "request_too_large"}  # fmt: skip

FIELDS = frozenset({
    "model", "messages", "system", "max_tokens", "tools", "tool_choice", "stream",
    "stop_sequences", "temperature", "top_k", "top_p", "thinking", "output_config",
    "output_format", "context_management", "cache_control", "metadata",
})  # fmt: skip
#: How the types of tools begin that Anthropic describes and the client runs, and of the search for
#: tools, which leads nowhere else.
CLIENT_TOOLS = re.compile("(custom|(bash|text_editor|computer|memory|tool_search_tool)_.*)")
MARKED = ("messages", "system", "tools")  # where marks for the cache can stand
TEXT_OF_BLOCKS = ("text", "thinking", "signature")


class AnthropicWire(Wire):
    name = "anthropic"
    codec: ClassVar[Any] = messages
    conversation = "messages"
    fields = FIELDS
    instructions = ("system",)
    own_data = frozenset({"input"})
    passed_headers = ("anthropic-version", "anthropic-beta")

    def settings(self, body: Mapping[str, Any]) -> Asked:
        return Asked(
            tools=tuple(
                OfferedTool(
                    str(tool.get("name")),
                    str(tool.get("description") or ""),
                    mapping(tool["input_schema"]),
                )
                for tool in objects(body.get("tools"))
                if "input_schema" in tool
            ),
            max_tokens=limit(body.get("max_tokens")),
            temperature=real(body.get("temperature")),
            stop=texts(body.get("stop_sequences")),
        )

    def is_reference(self, part: dict[str, Any]) -> bool:
        source = mapping(part.get("source")).get("type")
        return part.get("type") == "container_upload" or source in ("url", "file")

    def medium(self, part: dict[str, Any]) -> Medium | None:
        if part.get("type") == "image":
            return "picture"
        return "other" if mapping(part.get("source")).get("type") == "base64" else None

    def runs_at_client(self, tool: dict[str, Any]) -> bool:
        kind = tool.get("type")
        return kind is None or CLIENT_TOOLS.fullmatch(str(kind)) is not None

    def passed(self, body: Mapping[str, Any]) -> tuple[dict[str, JSON], list[str]]:
        """Writing into the cache for an hour is dearer than the price that is known: it is done
        for the usual time. A summary that the service makes on the side is billed beside the
        tokens that it tells."""
        kept, withheld = super().passed(body)
        edits = objects(mapping(kept.get("context_management")).get("edits"))
        leaving_out = [edit for edit in edits if str(edit.get("type")).startswith("clear_")]
        if kept.pop("context_management", None) and leaving_out:
            kept["context_management"] = {"edits": leaving_out}
        withheld += [str(edit.get("type")) for edit in edits if edit not in leaving_out]
        blocks = every_object({name: kept[name] for name in kept if name in MARKED}, self.own_data)
        marked = [mapping(block.get("cache_control")) for block in [kept, *blocks]]
        longer = [mark for mark in marked if mark.pop("ttl", "5m") != "5m"]
        return kept, withheld + ["cache_control.ttl"] * bool(longer)

    def bounded(self, body: dict[str, JSON], most: int) -> dict[str, JSON]:
        return {**body, "max_tokens": most}

    def whole(self, events: Iterable[JSON]) -> dict[str, JSON]:
        body: dict[str, Any] = {}
        blocks: dict[int, dict[str, Any]] = {}
        written: dict[tuple[int, str], list[str]] = {}
        for event in events:
            data = mapping(event)
            kind, index = data.get("type"), data.get("index")
            if kind == "message_start":
                body = dict(mapping(data.get("message")))
            elif kind == "content_block_start" and isinstance(index, int):
                blocks[index] = dict(mapping(data.get("content_block")))
            elif kind == "content_block_delta" and index in blocks:
                for key, value in mapping(data.get("delta")).items():
                    if key in (*TEXT_OF_BLOCKS, "partial_json") and isinstance(value, str):
                        written.setdefault((index, key), []).append(value)
            elif kind == "message_delta":
                body |= mapping(data.get("delta"))
                said = {k: v for k, v in mapping(data.get("usage")).items() if v is not None}
                body["usage"] = {**mapping(body.get("usage")), **said}
            elif kind == "error":
                body |= {"type": "error", "error": data.get("error")}
        if body.get("stop_reason") is None and "error" not in body:
            raise cut_off()
        for (index, key), parts in written.items():
            text = "".join(parts)
            if key == "partial_json":
                arguments, _ = tool_arguments(text)
                blocks[index]["input"] = text if arguments is None else arguments
            else:
                blocks[index][key] = (blocks[index].get(key) or "") + text
        return {**body, "content": [blocks[index] for index in sorted(blocks)]}

    def reply(self, response: Response, asked: Asked, model: str) -> dict[str, JSON]:
        content: list[dict[str, JSON]] = []
        if response.content or not response.tool_calls:
            content.append({"type": "text", "text": response.content})
        content += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments or {}}
            for call in response.tool_calls
        ]
        usage = response.usage
        return {
            "id": new_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": content,
            "stop_reason": REASONS.get(response.stop_reason, "end_turn"),
            "stop_sequence": None,
            "usage": {
                "input_tokens": max(
                    0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
                ),
                "output_tokens": usage.output_tokens,
                "cache_read_input_tokens": usage.cached_tokens,
                "cache_creation_input_tokens": usage.cache_write_tokens,
            },
        }

    def events(self, reply: Mapping[str, Any]) -> Iterator[Event]:
        usage = {**reply["usage"], "output_tokens": 1}
        begun = {**reply, "content": [], "stop_reason": None, "usage": usage}
        yield "message_start", {"type": "message_start", "message": begun}
        for index, block in enumerate(reply["content"]):
            place = {"index": index}
            if block["type"] == "text":
                empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
            else:
                text = json.dumps(block["input"])
                empty = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": text}
            start = {"type": "content_block_start", **place, "content_block": empty}
            yield "content_block_start", start
            yield "content_block_delta", {"type": "content_block_delta", **place, "delta": delta}
            yield "content_block_stop", {"type": "content_block_stop", **place}
        ended = {key: reply[key] for key in ("stop_reason", "stop_sequence")}
        yield "message_delta", {"type": "message_delta", "delta": ended, "usage": reply["usage"]}
        yield "message_stop", {"type": "message_stop"}

    def error(self, status: int, kind: str, message: str) -> dict[str, JSON]:
        name = ERRORS.get(status, "api_error")
        return {"type": "error", "error": {"type": name, "message": message}}
