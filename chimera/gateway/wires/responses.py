"""OpenAI's Responses."""

from __future__ import annotations

import json
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
)
from chimera.providers.wire import responses
from chimera.providers.wire.common import objects
from chimera.types import JSON, Response, ToolCall

#: The one parameter that a tool which takes a text is shown with to other services.
FREE_TEXT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
FIELDS = frozenset({
    "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls",
    "max_tool_calls", "stream", "stream_options", "max_output_tokens", "temperature", "top_p",
    "top_logprobs", "reasoning", "text", "truncation", "include", "store", "user", "metadata",
    "client_metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
})  # fmt: skip
CLIENT_TOOLS = re.compile("function|custom|namespace|local_shell|apply_patch|tool_search")
OTHER_MEDIA = ("file_data", "input_audio")
ENDED = ("response.completed", "response.incomplete", "response.failed")


class ResponsesWire(Wire):
    name = "responses"
    codec: ClassVar[Any] = responses
    conversation = "input"
    fields = FIELDS
    refused = ("previous_response_id", "conversation", "prompt", "background")
    passed_headers = ("openai-beta",)

    def settings(self, body: Mapping[str, Any]) -> Asked:
        return Asked(
            tools=tuple(
                read for tool in objects(body.get("tools")) if (read := _tool(tool)) is not None
            ),
            max_tokens=limit(body.get("max_output_tokens")),
            temperature=real(body.get("temperature")),
        )

    def plain(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Calls of tools that take a text are shown as calls with one argument."""
        changed = {
            key: [_plain_item(item) for item in objects(body[key])]
            for key in ("input", "output")
            if isinstance(body.get(key), list)
        }
        return {**body, **changed}

    def is_reference(self, part: dict[str, Any]) -> bool:
        """The service takes an id that stands alone for an item that it keeps."""
        return (
            part.get("type") == "item_reference"
            or ("id" in part and all(part[name] is None for name in part if name != "id"))
            or part.get("file_id") is not None
            or any(map(is_address, linked(part)))
        )

    def medium(self, part: dict[str, Any]) -> Medium | None:
        links = linked(part)
        named = any(part.get(name) is not None for name in OTHER_MEDIA)
        if named or not all(map(is_picture, links)):
            return "other"
        return "picture" if links else None

    def runs_at_client(self, tool: dict[str, Any]) -> bool:
        return CLIENT_TOOLS.fullmatch(str(tool.get("type"))) is not None

    def passed(self, body: Mapping[str, Any]) -> tuple[dict[str, JSON], list[str]]:
        """A conversation can bring tools of its own, found by a search for them."""
        kept, withheld = super().passed(body)
        if isinstance(kept.get("input"), list):
            items: list[JSON] = []
            for item in objects(kept["input"]):
                tools, others = self.client_tools(objects(item.get("tools")))
                items.append({**item, "tools": tools} if "tools" in item else item)
                withheld += others
            kept["input"] = items
        return kept, withheld

    def bounded(self, body: dict[str, JSON], most: int) -> dict[str, JSON]:
        return {**body, "max_output_tokens": most}

    def whole(self, events: Iterable[JSON]) -> dict[str, JSON]:
        items = []
        for event in events:
            data = mapping(event)
            if data.get("type") == "response.output_item.done":
                items.append(data.get("item"))
            elif data.get("type") in ENDED:
                body = mapping(data.get("response"))
                return body if body.get("output") else {**body, "output": items}
            elif data.get("type") == "error":
                return {"error": data}
        raise cut_off()

    def reply(self, response: Response, asked: Asked, model: str) -> dict[str, JSON]:
        output: list[dict[str, JSON]] = []
        if response.content or not response.tool_calls:
            part = {"type": "output_text", "text": response.content, "annotations": []}
            output.append(
                {
                    "type": "message",
                    "id": new_id("msg_"),
                    "role": "assistant",
                    "status": "completed",
                    "content": [part],
                }
            )
        free = {tool.name for tool in asked.tools if tool.free_text}
        output += [_call_item(call, free) for call in response.tool_calls]
        usage = response.usage
        return {
            "id": new_id("resp_"),
            "object": "response",
            "created_at": int(time.time()),
            "status": "incomplete" if response.stop_reason == "length" else "completed",
            "model": model,
            "output": output,
            "usage": {
                "input_tokens": usage.input_tokens,
                "input_tokens_details": {"cached_tokens": usage.cached_tokens},
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
                "total_tokens": usage.total_tokens,
            },
        }

    def events(self, reply: Mapping[str, Any]) -> Iterator[Event]:
        begun = {**reply, "status": "in_progress", "output": [], "usage": None}
        events: list[tuple[str, dict[str, JSON]]] = [("response.created", {"response": begun})]
        for index, item in enumerate(reply["output"]):
            place = {"output_index": index}
            events.append(("response.output_item.added", {**place, "item": item}))
            if item["type"] == "message":
                text = {"content_index": 0, "item_id": item["id"]}
                text["delta"] = item["content"][0]["text"]
                events.append(("response.output_text.delta", {**place, **text}))
            events.append(("response.output_item.done", {**place, "item": item}))
        events.append((f"response.{reply['status']}", {"response": dict(reply)}))
        for position, (name, data) in enumerate(events):
            yield name, {"type": name, "sequence_number": position, **data}


def _tool(tool: dict[str, Any]) -> OfferedTool | None:
    name, description = str(tool.get("name")), str(tool.get("description") or "")
    if tool.get("type") == "function":
        return OfferedTool(name, description, mapping(tool.get("parameters")))
    if "name" in tool:  # it takes a text; the service's own tools have no name
        return OfferedTool(name, description, FREE_TEXT, free_text=True)
    return None


def _plain_item(item: dict[str, Any]) -> dict[str, Any]:
    if item.get("type") == "custom_tool_call":
        arguments = json.dumps({"input": item.get("input")})
        return {**item, "type": "function_call", "arguments": arguments}
    return item


def _call_item(call: ToolCall, free: set[str]) -> dict[str, JSON]:
    item: dict[str, JSON] = {"id": f"fc_{call.id}", "call_id": call.id, "name": call.name}
    if call.name in free:
        text = str((call.arguments or {}).get("input", call.raw_arguments))
        return {"type": "custom_tool_call", **item, "status": "completed", "input": text}
    arguments = call.raw_arguments or "{}"
    return {"type": "function_call", **item, "status": "completed", "arguments": arguments}
