"""Functions on hostile text in processes that end."""

from __future__ import annotations

import math
import os
import textwrap
import threading
import time

import pytest

from chimera.eval.kits import apart as module
from chimera.eval.kits.apart import Ended, apart


def test_a_value_comes_back_from_a_worker():
    assert apart(textwrap.dedent, "  a\ud800\n") == "a\ud800\n"
    assert apart(os.getpid) != os.getpid()


@pytest.mark.parametrize(
    "call",
    [
        pytest.param((math.factorial, 10**8), id="time"),
        pytest.param((os.urandom, 8 << 30), id="memory"),
        pytest.param((os._exit, 0), id="the process itself"),
    ],
)
def test_what_ends_its_worker_has_no_value_and_ends_nothing_else(call):
    before = time.process_time()

    with pytest.raises(Ended):
        apart(*call, seconds=1)

    assert time.process_time() - before < 1
    assert apart(textwrap.dedent, "a") == "a"


@pytest.mark.parametrize(("pays", "before"), [(0.01, True), (1e9, False)])
def test_a_second_call_runs_beside_the_first_once_another_worker_pays(pays, before, monkeypatch):
    monkeypatch.setattr(module, "PAYS", pays)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    turns, entered = module._Turns(), threading.Event()

    def enter():
        with turns:
            entered.set()

    second = threading.Thread(target=enter)
    with turns:
        second.start()
        assert entered.wait(30 if before else 0.1) is before
    second.join()
    assert entered.is_set()
