"""The state of each adapter, by the records that `chimera validate --record` leaves."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from chimera.eval.benchmark import Benchmark
from chimera.eval.registry import adapters


@dataclass(frozen=True, slots=True)
class BenchmarkStatus:
    """What a record shows of a grader, as text for a table; "–" where it shows nothing."""

    slug: str
    state: str  # "validated": gold passes on every task; "partly": on those tried; or "unproven"
    graded_as: str
    description: str
    tasks: str = "–"  # those that the record covers, of all
    covers: str = "–"  # suites, scenarios and options
    gold: str = "–"
    no_verdict: str = "–"  # answers that ended in an error
    nothing: str = "–"
    mutants: str = "–"
    note: str = ""
    judge: str = ""  # what the judge model made of references and of wrong answers


def benchmark_states() -> list[BenchmarkStatus]:
    return [_state(cls()) for cls in adapters().values()]


def _state(adapter: Benchmark[Any]) -> BenchmarkStatus:
    slug, graded_as, description = adapter.slug, adapter.graded_as(), adapter.description
    record = files("chimera.eval.proof").joinpath(f"records/{slug}.json")
    if not record.is_file():
        return BenchmarkStatus(slug, "unproven", graded_as, description)
    content = json.loads(record.read_text(encoding="utf-8"))
    gold, nothing, mutants = (
        content["answers"].get(answer, {"graded": 0, "as_due": 0, "errors": 0})
        for answer in ("gold", "empty", "mutant")
    )
    excepted = len(content.get("exceptions", ()))  # defects of the data set, each with its reason
    proven = gold["as_due"] + excepted >= gold["graded"] > 0
    counted = mutants["graded"] - mutants.get("equivalent", 0)
    tasks, whole = content["tasks"], content.get("of", content["tasks"])
    passed = nothing.get("passed", nothing["graded"] - nothing["as_due"])
    return BenchmarkStatus(
        slug=slug,
        state="validated" if proven and tasks == whole else "partly validated",
        graded_as=graded_as,
        description=description,
        tasks=f"{tasks} of {whole}",
        covers=content.get("covers", "–"),
        gold=f"{gold['as_due']}/{gold['graded']}",
        no_verdict=str(sum(each["errors"] for each in (gold, nothing, mutants))),
        nothing=f"{passed}/{nothing['graded']}",
        mutants=f"{mutants['as_due']}/{counted}" if counted else "–",
        note=content.get("note", ""),
        judge=_judge(content.get("judge")),
    )


def _judge(counts: dict[str, Any] | None) -> str:
    if counts is None:
        return ""
    accepted, refused = (
        f"{counts[took]}/{counts[of]}"
        for took, of in (("gold_accepted", "gold"), ("wrong_refused", "wrong"))
    )
    return f"the judge accepts {accepted} references and refuses {refused} wrong answers"


def markdown_table(states: Iterable[BenchmarkStatus]) -> str:
    lines = [
        "| benchmark | state | tasks | covers | gold passed | no verdict | nothing passed "
        "| mutants caught | graded as | note |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| [{s.slug}](benchmarks/{s.slug}.md) | {s.state} | {s.tasks} | {s.covers} | {s.gold} "
        f"| {s.no_verdict} | {s.nothing} | {s.mutants} | {s.graded_as} "
        f"| {'; '.join(filter(None, (s.note, s.judge)))} |"
        for s in states
    ]
    return "\n".join(lines) + "\n"
