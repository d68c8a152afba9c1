"""Hostile data sets and prediction files: refused with their place; nothing of them is run."""

from __future__ import annotations

import base64
import gzip
import pickle
import zlib
from pathlib import Path

import pytest

from chimera.errors import DatasetError
from chimera.eval.benchmarks._livecodebench import cases
from chimera.eval.data import rows as data

MARK = "chimera-attack-marker"


class Touch:
    """Pickled, a call that leaves a file."""

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (Path(MARK),)


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Touch()),
        pickle.dumps([Touch(), "[]"]),
        pickle.dumps({"a": 1}),
        b"cos\nsystem\n(S'touch chimera-attack-marker'\ntR.",
        b"\x80\x04" + b"(" * 10_000 + b".",
        b"\x80\x05\x8c\xff[]",
        b"",
    ],
    ids=["call", "call-in-list", "dict", "old-protocol", "marks", "cut-off", "empty"],
)
def test_a_pickle_in_private_tests_is_never_run(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ValueError, match=r".+"):
        cases.read_cases(packed(data), "row 1")

    assert list(tmp_path.iterdir()) == []


def test_private_tests_that_unpack_too_far_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "MAX_BYTES", 1 << 20)

    with pytest.raises(ValueError, match="more than 1 MiB"):
        cases.read_cases(packed(bytes(1 << 24)), "row 1")


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("rows.jsonl.gz", gzip.compress(b'{"a":"' + bytes(1 << 24) + b'"}'), "refused"),
        ("rows.jsonl.gz", gzip.compress(b'{"a":1}\n' * 9)[:-12], "damaged"),
        ("rows.jsonl", b"[" * 1_000_000, "not valid JSON"),
        ("rows.json", b'{"a":' * 1_000_000, "not valid JSON"),
        ("rows.jsonl", pickle.dumps(Touch()), "not valid JSON"),
        ("rows.jsonl", b"[1, 2]\n", "expected an object"),
    ],
    ids=["bomb", "cut-off", "deep-list", "deep-object", "pickle", "no-object"],
)
def test_hostile_files_are_refused(
    name: str, content: bytes, match: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "MAX_BYTES", 1 << 22)
    monkeypatch.setattr(data, "MAX_LINE_BYTES", 1 << 23)
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(DatasetError, match=match):
        list(data.rows(path))

    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_json_text_is_read_whole_only_where_it_is_not_too_long(tmp_path, monkeypatch):
    """It lies in memory as bytes, as text and as values at once."""
    monkeypatch.setattr(data, "MAX_LINE_BYTES", 1 << 20)
    path = tmp_path / "predictions.json.gz"
    path.write_bytes(gzip.compress(b" " * (1 << 21) + b"[]"))

    with pytest.raises(DatasetError, match="a JSON text of more than 1 MiB"):
        list(data.rows(path))
