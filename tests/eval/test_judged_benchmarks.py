"""Benchmarks that a model judges, end to end: the verdict, its evidence, its certificate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chimera.errors import UsageError
from chimera.eval.harness import Harness
from chimera.eval.proof.validate import validate
from chimera.eval.registry import create_benchmark
from chimera.eval.run import RunSettings, prepare
from chimera.eval.submitters import OracleAgent
from chimera.eval.trial import StartBackend

REVIEW = {
    "instance_id": "review-1",
    "track": "pr-review",
    "problem_statement": "A change of the price service.",
    "diff": "+ return price - count;",
    "findings": [
        {"description": "subtracts instead of multiplying", "file": "PriceService.java", "line": 3},
        {"description": "no test"},
    ],
}
FAIR = Path(__file__).parents[2] / "examples" / "fair_judge.py"
#: A judge that says the contrary every second time.
WAVERING = """
import re
from itertools import count

CALLS = count()


class Wavering(FairJudge):
    def _call(self, request):
        reply = super()._call(request).content
        if next(CALLS) % 2:
            for one, other in (("incorrect", "correct"), ("1.0", "0.0"), ("true", "false")):
                reply = reply.replace(one, "#").replace(other, one).replace("#", other)
            reply = re.sub(r'"contained": .*', '"contained": []}', reply)
        return Response(content=reply)
"""


@pytest.fixture
def judge(tmp_path):
    file = tmp_path / f"{tmp_path.name}.py"  # a module's name is taken once
    file.write_text(FAIR.read_text() + WAVERING)
    return lambda name: f"{file}:{name}"


@pytest.fixture
def places(tmp_path, dataset):
    """(benchmark, data, options, the option that names the judge, a judged task) by name."""
    (tmp_path / "reviews.jsonl").write_text(json.dumps(REVIEW))
    own = [{"id": "pet", "question": "Which pet?", "answer": "Cat"}]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    return {
        "context-bench": (tmp_path / "questions.jsonl", ["judge_all=true"], "judge_model", "pet"),
        "tau2-bench": (dataset("tau2-bench"), ["domain=retail"], "judge_model", "2"),
        "webarena": (dataset("webarena"), WEB, "judge", "34"),
        "dpai-arena": (tmp_path / "reviews.jsonl", ["track=pr-review"], "judge_model", "review-1"),
    }


WEB = ["browser=false", "urls=map=http://127.0.0.1:9"]
#: Where each is graded: reviews are written where there are commands.
BACKENDS = {"dpai-arena": "bubblewrap"}
SLUGS = ("context-bench", "tau2-bench", "webarena", "dpai-arena")


@pytest.fixture
def made(places):
    """A benchmark with a judge, and its judged task."""

    def make(slug, model, *more):
        data, options, named, task_id = places[slug]
        given = [*options, *more, *([f"{named}={model}"] if model else [])]
        pairs = dict(text.split("=", 1) for text in given)
        benchmark = create_benchmark(slug, dataset=str(data), options=pairs)
        (task,) = [task for task in benchmark.tasks() if task["id"] == task_id]
        return benchmark, task

    return make


def graded(benchmark, task):
    backend = BACKENDS.get(benchmark.slug, "none")
    harness = Harness(benchmark, OracleAgent(), backend, tasks=[task], controls="off", attempts=1)
    result = harness.run()
    return result.store.record(task["id"], 0)


@pytest.mark.parametrize("slug", SLUGS)
def test_a_judges_verdict_carries_what_was_asked_and_how_far_it_agreed(made, judge, slug):
    record = graded(*made(slug, judge("FairJudge"), "judge_samples=3"))

    assert record.status == "passed", record.why
    asked = record.verdict.evidence["judge"]["asked"]
    assert len(asked) == len(record.calls) == 3
    assert all(each["question"] and each["reply"] for each in asked)
    assert record.verdict.metrics["judge_agreement"] == 1.0


@pytest.mark.parametrize("slug", SLUGS)
def test_a_split_judge_gives_no_verdict(made, judge, slug):
    record = graded(*made(slug, judge("Wavering"), "judge_samples=2"))

    assert record.status == "error"
    assert "the judge is split" in record.why


@pytest.mark.parametrize("slug", SLUGS)
def test_gold_is_accepted_and_perturbed_gold_refused(made, judge, slug):
    benchmark, task = made(slug, judge("FairJudge"))

    report = validate(benchmark, StartBackend(BACKENDS.get(slug, "none")), tasks=[task])

    counts = report.counts()["judge"]
    assert [check.why for check in report.checks if check.status == "error"] == []
    assert counts["gold_accepted"] == counts["gold"] == 1
    assert counts["wrong_refused"] == counts["wrong"] > 0
    assert counts["no_verdict"] == 0
    assert report.holds(mutants_failing=1.0)


@pytest.mark.parametrize("agent", [None, "oracle"])
@pytest.mark.parametrize("slug", SLUGS)
def test_without_a_judge_nothing_is_begun(places, slug, agent):
    data, options, named, task_id = places[slug]
    settings = RunSettings(
        slug,
        dataset=str(data),
        model=None if agent else "scripted/echo",
        agent=agent,
        option=(*options, *(["user_model=scripted/echo"] if slug == "tau2-bench" else [])),
        task=(task_id,),
        environment=BACKENDS.get(slug, "none"),
    )

    with pytest.raises(UsageError, match=f"a model that judges answers: --option {named}="):
        prepare(settings)


@pytest.mark.full  # minutes on a small machine
@pytest.mark.parametrize("slug", SLUGS)
def test_the_embedded_model_gives_a_verdict_or_none_but_never_breaks(made, slug):
    record = graded(*made(slug, "local/smollm2"))

    assert record.calls
    assert record.error is None or record.error.boundary == "grader"
