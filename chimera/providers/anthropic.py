"""Anthropic's messages, and the services that offer an endpoint compatible with it."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from chimera.providers.base import DEFAULT_MAX_TOKENS, Provider, Request
from chimera.providers.openai import CONNECT_SECONDS
from chimera.providers.prices import Price, table_price
from chimera.providers.sdk import malformed, status_failure, talk, tool_arguments
from chimera.types import JSON, Message, Response, ToolCall, Usage

EMPTY = "(empty)"  # the interface refuses empty texts
STOP_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}

_clients: dict[tuple[int, str, str, bool, bool], Any] = {}
_lock = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class AnthropicProvider(Provider):
    base_url: str
    api_key: str = field(default="", repr=False)
    bearer: bool = False  # the key goes as `Authorization: Bearer`, as other makers' endpoints want
    proxies: bool = True

    @property
    def endpoint(self) -> str:
        return f"{self.base_url} {self.model}"

    def identity(self) -> dict[str, JSON]:
        return {"model": self.name, "served_as": self.model, "base_url": self.base_url}

    def price(self) -> Price | None:
        return self.price_override or table_price(self.model, self.base_url)

    def _call(self, request: Request) -> Response:
        import anthropic

        arguments = self._arguments(request)

        def send() -> AbstractContextManager[Any]:
            client = _client_for(self.base_url, self.api_key, self.bearer, self.proxies)
            connect = min(CONNECT_SECONDS, request.timeout)
            timeout = anthropic.Timeout(request.timeout, connect=connect)
            create = client.messages.with_streaming_response.create
            opened: AbstractContextManager[Any] = create(timeout=timeout, **arguments)
            return opened

        return read_message(self.name, talk(anthropic, self.name, send, request.timeout))

    def _arguments(self, request: Request) -> dict[str, Any]:
        system, messages = split_messages(request.messages)
        arguments: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "max_tokens": request.max_tokens or DEFAULT_MAX_TOKENS,
        }
        if system:
            arguments["system"] = system
        if request.tools:
            arguments["tools"] = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": dict(tool.parameters),
                }
                for tool in request.tools
            ]
        if request.temperature is not None:
            # Newer SDKs have no parameter for it, the interface still takes it.
            arguments["extra_body"] = {"temperature": request.temperature}
        if request.stop:
            arguments["stop_sequences"] = list(request.stop)
        return arguments


def _client_for(base_url: str, api_key: str, bearer: bool, proxies: bool) -> Any:
    """The one SDK client of an endpoint and key in this process; it never retries by itself."""
    import anthropic

    key = (os.getpid(), base_url, api_key, bearer, proxies)
    with _lock:
        client = _clients.get(key)
        if client is None:
            client = _clients[key] = anthropic.Anthropic(
                base_url=base_url,
                api_key=None if bearer else api_key or "none",
                auth_token=api_key if bearer else None,
                max_retries=0,
                http_client=None if proxies else anthropic.DefaultHttpxClient(trust_env=False),
            )
        return client


def split_messages(messages: Sequence[Message]) -> tuple[str, list[dict[str, JSON]]]:
    """The system prompt, and turns that alternate as the interface demands.

    Results of tools belong into one user turn; a system message later on becomes part of one too.
    """
    system: list[str] = []
    turns: list[dict[str, JSON]] = []
    for message in messages:
        if message.role == "system" and not turns:
            system.append(message.content)
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"].extend(_blocks(message))
        else:
            turns.append({"role": role, "content": _blocks(message)})
    return "\n\n".join(system), turns


def _blocks(message: Message) -> list[dict[str, JSON]]:
    if message.role == "tool":
        return [
            {
                "type": "tool_result",
                "tool_use_id": message.call_id or "",
                "content": message.content or EMPTY,
            }
        ]
    blocks: list[dict[str, JSON]] = []
    if message.content.strip():
        blocks.append({"type": "text", "text": message.content})
    for call in message.tool_calls:
        blocks.append(
            {
                "type": "tool_use",
                "id": call.id,
                "name": call.name,
                "input": dict(call.arguments or {}),
            }
        )
    return blocks or [{"type": "text", "text": EMPTY}]


def read_message(name: str, body: dict[str, JSON]) -> Response:
    """The answer in a message; an answer without one is a failure that can pass."""
    if body.get("type") == "error" or "error" in body:
        raise status_failure(name, 500, {}, str(body.get("error")))
    blocks = body.get("content")
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise malformed(name, f"the answer has no content: {body}")
    texts, calls = [], []
    for block in blocks:
        if block.get("type") == "text":
            texts.append(str(block.get("text") or ""))
        elif block.get("type") == "tool_use":
            arguments, raw = tool_arguments(block.get("input"))
            calls.append(ToolCall(str(block.get("id")), str(block.get("name")), arguments, raw))
    reason = str(body.get("stop_reason") or "stop")
    return Response(
        content="".join(texts),
        tool_calls=tuple(calls),
        usage=_usage(name, body.get("usage")),
        stop_reason=STOP_REASONS.get(reason, reason),
        model=str(body.get("model") or ""),
    )


def _usage(name: str, usage: JSON) -> Usage:
    if not isinstance(usage, dict):
        raise malformed(name, "the answer does not say how many tokens it took")
    cached = int(usage.get("cache_read_input_tokens") or 0)
    written = int(usage.get("cache_creation_input_tokens") or 0)
    return Usage(
        int(usage.get("input_tokens") or 0) + cached + written,
        int(usage.get("output_tokens") or 0),
        cached,
    )
