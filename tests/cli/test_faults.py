"""Bad days: no verdicts, a service that refuses, no disk, a signal, two processes on one run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from chimera.eval.runs.files import run_files
from chimera.eval.runs.lock import held
from chimera.eval.runs.store import RunStore
from tests.conftest import missing


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("report", "latest", "-o", "file/x.html"), "file: "),
        (("runs", "export", "latest", "--format", "csv", "--output", "folder"), "folder: Is a dir"),
        (("runs", "show", "a" * 300), "a: File name too long"),
    ],
)
def test_a_path_that_cannot_be_what_it_was_named_for_is_wrong_usage(chimera, arguments, says):
    Path("tasks.json").write_text('[{"id": "a", "prompt": "Say a.", "expected": "a"}]')
    Path("file").touch()
    Path("folder").mkdir()
    chimera("eval", "-b", "custom", "--dataset", "tasks.json", "-m", "scripted/text:a")
    ran = chimera(*arguments)

    assert (ran.code, says in ran.err, "Traceback" in ran.err) == (2, True, False)


def test_a_step_summary_that_cannot_be_written_leaves_the_run(chimera, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "/nowhere/summary")
    Path("tasks.json").write_text('[{"id": "a", "prompt": "Say a.", "expected": "a"}]')
    ran = chimera("eval", "-b", "custom", "--dataset", "tasks.json", "-m", "scripted/text:a")

    assert ran.code == 4
    assert "/nowhere/summary cannot be written" in ran.err
    assert "the run is stored: runs/" in ran.err


def test_a_fault_of_our_own_is_no_gate_that_is_not_met(chimera, monkeypatch):
    monkeypatch.setattr("chimera.cli.runs.run_files", lambda _: 1 / 0)
    ran = chimera("runs", "list")

    assert (ran.code, "Traceback" in ran.err) == (70, True)


CODE = '''
import itertools, pathlib, time
from chimera.errors import EnvironmentFault
from chimera.eval.harness import Benchmark

class Many(Benchmark):
    grading = "none"
    def __init__(self, count: int = 19): self.count = count
    def name(self): return "many"
    def options(self): return {"count": self.count}
    def tasks(self): return [{"id": f"t{i:02}", "prompt": str(i)} for i in range(self.count)]
    def evaluate(self, task, agent_output, env): return agent_output == "yes"

class Down:
    def run(self, prompt, env): raise EnvironmentFault("no daemon")

class Half:
    """Even tasks are solved, every third is an error, the others are wrong."""
    def run(self, prompt, env):
        if int(prompt) % 3 == 0:
            raise EnvironmentFault(f"fault {'abc'[int(prompt) % 2]}")
        return "yes" if int(prompt) % 2 == 0 else "no"

class Slow:
    def run(self, prompt, env):
        time.sleep(0.05 if int(prompt) < 4 else 60)
        return "yes"

class Filler:
    """Fills the disk at the third task."""
    def run(self, prompt, env):
        if prompt == "2":
            pathlib.Path("runs/filler").write_bytes(bytes(30_000_000))
        return "yes"
'''


class Service(BaseHTTPRequestHandler):
    """An OpenAI-compatible service that answers as its server's `script` says."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        status, headers = next(self.server.script, (200, {}))
        self.server.asked += 1
        message = {"role": "assistant", "content": "yes"}
        body = {
            "choices": [{"message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1},
        }
        content = json.dumps(body if status == 200 else {"error": {"message": "no"}}).encode()
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_): ...


@pytest.fixture
def service():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.script, server.asked = iter(()), 0
    server.address = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def many(tmp_path, monkeypatch):
    (tmp_path / "many_tasks.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "many_tasks", raising=False)
    return ("eval", "--benchmark", "many_tasks:Many")


def command(*arguments):
    return [sys.executable, "-m", "chimera", *map(str, arguments)]


def environment(folder):
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": f"{folder}:{root}", "HOME": str(folder)}


def test_without_a_verdict_there_is_no_rate(chimera, many, tmp_path):
    agent = ("--agent", "many_tasks:Down", "--retries", 0, "--output", "out.json")
    ran = chimera(*many, *agent, "--option", "count=4")
    events = chimera(*many, *agent, "--option", "count=4", "--json").out.splitlines()

    assert ran.code == 3
    assert "many: no verdicts: 4 errors\n" in ran.out
    assert "%" not in ran.out
    for document in (json.loads(events[-1]), json.loads((tmp_path / "out.json").read_text())):
        assert (document["pass_rate"], document["interval"]) == (None, None)
        assert document["bounds"] == [0.0, 1.0]


def test_missing_verdicts_are_bounds_and_stay_out_of_the_interval(chimera, many):
    ran = chimera(*many, "--agent", "many_tasks:Half", "--retries", 0, "--option", "count=12")

    assert "between 33.3% and 66.7% passed (no verdict: 4 errors)" in ran.out
    assert "of those with a verdict 50.0% passed (4 of 8; 95% interval 21.5% to 78.5%)" in ran.out


@pytest.mark.parametrize(("status", "at_once"), [(401, 1), (401, 6), (402, 1), (403, 1), (404, 1)])
def test_a_service_that_refuses_stops_the_run_after_the_first_few(
    chimera, many, service, status, at_once
):
    service.script = iter([(status, {})] * 100)
    model = ("-m", "openai/x", "--base-url", service.address, "--api-key", "k")
    ran = chimera(*many, *model, "-n", at_once, "--json")

    assert ran.code == 3
    summary = json.loads(ran.out.splitlines()[-1])
    assert summary["errored"] == service.asked == max(3, at_once)  # those under way, no more
    assert f"HTTP {status}" in summary["stopped"]


def test_nobody_at_the_address_stops_the_run_after_the_first_few(chimera, many):
    ran = chimera(*many, "-m", "openai/x", "--base-url", "http://127.0.0.1:9/v1", "-n", 1, "--json")
    summary = json.loads(ran.out.splitlines()[-1])

    assert 3 <= summary["errored"] <= 5
    assert "no connection" in summary["stopped"]
    with RunStore(summary["run"]) as store:
        calls = [call for record in store.records(whole=True) for call in record.calls]
    assert {call.attempts for call in calls} == {2}


def test_retries_and_rate_limits_are_seen_live(chimera, many, service):
    service.script = iter([(429, {"retry-after": "1"}), (200, {})])
    model = ("-m", "openai/x", "--base-url", service.address, "--api-key", "k")
    ran = chimera(*many, *model, "--option", "count=1", "--json")
    waits = [e for e in map(json.loads, ran.out.splitlines()) if e["event"] == "waiting"]

    assert ran.code == 0
    assert "HTTP 429" in waits[0]["what"]
    assert waits[0]["task_id"] == "t00"
    assert waits[0]["seconds"] >= 1


@pytest.mark.parametrize("place", ["file/below", "/proc/nowhere"])
def test_a_directory_that_cannot_be_written_is_one_line(chimera, many, tmp_path, place):
    (tmp_path / "file").write_text("")
    ran = chimera(*many, "--agent", "nop", "--runs-dir", place)

    assert ran.code == 4
    assert ran.err.startswith(f"chimera: runs cannot be kept in {place}: ")
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("to", ["output", "stdout", "stdout-json"])
def test_dev_full_is_one_line_and_the_run_is_stored(many, tmp_path, to):
    extra = {"output": ["--output", "/dev/full"], "stdout": [], "stdout-json": ["--json"]}[to]
    with Path("/dev/full" if to != "output" else os.devnull).open("w") as out:
        ran = subprocess.run(
            command(*many, "--agent", "nop", *extra),
            cwd=tmp_path, env=environment(tmp_path), stdout=out, stderr=subprocess.PIPE,
            text=True, check=False,
        )  # fmt: skip
    complaints = [line for line in ran.stderr.splitlines() if line.startswith("chimera: ")]

    assert ran.returncode == 4
    assert len(complaints) == 1
    assert "No space left on device" in complaints[0]
    assert "Traceback" not in ran.stderr
    assert "Exception ignored" not in ran.stderr
    assert not Path("/dev/full").is_file()
    stored = 0
    for run in run_files(tmp_path / "runs"):
        with RunStore(run) as store:
            stored = len(store.trial_keys())
    assert stored == (0 if to == "stdout-json" else 19)  # without a reader nothing was begun


def test_a_disk_that_gets_full_stops_the_run_and_loses_nothing(many, tmp_path):
    if (
        shutil.which("unshare") is None
        or subprocess.run(
            ["unshare", "-rm", "true"], check=False, stderr=subprocess.DEVNULL
        ).returncode
    ):
        missing("mount namespaces")
    (tmp_path / "runs").mkdir()
    (tmp_path / "kept").mkdir()
    script = (
        'mount -t tmpfs -o size=40m none runs && "$@"; code=$?; cp runs/*.chi kept/; exit $code'
    )
    ran = subprocess.run(
        [
            *("unshare", "-rm", "sh", "-c", script, "sh"),
            *command(*many, "--agent", "many_tasks:Filler", "--concurrency", 1),
        ],
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ran.returncode == 4
    assert "Traceback" not in ran.stderr
    said = re.search(
        r"^chimera: the disk of runs is full: .*; (\d+) of 19 trials", ran.stderr, re.M
    )
    [run] = run_files(tmp_path / "kept")
    with RunStore(run) as store:
        assert len(store.trial_keys()) == int(said[1]) >= 3
        assert all(record.verdict is not None for record in store.records())


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_with_a_summary_and_how_to_go_on(many, tmp_path, sent, code):
    slow = command(*many, "--agent", "many_tasks:Slow", "--concurrency", 2)
    process = subprocess.Popen(
        ["env", "--default-signal=INT,TERM", *slow],
        cwd=tmp_path, env=environment(tmp_path), stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    for line in process.stderr:
        if line.startswith("[4/"):
            break
    process.send_signal(sent)
    out, said = process.communicate(timeout=30)

    assert process.returncode == code
    assert "Interrupted: 4 of 19 trials are stored; go on with: chimera eval --resume" in said
    assert "between 21.1% and 100.0% passed (no verdict: 15 not run)" in out
    assert not list((tmp_path / "runs").glob("*-lock"))


def test_the_second_process_on_a_run_says_who_holds_it(chimera, many, tmp_path):
    chimera(*many, "--agent", "many_tasks:Down", "--option", "count=2", "--retries", 0)
    [run] = run_files(tmp_path / "runs")
    with held(run):
        refused = [
            chimera("eval", "--resume", "latest"),
            chimera("grade", "latest"),
            chimera("runs", "rm", "latest"),
        ]

    for ran in refused:
        assert ran.code == 2
        assert f"is being run by process {os.getpid()} on " in ran.err
    assert chimera("eval", "--resume", "latest").code == 3
    assert chimera("runs", "rm", "latest").code == 0
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_run_that_goes_on_is_shown_as_one(chimera, many, tmp_path):
    chimera(*many, "--agent", "many_tasks:Down", "--option", "count=2", "--retries", 0)
    [run] = run_files(tmp_path / "runs")
    with RunStore(run, write=True) as store:
        store.spend(0.25)
    with held(run):
        shown = chimera("runs", "show", "latest").out

    assert f", being run by process {os.getpid()} on " in shown
    assert "(and at most $0.2500 for trials under way)" in shown
    assert "--resume" not in shown
    assert "being run" not in chimera("runs", "show", "latest").out


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_streams_that_the_shell_has_closed_are_no_fault(many, tmp_path, closed):
    line = " ".join(map(shlex.quote, command(*many, "--agent", "nop", "--option", "count=2")))
    ran = subprocess.run(
        ["sh", "-c", f"{line} {closed}"], cwd=tmp_path, env=environment(tmp_path), check=False
    )

    assert ran.returncode == 0
    [run] = run_files(tmp_path / "runs")
    with RunStore(run) as store:
        assert len(store.trial_keys()) == 2


def test_a_full_standard_error_ends_with_the_code_for_it(many, tmp_path):
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            command(*many, "--agent", "nop"),
            cwd=tmp_path, env=environment(tmp_path), stderr=full, check=False,
        )  # fmt: skip

    assert ran.returncode == 4


def test_a_list_of_runs_gives_no_rate_without_a_verdict_and_bounds_without_some(chimera, many):
    chimera(*many, "--agent", "many_tasks:Down", "--option", "count=2", "--retries", 0)
    chimera(*many, "--agent", "many_tasks:Half", "--retries", 0)
    _, nothing, some = chimera("runs", "list").out.splitlines()

    assert "%" not in nothing
    assert "2 errors" in nothing
    assert "31.6% to 68.4% (6 of 12)" in some
    assert chimera("table").out.count("%") > 0


def test_what_a_killed_run_spent_is_shown(chimera, many, tmp_path):
    priced = ("-m", "scripted/text:yes", "--agent-option", "price=1000/1000")
    chimera(*many, *priced, "--option", "count=2")
    [run] = run_files(tmp_path / "runs")
    with RunStore(run, write=True) as store:
        paid = store.spent()
        booked = sum(a for (a,) in store.rows(tuple[float], "SELECT amount FROM spending"))
        store.spend(0.25)  # a call that was under way when the process was killed
    shown = chimera("runs", "show", "latest")

    assert paid == booked > 0
    assert "(and at most $0.2500 for trials that were cut off)" in shown.out
    assert json.loads(chimera("runs", "show", "latest", "--json").out)["spent"] == paid + 0.25


@pytest.mark.parametrize("options", [("count=0",), ("count=1", "--task", "nothing")])
def test_what_never_ran_leaves_no_run(chimera, many, tmp_path, options):
    ran = chimera(*many, "--agent", "nop", "--option", *options)

    assert ran.code == 2
    assert not list((tmp_path / "runs").glob("*")) or not list((tmp_path / "runs").iterdir())
    (tmp_path / "runs").mkdir(exist_ok=True)
    (tmp_path / "runs" / "20260101-killed-at-once.chi").touch()
    assert "no runs in" in chimera("runs", "list").out
