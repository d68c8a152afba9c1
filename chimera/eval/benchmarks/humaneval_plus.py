"""HumanEval+: HumanEval's 164 tasks with many more inputs, by EvalPlus's rules."""

from __future__ import annotations

from chimera.eval.data.sources import Item, WebFile
from chimera.eval.kits.evalplus.benchmark import RELEASES, EvalPlusBenchmark


class HumanEvalPlus(EvalPlusBenchmark):
    slug = "humaneval-plus"
    aliases = ("human-eval-plus", "humaneval+")
    description = "HumanEval's 164 tasks with many more inputs"
    setup = "Or put HumanEvalPlus.jsonl.gz there."
    files = (
        "HumanEvalPlus.jsonl.gz",
        "HumanEvalPlus.jsonl",
        "HumanEvalPlus-v0.1.10.jsonl",
        "HumanEvalPlus-NoExtreme.jsonl.gz",
        "HumanEvalPlus-Mini.jsonl.gz",
    )
    sources = (
        Item(
            "HumanEvalPlus.jsonl.gz",
            WebFile(
                f"{RELEASES}/humanevalplus_release/releases/download/v0.1.10/HumanEvalPlus.jsonl.gz"
            ),
            unpacked_md5="fe585eb4df8c88d844eeb463ea4d0302",
            size=925_932,
        ),
    )
    licence = "Apache-2.0"
    origin = "humaneval"
