"""The front door: instant help, clear errors, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from chimera.cli.main import COMMANDS, PRESETS


def test_help_imports_nothing_but_click():
    code = (
        "import sys\n"
        "from chimera.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "import sysconfig\n"
        "site = sysconfig.get_paths()['purelib']\n"
        "names = {n.split('.')[0] for n, m in sys.modules.items()"
        " if (getattr(m, '__file__', None) or '').startswith(site)}\n"
        "print('THIRD', sorted(names - {'chimera', '__editables_finder__', '_distutils_hack'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "THIRD ['click']"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(chimera, name):
    ran = chimera(name, "--help")

    assert ran.code == 0
    assert "Usage: chimera" in ran.out


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_has_its_bench(chimera, preset):
    ran = chimera(preset, "bench", "--help")

    assert ran.code == 0
    assert "--bench-limit" in ran.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["eval"], "which benchmark?"),
        (["eval", "--benchmark", "nope"], "unknown benchmark 'nope'"),
        (["eval", "--benchmark", "no.such.module:Bench"], "no module 'no.such.module'"),
        (["eval", "--benchmark", "json:loads"], "is no Benchmark class"),
        (["eval", "-b", "human-eval", "--option", "x"], "expected KEY=VALUE"),
        (["eval", "-b", "human-eval", "--option", "colour=red"], "has no option 'colour'"),
        (["eval", "-b", "human-eval", "-a", "oracle", "--limit", "x"], "expected N or A:B"),
        (["eval", "-b", "human-eval", "-a", "oracle", "--limit", "0"], "selects no task"),
        (["eval", "-b", "human-eval", "-a", "oracle", "--task", "x*"], "fits no task"),
        (["eval", "-b", "human-eval", "-a", "nobody"], "unknown agent 'nobody'"),
        (["eval", "-b", "human-eval"], "model"),
        (["eval", "-b", "human-eval", "--samples", "0"], "samples"),
        (["eval", "--resume", "gone"], "no run 'gone'"),
        (["eval", "--config", "absent.toml"], "absent.toml"),
        (["grade"], "give a RUN"),
        (["grade", "-b", "human-eval", "--predictions", "absent.jsonl"], "no such file"),
        (["runs", "show", "gone"], "no run 'gone'"),
        (["compare", "a", "b"], "no run 'a'"),
        (["frobnicate"], "No such command"),
    ],
)
def test_wrong_usage_is_one_clear_error(chimera, arguments, says):
    ran = chimera(*arguments)

    assert ran.code == 2
    assert says in ran.err
    assert "Traceback" not in ran.err


def test_hostile_answers_are_not_tried_without_confinement(chimera):
    result = chimera("attack", "human-eval", "--environment", "local")

    assert result.code == 2
    assert "only where they are confined" in result.err


def test_graders_are_proved_and_attacked_on_chosen_tasks(chimera, tmp_path):
    task = {"id": "a", "prompt": "Say yes.", "expected": "yes", "gold": "yes"}
    (tmp_path / "tasks").mkdir()
    for name in ("a", "b"):
        (tmp_path / "tasks" / f"{name}.json").write_text(json.dumps({**task, "id": name}))

    proved = chimera("validate", "custom", "--dataset", "tasks", "--task", "b", "--json")
    absent = chimera("validate", "custom", "--dataset", "tasks", "--task", "c")

    assert json.loads(proved.out)["tasks"] == 1
    assert absent.code == 2
    assert "fits no task" in absent.err
