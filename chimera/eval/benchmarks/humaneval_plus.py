"""HumanEval+: HumanEval's 164 tasks with many more inputs, by EvalPlus's rules."""

from __future__ import annotations

from chimera.eval.kits.evalplus.benchmark import EvalPlusBenchmark


class HumanEvalPlus(EvalPlusBenchmark):
    slug = "humaneval-plus"
    setup = (
        "Get it with `chimera datasets pull humaneval-plus`, or put HumanEvalPlus.jsonl.gz there."
    )
    files = (
        "HumanEvalPlus.jsonl.gz",
        "HumanEvalPlus.jsonl",
        "HumanEvalPlus-v0.1.10.jsonl",
        "HumanEvalPlus-NoExtreme.jsonl.gz",
        "HumanEvalPlus-Mini.jsonl.gz",
    )
    dataset = "humaneval"
