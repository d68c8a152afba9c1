"""OpenAI's chat completions, and the many services and servers that speak the same."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from chimera.providers.base import Provider, Request, most_input_tokens
from chimera.providers.prices import Price, table_price
from chimera.providers.sdk import malformed, status_failure, talk, tool_arguments
from chimera.tools.base import Tool
from chimera.types import JSON, Message, Response, ToolCall, Usage

CONNECT_SECONDS = 20.0

_clients: dict[tuple[int, str, str, bool], Any] = {}
_lock = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class OpenAIProvider(Provider):
    base_url: str
    api_key: str = field(default="", repr=False)
    #: OpenAI's own models take the newer name, which reasoning models insist on.
    max_tokens_field: str = "max_tokens"
    extra_body: tuple[tuple[str, JSON], ...] = ()

    @property
    def endpoint(self) -> str:
        return f"{self.base_url} {self.model}"

    def identity(self) -> dict[str, JSON]:
        return {
            "model": self.name,
            "served_as": self.model,
            "base_url": self.base_url,
            "extra_body": dict(self.extra_body),
        }

    def price(self) -> Price | None:
        return self.price_override or table_price(self.model, self.base_url)

    def _call(self, request: Request) -> Response:
        import openai

        arguments = self._arguments(request)

        def send() -> AbstractContextManager[Any]:
            client = self._client()
            timeout = openai.Timeout(request.timeout, connect=min(CONNECT_SECONDS, request.timeout))
            create = client.chat.completions.with_streaming_response.create
            opened: AbstractContextManager[Any] = create(timeout=timeout, **arguments)
            return opened

        return read_completion(self.name, talk(openai, self.name, send, request.timeout), request)

    def _client(self) -> Any:
        return client_for(self.base_url, self.api_key)

    def _arguments(self, request: Request) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self.model,
            "messages": chat_messages(request.messages),
        }
        if request.tools:
            arguments["tools"] = chat_tools(request.tools)
        if request.temperature is not None:
            arguments["temperature"] = request.temperature
        if request.max_tokens is not None:
            arguments[self.max_tokens_field] = request.max_tokens
        if request.stop:
            arguments["stop"] = list(request.stop)
        if request.seed is not None:
            arguments["seed"] = request.seed
        if self.extra_body:
            arguments["extra_body"] = dict(self.extra_body)
        return arguments


def client_for(base_url: str, api_key: str, *, proxies: bool = True) -> Any:
    """The one SDK client of an endpoint and key in this process; it never retries by itself."""
    import openai

    key = (os.getpid(), base_url, api_key, proxies)  # connections must not be shared by forks
    with _lock:
        client = _clients.get(key)
        if client is None:
            client = _clients[key] = openai.OpenAI(
                base_url=base_url,
                api_key=api_key or "none",
                max_retries=0,
                http_client=None if proxies else openai.DefaultHttpxClient(trust_env=False),
            )
        return client


def chat_messages(messages: Sequence[Message]) -> list[dict[str, JSON]]:
    return [_chat_message(message) for message in messages]


def _chat_message(message: Message) -> dict[str, JSON]:
    if message.role == "tool":
        return {"role": "tool", "content": message.content, "tool_call_id": message.call_id or ""}
    value: dict[str, JSON] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        # Servers read the arguments of earlier calls as JSON: a malformed text would break them.
        value["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": call.raw_arguments if call.arguments is not None else "{}",
                },
            }
            for call in message.tool_calls
        ]
    return value


def chat_tools(tools: Sequence[Tool]) -> list[dict[str, JSON]]:
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


def read_completion(name: str, body: dict[str, JSON], request: Request) -> Response:
    """The answer in a chat completion; an answer without one is a failure that can pass."""
    error = body.get("error")
    if error:
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        raise status_failure(name, status, {}, str(error))
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise malformed(name, f"the answer has no choices: {body}")
    content = _text(message.get("content")) or _text(message.get("refusal"))
    calls = tuple(
        _tool_call(name, call, index) for index, call in enumerate(message.get("tool_calls") or ())
    )
    return Response(
        content=content,
        tool_calls=calls,
        usage=_usage(body.get("usage"), request, content),
        stop_reason=str(choice.get("finish_reason") or "stop") if isinstance(choice, dict) else "",
        model=str(body.get("model") or ""),
    )


def _text(content: JSON) -> str:
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _tool_call(name: str, call: JSON, index: int) -> ToolCall:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise malformed(name, f"a tool call without a function: {call}")
    arguments, raw = tool_arguments(function.get("arguments"))
    return ToolCall(str(call.get("id") or f"call_{index}"), function["name"], arguments, raw)


def _usage(usage: JSON, request: Request, content: str) -> Usage:
    """The tokens as the server counts them; where it does not, at most as many as bytes."""
    if not isinstance(usage, dict):
        return Usage(most_input_tokens(request), len(content.encode("utf-8", "replace")))
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return Usage(
        int(usage.get("prompt_tokens") or 0),
        int(usage.get("completion_tokens") or 0),
        int(cached or 0),
    )
