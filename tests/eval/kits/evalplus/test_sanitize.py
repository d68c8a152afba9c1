"""The sanitizer, on outputs observed of EvalPlus's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chimera.eval.kits.evalplus.sanitize import sanitize

VECTORS = Path(__file__).parent / "vectors" / "sanitize.jsonl"
OBSERVED = [json.loads(line) for line in VECTORS.read_text().splitlines()]


@pytest.mark.parametrize("vector", OBSERVED, ids=lambda vector: vector["name"])
def test_the_sanitizer_keeps_what_evalplus_keeps(vector):
    assert sanitize(vector["text"], vector["entry_point"]) == vector["output"]
