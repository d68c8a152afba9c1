"""A judge is not bound by what the agent has used up, but its calls are accounted for."""

from __future__ import annotations

from chimera.eval.kits.judge import ask
from chimera.providers import create_provider
from chimera.providers.meter import Meter, TrialLimits, metered


def test_a_judge_answers_after_the_trials_time_and_tokens_are_used_up():
    meter = Meter(limits=TrialLimits(max_tokens=0, seconds=1.0), deadline=0.0)

    with metered(meter):
        reply = ask(create_provider("scripted/text:fair"), "Judge.", "Is it?")

    assert reply == "fair"
    assert len(meter.calls) == 1
    assert meter.usage.total_tokens > 0


def test_a_judge_can_be_asked_outside_of_a_trial():
    assert ask(create_provider("scripted/text:fair"), "Judge.", "Is it?") == "fair"
