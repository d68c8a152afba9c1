"""OpenAI's Responses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from chimera.gateway.wires.base import (
    Asked,
    Event,
    Malformed,
    OfferedTool,
    Wire,
    limit,
    mapping,
    number,
    objects,
    real,
    text_of,
)
from chimera.providers.sdk import malformed, status_failure, tool_arguments
from chimera.types import JSON, Message, Response, ToolCall, Usage

#: The one parameter that a tool which takes a text is shown with to other services.
FREE_TEXT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
ENDED = ("response.completed", "response.incomplete", "response.failed")


class ResponsesWire(Wire):
    name = "responses"
    passed_headers = ("openai-beta",)

    def asked(self, body: Mapping[str, Any]) -> Asked:
        given = body.get("input")
        if not isinstance(given, (str, list)):
            raise Malformed("a response needs 'input'")
        messages = []
        if isinstance(body.get("instructions"), str) and body["instructions"]:
            messages.append(Message.system(body["instructions"]))
        if isinstance(given, str):
            messages.append(Message.user(given))
        else:
            messages += _messages(objects(given))
        return Asked(
            messages=tuple(messages),
            tools=tuple(
                read for tool in objects(body.get("tools")) if (read := _tool(tool)) is not None
            ),
            max_tokens=limit(body.get("max_output_tokens")),
            temperature=real(body.get("temperature")),
        )

    def bounded(self, body: dict[str, JSON], most: int) -> dict[str, JSON]:
        if limit(body.get("max_output_tokens")):
            return body
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
        return {"error": {"message": "the stream ended before the response was complete"}}

    def response(self, body: Mapping[str, Any], asked: Asked) -> Response:
        if body.get("error"):
            raise status_failure("the model", 500, {}, str(body["error"]))
        if not isinstance(body.get("output"), list):
            raise malformed("the model", f"the answer has no output: {body}")
        said = _messages(objects(body["output"]))
        calls = tuple(call for message in said for call in message.tool_calls)
        details = mapping(body.get("incomplete_details"))
        length = details.get("reason") == "max_output_tokens"
        usage = mapping(body.get("usage"))
        return Response(
            "\n".join(message.content for message in said if message.content),
            calls,
            Usage(
                number(usage.get("input_tokens")),
                number(usage.get("output_tokens")),
                number(mapping(usage.get("input_tokens_details")).get("cached_tokens")),
            ),
            stop_reason="length" if length else "tool_calls" if calls else "stop",
            model=str(body.get("model") or ""),
        )

    def reply(self, response: Response, asked: Asked, model: str) -> dict[str, JSON]:
        output: list[dict[str, JSON]] = []
        if response.content or not response.tool_calls:
            part = {"type": "output_text", "text": response.content, "annotations": []}
            output.append(
                {
                    "type": "message",
                    "id": "msg_chimera",
                    "role": "assistant",
                    "status": "completed",
                    "content": [part],
                }
            )
        free = {tool.name for tool in asked.tools if tool.free_text}
        output += [_call_item(call, free) for call in response.tool_calls]
        usage = response.usage
        return {
            "id": "resp_chimera",
            "object": "response",
            "created_at": int(time.time()),
            "status": "incomplete" if response.stop_reason == "length" else "completed",
            "model": model,
            "output": output,
            "usage": {
                "input_tokens": usage.input_tokens,
                "input_tokens_details": {"cached_tokens": usage.cached_tokens},
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
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
    if tool.get("type") == "custom":
        return OfferedTool(name, description, FREE_TEXT, free_text=True)
    return None


def _messages(items: list[dict[str, Any]]) -> list[Message]:
    """Items as messages: what a model said and called in one go is one of them."""
    messages: list[Message] = []
    for item in items:
        kind = item.get("type", "message")
        if kind in ("function_call_output", "custom_tool_call_output"):
            output = item.get("output")
            text = text_of(output) if isinstance(output, (str, list)) else json.dumps(output)
            messages.append(Message.tool(text, str(item.get("call_id"))))
        elif kind in ("function_call", "custom_tool_call"):
            _join(messages, Message.assistant("", [_call(item)]))
        elif kind == "message":
            text, role = text_of(item.get("content")), item.get("role")
            if role == "assistant":
                _join(messages, Message.assistant(text))
            else:
                messages.append(Message.user(text) if role == "user" else Message.system(text))
    return messages


def _join(messages: list[Message], said: Message) -> None:
    if messages and messages[-1].role == "assistant" and said.tool_calls:
        last = messages.pop()
        said = Message.assistant(last.content, [*last.tool_calls, *said.tool_calls])
    messages.append(said)


def _call(item: dict[str, Any]) -> ToolCall:
    given = item.get("arguments") if "arguments" in item else {"input": item.get("input")}
    arguments, raw = tool_arguments(given)
    return ToolCall(str(item.get("call_id")), str(item.get("name")), arguments, raw)


def _call_item(call: ToolCall, free: set[str]) -> dict[str, JSON]:
    item: dict[str, JSON] = {"id": f"fc_{call.id}", "call_id": call.id, "name": call.name}
    if call.name in free:
        text = str((call.arguments or {}).get("input", call.raw_arguments))
        return {"type": "custom_tool_call", **item, "status": "completed", "input": text}
    arguments = call.raw_arguments or "{}"
    return {"type": "function_call", **item, "status": "completed", "arguments": arguments}
