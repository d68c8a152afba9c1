"""The state of each adapter, by the records that `chimera validate --record` leaves."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

from chimera.eval.registry import BENCHMARKS

#: What the verdict follows: the official grader and the version it was read from.
OFFICIAL = {
    "aider-polyglot": "the exercises' own tests (aider's benchmark protocol)",
    "aimo": "exact integer of the competition; AIME as in lm-evaluation-harness",
    "cline-bench": "Harbor verifier, reward files",
    "context-bench": "letta-evals: exact first, then a judge model",
    "custom": "the task's own check",
    "dpai-arena": "the tracks' own tools (JUnit, JaCoCo, static analysis), judge model for reviews",
    "feature-bench": "fail-to-pass and pass-to-pass lists",
    "human-eval": "openai/human-eval 6d43fb9",
    "humaneval-plus": "evalplus 0.3.1",
    "livecodebench": "LiveCodeBench's published rules",
    "math-500": "math-verify, string normalisation first",
    "mbpp": "google-research/mbpp asserts",
    "mbpp-plus": "evalplus 0.3.1",
    "swe-bench": "swebench 5.0",
    "swe-bench-verified": "swebench 5.0",
    "swe-polybench": "SWE-PolyBench pass rule",
    "swt-bench": "SWT-Bench: fails before, passes after",
    "tau-bench": "tau-bench v1 reward",
    "tau2-bench": "tau2-bench reward bases",
    "terminal-bench": "Terminal-Bench 2.0 tests, Harbor rewards",
    "webarena": "WebArena evaluators",
    "webarena-verified": "WebArena-Verified evaluators",
}


@dataclass(frozen=True, slots=True)
class BenchmarkStatus:
    slug: str
    state: str  # "validated": gold passes on every task; "partly": on those tried; or "unproven"
    tasks: str
    gold: str
    nothing: str
    mutants: str
    official: str
    note: str = ""


def benchmark_states() -> list[BenchmarkStatus]:
    return [_state(slug) for slug in sorted(BENCHMARKS)]


def _state(slug: str) -> BenchmarkStatus:
    record = files("chimera.eval.proof").joinpath(f"records/{slug}.json")
    if not record.is_file():
        return BenchmarkStatus(slug, "unproven", "–", "–", "–", "–", OFFICIAL[slug])
    content = json.loads(record.read_text(encoding="utf-8"))
    gold, nothing, mutants = (
        content["answers"].get(answer, {"graded": 0, "as_due": 0})
        for answer in ("gold", "empty", "mutant")
    )
    excepted = len(content.get("exceptions", ()))  # defects of the data set, each with its reason
    proven = gold["as_due"] + excepted >= gold["graded"] > 0
    counted = mutants["graded"] - mutants.get("equivalent", 0)
    tasks, whole = content["tasks"], content.get("of", content["tasks"])
    return BenchmarkStatus(
        slug=slug,
        state="validated" if proven and tasks == whole else "partly validated",
        tasks=str(tasks) if tasks == whole else f"{tasks} of {whole}",
        gold=f"{gold['as_due']}/{gold['graded']}",
        nothing=f"{nothing['graded'] - nothing['as_due']}/{nothing['graded']}",
        mutants=f"{mutants['as_due']}/{counted}" if counted else "–",
        official=OFFICIAL[slug],
        note=content.get("note", ""),
    )


def markdown_table(states: Iterable[BenchmarkStatus]) -> str:
    lines = [
        "| benchmark | state | tasks validated | gold passed | nothing passed | mutants caught "
        "| graded as | note |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| [{s.slug}](benchmarks/{s.slug}.md) | {s.state} | {s.tasks} | {s.gold} | {s.nothing} "
        f"| {s.mutants} | {s.official} | {s.note} |"
        for s in states
    ]
    return "\n".join(lines) + "\n"
