"""Plots and frames for notebooks."""

from __future__ import annotations

import pytest

from chimera.eval.runs.comparison import compare_runs, read_scores
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.store import RunStore
from chimera.eval.values import TrialRecord, Verdict

pyplot = pytest.importorskip("matplotlib.pyplot", exc_type=ImportError)

from chimera.eval.runs import plots  # noqa: E402 - nothing to import without matplotlib


@pytest.fixture
def paths(tmp_path):
    made = []
    for name, letters in (("$a$", "ppff"), ("b", "pppf")):
        path = tmp_path / f"{name}.chi"
        with RunStore(path, create=True) as store:
            store.set_manifest({"identity": {"benchmark": "x"}, "model": name, "agent": "direct"})
            for number, letter in enumerate(letters):
                verdict = Verdict(letter == "p")
                for sample in (0, 1):
                    store.write(TrialRecord(f"t{number}", sample, "", verdict=verdict, cost=0.1))
        made.append(path)
    yield made
    pyplot.close("all")


def labels(axis):
    return [label.get_text() for label in axis.get_yticklabels()]


def test_rates_and_costs(paths):
    runs = plots.read_runs(paths)
    axis = plots.plot_rates(runs)

    assert labels(axis) == [r"\$a\$, x", "b, x"]
    assert plots.plot_costs(runs).get_xlabel() == "cost (US dollars)"
    axis.figure.canvas.draw()


def test_differences(paths):
    axis = plots.plot_differences(compare_runs(read_scores(paths)))

    assert labels(axis) == [r"b − \$a\$"]


def test_curves_end_with_the_samples_that_all_tasks_have(paths):
    with RunStore(paths[0]) as store:
        axis = plots.plot_pass_curves(EvalResult.of(store))

    assert [list(line.get_xdata()) for line in axis.get_lines()] == [[1, 2], [1, 2]]


def test_a_given_axis_is_drawn_on(paths):
    _, axis = pyplot.subplots()

    assert plots.plot_rates(plots.read_runs(paths), axis) is axis


def test_trials_of_several_runs_in_one_frame(paths):
    pytest.importorskip("pandas")
    frame = plots.trials_frame(paths)

    assert list(frame.groupby("run")["passed"].mean()) == [0.5, 0.75]
