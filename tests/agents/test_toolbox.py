"""Tools by name, in a trial's toolbox."""

from __future__ import annotations

import base64
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from chimera.agents.toolbox import TOOLS, Toolbox
from chimera.environments import Environment, machine
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


class Meeting:
    """Answers once as many calls as it expects are there at the same time."""

    name, description, parameters = "meet", "Wait for the others.", {"type": "object"}
    parallel = True

    def __init__(self, parties: int) -> None:
        self.barrier = threading.Barrier(parties)

    def execute(self, arguments: Mapping[str, Any], env: Environment) -> ToolResult:
        self.barrier.wait(60)
        return ToolResult(str(arguments["who"]))


def test_calls_that_change_nothing_run_at_once_and_answer_in_order(local_env: Environment):
    calls = [ToolCall(str(n), "meet", {"who": n}) for n in range(4)]
    calls.insert(2, ToolCall("echo", "bash", {"command": "echo between"}))
    with Toolbox([Meeting(2), "bash"], local_env, 1000) as toolbox:
        answers = [answer.text.strip() for answer in toolbox.call_all(calls)]

    assert answers == ["0", "1", "between", "2", "3"]


def test_pictures_of_files_are_shown_and_those_of_the_environment_when_asked_for(
    local_env: Environment,
):
    picture = b"\x89PNG\r\n\x1a\n\0rest"
    machine(local_env).write_file("a.png", picture)
    call = ToolCall("1", "view", {"path": "a.png"})
    with Toolbox(["view"], local_env, 1000) as toolbox:
        (image,) = toolbox.call(call).images

    assert (image.media_type, base64.b64decode(image.data)) == ("image/png", picture)
