"""A judge is not bound by what the agent has used up, but its calls are accounted for."""

from __future__ import annotations

import pytest

from chimera.errors import GraderError
from chimera.eval.kits.judge import Judge
from chimera.providers.meter import Meter, TrialLimits, metered


def test_a_judge_answers_after_the_trials_time_and_tokens_are_used_up():
    meter = Meter(limits=TrialLimits(max_tokens=0, seconds=1.0), deadline=0.0)

    with metered(meter):
        reply = Judge("scripted/text:fair").ask("Judge.", "Is it?")

    assert reply == "fair"
    assert len(meter.calls) == 1
    assert meter.usage.total_tokens > 0


def test_what_was_asked_and_answered_is_evidence():
    judge = Judge("scripted/echo")

    judge.ask("Judge.", "Is it?")
    judge.ask("Judge.", "Or not?")

    assert judge.evidence()["judge"] == {
        "model": "scripted/echo",
        "asked": [
            {"instructions": "Judge.", "question": "Is it?", "reply": "Is it?"},
            {"instructions": "Judge.", "question": "Or not?", "reply": "Or not?"},
        ],
    }


def test_a_judge_that_is_not_needed_leaves_no_evidence():
    assert Judge(None).evidence() == {}


def test_without_a_model_there_is_no_verdict():
    with pytest.raises(GraderError, match="--option judge=SERVICE/MODEL"):
        Judge(None, option="judge").ask("Judge.", "Is it?")
