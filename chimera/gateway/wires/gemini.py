"""Gemini's generateContent and its streamed twin."""

from __future__ import annotations

import json
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
    texts,
)
from chimera.providers.sdk import malformed, status_failure
from chimera.types import JSON, Message, Response, ToolCall, Usage

STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 402: "FAILED_PRECONDITION",
          404: "NOT_FOUND"}  # fmt: skip


class GeminiWire(Wire):
    """The model and whether to stream stand in the address, not in the body."""

    name = "gemini"

    def asked(self, body: Mapping[str, Any]) -> Asked:
        if not isinstance(body.get("contents"), list):
            raise Malformed("a request needs 'contents'")
        system = _text(mapping(body.get("systemInstruction")))
        messages = [Message.system(system)] if system else []
        waiting: list[ToolCall] = []
        for content in objects(body["contents"]):
            messages += _turn(content, waiting, len(messages))
        settings = mapping(body.get("generationConfig"))
        return Asked(
            messages=tuple(messages),
            tools=tuple(
                OfferedTool(
                    str(declared.get("name")),
                    str(declared.get("description") or ""),
                    _schema(declared.get("parametersJsonSchema") or declared.get("parameters")),
                )
                for tool in objects(body.get("tools"))
                for declared in objects(tool.get("functionDeclarations"))
            ),
            max_tokens=limit(settings.get("maxOutputTokens")),
            temperature=real(settings.get("temperature")),
            stop=texts(settings.get("stopSequences")),
        )

    def bounded(self, body: dict[str, JSON], most: int) -> dict[str, JSON]:
        settings = mapping(body.get("generationConfig"))
        if limit(settings.get("maxOutputTokens")):
            return body
        return {**body, "generationConfig": {**settings, "maxOutputTokens": most}}

    def prepared(self, body: dict[str, JSON], model: str) -> dict[str, JSON]:
        return body

    def whole(self, events: Iterable[JSON]) -> dict[str, JSON]:
        body: dict[str, JSON] = {}
        parts: list[JSON] = []
        reason = None
        for event in events:
            data = mapping(event)
            body |= {key: value for key, value in data.items() if key != "candidates"}
            for candidate in objects(data.get("candidates"))[:1]:
                parts += objects(mapping(candidate.get("content")).get("parts"))
                reason = candidate.get("finishReason") or reason
        content = {"role": "model", "parts": parts}
        return {**body, "candidates": [{"content": content, "finishReason": reason, "index": 0}]}

    def response(self, body: Mapping[str, Any], asked: Asked) -> Response:
        if body.get("error"):
            raise status_failure("the model", 500, {}, str(body["error"]))
        candidates = objects(body.get("candidates"))
        if not candidates:
            raise malformed("the model", f"the answer has no candidates: {body}")
        said = _turn({"role": "model", **mapping(candidates[0].get("content"))}, [], 0)
        calls = tuple(call for message in said for call in message.tool_calls)
        usage = mapping(body.get("usageMetadata"))
        written = number(usage.get("candidatesTokenCount")) + number(
            usage.get("thoughtsTokenCount")
        )
        reason = candidates[0].get("finishReason")
        return Response(
            "".join(message.content for message in said),
            calls,
            Usage(
                number(usage.get("promptTokenCount")),
                written,
                number(usage.get("cachedContentTokenCount")),
            ),
            stop_reason="length" if reason == "MAX_TOKENS" else "tool_calls" if calls else "stop",
            model=str(body.get("modelVersion") or ""),
        )

    def reply(self, response: Response, asked: Asked, model: str) -> dict[str, JSON]:
        parts: list[JSON] = [{"text": response.content}] if response.content else []
        parts += [
            {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments or {}}}
            for call in response.tool_calls
        ]
        usage = response.usage
        reason = "MAX_TOKENS" if response.stop_reason == "length" else "STOP"
        content = {"role": "model", "parts": parts or [{"text": ""}]}
        return {
            "candidates": [{"content": content, "finishReason": reason, "index": 0}],
            "usageMetadata": {
                "promptTokenCount": usage.input_tokens,
                "candidatesTokenCount": usage.output_tokens,
                "cachedContentTokenCount": usage.cached_tokens,
                "totalTokenCount": usage.total_tokens,
            },
            "modelVersion": model,
        }

    def events(self, reply: Mapping[str, Any]) -> Iterator[Event]:
        yield "", dict(reply)

    def error(self, status: int, kind: str, message: str) -> dict[str, JSON]:
        name = STATUS.get(status, "INTERNAL")
        return {"error": {"code": status, "message": message, "status": name}}


def _text(content: dict[str, Any]) -> str:
    parts = (part for part in objects(content.get("parts")) if not part.get("thought"))
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def _turn(content: dict[str, Any], waiting: list[ToolCall], place: int) -> list[Message]:
    """The messages of a turn; calls have no ids of their own, so that those `waiting` count."""
    parts = objects(content.get("parts"))
    if content.get("role") == "model":
        calls = []
        for index, part in enumerate(parts):
            called = mapping(part.get("functionCall"))
            if called:
                arguments = mapping(called.get("args"))
                name = str(called.get("id") or f"call_{place}_{index}")
                text = json.dumps(arguments, ensure_ascii=False)
                calls.append(ToolCall(name, str(called.get("name")), arguments, text))
        waiting += calls
        return [Message.assistant(_text(content), calls)]
    messages = []
    for part in parts:
        answered = mapping(part.get("functionResponse"))
        if answered:
            messages.append(Message.tool(_output(answered), _answered_id(answered, waiting)))
    text = _text(content)
    return [*messages, Message.user(text)] if text or not messages else messages


def _answered_id(answered: dict[str, Any], waiting: list[ToolCall]) -> str:
    for call in waiting:
        if answered.get("id") in (None, call.id) and answered.get("name") == call.name:
            waiting.remove(call)
            return call.id
    return str(answered.get("id") or answered.get("name"))


def _output(answered: dict[str, Any]) -> str:
    response = mapping(answered.get("response"))
    output = response.get("output")
    return output if isinstance(output, str) else json.dumps(response, ensure_ascii=False)


def _schema(value: object) -> dict[str, JSON]:
    """A JSON schema: the service's own dialect writes the names of types in capitals."""
    if not isinstance(value, dict):
        return {"type": "object", "properties": {}}
    schema = {}
    for key, inner in value.items():
        if key == "type" and isinstance(inner, str):
            schema[key] = inner.lower()
        elif key == "properties" and isinstance(inner, dict):
            schema[key] = {name: _schema(each) for name, each in inner.items()}
        else:
            schema[key] = _schema(inner) if isinstance(inner, dict) else inner
    return schema
