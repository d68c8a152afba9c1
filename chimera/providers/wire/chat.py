"""Chat completions: OpenAI's older interface, which most services and servers speak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chimera.providers.base import Request
from chimera.providers.sdk import malformed, status_failure, tool_arguments
from chimera.providers.settings import ModelSettings
from chimera.providers.wire.common import (
    count,
    data_url,
    image_of_url,
    objects,
    sendable,
    text_of,
    told,
    usage_of,
)
from chimera.tools.base import Tool
from chimera.types import JSON, Image, Message, Native, Response, ToolCall, Usage

PROTOCOL = "chat"
#: What of an assistant's message goes back as it came. DeepSeek, Moonshot and others demand
#: `reasoning_content` with tool calls, OpenRouter and MiniMax `reasoning_details`.
CARRIED = ("reasoning_content", "reasoning_details", "extra_content")
WITH_CALLS_ONLY = "reasoning_content"  # some models refuse it in turns without calls
#: What of a call goes back: Gemini's thought signature is in `extra_content`.
CALL_FIELDS = ("id", "type", "function", "extra_content")


def request_body(
    model: str, request: Request, settings: ModelSettings, *, max_tokens_field: str = "max_tokens"
) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "messages": wire_messages(sendable(request))}
    if request.tools:
        body["tools"] = wire_tools(request.tools)
    values = {
        "temperature": request.temperature,
        max_tokens_field: request.max_tokens,
        "stop": list(request.stop) or None,
        "seed": request.seed,
        "reasoning_effort": settings.reasoning_effort,
        "top_p": settings.top_p,
    }
    return body | {name: value for name, value in values.items() if value is not None}


def wire_messages(messages: Sequence[Message]) -> list[dict[str, JSON]]:
    """The messages; pictures of tools follow their results, which can only be texts."""
    written: list[dict[str, JSON]] = []
    pictures: list[Image] = []
    for message in messages:
        if message.role != "tool" and pictures:
            written.append(_pictures(pictures))
            pictures = []
        written.append(_wire_message(message))
        pictures += message.images if message.role == "tool" else ()
    return [*written, _pictures(pictures)] if pictures else written


def _pictures(images: Sequence[Image], text: str = "What the tools showed:") -> dict[str, JSON]:
    parts = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in images]
    return {"role": "user", "content": [{"type": "text", "text": text}, *parts]}


def _wire_message(message: Message) -> dict[str, JSON]:
    if message.role == "tool":
        return {"role": "tool", "content": message.content, "tool_call_id": message.call_id or ""}
    if message.images:
        return _pictures(message.images, message.content)
    value: dict[str, JSON] = {"role": message.role, "content": message.content}
    if message.native is not None and message.native.protocol == PROTOCOL:
        value |= message.native.content
        if not message.tool_calls:
            value.pop(WITH_CALLS_ONLY, None)
    elif message.tool_calls:
        value["tool_calls"] = [_wire_call(call) for call in message.tool_calls]
    return value


def _wire_call(call: ToolCall, came: Mapping[str, JSON] | None = None) -> dict[str, JSON]:
    """A call to send; `came` is how the service sent it.

    Servers read the arguments of earlier calls as JSON: a malformed text would break them.
    """
    arguments = call.raw_arguments if call.arguments is not None else "{}"
    function: dict[str, JSON] = {"name": call.name, "arguments": arguments}
    extras = {name: came[name] for name in CALL_FIELDS if name in came} if came else {}
    return {**extras, "id": call.id, "type": "function", "function": function}


def wire_tools(tools: Sequence[Tool]) -> list[dict[str, JSON]]:
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            },
        }
        for tool in tools
    ]


def read_reply(name: str, body: dict[str, JSON], request: Request) -> Response:
    """The answer in a chat completion; an answer without one is a failure that can pass."""
    error = body.get("error")
    if error:
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        raise status_failure(name, status, {}, error)
    choice = next(iter(objects(body.get("choices"))), {})
    message = choice.get("message")
    if not isinstance(message, dict):
        raise malformed(name, f"the answer has no choices: {body}")
    said = _assistant(name, message)
    return Response(
        content=said.content,
        tool_calls=said.tool_calls,
        usage=_usage(body.get("usage"), request, said),
        stop_reason=str(choice.get("finish_reason") or "stop"),
        model=str(body.get("model") or ""),
        reasoning=said.reasoning,
        native=said.native,
    )


def read_conversation(body: Mapping[str, JSON]) -> list[Message]:
    """The messages of a request that somebody made."""
    found = []
    for message in objects(body.get("messages")):
        role, content = message.get("role"), message.get("content")
        if role == "assistant":
            found.append(_assistant("a request", message))
        elif role == "tool":
            found.append(Message.tool(text_of(content), str(message.get("tool_call_id") or "")))
        elif role in ("system", "developer"):
            found.append(Message.system(text_of(content)))
        else:
            urls = [_url(part) for part in objects(content)]
            images = [image for url in urls if (image := image_of_url(url)) is not None]
            found.append(Message.user(text_of(content), images))
    return found


def _url(part: Mapping[str, JSON]) -> JSON:
    image = part.get("image_url")
    return image.get("url") if isinstance(image, dict) else image


def _assistant(name: str, message: Mapping[str, JSON]) -> Message:
    came = message.get("tool_calls") or ()
    calls = tuple(_tool_call(name, call, index) for index, call in enumerate(came))
    return Message(
        "assistant",
        text_of(message.get("content")) or text_of(message.get("refusal")),
        calls,
        reasoning=_reasoning(message),
        native=_native(message, calls),
    )


def _tool_call(name: str, call: JSON, index: int) -> ToolCall:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise malformed(name, f"a tool call without a function: {call}")
    arguments, raw = tool_arguments(function.get("arguments"))
    return ToolCall(str(call.get("id") or f"call_{index}"), function["name"], arguments, raw)


def _reasoning(message: Mapping[str, JSON]) -> str:
    """The reasoning by any of the names that services have for it."""
    for field in ("reasoning_content", "reasoning"):
        if isinstance(message.get(field), str) and message[field]:
            return str(message[field])
    details = objects(message.get("reasoning_details"))
    return "".join(str(each.get("text") or each.get("summary") or "") for each in details)


def _native(message: Mapping[str, JSON], calls: Sequence[ToolCall]) -> Native | None:
    """What must go back as it came; None where text and calls are all there is."""
    carried = {field: message[field] for field in CARRIED if message.get(field) is not None}
    came = message.get("tool_calls") or ()
    if not carried and not any("extra_content" in call for call in came):
        return None
    if calls:
        pairs = zip(calls, came, strict=True)
        carried["tool_calls"] = [_wire_call(call, each) for call, each in pairs]
    return Native(PROTOCOL, carried)


def _usage(usage: JSON, request: Request, said: Message) -> Usage:
    """Some services leave the reasoning out of the answer's tokens and have it in the total."""
    usage = usage if isinstance(usage, dict) else {}
    read, written = told(usage, "prompt_tokens"), told(usage, "completion_tokens")
    details = usage.get("prompt_tokens_details")
    reasoning, output = count(usage.get("completion_tokens_details"), "reasoning_tokens"), written
    if read is not None and written is not None:
        output = max(written, count(usage, "total_tokens") - read)
        reasoning = max(reasoning, output - written)
    return usage_of(
        request,
        said,
        read,
        output,
        cached=count(details, "cached_tokens") or count(usage, "prompt_cache_hit_tokens"),
        cache_written=count(details, "cache_write_tokens"),
        reasoning=reasoning,
    )
