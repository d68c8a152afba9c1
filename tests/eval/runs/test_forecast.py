"""What is said of a run before it is done."""

from __future__ import annotations

import random

import pytest

from chimera.eval.runs.forecast import RunningForecast, Tally, forecast_before, newest_like
from chimera.eval.runs.store import RunStore
from chimera.eval.values import TrialRecord, Verdict


def tally(costs, passed=0):
    seen = Tally()
    for number, cost in enumerate(costs):
        seen.add("passed" if number < passed else "failed", cost, 2.0)
    return seen


def test_before_a_run_by_one_like_it():
    forecast = forecast_before(
        tally([0.1, 0.3], passed=1), trials=100, tasks=100, at_once=4, basis="by 2 trials of x"
    )

    assert forecast.cost == pytest.approx(20)
    assert forecast.cost_range[0] < 20 < forecast.cost_range[1]
    assert forecast.seconds == pytest.approx(50)
    assert forecast.width == pytest.approx(0.0962, abs=1e-3)  # Wilson's for 50 of 100
    assert "cost $20.00 ($" in forecast.text


def test_before_a_run_with_nothing_to_go_by():
    forecast = forecast_before(None, trials=10, tasks=10, at_once=4, basis="")

    assert forecast.text == (
        "cost unknown, time unknown, pass rate within ±26.3%; no earlier run to go by"
    )


def test_a_price_that_is_not_known_is_not_guessed():
    seen = tally([0.1, None])

    assert forecast_before(seen, trials=9, tasks=9, at_once=1, basis="x").cost is None


def test_a_run_forecasts_itself_from_a_tenth_of_its_trials_on():
    running = RunningForecast(samples=2)
    running.planned(110, 10)
    told = [
        running.finished(TrialRecord("t", 0, "", verdict=Verdict(True), cost=0.5))
        for _ in range(30)
    ]
    first = next(number for number, forecast in enumerate(told, 1) if forecast)

    assert first == 10
    assert sum(forecast is not None for forecast in told) == 1
    assert told[9].cost == pytest.approx(50)
    assert "by 10 of 100 trials" in told[9].text
    assert running.now().width == told[9].width


def test_the_range_of_the_cost_holds_19_times_out_of_20():
    generator, held = random.Random(3), 0
    for _ in range(300):
        costs = [generator.expovariate(1) for _ in range(200)]
        low, high = forecast_before(
            tally(costs[:40]), trials=160, tasks=160, at_once=1, basis=""
        ).cost_range
        held += low <= sum(costs[40:]) <= high

    assert 0.9 < held / 300 < 0.99


def test_the_newest_run_of_the_same_benchmark_model_and_agent(tmp_path):
    for name, model in (("1", "m"), ("2", "m"), ("3", "other")):
        with RunStore(tmp_path / f"{name}.chi", create=True) as store:
            store.set_manifest({"identity": {"benchmark": "b"}, "model": model, "agent": "direct"})
            store.write(TrialRecord("t", 0, "", verdict=Verdict(True)))
    (tmp_path / "4.chi").write_text("no run")
    found = newest_like(tmp_path.glob("*.chi"), benchmark="b", model="m", agent="direct")

    assert found[0] == "2"
    assert found[1].trials == 1
    assert newest_like(tmp_path.glob("*.chi"), benchmark="b", model="m", agent="react") is None
