"""One look at JSON text tells whether a text in it may hold a secret."""

from __future__ import annotations

import msgspec
import pytest

from chimera.providers.secrets import may_hold_secrets, redact, remember_secret


@pytest.mark.parametrize(
    "text",
    [
        "a line\nsk-abcdefghij0123456789abcd",
        "AKIA0123456789ABCDEF",
        'quoted "and" \\ broken\nsecret',
        "é\u2028\x07 control and others",
    ],
)
def test_no_text_that_changes_is_overlooked(text, monkeypatch):
    monkeypatch.setenv("OTHER_API_KEY", 'quoted "and" \\ broken\nsecret')
    monkeypatch.setenv("THIRD_PASSWORD", "é\u2028\x07 control and others")

    for held in (text, [{text: 1}], {"log": [f"before {text} after"]}):
        assert may_hold_secrets(msgspec.json.encode(held).decode())
    assert redact(text) != text


def test_plain_text_is_left_at_once(monkeypatch):
    monkeypatch.setenv("OTHER_API_KEY", "not in the text of it")
    remember_secret("nor is this one in it")

    assert not may_hold_secrets(msgspec.json.encode({"log": "line " * 60, "n": 1}).decode())
