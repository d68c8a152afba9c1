"""Tools by name, in a trial's toolbox."""

from __future__ import annotations

import pytest

from chimera.agents.toolbox import TOOLS, Toolbox
from chimera.environments import Environment
from chimera.errors import UsageError
from chimera.types import ToolCall, ToolResult


class Echo:
    """A user's own tool."""

    name, description, parameters = "echo", "says it again", {"type": "object"}

    def execute(self, arguments, env):
        return ToolResult(str(arguments["text"]))


def test_every_shipped_tool_can_be_made(local_env: Environment):
    with Toolbox(list(TOOLS), local_env, 1000) as toolbox:
        assert len({tool.name for tool in toolbox.own}) == len(TOOLS)


def test_a_tool_of_ones_own_by_its_path(local_env: Environment):
    with Toolbox([f"{__name__}:Echo"], local_env, 1000) as toolbox:
        assert toolbox.call(ToolCall("1", "echo", {"text": "hey"})).text == "hey"


@pytest.mark.parametrize(
    ("name", "says"),
    [("hammer", "unknown tool 'hammer'"), ("json:JSONDecoder", "it lacks a name")],
)
def test_what_is_no_tool_is_said(local_env: Environment, name: str, says: str):
    with pytest.raises(UsageError, match=says):
        Toolbox([name], local_env, 1000)
