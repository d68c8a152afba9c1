"""A judge is not bound by what the agent has used up, but its calls are accounted for."""

from __future__ import annotations

import pytest

from chimera.errors import JudgeFault
from chimera.eval.kits.judge import Judge, Opinion
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
    with pytest.raises(JudgeFault, match="--option judge=SERVICE/MODEL"):
        Judge(None, option="judge").ask("Judge.", "Is it?")


PROVIDER = """
from itertools import count
from chimera.providers.scripted import ScriptedProvider
from chimera.types import Response

REPLIES, CALLS = {replies!r}, count()

class InTurn(ScriptedProvider):
    def _call(self, request):
        return Response(content=REPLIES[next(CALLS) % len(REPLIES)])
"""


@pytest.fixture
def in_turn(tmp_path):
    """A judge model whose samples say these things, one after another."""

    def model(*replies):
        file = tmp_path / f"judge_{'_'.join(replies)}.py"
        file.write_text(PROVIDER.format(replies=replies))
        return f"{file}:InTurn"

    return model


def yes_or_no(reply):
    if reply not in ("yes", "no"):
        raise JudgeFault(f"neither: {reply}")
    return Opinion(reply == "yes", reply)


@pytest.mark.parametrize(
    ("replies", "decision", "agreement"),
    [
        (("yes", "yes", "yes"), True, 1.0),
        (("yes", "no", "yes"), True, 2 / 3),
        (("no", "no", "well"), False, 2 / 3),
        (("no", "yes", "no", "no"), False, 0.75),
    ],
)
def test_enough_samples_of_a_judge_decide(in_turn, replies, decision, agreement):
    judge = Judge(in_turn(*replies), samples=len(replies))

    assert judge.decide("Judge.", "Is it?", yes_or_no).decision is decision
    assert judge.metrics() == {"judge_samples": len(replies), "judge_agreement": agreement}
    assert [each["reply"] for each in judge.evidence()["judge"]["asked"]] == list(replies)


@pytest.mark.parametrize(
    ("replies", "says"),
    [
        (("yes", "no"), "split: 1 × True, 1 × False"),
        (("yes", "no", "yes", "no", "yes"), "split: 3 × True, 2 × False"),
        (("yes", "well", "well"), "split: 1 × True, 2 × no answer"),
        (("well", "well"), "neither: well"),
    ],
)
def test_a_judge_that_is_split_gives_no_verdict(in_turn, replies, says):
    with pytest.raises(JudgeFault, match=says):
        Judge(in_turn(*replies), samples=len(replies)).decide("Judge.", "Is it?", yes_or_no)


def test_one_sample_says_nothing_of_agreement():
    judge = Judge("scripted/text:yes")

    assert judge.decide("Judge.", "Is it?", yes_or_no) == Opinion(True, "yes")
    assert judge.metrics() == {}
