"""Gemini's own interface: contents of parts, whose thought signatures must come back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from chimera.providers.base import Request
from chimera.providers.sdk import malformed, status_failure, tool_arguments
from chimera.providers.settings import ModelSettings
from chimera.providers.wire.common import call_names, count, objects, sendable, told, usage_of
from chimera.tools.base import Tool
from chimera.types import JSON, Image, Message, Native, Response, ToolCall, Usage

PROTOCOL = "gemini"
STOP_REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"), "content_filter"
    ),
}
#: The model's call could not be read by the service itself: asked again, it may be.
UNREADABLE = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")
Parts = list[dict[str, JSON]]

_OWN_ID = re.compile(r"call_\d+_\d+|")  # of a call to which the service gave no id


def request_body(request: Request, settings: ModelSettings) -> dict[str, Any]:
    """The body (the model is part of the address); thought comes on top of the answer's tokens."""
    system, contents = wire_contents(sendable(request))
    body: dict[str, Any] = {"contents": contents}
    if system:
        body["systemInstruction"] = {"parts": [{"text": system}]}
    if request.tools:
        body["tools"] = [{"functionDeclarations": wire_tools(request.tools)}]
    most = request.max_tokens
    values = {
        "temperature": request.temperature,
        "topP": settings.top_p,
        "maxOutputTokens": None if most is None else most + (settings.thinking_tokens or 0),
        "stopSequences": list(request.stop) or None,
        "seed": request.seed,
        "thinkingConfig": _thinking(settings),
    }
    body["generationConfig"] = {key: value for key, value in values.items() if value is not None}
    return body


def _thinking(settings: ModelSettings) -> dict[str, JSON] | None:
    if settings.thinking_tokens is not None:
        return {"thinkingBudget": settings.thinking_tokens, "includeThoughts": True}
    if settings.reasoning_effort is not None:
        return {"thinkingLevel": settings.reasoning_effort.upper(), "includeThoughts": True}
    return None


def wire_contents(messages: Sequence[Message]) -> tuple[str, list[dict[str, JSON]]]:
    """The system instruction, and contents: results of one turn together, pictures after them."""
    system: list[str] = []
    contents: list[dict[str, JSON]] = []
    pictures: list[Image] = []

    def add(role: str, parts: Parts) -> None:
        if contents and contents[-1]["role"] == role:
            contents[-1]["parts"].extend(parts)
        else:
            contents.append({"role": role, "parts": parts})

    for message, names in call_names(messages):
        if message.role == "system" and not contents:
            system.append(message.content)
        elif message.role == "tool":
            add("user", [_result(message, names)])
            pictures += message.images
        else:
            if pictures:
                add("user", [_picture(image) for image in pictures])
                pictures = []
            add("model" if message.role == "assistant" else "user", _parts(message))
    if pictures:
        add("user", [_picture(image) for image in pictures])
    return "\n\n".join(system), contents


def _result(message: Message, names: Mapping[str, str]) -> dict[str, JSON]:
    call_id = message.call_id or ""
    answer = {"name": names.get(call_id, "unknown"), "response": {"output": message.content}}
    named_by_service = not _OWN_ID.fullmatch(call_id)
    return {"functionResponse": {"id": call_id, **answer} if named_by_service else answer}


def _parts(message: Message) -> Parts:
    if message.native is not None and message.native.protocol == PROTOCOL:
        return list(message.native.content)
    parts: Parts = [{"text": message.content}] if message.content else []
    parts += [_picture(image) for image in message.images]
    for call in message.tool_calls:
        value = {"id": call.id, "name": call.name, "args": dict(call.arguments or {})}
        parts.append({"functionCall": value})
    return parts or [{"text": " "}]


def _picture(image: Image) -> dict[str, JSON]:
    return {"inlineData": {"mimeType": image.media_type, "data": image.data}}


def wire_tools(tools: Sequence[Tool]) -> list[dict[str, JSON]]:
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "parametersJsonSchema": dict(tool.parameters),
        }
        for tool in tools
    ]


def read_reply(name: str, body: dict[str, JSON], request: Request) -> Response:
    """The answer in the first candidate; an answer without one is a failure that can pass."""
    if "error" in body:
        raise status_failure(name, 500, {}, body["error"])
    blocked = body.get("promptFeedback")
    candidate = next(iter(objects(body.get("candidates"))), None)
    if candidate is None and not (isinstance(blocked, dict) and blocked.get("blockReason")):
        raise malformed(name, f"the answer has no candidates: {body}")
    if not isinstance(body.get("usageMetadata"), dict):
        raise malformed(name, "the answer does not say how many tokens it took")
    candidate = candidate or {"finishReason": "SAFETY"}
    reason = str(candidate.get("finishReason") or "STOP")
    if reason in UNREADABLE:
        raise malformed(name, f"the model's call is not readable: {reason}")
    said = _assistant(_content_parts(candidate.get("content")), _turns(request))
    return Response(
        content=said.content,
        tool_calls=said.tool_calls,
        usage=_usage(body["usageMetadata"], request, said),
        stop_reason="tool_calls" if said.tool_calls else STOP_REASONS.get(reason, reason.lower()),
        model=str(body.get("modelVersion") or ""),
        reasoning=said.reasoning,
        native=said.native,
    )


def _turns(request: Request) -> int:
    return sum(message.role == "assistant" for message in request.messages)


def read_conversation(body: Mapping[str, JSON]) -> list[Message]:
    """The messages of a request that somebody made."""
    system = _text(_content_parts(body.get("systemInstruction")))
    found = [Message.system(system)] if system else []
    for turn, content in enumerate(objects(body.get("contents"))):
        parts = _content_parts(content)
        if content.get("role") == "model":
            found.append(_assistant(parts, turn))
        else:
            found += _of_user(parts, found)
    return found


def _of_user(parts: Parts, before: Sequence[Message]) -> list[Message]:
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    waiting = [call for message in before[-1:] for call in message.tool_calls]
    found = []
    for index, result in enumerate(results):
        fallback = waiting[index].id if index < len(waiting) else ""
        response = result.get("response") or {}
        text = response.get("output", response.get("result", response))
        call_id = str(result.get("id") or fallback)
        found.append(Message.tool(text if isinstance(text, str) else str(text), call_id))
    images = [
        Image(str(part["inlineData"].get("mimeType")), str(part["inlineData"].get("data")))
        for part in parts
        if isinstance(part.get("inlineData"), dict)
    ]
    text = _text(parts)
    return [*found, Message.user(text, images)] if text or images or not found else found


def _content_parts(content: JSON) -> Parts:
    return objects(content.get("parts")) if isinstance(content, dict) else []


def _text(parts: Parts) -> str:
    return "".join(str(part.get("text") or "") for part in parts if not part.get("thought"))


def _assistant(parts: Parts, turn: int) -> Message:
    calls: list[ToolCall] = []
    for part in parts:
        call = part.get("functionCall")
        if isinstance(call, dict):
            arguments, raw = tool_arguments(call.get("args") or {})
            call_id = str(call.get("id") or f"call_{turn}_{len(calls)}")
            calls.append(ToolCall(call_id, str(call.get("name")), arguments, raw))
    return Message(
        "assistant",
        _text(parts),
        tuple(calls),
        reasoning="".join(str(part.get("text") or "") for part in parts if part.get("thought")),
        native=Native(PROTOCOL, parts) if parts else None,
    )


def _usage(usage: Mapping[str, JSON], request: Request, said: Message) -> Usage:
    """An answer without a word has no count of its tokens."""
    thoughts, read = count(usage, "thoughtsTokenCount"), told(usage, "promptTokenCount")
    written = told(usage, "candidatesTokenCount")
    if "candidatesTokenCount" not in usage and not said.content and not said.tool_calls:
        written = 0
    return usage_of(
        request,
        said,
        None if read is None else read + count(usage, "toolUsePromptTokenCount"),
        None if written is None else written + thoughts,
        cached=count(usage, "cachedContentTokenCount"),
        reasoning=thoughts,
    )
