"""A judge without a model: it does what judges are asked to do, by comparing texts.

It proves the path of judged benchmarks, and that gold is accepted and perturbed gold refused:

    chimera validate tau2-bench -o domain=retail -o judge_model=examples/fair_judge.py:FairJudge
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from chimera.providers.base import Request
from chimera.providers.scripted import ScriptedProvider
from chimera.types import Response

AS_JSON = re.compile(r"(?:JSON string|Submission): (\".*\")$", re.MULTILINE)


def findings(asked: str) -> dict[str, Any]:
    """Which of the numbered findings a review names (DPAI Arena)."""
    listed, _, review = asked.partition("Review (JSON string):")
    numbered = re.findall(r"^(\d+)\. (.*)$", listed, re.MULTILINE)
    return {"contained": [int(number) for number, text in numbered if text in json.loads(review)]}


def outcomes(asked: str) -> dict[str, Any]:
    """Which statements were said in a conversation (tau2-bench)."""
    conversation, _, expected = asked.partition("expectedOutcomes:")
    said = [message["content"] for message in json.loads(conversation.partition(":")[2])]
    return {"results": [{"metExpectation": text in said} for text in json.loads(expected)]}


def mark(asked: str) -> str:
    """Whether an answer holds its reference (WebArena)."""
    reference = _line("Reference answer", asked)
    return "correct" if reference.lower() in json.loads(AS_JSON.findall(asked)[-1]) else "incorrect"


def score(asked: str) -> dict[str, Any]:
    """Whether a submission is the expected answer (Context-Bench)."""
    same = _line("Expected [Aa]nswer", asked) == json.loads(AS_JSON.findall(asked)[-1])
    return {"score": float(same), "rationale": "compared word for word"}


def _line(name: str, asked: str) -> str:
    found = re.search(rf"^{name}: (.*)$", asked, re.MULTILINE)
    return found[1] if found else ""


READERS: Mapping[str, Callable[[str], Any]] = {
    "Findings:": findings,
    "conversation:": outcomes,
    "You mark": mark,
}


class FairJudge(ScriptedProvider):
    def _call(self, request: Request) -> Response:
        asked = request.messages[-1].content
        read = next((READERS[start] for start in READERS if asked.startswith(start)), score)
        found = read(asked)
        return Response(content=found if isinstance(found, str) else json.dumps(found))
