"""Tools of MCP servers, by the official SDK (an extra): `--mcp COMMAND`.

A server is started for each trial, beside Chimera and not inside the task's environment: it is the
user's own program and sees none of our variables but the plain ones that the SDK hands on.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
import shlex
import threading
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from chimera.environments.base import Environment
from chimera.errors import AgentError, UsageError
from chimera.tools.base import Tool
from chimera.types import JSON, Image, ToolResult

START_SECONDS = 60.0
CALL_SECONDS = 600.0
ResultT = TypeVar("ResultT")


def check_commands(commands: Sequence[str]) -> None:
    """A `UsageError` when there is something to start and no SDK to start it with."""
    if commands and importlib.util.find_spec("mcp") is None:
        raise UsageError("--mcp needs the package mcp\n  pip install 'chimera-eval[mcp]'")
    for command in commands:
        if not shlex.split(command):
            raise UsageError("--mcp needs a command, as in --mcp 'npx -y my-server'")


@dataclass(slots=True)
class MCPTool:
    """One tool of a running server."""

    server: MCPServer
    name: str
    served_as: str
    description: str
    parameters: Mapping[str, JSON]
    parallel: bool = False  # it changes nothing, as its server says

    def execute(self, arguments: Mapping[str, JSON], env: Environment) -> ToolResult:
        return self.server.call(self.served_as, arguments, env.remaining(CALL_SECONDS))


class MCPServer:
    """A server in a process of its own, spoken to from a thread of its own."""

    def __init__(self, command: str) -> None:
        self.command = command
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="mcp")
        self._ending = asyncio.Event()
        self._client: Any = None
        self._served: Any = None
        self.tools: tuple[Tool, ...] = ()

    def __enter__(self) -> Self:
        self._thread.start()
        ready: asyncio.Future[Any] = self._loop.create_future()
        self._served = asyncio.run_coroutine_threadsafe(self._serve(ready), self._loop)
        try:
            listed = self._wait(_result(ready), START_SECONDS)
        except Exception as error:  # noqa: BLE001 - the server is somebody else's program
            self.__exit__()
            raise AgentError(f"the MCP server '{self.command}' does not start: {error}") from None
        self.tools = tuple(self._tool(each) for each in listed)
        return self

    async def _serve(self, ready: asyncio.Future[Any]) -> None:
        """Keep the connection open in one task, as the SDK's scopes demand."""
        from mcp import Client, StdioServerParameters, stdio_client

        program, *arguments = shlex.split(self.command)
        parameters = StdioServerParameters(command=program, args=arguments)
        try:
            with open("/dev/null", "w") as nowhere:  # noqa: PTH123
                async with Client(stdio_client(parameters, errlog=nowhere)) as client:
                    self._client = client
                    ready.set_result((await client.list_tools()).tools)
                    await self._ending.wait()
        except Exception as error:  # noqa: BLE001 - told to whoever waits for the server
            if not ready.done():
                ready.set_exception(error)

    def _tool(self, listed: Any) -> MCPTool:
        hints = listed.annotations
        return MCPTool(
            server=self,
            name=re.sub(r"[^A-Za-z0-9_-]", "_", listed.name)[:64],  # what every service takes
            served_as=listed.name,
            description=listed.description or listed.name,
            parameters=dict(listed.input_schema),
            parallel=bool(hints is not None and hints.read_only_hint),
        )

    def call(self, name: str, arguments: Mapping[str, JSON], seconds: float) -> ToolResult:
        """What the tool answered; a server that fails is told to the model."""
        try:
            answer = self._wait(self._client.call_tool(name, dict(arguments)), seconds)
        except TimeoutError:
            return ToolResult("", f"no answer within {seconds:.0f} s")
        except Exception as error:  # noqa: BLE001 - the server is somebody else's program
            return ToolResult("", f"{type(error).__name__}: {error}")
        texts = [each.text for each in answer.content if getattr(each, "text", None)]
        images = tuple(
            Image(each.mime_type, each.data) for each in answer.content if each.type == "image"
        )
        text = "\n".join(texts)
        return ToolResult("" if answer.is_error else text, text if answer.is_error else None,
                          images=images)  # fmt: skip

    def _wait(self, work: Coroutine[Any, Any, ResultT], seconds: float) -> ResultT:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            raise

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        if self._served is not None:
            with suppress(Exception):  # a server that does not end is left to the SDK's own kill
                self._served.result(15)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        if not self._thread.is_alive():
            self._loop.close()


async def _result(future: asyncio.Future[ResultT]) -> ResultT:
    return await future
