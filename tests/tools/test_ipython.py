"""The Python session: stateful, inside the environment, alive after what goes wrong in it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from chimera.environments import Environment, EnvironmentSpec, available, start_environment
from chimera.errors import LimitReached
from chimera.tools.ipython import IPythonTool
from chimera.types import ToolResult


@pytest.fixture(scope="module")
def env() -> Iterator[Environment]:
    backend = "bubblewrap" if available("bubblewrap") is None else "local"
    with start_environment(backend, EnvironmentSpec()) as started:
        yield started


@pytest.fixture(scope="module")
def tool() -> IPythonTool:
    return IPythonTool(hang_timeout=1.5)


def run(tool: IPythonTool, env: Environment, code: str, timeout: float = 30) -> ToolResult:
    return tool.execute({"code": code, "timeout": timeout}, env)


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("1 + 1", "2"),
        ("print('a'); 'b'", "a\n'b'"),
        ("None", ""),
        ("", ""),
        ("def f(x):\n\n    y = x\n\n    return y * 2\n\n\nf(4)", "8"),
        ("import subprocess\nsubprocess.run(['echo', 'child']).returncode", "child\n0"),
        ("import sys\nprint('err', file=sys.stderr)", "err"),
        ("print('naïve ✓')", "naïve ✓"),
        ("__name__", "'__main__'"),
        ("import os; os.getcwd() == os.path.realpath(os.environ.get('PWD', os.getcwd()))", "True"),
    ],
)
def test_cells_show_what_they_print_and_their_value(
    tool: IPythonTool, env: Environment, code: str, output: str
) -> None:
    result = run(tool, env, code)

    assert result.error is None
    assert result.output.strip() == output


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def f(:", "SyntaxError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise SystemExit(2)", "SystemExit: 2"),
        ("input()", "EOFError"),
        ("def g():\n    return undefined\n\ng()", "return undefined"),
    ],
)
def test_exceptions_are_failures(tool: IPythonTool, env: Environment, code: str, said: str) -> None:
    run(tool, env, "kept = 5")
    result = run(tool, env, code)

    assert result.error is not None
    assert said in result.output
    assert run(tool, env, "kept").output.strip() == "5"


@pytest.mark.parametrize(
    "code",
    ["import time; time.sleep(600)", "while True: pass", "import os; os.system('sleep 600')"],
)
def test_a_time_out_interrupts_the_cell_alone(
    tool: IPythonTool, env: Environment, code: str
) -> None:
    run(tool, env, "kept = 7")
    result = run(tool, env, code, timeout=0.5)

    assert "interrupted after 0.5 s" in str(result.error)
    assert run(tool, env, "kept").output.strip() == "7"


def test_a_cell_that_cannot_be_interrupted_costs_the_session(
    tool: IPythonTool, env: Environment
) -> None:
    run(tool, env, "kept = 9")
    code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    result = run(tool, env, code, timeout=0.5)

    assert "restarted" in str(result.error)
    assert "NameError" in run(tool, env, "kept").output


def test_a_session_that_ends_starts_again(tool: IPythonTool, env: Environment) -> None:
    result = run(tool, env, "import os; print('last words', flush=True); os._exit(3)")

    assert "last words" in result.output
    assert "exit code 3" in str(result.error)
    assert run(tool, env, "40 + 2").output.strip() == "42"


def test_output_is_bounded(tool: IPythonTool, env: Environment) -> None:
    result = run(tool, env, "for i in range(200): print('x' * 100_000)")

    assert result.error is None
    assert len(result.output) < 31_000
    assert "bytes left out" in result.output


def test_a_cell_cannot_forge_its_end(tool: IPythonTool, env: Environment) -> None:
    code = 'import os\nos.write(1, b"0" * 32 + b\'{"ok": true}\\n\')\nraise ValueError("real")'
    result = run(tool, env, code)

    assert result.error is not None
    assert "real" in result.output


def test_streams_that_a_cell_breaks_do_not_break_the_session(
    tool: IPythonTool, env: Environment
) -> None:
    run(tool, env, "import sys; sys.stdout.close(); sys.stdout = None")
    tool.restart(env)

    assert run(tool, env, "'fine'").output.strip() == "'fine'"


def test_sessions_belong_to_their_environments(tool: IPythonTool, env: Environment) -> None:
    run(tool, env, "mine = 1")
    with start_environment("local", EnvironmentSpec()) as other:
        assert "NameError" in run(tool, other, "mine").output
        assert tool.health(other)
    assert run(tool, env, "mine").output.strip() == "1"
    assert not tool.health(other)


def test_health_restart_and_shutdown(env: Environment) -> None:
    own = IPythonTool()
    assert not own.health(env)
    run(own, env, "x = 1")
    assert own.health(env)
    own.restart(env)
    assert not own.health(env)
    assert "NameError" in run(own, env, "x").output
    own.shutdown()
    assert not own.health(env)


def test_no_cell_starts_after_the_deadline() -> None:
    with start_environment("local", EnvironmentSpec()) as env:
        env.deadline = time.monotonic() - 1
        with pytest.raises(LimitReached):
            IPythonTool().execute({"code": "1"}, env)
