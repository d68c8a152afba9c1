"""The front door: instant help, clear errors, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from chimera.cli.main import COMMANDS, PRESETS, cli


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


def commands(group: click.Group, above: str = "") -> Iterator[tuple[str, str]]:
    """Every command, with its help and that of the group it is in."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        text = command.get_help(click.Context(command)) + above
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", help) for inner, help in commands(command, text))
        else:
            yield name, text


def test_every_command_or_its_group_has_an_example():
    assert [name for name, text in commands(cli) if "Example" not in text] == []


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
        (["eval", "--resume", "latest"], "no run 'latest' in runs\n"),
        (["eval", "--config", "absent.toml"], "absent.toml"),
        (["grade"], "give a RUN"),
        (["grade", "-b", "human-eval", "--predictions", "absent.jsonl"], "no such file"),
        (["runs", "show", "gone"], "no run 'gone'"),
        (["compare", "a", "b"], "no run 'a'"),
        (["frobnicate"], "No such command"),
        (["eval", "--resume", "lates"], "did you mean 'latest'?"),
        (["attack", "human-eval", "--attack", "osexit"], "did you mean 'os-exit'"),
        (
            ["eval", "-b", "human-eval", "-m", "openai/x", "--base-url", "127.0.0.1:1"],
            "begins with no http://",
        ),
        (["evla"], "did you mean 'eval'?"),
        (["eval", "-b", "human-evl"], "did you mean 'human-eval'?"),
        (["eval", "-b", "human-eval", "-a", "reakt"], "did you mean 'react'?"),
        (["eval", "-b", "human-eval", "-m", "opnai/x"], "did you mean 'openai/x'?"),
        (["eval", "-b", "human-eval", "--modle", "x"], "--model"),
        (["eval", "-b", "mbpp", "-o", "spilt=x"], "did you mean 'split'?"),
        (
            [
                "eval",
                "-b",
                "human-eval",
                "-a",
                "direct",
                "-m",
                "scripted/echo",
                "--agent-option",
                "sytem_prompt=x",
            ],
            "did you mean 'system_prompt'?",
        ),
    ],
)
def test_wrong_usage_is_one_clear_error(chimera, arguments, says):
    ran = chimera(*arguments)

    assert ran.code == 2
    assert says in ran.err
    assert "Traceback" not in ran.err


def _numbers(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The way to every option that is a number."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from _numbers(command.get_command(context, name), (*path, name))
    for parameter in command.params:
        kinds = (click.types.FloatParamType, click.types.IntParamType)
        if isinstance(parameter, click.Option) and isinstance(parameter.type, kinds):
            yield (*path, parameter.opts[0])


@pytest.mark.parametrize("value", ["nan", "inf", "1e301", "9" * 400])
def test_no_option_takes_a_number_that_nobody_can_count_with(chimera, value):
    options = list(_numbers(cli, ()))

    assert ("eval", "--budget") in options
    for option in options:
        ran = chimera(*option, value)
        assert ran.code == 2, option
        assert "Invalid value" in ran.err, option


@pytest.mark.parametrize("line", ["budget = nan", "budget = true", "samples = 1.5", "seed = true"])
def test_a_file_gives_no_number_that_the_command_line_would_not_take(chimera, tmp_path, line):
    (tmp_path / "c.toml").write_text(line)
    ran = chimera("eval", "-b", "human-eval", "--config", "c.toml")

    assert (ran.code, "Invalid value" in ran.err) == (2, True)


def test_a_mistyped_key_of_a_file_is_answered_with_the_near_one(chimera, tmp_path):
    (tmp_path / "run.toml").write_text('modle = "x"\n')
    ran = chimera("eval", "--config", "run.toml", "-b", "human-eval")

    assert ran.code == 2
    assert "unknown key 'modle'; did you mean 'model'?" in ran.err


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("CHIMERA_BUGDET", "CHIMERA_BUDGET"),
        ("CHIMERA_DATASET_DIR", "CHIMERA_DATASETS_DIR"),
        ("CHIMERA_HUMANEVAL_PATH", "CHIMERA_HUMAN_EVAL_PATH"),
    ],
)
def test_a_mistyped_variable_is_refused_with_the_near_one(chimera, monkeypatch, name, near):
    monkeypatch.setenv(name, "1")
    ran = chimera("runs", "list")

    assert ran.code == 2
    assert name in ran.err
    assert near in ran.err


@pytest.mark.parametrize(
    "name",
    ["CHIMERA_MODEL", "CHIMERA_MBPP_PATH", "CHIMERA_MY_EVAL_PATH", "CHIMERA_WEBARENA_SHOPPING",
     "CHIMERA_REQUIRE_ALL", "CHIMERA_FROBNICATE"],
)  # fmt: skip
def test_variables_that_are_read_or_far_from_ours_are_left_alone(chimera, monkeypatch, name):
    monkeypatch.setenv(name, "1")

    assert chimera("runs", "list").code == 0


OWN = {
    "my_bench.py": """
from chimera.eval.harness import Benchmark
class Capitals(Benchmark):
    def name(self): return "capitals"
    def tasks(self): return [{"id": "france", "prompt": "Capital of France?"}]
    def evaluate(self, task, agent_output, env): return agent_output == f"Paris{type(env).__name__}"
""",
    "my_agent.py": """
from chimera.types import AgentResult
class Knows:
    def run(self, prompt, env): return AgentResult(f"Paris{type(env).__name__}")
""",
    "my_place.py": """
from chimera.environments.none import NoEnvironment
class Place(NoEnvironment): pass
""",
    "my_model.py": """
from chimera.providers import Provider
from chimera.types import Response
class Model(Provider):
    def _call(self, request): return Response("ParisNoEnvironment")
""",
}


@pytest.mark.parametrize(
    "arguments",
    [
        ["-b", "my_bench.py:Capitals", "-a", "my_agent.py:Knows", "-e", "my_place.py:Place"],
        ["-b", "my_bench.py", "-a", "my_agent.py", "-e", "my_place.py"],
        ["-b", "my_bench:Capitals", "-a", "my_agent:Knows", "-e", "my_place:Place"],
        ["-b", "my_bench.py", "-m", "my_model.py"],
        ["-b", "my_bench:Capitals", "-m", "my_model:Model"],
    ],
)
def test_code_of_ones_own_runs_from_the_current_directory(tmp_path, arguments):
    for name, content in OWN.items():
        (tmp_path / name).write_text(content)
    program = tmp_path / "bin" / "chimera"  # as installed: its own folder is first on the path
    program.parent.mkdir()
    program.write_text("from chimera.cli.main import main\nmain()\n")
    command = [sys.executable, program, "eval", *arguments, "--fail-under", "1"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr


def completions(*words):
    from click.shell_completion import ShellComplete

    *before, last = words
    shell = ShellComplete(cli, {}, "chimera", "_CHIMERA_COMPLETE")
    return {(item.value, item.type) for item in shell.get_completions(before, last)}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["eval", "-b", "huma"], {("human-eval", "plain"), ("humaneval-plus", "plain")}),
        (["validate", "human-e"], {("human-eval", "plain")}),
        (["eval", "--agent", "orac"], {("oracle", "plain")}),
        (["eval", "--model", "anth"], {("anthropic/", "plain")}),
        (["eval", "--environment", "bub"], {("bubblewrap", "plain")}),
        (["eval", "--benchmark", "my_"], {("my_", "file")}),
        (["eval", "--resume", "la"], {("latest", "plain")}),
        (["comp"], {("compare", "plain")}),
    ],
)
def test_names_are_completed(words, offered):
    assert completions(*words) == offered


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
