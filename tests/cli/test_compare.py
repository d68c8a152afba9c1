"""`chimera compare` and `chimera power` over stored runs."""

from __future__ import annotations

import json

import pytest

from chimera.eval.runs.store import RunStore
from chimera.eval.values import TrialError, TrialRecord, Verdict


@pytest.fixture
def stored(tmp_path):
    """Write a run by a letter a trial (p, f, e); returns its name."""

    def write(name, *samples, planned=None):
        (tmp_path / "runs").mkdir(exist_ok=True)
        with RunStore(tmp_path / "runs" / f"{name}.chi", create=True) as store:
            total = planned or sum(map(len, samples))
            store.set_manifest({"identity": {"benchmark": "b"}, "model": name, "planned": total})
            for sample, letters in enumerate(samples):
                for task, letter in enumerate(letters):
                    verdict = None if letter == "e" else Verdict(letter == "p")
                    error = TrialError("agent", "broke") if letter == "e" else None
                    record = TrialRecord(f"t{task}", sample, "", verdict=verdict, error=error)
                    store.write(record)
        return name

    return write


def test_three_runs_have_all_pairs_and_the_best_marked(chimera, stored):
    names = [stored("a", "p" * 20), stored("b", "p" * 19 + "f"), stored("c", "f" * 20)]
    ran = chimera("compare", *names)

    assert ran.code == 0
    assert [line[1] for line in ran.out.splitlines()[1:4]] == ["*", "*", " "]
    assert ran.out.count(" adjusted ") == 3
    assert "cannot be told apart from it (a, b); 2 of 3 pairs differ" in ran.out


def test_trials_without_a_verdict_show_as_bounds(chimera, stored):
    ran = chimera("compare", stored("a", "ppff"), stored("b", "peff"))

    assert "no verdict 1: 25.0% to 50.0%" in ran.out
    assert "with the trials that have no verdict: between -25.0% and +0.0%" in ran.out


@pytest.mark.parametrize(
    ("candidate", "options", "code", "says"),
    [
        ("p" * 40, (), 0, "gate passed"),
        ("p" * 30 + "f" * 10, (), 1, "a significant regression"),
        ("p" * 30 + "e" * 10, (), 3, "could turn this"),
        ("p" * 40, ("--margin", "0.01"), 1, "not shown to be worse by less than 1.0%"),
        ("p" * 40, ("--margin", "0.2"), 0, "gate passed"),
    ],
)
def test_the_gate_decides_the_exit_code(chimera, stored, candidate, options, code, says):
    ran = chimera("compare", stored("a", "p" * 40), stored("b", candidate), "--gate", *options)

    assert ran.code == code
    assert says in ran.err


def test_the_gate_as_json(chimera, stored):
    ran = chimera("compare", stored("a", "pp"), stored("b", "pp"), "--gate", "--json")

    assert json.loads(ran.out)["gate"]["passed"] is True


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["compare", "a"], "give two runs"),
        (["compare", "a", "a", "--margin", "0.1"], "--margin belongs to --gate"),
        (["power"], "give one of --difference, --margin and --tasks"),
        (["power", "a", "a", "a", "--tasks", "9"], "at most two runs"),
    ],
)
def test_what_cannot_be(chimera, stored, arguments, says):
    stored("a", "pf")
    ran = chimera(*arguments)

    assert (ran.code, says in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--difference", "0.1", "--rate", "0.5"], "391 tasks × 1 samples"),
        (["a", "--difference", "0.1"], "assumed: independent runs"),
        (["a", "b", "--margin", "0.1"], "assumed: one sample a task"),
        (["c", "d", "--tasks", "100"], "100 tasks × 10 samples"),
    ],
)
def test_power(chimera, stored, arguments, says):
    for name in "ab":
        stored(name, "pf" * 20)
    for name in "cd":
        stored(name, "pf" * 20, "pp" * 20)
    ran = chimera("power", *arguments)

    assert says in ran.out
    assert json.loads(chimera("power", *arguments, "--json").out)["rows"][0]["samples"] == 1


def test_a_run_that_stops_when_decided_says_what_it_promises(chimera, tmp_path):
    tasks = [{"id": f"t{i}", "prompt": "x", "regex": "^yes$"} for i in range(40)]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    made = ("eval", "-b", "custom", "--dataset", tmp_path / "tasks.json", "-n", "1")
    chimera(*made, "-m", "scripted/text:no")
    decided = (*made, "-m", "scripted/text:yes", "--against", "latest", "--until", "decided")
    ran = chimera(*decided, "--margin", "0.1")

    assert ran.code == 0
    assert "decided: better" in ran.out
    assert "claimed with a chance of at most 0.05, however often one looks" in ran.err
    assert "--until done" in ran.out
    rest = chimera("eval", "--resume", "latest", "--until", "done")
    assert (rest.code, "40 of 40" in rest.out) == (0, True)


def test_a_decision_against_a_run_of_something_else(chimera, stored, tmp_path):
    (tmp_path / "tasks.json").write_text('[{"id": "t0", "prompt": "x", "regex": "x"}]')
    made = ("eval", "-b", "custom", "--dataset", tmp_path / "tasks.json", "-m", "scripted/text:x")
    ran = chimera(*made, "--against", stored("a", "p"), "--until", "decided")

    assert (ran.code, "is a run of b" in ran.err) == (2, True)


def test_a_dry_run_says_what_is_to_be_expected(chimera, tmp_path):
    tasks = [{"id": f"t{i}", "prompt": "x", "regex": "^yes$"} for i in range(40)]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    made = ("eval", "-b", "custom", "--dataset", tmp_path / "tasks.json", "-m", "scripted/text:yes")

    assert "no earlier run to go by" in chimera(*made, "--dry-run").out
    ran = chimera(*made)
    assert "expected: cost $0.0000, time " in ran.err
    assert "by 40 trials of " in chimera(*made, "--dry-run").out
