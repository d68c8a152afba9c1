"""The embedded model: started before the trials, ended with the process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from chimera.errors import UsageError
from chimera.eval.benchmarks import HumanEval
from chimera.eval.harness import Harness
from chimera.providers import create_provider, local
from chimera.providers.meter import TrialLimits

CODE = """
import sys, threading, time
from chimera.providers import create_provider
from chimera.providers.local import local_server
from chimera.types import Message

provider = create_provider("local/smollm2")
provider.start()
ask = [Message.user("Count from one to ten thousand, one number a line.")]
thread = threading.Thread(target=provider.complete, args=(ask,), kwargs={"max_tokens": 8000})
thread.daemon = True
thread.start()
time.sleep(1)
print(local_server().process.pid)
"""


def test_a_call_under_way_keeps_nothing_alive(server):
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=600
    )

    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_the_model_is_started_before_any_trial(server, monkeypatch):
    began = []
    monkeypatch.setattr(local.LocalProvider, "start", lambda provider: began.append("start"))

    class Observer:
        def planned(self, total, done): ...
        def started(self, task_id, sample):
            began.append("trial")

        def doing(self, task_id, sample, what, seconds): ...
        def finished(self, record): ...

    Harness(
        benchmark="human-eval",
        agent="direct",
        model="local/smollm2",
        tasks=HumanEval().tasks()[53:54],
        observer=Observer(),
        limits=TrialLimits(seconds=0.001),  # what it answers is no matter here
    ).run()

    assert began == ["start", "trial"]


def test_weights_that_cannot_be_read_are_told(tmp_path, monkeypatch, server):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no weights")
    monkeypatch.setattr(local, "fetch_weights", lambda: broken)

    with pytest.raises(UsageError, match=r"cannot start with .*broken.gguf"):
        local._start_server()


def test_it_is_known_to_call_no_tools():
    assert create_provider("local/smollm2").calls_tools is False
