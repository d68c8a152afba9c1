"""What is kept between runs, asked for by several at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from chimera.cache import stored_value


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))


def asked(make, keeps=lambda: True):
    return stored_value("numbers", "one", make, dump=str.encode, load=bytes.decode, keeps=keeps)


def test_a_value_that_others_ask_for_meanwhile_is_made_once():
    everyone, made = threading.Barrier(4), []

    def make():
        made.append(len(made))
        return f"value {len(made)}"

    def one(_):
        everyone.wait()
        return asked(make)

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(one, range(4))) == {"value 1"}
    assert made == [0]


def test_what_is_not_kept_or_damaged_is_made_again(tmp_path):
    assert asked(lambda: "first", keeps=lambda: False) == "first"
    assert asked(lambda: "second") == "second"
    (tmp_path / "cache/numbers/one.json").write_bytes(b"\xff")
    assert asked(lambda: "third") == "third"
    assert asked(lambda: "fourth") == "third"


def test_a_cache_that_cannot_be_written_is_only_slow(tmp_path):
    (tmp_path / "cache").write_text("a file where the directory should be")
    assert asked(lambda: "first") == "first"
    assert asked(lambda: "second") == "second"
