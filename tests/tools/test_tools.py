"""Shell and file tools over a real environment."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from chimera.environments import Environment, EnvironmentSpec
from chimera.environments.local import LocalEnvironment
from chimera.tools.base import Tool
from chimera.tools.bash import BashTool
from chimera.tools.files import EditTool, ViewTool
from chimera.tools.ipython import IPythonTool


@pytest.fixture(scope="module")
def env() -> Iterator[Environment]:
    with LocalEnvironment.start(EnvironmentSpec()) as started:
        yield started


@pytest.mark.parametrize("kind", [BashTool, ViewTool, EditTool, IPythonTool])
def test_tools_are_tools_and_can_be_pickled(kind: type) -> None:
    tool = kind()

    assert isinstance(tool, Tool)
    assert set(tool.parameters["required"]) <= set(tool.parameters["properties"])
    assert pickle.loads(pickle.dumps(tool)).name == tool.name


def test_bash_shows_both_streams_in_order_and_the_exit_code(env: Environment) -> None:
    result = BashTool().execute({"command": "echo a; echo b >&2; echo c; exit 3"}, env)

    assert result.output == "a\nb\nc\n[exit code 3]"
    assert result.error is None
    assert result.metadata["exit_code"] == 3


def test_bash_says_that_time_ran_out(env: Environment) -> None:
    result = BashTool().execute({"command": "echo begun; sleep 600", "timeout": 0.5}, env)

    assert result.output == "begun\n"
    assert "did not finish" in str(result.error)


def test_bash_output_is_bounded(env: Environment) -> None:
    result = BashTool().execute({"command": "yes | head -c 5000000"}, env)

    assert len(result.output) < 70_000
    assert "bytes left out" in result.output


def test_files_are_made_changed_and_viewed(env: Environment) -> None:
    edit, view = EditTool(), ViewTool()

    assert edit.execute({"path": "pkg/a.py", "new": "x = 1\ny = 1\n"}, env).error is None
    assert edit.execute({"path": "pkg/a.py", "old": "y = 1", "new": "y = 2"}, env).error is None
    assert view.execute({"path": "pkg/a.py"}, env).output == "     1\tx = 1\n     2\ty = 2"
    assert view.execute({"path": "pkg/a.py", "start": 2, "end": 2}, env).output == "     2\ty = 2"
    assert view.execute({"path": "."}, env).output.splitlines()[-2:] == ["pkg", "pkg/a.py"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": "twice", "old": "a", "new": "b"}, "2 times"),
        ({"path": "twice", "old": "zz", "new": "b"}, "does not occur"),
        ({"path": "twice", "new": "b"}, "already has content"),
        ({"path": "absent", "old": "a", "new": "b"}, "does not exist"),
        ({"path": "/etc/hostname", "old": "a", "new": "b"}, "leads out"),
        ({"path": "../x", "new": "b"}, "leads out"),
    ],
)
def test_edits_that_make_no_sense_change_nothing(
    env: Environment, arguments: dict[str, str], said: str
) -> None:
    env.write_file("twice", "a a")

    assert said in str(EditTool().execute(arguments, env).error)
    assert env.read_file("twice") == b"a a"


def test_edits_leave_other_bytes_alone(env: Environment) -> None:
    env.write_file("latin", b"caf\xe9 one\r\n")

    assert EditTool().execute({"path": "latin", "old": "one", "new": "two"}, env).error is None
    assert env.read_file("latin") == b"caf\xe9 two\r\n"


def test_every_occurrence_is_replaced_when_asked(env: Environment) -> None:
    env.write_file("many", "a a a")
    arguments = {"path": "many", "old": "a", "new": "b", "replace_all": True}

    assert "3 places" in EditTool().execute(arguments, env).output
    assert env.read_file("many") == b"b b b"


@pytest.mark.parametrize(
    ("path", "said"),
    [("absent", "No such file"), ("binary", "binary file"), ("../../etc/passwd", "leads out")],
)
def test_what_cannot_be_viewed_is_said(env: Environment, path: str, said: str) -> None:
    env.write_file("binary", b"\0\1\2")

    assert said in str(ViewTool().execute({"path": path}, env).error)


def test_long_files_are_viewed_in_parts(env: Environment) -> None:
    env.write_file("long", "\n".join(map(str, range(1, 1001))))

    shown = ViewTool().execute({"path": "long"}, env).output
    assert shown.endswith("[600 more lines; view from 401]")
    beyond = ViewTool().execute({"path": "long", "start": 2000}, env)
    assert "1000 lines" in str(beyond.error)
