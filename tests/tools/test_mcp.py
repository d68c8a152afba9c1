"""Tools of a real MCP server, started as a user would start it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from chimera.agents.react import ReactAgent
from chimera.environments.none import NoEnvironment
from chimera.errors import AgentError
from chimera.providers import create_provider
from chimera.tools.mcp import MCPServer
from tests.conftest import missing

COMMAND = f"{sys.executable} {Path(__file__).with_name('mcp_server.py')}"


@pytest.fixture(autouse=True)
def _needs_sdk() -> None:
    if importlib.util.find_spec("mcp") is None:
        missing("the package 'mcp' is not installed")


def test_the_tools_of_a_server_are_called_by_their_names():
    with MCPServer(COMMAND) as server:
        tools = {tool.name: tool for tool in server.tools}
        added = tools["add"].execute({"first": 2, "second": 3}, NoEnvironment())
        failed = tools["fail"].execute({}, NoEnvironment())
        shown = tools["picture"].execute({}, NoEnvironment())

    assert added.output == "5"
    assert "fail" in (failed.error or "")
    assert [image.media_type for image in shown.images] == ["image/png"]
    assert [tools[name].parallel for name in ("add", "fail")] == [True, False]
    assert tools["add"].parameters["required"] == ["first", "second"]


def test_a_command_that_is_no_server_is_a_fault_of_the_trial():
    with pytest.raises(AgentError, match="does not start"), MCPServer(f"{sys.executable} -c pass"):
        pass


def test_an_agent_uses_them(tmp_path: Path):
    script = tmp_path / "script.json"
    script.write_text(
        '[{"tool_calls": [{"name": "add", "arguments": {"first": 2, "second": 3}}]}, "five"]'
    )
    agent = ReactAgent(provider=create_provider(f"scripted/{script}"), mcp=[COMMAND])

    result = agent.run("What is 2 + 3?", NoEnvironment())

    assert [step.message.content for step in result.trajectory][-2:] == ["5", "five"]
    assert agent.identity()["mcp"] == [COMMAND]
