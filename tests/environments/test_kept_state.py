"""The files of a machine put back: what a run leaves does not meet the next one."""

from __future__ import annotations

import pytest

from chimera.environments import start_environment
from chimera.environments.base import EnvironmentSpec
from chimera.environments.kept_state import kept_state

SPEC = EnvironmentSpec(
    needs=frozenset({"commands"}),
    files={"kept/file.py": b"1"},
    setup=(
        "chmod +x kept/file.py; ln -s kept/file.py link; ln -s /nowhere/at/all away; mkdir empty",
        "umask 0; touch shared; chmod 666 shared; mkdir private; chmod 700 private; mkfifo queue",
        "touch secret closed; chmod 400 secret; chmod 0 closed; ln secret same",
    ),
)
LEAVE = (
    "rm -r kept; echo 2 > link; mkdir -p a/b a/d/e/f; chmod 0 a/d/e a/d; "
    "touch .mark a/b/c /tmp/mark ~/mark /dev/shm/mark"
)


@pytest.mark.parametrize("backend", ["bubblewrap", "local"])
def test_files_are_as_they_were_and_no_process_is_left(require, backend: str):
    require("bwrap")
    look = "find . ! -name closed -printf '%p %M %n %l\\n' | sort; cat kept/file.py"
    with start_environment(backend, SPEC) as env, kept_state(env) as restore:
        before = env.run_command(look).output
        env.run_command(LEAVE if backend == "bubblewrap" else LEAVE.partition(" /tmp")[0])
        process = env.open_process(["sleep", "1000"])
        restore()

        assert env.run_command(look).output == before
        assert process.wait(timeout=20) != 0
        if backend == "bubblewrap":
            assert env.run_command("find /tmp ~ /dev/shm -mindepth 1").output == ""


def test_holes_of_files_take_no_room_here(require, tmp_path, monkeypatch):
    require("bwrap")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    hole = EnvironmentSpec(needs=SPEC.needs, setup=("truncate -s 1G hole; echo 1 >> hole",))
    with start_environment("bubblewrap", hole) as env, kept_state(env) as restore:
        kept = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
        env.run_command("rm hole")
        restore()

        assert kept < 1 << 20
        assert env.run_command("stat -c %s hole; tail -c 2 hole").output.split() == [
            f"{2**30 + 2}",
            "1",
        ]
