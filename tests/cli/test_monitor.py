"""A run watched from outside."""

from __future__ import annotations

import json
import urllib.request
from urllib.error import HTTPError

import pytest

from chimera.cli.monitor import Monitor, serving
from chimera.errors import UsageError
from chimera.eval.harness import SilentObserver
from chimera.eval.values import TrialError, TrialRecord, Verdict
from chimera.types import Usage


@pytest.fixture
def monitor() -> Monitor:
    """Two trials of five are done, and one runs."""
    watched = Monitor(SilentObserver(), {"benchmark": "letters", "model": 'a"b\n'})
    watched.planned(5, 0)
    for name in "abc":
        watched.started(name, 0)
    watched.finished(
        TrialRecord("a", 0, "", verdict=Verdict(True), cost=0.5, usage=Usage(10, 3), duration=2.0)
    )
    watched.finished(TrialRecord("b", 0, "", error=TrialError("provider", "429")))
    return watched


def fetched(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as reply:
        return reply.read().decode()


def test_metrics_are_in_prometheus_form(monitor: Monitor):
    with serving(monitor, 0) as port:
        lines = fetched(port, "/metrics").splitlines()

    own = r'benchmark="letters",model="a\"b\n"'
    assert f'chimera_trials_total{{{own},status="passed"}} 1' in lines
    assert f'chimera_trials_total{{{own},status="error"}} 1' in lines
    assert f"chimera_trials_running{{{own}}} 1" in lines
    assert f"chimera_cost_dollars_total{{{own}}} 0.5" in lines
    assert f'chimera_tokens_total{{{own},kind="input"}} 10' in lines
    assert lines.count("# TYPE chimera_trials_total counter") == 1


def test_the_status_names_what_runs(monitor: Monitor):
    with serving(monitor, 0) as port:
        status = json.loads(fetched(port, "/status"))

    assert (status["planned"], status["done"], status["running"]) == (5, 2, 1)
    assert [each["task_id"] for each in status["oldest"]] == ["c"]


def test_other_paths_are_not_there(monitor: Monitor):
    with serving(monitor, 0) as port, pytest.raises(HTTPError, match="404"):
        fetched(port, "/etc/passwd")


def test_a_port_that_is_taken_is_said(monitor: Monitor):
    with (
        serving(monitor, 0) as port,
        pytest.raises(UsageError, match=f"--metrics {port}"),
        serving(monitor, port),
    ):
        pass
