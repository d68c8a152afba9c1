"""Private tests are read without being unpickled, and anything else is refused."""

from __future__ import annotations

import base64
import json
import pickle
import zlib

import pytest

from chimera.eval.benchmarks._livecodebench import cases

CASES = [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]


def packed(value):
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def test_private_tests_are_read_from_every_form():
    text = json.dumps(CASES)

    assert cases.read_cases(text, "private") == CASES
    for protocol in range(1, 6):
        data = base64.b64encode(zlib.compress(pickle.dumps(text, protocol))).decode()
        assert cases.read_cases(data, "private") == CASES


class Bomb:
    def __reduce__(self):
        return (print, ("executed",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (packed(Bomb()), "refused"),
        (packed([json.dumps(CASES)]), "refused"),
        (packed(b"bytes"), "refused"),
        (packed("not json"), "not JSON once unpacked"),
        (packed(json.dumps({"input": "1"})), "expected a list"),
        (packed(json.dumps([{"input": "1", "output": "2", "testtype": "x"}])), "known testtype"),
        (packed(json.dumps([{"input": 1, "output": "2", "testtype": "stdin"}])), "test 0"),
        (packed(json.dumps(CASES))[:-12], "private"),
        ("not base64!", "neither JSON nor base64"),
        (base64.b64encode(zlib.compress(b"\x80\x04X")).decode(), "private"),
    ],
)
def test_anything_else_is_refused_and_nothing_is_run(capfd, text, message):
    with pytest.raises(ValueError, match=message):
        cases.read_cases(text, "private")

    assert capfd.readouterr().out == ""


def test_a_decompression_bomb_is_refused(monkeypatch):
    monkeypatch.setattr(cases, "MAX_BYTES", 10_000)

    with pytest.raises(ValueError, match="unpacks to more than"):
        cases.read_cases(packed("0" * 1_000_000), "private")
