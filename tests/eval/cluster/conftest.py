"""A benchmark whose agent pays for a call and waits, in a file as users have it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

SOURCE = '''
import os
import time
from chimera.agents.base import BaseAgent
from chimera.eval.harness import Benchmark, Submission, Verdict
from chimera.providers.prices import FlatPrice
from chimera.providers.scripted import ScriptedProvider
from chimera.types import AgentResult, Message

PRICE = FlatPrice(1000.0, 1000.0)  # a tenth of a cent a token


class Waits(Benchmark):
    """Say the number; the agent knows the even ones."""

    grading = "none"
    trials_per_core = 2

    def __init__(self, count: int = 20) -> None:
        self.count = int(count)

    def name(self):
        return "waits"

    def options(self):
        return {"count": self.count}

    def tasks(self):
        return [{"id": f"t{n}", "prompt": str(n)} for n in range(self.count)]

    def grade(self, task, submission, env):
        return Verdict(submission.text == task["prompt"])

    def gold(self, task):
        return Submission(task["prompt"])


class Billed(ScriptedProvider):
    """The service keeps an account of its own: a line a call, whatever becomes of the reply."""

    def _call(self, request):
        response = super()._call(request)
        if bill := os.environ.get("BILL_OF_TESTS"):
            cost = (response.usage.input_tokens + response.usage.output_tokens) / 1000
            with open(bill, "a") as file:
                file.write(f"{request.messages[-1].content} {cost}\\n")
        return response


class Payer(BaseAgent):
    name = "payer"

    def __init__(
        self,
        seconds: float = 0.01,
        bill: str = "",
        command: str = "",
        model: str = "",
        priced: bool = True,
    ):
        self.seconds, self.command, self.priced = float(seconds), command, priced
        if bill:
            os.environ["BILL_OF_TESTS"] = bill

    def identity(self):
        return {"agent": "payer"}

    def run(self, prompt, env):
        provider = Billed(
            name="scripted/echo", model="echo", price_override=PRICE if self.priced else None
        )
        reply = provider.complete([Message.user(prompt)], max_tokens=2)
        time.sleep(self.seconds)
        if self.command:
            env.run_command(self.command)
        return AgentResult("" if int(prompt) % 2 else reply.content, steps=1)
'''


@pytest.fixture
def waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the benchmark `Waits` and its agent `Payer`; runs are kept beside it."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "waits_of_tests.py"
    file.write_text(SOURCE)
    # the module's name belongs to the first file that has it, for as long as the process lives
    monkeypatch.delitem(sys.modules, "waits_of_tests", raising=False)
    return file
