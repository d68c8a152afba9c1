"""The tools of one trial: made fresh, called with care, closed at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import dataclass, field
from itertools import groupby
from types import TracebackType
from typing import Self

from chimera.environments.base import Environment, Machine
from chimera.errors import UsageError
from chimera.plugins import load_class
from chimera.text import shortened
from chimera.tools.base import Tool
from chimera.types import JSON, Image, ToolCall, ToolResult

MOST_AT_ONCE = 8

#: name → `module:Class`; a class is called without arguments, once for each trial
TOOLS: Mapping[str, str] = {
    "bash": "chimera.tools.bash:BashTool",
    "view": "chimera.tools.files:ViewTool",
    "edit": "chimera.tools.files:EditTool",
    "ipython": "chimera.tools.ipython:IPythonTool",
    "submit": "chimera.agents.toolbox:SubmitTool",
}
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


@dataclass(frozen=True, slots=True)
class SubmitTool:
    """Ends the work; what is passed is the answer."""

    name: str = "submit"
    description: str = (
        "Finish the task. Pass the final answer if the task asks for one; changed files need none."
    )
    parameters: Mapping[str, JSON] = field(
        default_factory=lambda: {
            "type": "object",
            "properties": {"answer": {"type": "string", "description": "The final answer, if any"}},
        }
    )

    def execute(self, arguments: Mapping[str, JSON], env: Environment) -> ToolResult:
        return ToolResult("Submitted.", metadata={"submitted": str(arguments.get("answer") or "")})


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call came to. `submitted` is the final answer once the model handed in."""

    text: str
    understood: bool = True
    submitted: str | None = None
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    images: tuple[Image, ...] = ()


class Toolbox:
    """Tools by name; whatever a model asks for gets an answer it can work with."""

    def __init__(
        self,
        tools: Sequence[str | Tool],
        env: Environment,
        output_chars: int,
        *,
        mcp: Sequence[str] = (),
        screenshots: bool = False,
    ) -> None:
        """`mcp` are commands of servers whose tools are added; `screenshots` has the model see the
        pictures that tools of the environment itself return."""
        usable = tools if isinstance(env, Machine) else ()
        self.own = [_make(tool) if isinstance(tool, str) else tool for tool in usable]
        self._made = [
            tool for tool, asked in zip(self.own, usable, strict=True) if isinstance(asked, str)
        ]
        self._servers = ExitStack()
        self.tools = (*self.own, *env.tools())
        self._blind = frozenset() if screenshots else frozenset(tool.name for tool in env.tools())
        if mcp:
            self.tools += self._started(mcp)
        self._by_name = {tool.name: tool for tool in self.tools}
        self._env = env
        self._output_chars = output_chars

    def _started(self, commands: Sequence[str]) -> tuple[Tool, ...]:
        """The tools of MCP servers that run until the toolbox is closed."""
        from chimera.tools.mcp import MCPServer

        try:
            servers = [self._servers.enter_context(MCPServer(command)) for command in commands]
        except BaseException:
            self._servers.close()
            raise
        return tuple(tool for server in servers for tool in server.tools)

    def call_all(self, calls: Sequence[ToolCall]) -> Iterator[Answer]:
        """What the calls come to, in their order; those in a row that change nothing run at once.

        Nothing is run of which no answer is taken: whoever hands in needs no more.
        """
        for parallel, group in groupby(calls, self._changes_nothing):
            together = list(group)
            if parallel and len(together) > 1:
                yield from self._at_once(together)
            else:
                yield from map(self.call, together)

    def _at_once(self, calls: Sequence[ToolCall]) -> list[Answer]:
        contexts = [copy_context() for _ in calls]
        with ThreadPoolExecutor(min(len(calls), MOST_AT_ONCE)) as threads:
            work = [
                threads.submit(context.run, self.call, call)
                for context, call in zip(contexts, calls, strict=True)
            ]
            return [each.result() for each in work]

    def _changes_nothing(self, call: ToolCall) -> bool:
        return bool(getattr(self._by_name.get(call.name), "parallel", False))

    def call(self, call: ToolCall) -> Answer:
        """Run one call; a name or arguments that make no sense are answered, never raised."""
        tool = self._by_name.get(call.name)
        if tool is None:
            names = ", ".join(self._by_name) or "none"
            return Answer(f"Error: there is no tool '{call.name}'. Tools: {names}.", False)
        if call.arguments is None:
            return Answer(
                f"Error: the arguments of '{call.name}' are not a valid JSON object: "
                f"{call.raw_arguments[:500]!r}. Call it again with valid JSON.",
                False,
            )
        checks = getattr(tool, "checks_arguments", False)  # its own words for wrong arguments count
        problem = None if checks else wrong_argument(tool.parameters, call.arguments)
        if problem is not None:
            return Answer(f"Error: '{call.name}': {problem}.", False)
        try:
            result = tool.execute(call.arguments, self._env)
        except OSError as error:  # what is wrong with a path, as environments tell it
            return Answer(f"Error: {error}")
        text = result.output
        if result.error is not None:
            text = f"{text}\nError: {result.error}" if text else f"Error: {result.error}"
        submitted = result.metadata.get("submitted")
        shown = shortened(text, self._output_chars) or "(no output)"
        images = () if call.name in self._blind else result.images
        return Answer(shown, True, submitted, result.metadata, images)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._servers.close()
        for tool in self._made:
            close = getattr(tool, "close", None) or getattr(tool, "shutdown", None)
            if close is not None:
                close()


def wrong_argument(schema: Mapping[str, JSON], arguments: Mapping[str, JSON]) -> str | None:
    """What of `arguments` does not fit the schema's names and types, in words for the model."""
    for name in schema.get("required", ()):
        if name not in arguments:
            return f"the argument '{name}' is missing"
    properties = schema.get("properties", {})
    for name, value in arguments.items():
        wanted = properties.get(name, {}).get("type") if name in properties else None
        kinds = [wanted] if isinstance(wanted, str) else wanted or []
        expected = [_TYPES[kind] for kind in kinds if kind in _TYPES]
        if not expected or (value is None and name not in schema.get("required", ())):
            continue
        if not any(_is(value, kind) for kind in expected):
            return f"the argument '{name}' must be of type {' or '.join(kinds)}"
    return None


def _is(value: JSON, kind: type | tuple[type, ...]) -> bool:
    if isinstance(value, bool) and kind is not bool:
        return False
    return isinstance(value, kind)


def _make(name: str) -> Tool:
    made = load_class(
        name, object, what="tool", shipped=TOOLS, group="chimera.tools", members=("execute",)
    )()
    if not isinstance(made, Tool):
        raise UsageError(f"tool '{name}': it lacks a name, a description, parameters or execute()")
    return made
