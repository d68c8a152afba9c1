"""`acp`: any agent that speaks the Agent Client Protocol, run inside the task's environment."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from chimera.agents.attended import GRACE_SECONDS, SHELL
from chimera.agents.base import BaseAgent
from chimera.agents.coding.layers import PYTHON
from chimera.agents.gatewayed import forwarder_python, outcome
from chimera.environments.base import Environment, Machine, Process, machine
from chimera.environments.streams import Kept
from chimera.errors import AgentError, UsageError
from chimera.gateway.door import Door, opened_door
from chimera.gateway.session import OtherModels
from chimera.providers.base import Provider
from chimera.providers.sdk import parsed
from chimera.providers.secrets import redact
from chimera.types import JSON, AgentResult, CommandResult, Message, Step, ToolCall

PROTOCOL_VERSION = 1
MOST_LINE_BYTES = 16 * 1024**2
MOST_TOLD_BYTES = 64 * 1024**2  # of its own account; what it tells beyond is not kept
MOST_ERROR_BYTES = 64 * 1024
LOOK_SECONDS = 0.25
STOP_REASONS = {"end_turn": "done", "max_turn_requests": "limit:steps", "max_tokens": "length"}
METHOD_NOT_FOUND, FAILED = -32601, -32603


@dataclass(frozen=True, slots=True, kw_only=True)
class ACPAgent(BaseAgent):
    """A command that speaks the protocol on its standard input and output.

    It may read and write the environment's files, and whatever it asks leave for is granted: the
    environment confines it. Where a model is named, it is offered through the gateway by the usual
    variables (OPENAI_BASE_URL, ANTHROPIC_BASE_URL, …).
    """

    command: str
    model: str | None = None
    provider: Provider | None = None
    gateway: bool = True
    other_models: OtherModels = "rewrite"
    timeout: float = 7200.0

    name = "acp"
    needs_environment = True

    def __post_init__(self) -> None:
        if not self.command.strip():
            raise UsageError("agent 'acp' needs a command, as in 'acp:opencode acp'")

    def identity(self) -> dict[str, JSON]:
        asked = {} if self.provider is None else {"provider": self.provider.identity()}
        return {"agent": self.name, "command": self.command, "timeout": self.timeout, **asked}

    def providers(self) -> Sequence[Provider]:
        return () if self.provider is None else (self.provider,)

    def mounts(self) -> Mapping[str, str]:
        if self.provider is None:
            return {}
        layer = PYTHON.layer()
        return {str(layer.path): layer.target}

    def run(self, prompt: str, env: Environment) -> AgentResult:
        inside = machine(env)
        with ExitStack() as stack:
            door: Door | None = None
            if self.provider is not None:
                door = stack.enter_context(
                    opened_door(
                        self.provider,
                        inside,
                        python=forwarder_python(inside),
                        other_models=self.other_models,
                    )
                )
            variables = {} if door is None else door.variables
            stopped = None if door is None else door.session.stopped
            end = time.monotonic() + inside.require_time(self.timeout)
            process = inside.open_process([*SHELL, self.command], variables=variables)
            client = _Client(process, inside, end, stopped)
            stack.callback(client.close)
            try:
                reason = client.converse(prompt)
            except AgentError:
                if door is not None and door.session.failure is not None:
                    raise door.session.failure from None  # what it broke on
                raise
        if door is None:
            return AgentResult(
                redact(client.answer()), cost=None, steps=1, trajectory=tuple(client.steps(prompt)),
                stop_reason=reason,
            )  # fmt: skip
        ended = CommandResult(b"", client.errors(), 0, timed_out=reason == "limit:time")
        return outcome(f"'{self.command}'", door.session, ended, client.answer() or None)


class _Ended(Exception):
    """It may not, or does not, go on."""


@dataclass
class _Client:
    """The client's side of one conversation. What comes in is hostile."""

    process: Process
    env: Machine
    end: float
    stopped: threading.Event | None
    updates: list[dict[str, Any]] = field(default_factory=list)
    _buffer: bytes = b""
    _told: int = 0
    _number: int = 0
    _grace_ends: float = math.inf

    def __post_init__(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._output = self.process.stdout.fileno()
        self._input = self.process.stdin.fileno()
        for pipe in (self._input, self._output):
            os.set_blocking(pipe, False)
        self._errors = Kept(MOST_ERROR_BYTES)
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        assert self.process.stderr is not None
        with contextlib.suppress(OSError, ValueError):
            while part := os.read(self.process.stderr.fileno(), 65536):
                self._errors.add(part)

    def converse(self, prompt: str) -> str:
        """Say the prompt and see to what it asks for; why it stopped."""
        capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": False}
        start = {"protocolVersion": PROTOCOL_VERSION, "clientCapabilities": capabilities}
        try:
            self._request("initialize", start)
            opened = self._request("session/new", {"cwd": self.env.workdir, "mcpServers": []})
            text = [{"type": "text", "text": prompt}]
            ended = self._request(
                "session/prompt", {"sessionId": opened.get("sessionId"), "prompt": text}
            )
        except _Ended:
            return "limit:time"
        return STOP_REASONS.get(str(ended.get("stopReason")), "done")

    def _request(self, method: str, parameters: JSON) -> dict[str, Any]:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": parameters})
        for message in self._messages():
            if "method" in message:
                self._serve(message)
            elif message.get("id") == self._number:
                if "error" in message:
                    said = redact(str(message["error"]))[:500]
                    raise self._broken(f"the agent answered '{method}' with an error: {said}")
                result = message.get("result")
                return result if isinstance(result, dict) else {}
        said = redact(self._errors.content().decode("utf-8", "replace"))[-1000:].strip()
        raise self._broken(f"the agent ended before it answered '{method}': {said}")

    def _broken(self, why: str) -> Exception:
        """What it means that it cannot go on: nothing of note, where it may not."""
        stopped = self.stopped is not None and self.stopped.is_set()
        return _Ended() if stopped else AgentError(why)

    def _serve(self, message: dict[str, Any]) -> None:
        """What the agent tells or asks of its client."""
        method, given = message["method"], message.get("params")
        given = given if isinstance(given, dict) else {}
        if method == "session/update" and isinstance(given.get("update"), dict):
            self._told += len(json.dumps(given))
            if self._told <= MOST_TOLD_BYTES:
                self.updates.append(given["update"])
        if "id" not in message:
            return
        try:
            self._send({"id": message["id"], "result": self._granted(str(method), given)})
        except LookupError:
            error = {"code": METHOD_NOT_FOUND, "message": f"this client has no '{method}'"}
            self._send({"id": message["id"], "error": error})
        except (OSError, TypeError, ValueError) as fault:
            self._send({"id": message["id"], "error": {"code": FAILED, "message": str(fault)}})

    def _granted(self, method: str, given: dict[str, Any]) -> JSON:
        if method == "session/request_permission":
            options = [each for each in given.get("options", ()) if isinstance(each, dict)]
            allowing = [each for each in options if str(each.get("kind")).startswith("allow")]
            chosen = (allowing or options or [{}])[0].get("optionId")
            return {"outcome": {"outcome": "selected", "optionId": chosen}}
        if method == "fs/read_text_file":
            lines = self.env.read_text(str(given["path"])).splitlines(keepends=True)
            first = max(0, int(given.get("line") or 1) - 1)
            most = given.get("limit")
            return {"content": "".join(lines[first : None if most is None else first + int(most)])}
        if method == "fs/write_text_file":
            self.env.write_file(str(given["path"]), str(given["content"]))
            return None
        raise LookupError(method)

    def _send(self, message: dict[str, JSON]) -> None:
        """Say something, to one who may never listen."""
        rest = memoryview(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        with contextlib.suppress(BrokenPipeError):  # its end is seen where its words are read
            while rest:
                if self._wait(self._input, select.POLLOUT):
                    rest = rest[os.write(self._input, rest) :]

    def _wait(self, pipe: int, event: int) -> bool:
        """Whether a pipe is ready soon; `_Ended` when its time is up or its limit reached."""
        now = time.monotonic()
        if self.stopped is not None and self.stopped.is_set():
            self._grace_ends = min(self._grace_ends, now + GRACE_SECONDS)
        if now >= min(self.end, self._grace_ends):
            raise _Ended
        waiting = select.poll()
        waiting.register(pipe, event)
        return bool(waiting.poll(LOOK_SECONDS * 1000))

    def _messages(self) -> Iterator[dict[str, Any]]:
        """What it says, until it ends."""
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                with contextlib.suppress(ValueError):
                    value = parsed(line)
                    if isinstance(value, dict):
                        yield value
                continue
            if len(self._buffer) > MOST_LINE_BYTES:
                raise AgentError(f"the agent sent a line of more than {MOST_LINE_BYTES} bytes")
            if self._wait(self._output, select.POLLIN):
                part = os.read(self._output, 65536)
                if not part:
                    return
                self._buffer += part

    def errors(self) -> bytes:
        return self._errors.content()

    def answer(self) -> str:
        """Its words since the last tool call."""
        words: list[str] = []
        for update in self.updates:
            if update.get("sessionUpdate") == "tool_call":
                words = []
            words += _chunk(update, "agent_message_chunk")
        return "".join(words)

    def steps(self, prompt: str) -> Iterator[Step]:
        """What it told of its work."""
        yield Step(Message.user(prompt))
        words: list[str] = []
        for update in self.updates:
            kind = update.get("sessionUpdate")
            words += _chunk(update, "agent_message_chunk")
            if kind == "tool_call":
                name, raw = str(update.get("title")), update.get("rawInput")
                arguments = raw if isinstance(raw, dict) else {}
                call = ToolCall(str(update.get("toolCallId")), name, arguments, json.dumps(raw))
                yield Step(Message.assistant("".join(words), [call]))
                words = []
            elif kind == "tool_call_update" and update.get("status") in ("completed", "failed"):
                told = json.dumps(update.get("content") or update.get("rawOutput"))
                yield Step(Message.tool(redact(told), str(update.get("toolCallId"))))
        if words:
            yield Step(Message.assistant("".join(words)))

    def close(self) -> None:
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _chunk(update: dict[str, Any], kind: str) -> list[str]:
    content = update.get("content")
    if update.get("sessionUpdate") != kind or not isinstance(content, dict):
        return []
    text = content.get("text")
    return [text] if isinstance(text, str) else []
