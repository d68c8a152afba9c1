"""Tools as text, for models that cannot call them: a fenced block that names a tool is a call.

    ```bash
    ls
    ```

What stands in the block is the tool's one text, or a JSON object of its arguments. Results come
back as messages of the user. A reply without such a block is the model's last word, as ever.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from chimera.providers.base import CallFailed, Provider
from chimera.providers.sdk import parsed
from chimera.tools.base import Tool
from chimera.types import JSON, Message, Response, ToolCall

#: Other words that models write for a shell.
SHELLS = ("sh", "shell", "console", "zsh")
INSTRUCTIONS = """\
You act by writing a fenced block whose first line names a tool. You are shown what it gave, then \
you go on. One block a message. For example, to list the files:

```{name}
{example}
```

Tools:
{tools}"""

_BLOCK = re.compile(r"^```[ \t]*(\w+)[^\n]*\n(.*?)(?:^```|\Z)", re.MULTILINE | re.DOTALL)
_REFUSED = re.compile(
    r"does not support (?:tools|tool|function)|tools? (?:is|are) not supported", re.I
)
#: Models that said of themselves that they call no tools.
_without_tools: set[str] = set()


def calls_tools(provider: Provider) -> bool:
    """Whether the model calls tools by itself, as far as is known."""
    return provider.calls_tools and provider.name not in _without_tools


def complete(
    provider: Provider,
    messages: Sequence[Message],
    *,
    tools: Sequence[Tool],
    temperature: float | None = None,
    max_tokens: int | None = None,
    seed: int | None = None,
) -> Response:
    """The model's next message, its tool calls among it, however the model is to write them."""

    def ask(messages: Sequence[Message], tools: Sequence[Tool]) -> Response:
        return provider.complete(
            messages, tools=tools, temperature=temperature, max_tokens=max_tokens, seed=seed
        )

    if not tools:
        return ask(messages, ())
    if calls_tools(provider):
        try:
            return ask(messages, tools)
        except CallFailed as error:
            if not _REFUSED.search(str(error)):
                raise
            _without_tools.add(provider.name)
    response = ask(as_text(messages, tools), ())
    return replace(
        response, tool_calls=tuple(written_calls(response.content, tools, len(messages)))
    )


def as_text(messages: Sequence[Message], tools: Sequence[Tool]) -> list[Message]:
    """A conversation with tools as one without: how to call them, and what they gave, in words."""
    told = instructions(tools)
    spoken = [_spoken(message) for message in messages]
    if spoken and spoken[0].role == "system":
        spoken[0] = Message.system(f"{spoken[0].content}\n\n{told}")
        return spoken
    return [Message.system(told), *spoken]


def instructions(tools: Sequence[Tool]) -> str:
    """What a model is told of its tools."""
    lines = [f"- {tool.name}: {tool.description}{_arguments_text(tool)}" for tool in tools]
    first = next((tool for tool in tools if tool.name == "bash"), tools[0])
    example = "ls" if first.name == "bash" else "…"
    return INSTRUCTIONS.format(name=first.name, example=example, tools="\n".join(lines))


def _arguments_text(tool: Tool) -> str:
    names = tool.parameters.get("properties", {})
    if _text_argument(tool) is not None or not names:
        return ""
    return f" The block is a JSON object with: {', '.join(names)}."


def _spoken(message: Message) -> Message:
    if message.role == "tool":
        return Message.user(f"Result:\n{message.content}", message.images)
    return replace(message, tool_calls=(), native=None) if message.tool_calls else message


def written_calls(text: str, tools: Sequence[Tool], number: int) -> list[ToolCall]:
    """The first block that names a tool, as a call; none where there is none."""
    by_name = {tool.name: tool for tool in tools}
    if "bash" in by_name:
        by_name |= dict.fromkeys(SHELLS, by_name["bash"])
    for name, body in _BLOCK.findall(text):
        tool = by_name.get(name.lower())
        if tool is not None:
            content = body.strip("\n")
            return [ToolCall(f"text-{number}", tool.name, _arguments(tool, content), content)]
    return []


def _arguments(tool: Tool, content: str) -> Mapping[str, JSON] | None:
    """What a block says, as arguments; None where it should have been a JSON object."""
    known = tool.parameters.get("properties", {})
    try:
        value = parsed(content)
    except ValueError:
        value = None
    if isinstance(value, dict) and set(value) <= set(known):
        return value
    name = _text_argument(tool)
    return None if name is None else {name: content}


def _text_argument(tool: Tool) -> str | None:
    """The one argument that a block's text can be: the only one required, or the only one."""
    names = list(tool.parameters.get("required") or tool.parameters.get("properties", {}))
    kinds = tool.parameters.get("properties", {})
    if len(names) == 1 and kinds.get(names[0], {}).get("type") == "string":
        return str(names[0])
    return None
