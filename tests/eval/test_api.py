"""`import chimera`: evaluate, load, and what can be done with a result."""

from __future__ import annotations

import subprocess
import sys

import pytest

import chimera
from chimera.errors import UsageError
from chimera.eval.harness import Benchmark, Harness
from chimera.types import AgentResult, CommandResult


class Capitals(Benchmark):
    def name(self):
        return "capitals"

    def tasks(self):
        return [
            {"id": "france", "prompt": "Capital of France?", "city": "Paris"},
            {"id": "<italy>", "prompt": "Capital of Italy?", "city": "Rome"},
        ]

    def evaluate(self, task, agent_output, env):
        return agent_output == task["city"]


class Agent:
    def run(self, prompt, env):
        return AgentResult("Paris")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_a_benchmark_by_name_is_run_stored_and_loaded_again():
    result = chimera.evaluate("human-eval", model="scripted/echo", limit=2, samples=2)
    loaded = chimera.load("latest")

    assert (result.total, result.passed) == (4, 0)
    assert list(loaded) == result.results
    assert loaded.summary() == result.summary()
    again = chimera.evaluate(
        "human-eval", model="scripted/echo", limit=3, samples=2, resume="latest"
    )
    assert (again.total, len(again)) == (6, 6)


def test_names_in_a_harness():
    result = Harness(benchmark="human-eval", agent="oracle", tasks=None).run()
    assert (result.passed, result.total) == (164, 164)
    named = Harness(benchmark=Capitals(), agent="direct", model="scripted/text:Rome").run()
    assert named.passed == 1


@pytest.mark.parametrize(
    "agent",
    [
        lambda prompt: "Paris",
        lambda prompt, env: "Paris",
        lambda prompt, env: AgentResult("Paris"),
        Agent(),
    ],
)
def test_functions_and_objects_are_agents(agent):
    assert chimera.evaluate(Capitals(), agent=agent).passed == 1
    assert Harness(benchmark=Capitals(), agent=agent).run().passed == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"agent": Agent}, "the agent is a class: give an object of it"),
        ({"agent": 7}, "the agent is int: expected a name, a function"),
        ({"agent": lambda: "x"}, r"expected \(prompt\) or \(prompt, env\)"),
        ({"benchmark": Capitals}, "the benchmark is a class"),
        ({"benchmark": 7}, "the benchmark is int: expected a name or an object"),
        ({"samples": "3"}, "samples is '3': expected int"),
        ({"budget": "much"}, "budget is 'much': expected "),
    ],
)
def test_wrong_types_are_refused_with_what_was_expected(arguments, expected):
    given = {"benchmark": Capitals(), "agent": Agent(), **arguments}
    with pytest.raises(UsageError, match=expected):
        Harness(**given)
    with pytest.raises(UsageError, match=expected):
        chimera.evaluate(given.pop("benchmark"), **given)


@pytest.mark.parametrize("wrong", [None, 7, b"Paris", ["Paris"]])
def test_what_is_no_answer_is_an_error_and_never_a_verdict(wrong):
    result = Harness(benchmark=Capitals(), agent=lambda prompt: wrong).run()

    assert (result.errored, result.pass_rate) == (2, None)
    assert "not a text or an AgentResult" in result.results[0].why


@pytest.mark.parametrize(
    ("setting", "says"), [("modle", "did you mean 'model'"), ("zzz", "there are: benchmark")]
)
def test_a_setting_that_is_none_is_refused(setting, says):
    with pytest.raises(UsageError, match=says):
        chimera.evaluate("human-eval", **{setting: "x"})


def test_results_are_filtered():
    result = chimera.evaluate(Capitals(), agent=lambda prompt: "Rome")

    assert [trial.task_id for trial in result.filter(status="passed")] == ["<italy>"]
    assert [trial.task_id for trial in result.filter(task="fr*")] == ["france"]
    assert result.filter(lambda trial: trial.score > 2) == []
    with pytest.raises(UsageError, match="status is 'wrong'"):
        result.filter(status="wrong")


@pytest.mark.parametrize("frames", ["pandas", "polars"])
def test_results_are_data_frames(frames):
    pytest.importorskip(frames)
    result = chimera.evaluate(Capitals(), agent=lambda prompt: "Rome")
    frame = getattr(result, f"to_{frames}")()

    passed = dict(zip(frame["task_id"], frame["passed"], strict=True))  # as they ended
    assert passed == {"france": False, "<italy>": True}
    assert {"why", "cost", "input_tokens", "duration", "metrics"} <= set(frame.columns)


def test_a_notebook_is_shown_text_and_no_markup():
    shown = chimera.evaluate(Capitals(), agent=lambda prompt: "Rome")._repr_html_()

    assert "50.0% passed" in shown
    assert "&lt;italy&gt;" in shown
    assert "<italy>" not in shown


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (
            "Rome",
            "<EvalResult capitals: 50.0% passed (1 passed, 1 failed, 0 without a verdict; 95% ",
        ),
        (None, "<EvalResult capitals: no verdicts (0 passed, 0 failed, 2 without a verdict)>"),
    ],
)
def test_a_result_is_a_line_in_a_terminal_and_claims_no_rate_without_a_verdict(answer, shown):
    result = chimera.evaluate(Capitals(), agent=lambda prompt: answer)

    assert repr(result).startswith(shown)
    assert ("interval" in result._repr_html_()) == ("interval" in repr(result)) == bool(answer)


def test_importing_does_nothing():
    code = (
        "import sys, chimera\n"
        "assert not [n for n in sys.modules if n.startswith('chimera.')], sys.modules\n"
        "assert set(chimera.__all__) == set(dir(chimera))\n"
        "for name in chimera.__all__: getattr(chimera, name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_output_of_a_command_is_never_silently_unlike_a_text():
    result = CommandResult(b"hi", b"", 0)

    assert result.stdout == b"hi"
    assert (result.stdout_text, result.stderr_text) == ("hi", "")
    assert {result.stdout: 1} == {b"hi": 1}
    with pytest.raises(TypeError, match="stdout_text"):
        assert result.stdout == "hi"
