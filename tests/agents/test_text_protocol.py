"""Tools for models that cannot call them: fenced blocks are calls."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from chimera.agents import create_agent, text_protocol
from chimera.agents.text_protocol import as_text, instructions, written_calls
from chimera.agents.toolbox import SubmitTool
from chimera.environments import start_environment
from chimera.environments.base import EnvironmentSpec
from chimera.providers import create_provider
from chimera.providers.base import CallFailed
from chimera.providers.scripted import ScriptedProvider
from chimera.tools.bash import BashTool
from chimera.tools.files import EditTool
from chimera.types import Message, Response, ToolCall

TOOLS = (BashTool(), EditTool(), SubmitTool())


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("I look.\n```bash\nls -l\n```\nThat lists.", "bash", {"command": "ls -l"}),
        ("```sh\nls\n```", "bash", {"command": "ls"}),
        ("```bash\ncut off", "bash", {"command": "cut off"}),
        ("```bash\nls\n```\n```bash\nrm x\n```", "bash", {"command": "ls"}),
        ('```bash\n{"command": "ls"}\n```', "bash", {"command": "ls"}),
        ('```bash\n{"a": 1}\n```', "bash", {"command": '{"a": 1}'}),
        ("```submit\n42\n```", "submit", {"answer": "42"}),
        ("```python\nx = 1\n```\n```BASH\nls\n```", "bash", {"command": "ls"}),
        ("```edit\nno object\n```", "edit", None),
        ("```python\nprint(1)\n```", None, None),
        ("`bash` is a shell", None, None),
        ("", None, None),
    ],
)
def test_a_block_that_names_a_tool_is_a_call(text, name, arguments):
    calls = written_calls(text, TOOLS, 3)

    assert [(call.name, call.arguments) for call in calls] == ([(name, arguments)] if name else [])


def test_a_conversation_with_tools_becomes_one_of_words():
    call = ToolCall("1", "bash", {"command": "ls"})
    messages = [
        Message.system("Be careful."),
        Message.user("List."),
        Message.assistant("```bash\nls\n```", (call,)),
        Message.tool("a.py", "1"),
    ]
    system, user, said, result = as_text(messages, TOOLS)

    assert system.content.startswith("Be careful.")
    assert "- bash: " in system.content
    assert "The block is a JSON object with: " in instructions((EditTool(),))
    assert user == messages[1]
    assert (said.content, said.tool_calls) == ("```bash\nls\n```", ())
    assert (result.role, result.content) == ("user", "Result:\na.py")


class Plain(ScriptedProvider):
    """A model that is given no tools and cannot call any."""

    calls_tools = False

    def _call(self, request):
        assert request.tools == ()
        return super()._call(request)


def scripted(kind, tmp_path, replies):
    (tmp_path / "script.json").write_text(json.dumps(replies))
    made = create_provider(f"scripted/{tmp_path}/script.json")
    return kind(**{field.name: getattr(made, field.name) for field in fields(made)})


def test_an_agent_acts_with_a_model_that_calls_no_tools(tmp_path):
    replies = ["```bash\necho hi > made.txt; cat made.txt\n```", "```submit\ndone\n```"]
    agent = create_agent("shrew", model="scripted/echo")
    agent = type(agent)(provider=scripted(Plain, tmp_path, replies), tools=("bash", "submit"))
    with start_environment("local", EnvironmentSpec()) as env:
        result = agent.run("Make a file.", env)
        made = env.read_text("made.txt")

    assert (made, result.output, result.stop_reason) == ("hi\n", "done", "submitted")
    assert agent.identity()["tools_as"] == "text"
    assert "offered as text" in agent.notes()[0]


def test_a_model_that_says_it_has_no_tools_is_asked_in_words(tmp_path, monkeypatch):
    monkeypatch.setattr(text_protocol, "_without_tools", set())

    class Refusing(ScriptedProvider):
        def _call(self, request):
            if request.tools:
                raise CallFailed("HTTP 400: x does not support tools", retryable=False)
            return Response("```bash\nls\n```")

    provider = scripted(Refusing, tmp_path, ["x"])
    response = text_protocol.complete(provider, [Message.user("List.")], tools=TOOLS)

    assert response.tool_calls[0].arguments == {"command": "ls"}
    assert not text_protocol.calls_tools(provider)
