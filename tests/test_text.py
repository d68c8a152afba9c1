"""Foreign text is shown, never obeyed, and is stored as it came."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimera.text import (
    file_name,
    first_line,
    log_end,
    one_line,
    printable,
    storable,
    storable_value,
)
from chimera.types import Message, Step

ATTACKS = {
    "clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "title": "\x1b]0;owned\x1b\\",
    "repainted": "\r\x1b[2K100.0% passed",
    "backspaces": "0.0%\b\b\b\b100%",
    "one-byte controls": "\x9b31m\x9d52;c;x\x9c\x85",
    "turned around": "abc\u202edef\u2066x\u2069\u200f",
    "lines of other kinds": "a\x0bb\x0cc\u2028d\u2029e",
    "unseen": "a\u200bb\ufeffc\U000e0041\xad\u2060",
    "no text": "a\ud800b\x00\x7f",
}


@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS)
def test_nothing_that_a_terminal_obeys_is_printed(text):
    shown = printable(text)

    assert shown.isprintable()
    shown.encode()


@pytest.mark.parametrize(
    "text", ["ä € 漢字 🙂 👩\u200d🔬 می\u200cخواهم", "two\nlines\tand a tab", "C:\\u001b"]
)
def test_ordinary_text_is_printed_as_it_is(text):
    assert printable(text) == text


@settings(deadline=None)
@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_is_the_same_document_when_it_is_printed(value):
    assert json.loads(printable(json.dumps(value, ensure_ascii=False))) == value


def test_a_line_stays_one_line():
    assert one_line("a\nb\tc") == "a\\nb c"
    assert one_line("x" * 150 + "y" * 150) == "x" * 100 + "…" + "y" * 99
    assert first_line("\n\nwhy\nmore") == "why"


@given(st.text())
def test_stored_text_can_be_encoded_and_is_the_same_where_it_could(text):
    assert storable(text) == text
    assert storable(text + "\udcff") == text + "\ufffd"


def test_records_are_cleaned_to_their_depth():
    step = Step(Message.user("\ud800"), metadata={"\udfff": [("\ud800", 1)]})

    assert storable_value(step) == Step(
        Message.user("\ufffd"), metadata={"\ufffd": [("\ufffd", 1)]}
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [("HumanEval/3", "HumanEval_3"), ("..", "_.."), ("", "_"), ("a\0\u202eb", "a__b")],
)
def test_names_of_files_are_no_paths(text, name):
    assert file_name(text) == name


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        ("Step 1\nStep 2\nE: no package\n", "E: no package\nStep 1\nStep 2\nE: no package"),
        ("only\n", "only"),
        ("", ""),
        ("x" * 3000 + "\nwhy", "why\n" + "x" * 1996 + "\nwhy"),
    ],
)
def test_a_log_begins_with_its_last_line(log, shown):
    assert log_end(log) == shown
