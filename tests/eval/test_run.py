"""From settings to a finished run, without a command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from chimera.errors import ExitCode, UsageError
from chimera.eval.benchmark import Benchmark
from chimera.eval.run import (
    RunSettings,
    choose_backend,
    exit_code,
    explained_backend,
    prepare,
    resumed_settings,
    run,
    select_tasks,
)
from chimera.eval.runs.store import RunStore

TASKS = [{"id": name} for name in ("a1", "a2", "b1", "b2")]


class Plain(Benchmark):
    def name(self):
        return "plain"

    def tasks(self):
        return TASKS


@pytest.mark.parametrize(
    ("limit", "globs", "chosen"),
    [
        (None, (), "a1 a2 b1 b2"),
        ("2", (), "a1 a2"),
        ("1:3", (), "a2 b1"),
        (":2", (), "a1 a2"),
        ("3:", (), "b2"),
        ("1", ("b*",), "b1"),
        (None, ("*1", "b2"), "a1 b1 b2"),
    ],
)
def test_tasks_are_chosen_by_number_and_glob(limit, globs, chosen):
    assert [task["id"] for task in select_tasks(TASKS, limit, globs)] == chosen.split()


@pytest.mark.parametrize(
    ("limit", "globs", "says"),
    [
        ("x", (), "expected N or A:B"),
        ("0", (), "selects no task"),
        ("900:901", (), "selects no task; there are 4"),
        (None, ("c*",), "fits no task"),
    ],
)
def test_a_choice_of_nothing_is_refused(limit, globs, says):
    with pytest.raises(UsageError, match=says):
        select_tasks(TASKS, limit, globs)


@pytest.mark.parametrize(
    ("environments", "needs_commands", "chosen"),
    [
        (("none",), True, "none"),
        (("none", "bubblewrap"), False, "none"),
        (("local", "none"), False, "none"),
    ],
)
def test_the_first_backend_that_fits_is_chosen(environments, needs_commands, chosen):
    benchmark = Plain()
    benchmark.environments = environments

    assert choose_backend(benchmark, needs_commands=needs_commands) == chosen


class Both(Plain):
    environments = ("docker", "none")


class Rows(Plain):
    """Each row says itself where it can be decided."""

    environments = ("docker", "none")

    def fitting_environments(self, task):
        return ("none",) if task["id"].startswith("a") else ("docker",)


@pytest.mark.parametrize(
    ("tasks", "chosen", "why"),
    [
        (TASKS[:2], "none", "none fits all of the 2 tasks"),
        (TASKS[:3], "none", "none fits 2 of the 3 tasks"),
    ],
)
def test_rows_choose_the_backend_and_it_is_explained(tasks, chosen, why):
    found, said = explained_backend(Rows(), tasks)

    assert found == chosen
    assert why in said


def test_a_backend_that_is_not_there_is_replaced_by_no_other(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    monkeypatch.setenv("PATH", "")

    with pytest.raises(UsageError, match=r"(?s)needs the environment docker.*fits too.*none"):
        choose_backend(Both(), TASKS)


def test_local_is_never_chosen():
    benchmark = Plain()
    benchmark.environments = ("local", "none")

    with pytest.raises(UsageError, match="--environment local runs without confinement"):
        choose_backend(benchmark, needs_commands=True)


def test_a_run_is_stored_described_and_written(letters, tmp_path):
    settings = RunSettings(letters, model="scripted/text:a", option=("count=3",))
    result = run(settings, runs=tmp_path / "kept", output=tmp_path / "deep" / "out.json")

    assert (result.passed, result.failed) == (1, 2)
    assert Path(result.store.path).parent == tmp_path / "kept"
    written = json.loads((tmp_path / "deep" / "out.json").read_text())
    assert {row["task_id"]: row["passed"] for row in written["results"]} == {
        "a": True,
        "b": False,
        "c": False,
    }
    manifest = result.store.manifest()
    assert RunSettings.of_manifest(manifest["settings"]) == settings
    assert (manifest["agent"], manifest["environment"]) == ("direct", "none")


def test_a_run_goes_on_with_its_settings_and_the_changes(letters, tmp_path):
    first = run(RunSettings(letters, agent="oracle", limit="1"))
    settings = resumed_settings("latest", changes={"limit": "3"})
    second = run(settings, resume="latest")

    same = RunSettings(letters, agent="oracle", environment="none")
    assert settings == replace(same, limit="3")
    assert second.store.path == Path("runs") / Path(first.store.path).name
    assert (first.total, second.total) == (1, 3)


def test_a_run_that_does_not_say_how_it_was_made_cannot_go_on(tmp_path):
    with RunStore(tmp_path / "r.chi", create=True):
        pass

    with pytest.raises(UsageError, match="does not say how it was made"):
        resumed_settings("r", tmp_path)


@pytest.mark.parametrize(
    ("agent", "passed"), [("oracle", 4), ("nop", 0), ("replay:answers.jsonl", 1)]
)
def test_what_knows_answers_goes_in_an_agents_place(letters, tmp_path, agent, passed):
    (tmp_path / "answers.jsonl").write_text(
        "".join(json.dumps({"task_id": name, "output": "a"}) + "\n" for name in "abcd")
    )

    assert run(RunSettings(letters, agent=agent)).passed == passed


def test_an_answer_that_a_users_class_hands_in_itself(letters, tmp_path):
    (tmp_path / "knows_letters.py").write_text(
        "from chimera.eval.harness import Submission\n"
        "class Knows:\n"
        "    def submit(self, benchmark, task, sample, env):\n"
        "        return Submission(task['id'])\n"
    )

    assert run(RunSettings(letters, agent=f"{tmp_path}/knows_letters.py:Knows")).passed == 4


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"agent": "nobody"}, "Known: .*nop.*oracle.*react.*replay"),
        ({"agent": "json:JSONDecoder"}, "neither run"),
        ({"agent": "oracle", "agent_option": ("x=1",)}, "no option 'x'"),
        ({"option": ("colour=red",)}, "no option 'colour'"),
        ({"option": ("count",)}, "expected KEY=VALUE"),
        ({"dataset": "x"}, "takes no --dataset"),
        ({"model": "openai/no-such-model", "budget": 1.0}, "price of"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_runs(letters, settings, says, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")

    with pytest.raises(UsageError, match=says):
        prepare(RunSettings(letters, **settings))
    assert not Path("runs").exists()


def test_the_exit_code_says_whether_it_is_complete_and_good_enough(letters):
    result = run(RunSettings(letters, model="scripted/text:a"))

    assert exit_code(result) is ExitCode.DONE
    assert exit_code(result, fail_under=0.25) is ExitCode.DONE
    assert exit_code(result, fail_under=0.26) is ExitCode.GATE
    broken = run(RunSettings(letters, agent="command:false", environment="local", retries=0))
    assert exit_code(broken, fail_under=0.0) is ExitCode.INCOMPLETE
