"""The scripted model: replies by order and by rule, remembered nowhere."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from chimera.errors import UsageError
from chimera.providers import create_provider
from chimera.types import Message


def test_echo_repeats_the_last_user_message():
    provider = create_provider(model="scripted/echo")

    response = provider.complete([Message.system("be brief"), Message.user("over here")])

    assert response.content == "over here"
    assert response.cost == 0.0
    assert response.usage.input_tokens > 0


def test_text_says_its_words():
    assert create_provider("scripted/text:forty two").complete([Message.user("?")]).content == (
        "forty two"
    )


def test_replies_follow_the_number_of_assistant_messages(tmp_path: Path):
    script = tmp_path / "script.json"
    calls = [{"name": "bash", "arguments": {"command": "ls"}}, {"name": "bash", "arguments": "{no"}]
    script.write_text(json.dumps(["one", {"tool_calls": calls}]))
    provider = pickle.loads(pickle.dumps(create_provider(f"scripted/{script}")))
    opening = [Message.user("go")]

    assert provider.complete(opening).content == "one"
    assert provider.complete(opening).content == "one"

    second = provider.complete([*opening, Message.assistant("one"), Message.user("more")])
    good, broken = second.tool_calls
    assert good.arguments == {"command": "ls"}
    assert broken.arguments is None
    assert broken.raw_arguments == "{no"
    assert second.stop_reason == "tool_calls"


def test_rules_are_matched_against_the_last_user_message(tmp_path: Path):
    script = tmp_path / "script.json"
    script.write_text(
        json.dumps({"rules": [{"match": "sum", "replies": ["3"]}], "replies": ["no idea"]})
    )
    provider = create_provider(f"scripted/{script}")

    assert provider.complete([Message.user("the sum of 1 and 2")]).content == "3"
    assert provider.complete([Message.user("anything")]).content == "no idea"


@pytest.mark.parametrize("content", ["{", '{"surprise": 1}', "[5]", '{"rules": [{"match": "("}]}'])
def test_a_bad_script_is_a_usage_error(tmp_path: Path, content: str):
    script = tmp_path / "script.json"
    script.write_text(content)

    with pytest.raises(UsageError, match="is no script"):
        create_provider(f"scripted/{script}")
