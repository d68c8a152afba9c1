"""A program in a sandbox without a network solves a task through the gateway."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chimera.agents.command import CommandAgent
from chimera.agents.gatewayed import forwarder_python
from chimera.environments import EnvironmentSpec, available, machine, start_environment
from chimera.errors import EnvironmentFault
from chimera.eval.benchmarks.custom import CustomBenchmark
from chimera.eval.harness import Harness
from chimera.eval.runs.files import SUFFIX
from chimera.eval.runs.store import RunStore
from chimera.eval.values import TrialRecord
from chimera.gateway.forwarder import HEADER
from chimera.gateway.tunnel import Tunnel
from chimera.providers import create_provider
from chimera.providers.meter import TrialLimits
from tests.conftest import missing
from tests.gateway.conftest import FORMATS, provider_of
from tests.gateway.upstream import KEY, PRICE, Upstream, cost, truth

CLIENT = Path(__file__).with_name("client.py").read_text()
WRITE = ("bash", {"command": "echo hello > out.txt"})
TASK = {
    "id": "hello",
    "prompt": "Write hello into out.txt.",
    "files": {".client/client.py": CLIENT},
    "test_command": 'test "$(cat out.txt)" = hello',
}
#: Everything that a process inside can read of itself and of others, and every file it may write.
SEARCH = (
    "bash",
    {
        "command": "{ env; cat /proc/*/environ /proc/*/cmdline; "
        "grep -rs . /tmp /workspace /home /run /etc; } 2>/dev/null > /tmp/seen; "
        f"if grep -aq '{KEY[:12]}''{KEY[12:]}' /tmp/seen; then echo KEY; else echo none; fi; "
        "cat /proc/net/route; echo hello > out.txt"
    },
)


@pytest.fixture(params=["bubblewrap", "docker"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "docker":
        monkeypatch.setenv("CHIMERA_DOCKER_IMAGE", request.getfixturevalue("docker_image"))
    reason = available(request.param)
    if reason is not None:
        missing(f"the environment '{request.param}' cannot be used: {reason}")
    return str(request.param)


def trial(service: Upstream, backend: str, spoken: str = "chat", **settings: object) -> TrialRecord:
    agent = CommandAgent(
        template=f"python3 .client/client.py {spoken}", provider=provider_of(service, "chat")
    )
    store = RunStore(":memory:", create=True)
    Harness(
        CustomBenchmark(tasks_list=[TASK]), agent, env_factory=backend, store=store, **settings
    ).run()
    return store.record("hello", 0)


@pytest.mark.parametrize("spoken", FORMATS)
def test_a_task_is_solved_and_paid_for_to_the_cent(upstream, backend: str, spoken: str):
    record = trial(upstream([WRITE, "Done."]), backend, spoken)

    assert (record.status, record.why, record.stop_reason) == ("passed", "", "done")
    assert record.usage == truth(0) + truth(1)
    assert record.cost == pytest.approx(cost(truth(0)) + cost(truth(1)))
    assert [step.message.role for step in record.trajectory] == [
        "user", "assistant", "tool", "assistant"
    ]  # fmt: skip
    assert record.trajectory[1].message.tool_calls[0].name == "bash"
    assert (record.steps, len(record.calls)) == (2, 2)


def test_there_is_no_key_and_no_network_inside(upstream, backend: str):
    record = trial(upstream([SEARCH, "Done."]), backend)

    (seen,) = [s.message.content for s in record.trajectory if s.message.role == "tool"]
    assert seen.splitlines()[0] == "none"
    assert len(seen.splitlines()) <= 2  # a table of routes with no route in it
    assert KEY not in str(record)


def test_a_trial_that_a_limit_ends_is_graded(upstream, backend: str):
    enough = TrialLimits(max_cost=cost(truth(0)))

    record = trial(upstream([WRITE, WRITE, "Done."]), backend, limits=enough)

    assert (record.status, record.stop_reason) == ("passed", "limit:cost")
    assert record.cost == pytest.approx(cost(truth(0)))


def test_a_service_that_fails_is_no_verdict(upstream, backend: str):
    record = trial(upstream(["x"], failures=[500] * 99), backend, attempts=1)

    assert (record.status, record.error.boundary) == ("error", "provider")  # type: ignore[union-attr]


def test_a_program_that_asks_nobody_is_an_error(upstream, backend: str):
    agent = CommandAgent(template="true # {prompt}", provider=provider_of(upstream(["x"]), "chat"))
    store = RunStore(":memory:", create=True)
    Harness(CustomBenchmark(tasks_list=[TASK]), agent, env_factory=backend, store=store).run()

    assert "without a call to its model" in store.record("hello", 0).why


def test_the_interpreter_that_is_brought_along_needs_nothing_of_the_image(backend: str):
    agent = CommandAgent(template="true", provider=create_provider("scripted/echo"))
    needs = frozenset({"commands"})
    with start_environment(backend, EnvironmentSpec(needs=needs, mounts=agent.mounts())) as env:
        inside = machine(env)
        python = forwarder_python(inside)
        shown = inside.run_command(
            [*python, "-c", "import ssl, sqlite3, sys; print(sys.prefix)"],
            variables={"LD_LIBRARY_PATH": "/nowhere"},
        )

    assert (shown.output, shown.exit_code) == ("/opt/chimera/python\n", 0)


@pytest.mark.parametrize(
    "program",
    [
        "print('no frame at all')",
        "import os; os.write(1, b'\\xff' * 9)",
        "raise SystemExit('no interpreter for you')",
    ],
)
def test_what_is_no_forwarder_is_a_fault_of_the_environment(backend: str, program: str):
    with (
        start_environment(backend, EnvironmentSpec(needs=frozenset({"commands"}))) as env,
        pytest.raises(EnvironmentFault, match="forwarder did not start"),
    ):
        Tunnel(env, ["python3", "-c", program], lambda connection: connection.close())


def test_a_hostile_forwarder_gets_nowhere(backend: str):
    """Unknown connections, sizes without end, and many connections at once are put up with."""
    frames = [
        HEADER.pack(0, b"O", 4) + b"4242",
        HEADER.pack(7, b"D", 3) + b"abc",
        HEADER.pack(7, b"?", 0),
        *(HEADER.pack(n, b"O", 0) for n in range(1, 200)),
        HEADER.pack(1, b"D", 2**31),
    ]
    program = f"import os; os.write(1, {b''.join(frames)!r}); os.read(0, 1 << 20); os.read(0, 1)"
    served: list[int] = []

    def serve(connection: socket.socket) -> None:
        with connection:
            served.append(len(connection.recv(1)))

    with start_environment(backend, EnvironmentSpec(needs=frozenset({"commands"}))) as env:
        tunnel = Tunnel(env, ["python3", "-c", program], serve)
        end = time.monotonic() + 30
        while (tunnel.connections and time.monotonic() < end) or not served:
            time.sleep(0.05)
        tunnel.close()

    assert tunnel.port == 4242
    assert len(served) <= 64


def test_a_killed_run_is_resumed_and_pays_nothing_twice(upstream, backend: str, tmp_path: Path):
    """`kill -9` while the second answer is awaited: the first is not asked for again."""
    pause = ("bash", {"command": "echo hello > out.txt; sleep 0.2; echo went on"})
    service = upstream([pause, pause, "Done."])
    tasks = tmp_path / "tasks.json"
    tasks.write_text(json.dumps([TASK]))
    words = [
        sys.executable, "-m", "chimera", "eval", "--benchmark", "custom", "--dataset", str(tasks),
        "--agent", "command:python3 .client/client.py chat", "--model", "openai/scripted",
        "--base-url", f"{service.address}/v1", "--agent-option", f"price={PRICE}",
        "--environment", backend, "--runs-dir", str(tmp_path / "runs"), "--budget", "100",
    ]  # fmt: skip
    variables = {**os.environ, "OPENAI_API_KEY": KEY}
    running = subprocess.Popen(words, env=variables, stderr=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    end = time.monotonic() + 120
    while len(service.seen) < 2 and time.monotonic() < end:
        time.sleep(0.005)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    asked = len(service.seen)
    assert asked >= 2

    done = subprocess.run(
        [*words[:4], "--resume", "latest", "--runs-dir", str(tmp_path / "runs")],
        env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "runs").glob(f"*{SUFFIX}")
    with RunStore(file) as store:
        record = store.record("hello", 0)
        spent = store.spent()
    assert record.passed
    assert len(service.seen) <= 4  # three answers, and the one that was under way
    paid = sum(cost(usage) for usage in service.served)
    assert spent >= paid - 1e-9
    assert record.cost == pytest.approx(sum(call.cost or 0 for call in record.calls))
    assert not list((tmp_path / "runs").glob("*.calls"))
