"""What will certainly fail is said before anything is run, and all of it at once."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chimera.environments.base import EnvironmentSpec
from chimera.errors import DatasetError, ExitCode, StoreError, UsageError
from chimera.eval import preflight
from chimera.eval.benchmark import Benchmark, Lack
from chimera.eval.preflight import (
    Problems,
    backend_problems,
    check_disk,
    lacking_judge,
    lacking_model,
    lacking_packages,
    runnable,
)
from chimera.eval.run import RunSettings, prepare
from chimera.eval.runs import files

SOURCE = """
from chimera.errors import DatasetError
from chimera.eval.benchmark import Lack
from chimera.eval.harness import Benchmark
from chimera.eval.values import Submission


class Needy(Benchmark):
    grading = "none"

    def __init__(
        self, lacking: str = "", kind: str = "machine", absent: bool = False, far: str = "",
        known: str = "abcdef",
    ) -> None:
        self.lacking, self.kind, self.absent, self.far = lacking, kind, absent, far
        self.known = known
        if far:
            self.environments = ("docker", "bubblewrap")

    def name(self):
        return "needy"

    def tasks(self):
        if self.absent:
            raise DatasetError("no data")
        return [{"id": letter, "prompt": letter} for letter in "abcdef"]

    def evaluate(self, task, agent_output, env):
        return True

    def gold(self, task):
        return Submission(task["id"]) if task["id"] in self.known else None

    def missing(self, tasks=None):
        if self.absent:
            return [Lack("a lathe", "buy one")]
        wanted = {task["id"] for task in tasks or ()} & set(self.lacking)
        return [Lack("a lathe", "buy one", frozenset(wanted), self.kind)] if wanted else []

    def out_of_reach(self, tasks, backend):
        wanted = frozenset(task["id"] for task in tasks if task["id"] in self.far)
        return [Lack("an image", "name another", wanted)] if wanted and backend == "docker" else []
"""


@pytest.fixture
def needy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "needy_of_tests.py").write_text(SOURCE)
    monkeypatch.delitem(sys.modules, "needy_of_tests", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return f"{tmp_path}/needy_of_tests.py"


class Plain(Benchmark[Any]):
    def name(self) -> str:
        return "plain"

    def tasks(self) -> list[Any]:
        return [{"id": "a", "prompt": "a"}]

    def environment(self, task: Any) -> EnvironmentSpec:
        return EnvironmentSpec(image="debian")


def test_all_of_it_is_said_at_once(needy: str):
    settings = RunSettings(
        needy, model="openai/x", environment="bubblewarp", option=("lacking=a",), budget=1.0
    )

    with pytest.raises(UsageError) as told:
        prepare(settings)

    said = str(told.value)
    assert "3 things are wrong" in said
    assert "OPENAI_API_KEY" in said
    assert "did you mean 'bubblewrap'?" in said
    assert "1 of 6 tasks need a lathe: buy one" in said
    assert not Path("runs").exists()


def test_with_an_unknown_benchmark_the_other_names_are_looked_at_too():
    with pytest.raises(UsageError) as told:
        prepare(RunSettings("human-evl", model="opnai/x", environment="dokcer"))

    for near in ("'human-eval'", "'openai/x'", "'docker'"):
        assert f"did you mean {near}" in str(told.value)


def test_what_is_lacking_whatever_the_tasks_is_told_with_absent_data(needy: str):
    with pytest.raises(UsageError) as told:
        prepare(RunSettings(needy, agent="nop", option=("absent=true",)))

    assert "no data" in str(told.value)
    assert "the tasks need a lathe: buy one" in str(told.value)


def test_one_problem_is_told_as_it_is():
    problems = Problems()
    with problems.collected():
        raise DatasetError("no data")

    with pytest.raises(DatasetError, match=r"^no data$"):
        problems.raise_all()


@pytest.mark.parametrize(
    ("limit", "chosen", "told"),
    [
        ("2", "bd", ["left out: 2 of 6 tasks need a lathe: buy one"]),
        ("6", "bdef", ["left out: 2 of 6 tasks need a lathe: buy one"]),
    ],
)
def test_a_limit_begins_with_what_this_machine_can_run(needy, limit, chosen, told):
    prepared = prepare(
        RunSettings(needy, model="scripted/echo", limit=limit, option=("lacking=ac",))
    )

    assert "".join(task["id"] for task in prepared.tasks) == chosen
    assert list(prepared.left_out) == told


def test_a_resume_takes_the_tasks_that_were_chosen_whatever_can_be_had_by_then(needy: str):
    first = prepare(RunSettings(needy, model="scripted/echo", limit="2", option=("lacking=ac",)))
    again = prepare(replace(first.settings, option=("lacking=f",)))

    assert [task["id"] for task in again.tasks] == ["b", "d"]


def test_shards_mean_the_same_tasks_on_every_machine(needy: str):
    with pytest.raises(UsageError, match="tasks need a lathe"):
        prepare(
            RunSettings(needy, model="scripted/echo", limit="4", shard="1/2", option=("lacking=a",))
        )


@pytest.mark.parametrize(
    "choice",
    [{}, {"limit": "0:2"}, {"task": ("a",)}, {"limit": "1", "option": ("lacking=abcdef",)}],
)
def test_tasks_that_were_named_are_not_passed_over(needy: str, choice: dict[str, Any]):
    with pytest.raises(UsageError, match="tasks need a lathe"):
        prepare(RunSettings(needy, model="scripted/echo", **{"option": ("lacking=a",), **choice}))


def test_a_limit_that_meets_nothing_lacking_changes_nothing(needy: str):
    prepared = prepare(RunSettings(needy, model="scripted/echo", limit="2", option=("lacking=f",)))

    assert [task["id"] for task in prepared.tasks] == ["a", "b"]
    assert prepared.left_out == ()


def test_a_model_that_nobody_named_matters_only_where_a_model_answers(needy: str):
    lacking = ("lacking=a", "kind=model")

    with pytest.raises(UsageError, match="tasks need a lathe"):
        prepare(RunSettings(needy, model="scripted/echo", limit="1", option=lacking))
    assert prepare(RunSettings(needy, agent="nop", option=lacking)).tasks


@pytest.mark.parametrize(("backend", "says"), [("none", "does not offer"), ("docker", "")])
def test_what_a_backend_does_not_offer(backend, says, monkeypatch):
    monkeypatch.setattr(preflight, "available", lambda name: None)
    told = "".join(backend_problems(Plain(), backend, Plain().tasks()))

    assert says in told
    assert bool(told) == bool(says)


def test_a_backend_that_this_machine_lacks(monkeypatch):
    monkeypatch.setattr(preflight, "available", lambda name: "no engine answers")

    assert "no engine answers" in "".join(backend_problems(Plain(), "docker", []))


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    check_disk(tmp_path / "runs")
    monkeypatch.setattr(files, "LEAST_ROOM", 1 << 60)
    problems = Problems()
    with problems.collected():
        check_disk(tmp_path / "runs")

    with pytest.raises(StoreError, match=f"{tmp_path}.*--runs-dir") as told:
        problems.raise_all()
    assert told.value.exit_code == ExitCode.UNWRITABLE


def test_packages_are_named_with_the_line_that_installs_them():
    (lack,) = lacking_packages(("json", "no_such_package"), "math", "that count")

    assert lack.remedy == "pip install 'chimera-eval[math]'"
    assert lacking_packages(("json",), "math", "that count") == []


def test_models_that_cannot_be_called_are_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (lack,) = lacking_model("openai/x", "a customer", "user_model")

    assert "OPENAI_API_KEY" in lack.remedy
    assert lack.kind == "model"
    assert lacking_model("scripted/echo", "a customer", "user_model") == []


def test_a_judge_is_asked_for_where_tasks_are_judged():
    (lack,) = lacking_judge(None, frozenset("ab"))

    assert lack.remedy == "--option judge_model=SERVICE/MODEL"
    assert lack.tasks == {"a", "b"}
    assert lacking_judge(None, frozenset()) == []
    assert lacking_judge("scripted/echo", frozenset("ab")) == []


@pytest.mark.parametrize(
    ("lacks", "left"),
    [
        ([], "abc"),
        ([Lack("x", "y", frozenset("a"))], "bc"),
        ([Lack("x", "y", frozenset("a")), Lack("z", "y", frozenset("ab"))], "c"),
        ([Lack("x", "y")], ""),
    ],
)
def test_tasks_that_can_be_run(lacks: list[Lack], left: str):
    tasks = [{"id": letter} for letter in "abc"]

    assert "".join(task["id"] for task in runnable(tasks, lacks)) == left


def test_what_cannot_be_fetched_is_said_with_where_else_the_tasks_run(
    needy: str, require: Any, monkeypatch: pytest.MonkeyPatch
):
    require("bwrap")
    monkeypatch.setattr("chimera.eval.run.available", lambda backend: None)
    monkeypatch.setattr(preflight, "available", lambda backend: None)

    with pytest.raises(UsageError) as told:
        prepare(RunSettings(needy, agent="nop", option=("far=abcdef",)))

    said = str(told.value)
    assert "the tasks need an image: name another" in said
    assert "6 of 6 tasks run here with --environment bubblewrap" in said
    assert prepare(RunSettings(needy, agent="nop", limit="2", option=("far=a",))).left_out == (
        "left out: 1 of 6 tasks need an image: name another",
    )


def test_an_oracle_begins_with_what_it_knows_and_is_refused_where_it_knows_nothing(needy: str):
    every = prepare(RunSettings(needy, agent="oracle", option=("known=ce",)))
    first = prepare(RunSettings(needy, agent="oracle", option=("known=ce",), limit="1"))

    assert (len(every.tasks), every.left_out) == (6, ())
    assert [task["id"] for task in first.tasks] == ["c"]
    assert first.left_out[0].startswith("left out: 4 of 6 tasks need a reference answer: ")
    with pytest.raises(UsageError, match="the tasks need a reference answer: the data have none"):
        prepare(RunSettings(needy, agent="oracle", option=("known=ce",), limit="0:2"))
    assert prepare(RunSettings(needy, agent="nop", option=("known=",))).left_out == ()


def test_what_may_not_matter_refuses_nothing_but_others_come_first(needy: str):
    doubtful = ("lacking=ab", "kind=doubt")

    every = prepare(RunSettings(needy, agent="nop", option=doubtful))
    first = prepare(RunSettings(needy, agent="nop", option=doubtful, limit="2"))

    assert (len(every.tasks), every.left_out) == (6, ())
    assert [task["id"] for task in first.tasks] == ["c", "d"]
    assert first.left_out == ("left out: 2 of 6 tasks need a lathe: buy one",)


def test_where_all_tasks_are_in_doubt_those_come_that_lack_nothing_for_certain(
    needy: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("chimera.eval.run.available", lambda backend: None)
    monkeypatch.setattr(preflight, "available", lambda backend: None)
    options = ("lacking=abcdef", "kind=doubt", "far=ab")

    first = prepare(RunSettings(needy, agent="nop", option=options, limit="2"))

    assert [task["id"] for task in first.tasks] == ["c", "d"]
    assert first.left_out == ("left out: 2 of 6 tasks need an image: name another",)
