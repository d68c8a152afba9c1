"""Tools that agents of several tau domains have, with the same words in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from chimera.eval.benchmarks._tau_bench.kernel import Toolkit, calculate, tool


class CounterTools(Toolkit):
    """The tool every agent has."""

    arguments: ClassVar[Mapping[str, str]] = {
        "summary": "What the customer wants and what was done so far."
    }

    @tool("generic")
    def transfer_to_human_agents(self, summary: str) -> str:
        """Hand the customer over to a human agent: only when they ask for one explicitly, or when
        policy and tools give no way to help them."""
        return "Transfer successful"


class CalculatingTools(CounterTools):
    """The tools of agents who have to do with prices."""

    arguments: ClassVar[Mapping[str, str]] = {
        "expression": "Digits, + - * /, parentheses, points and spaces, e.g. '2 + 2'."
    }

    @tool("generic")
    def calculate(self, expression: str) -> str:
        """Work out an arithmetic expression."""
        if not all(char in "0123456789+-*/(). " for char in expression):
            raise self._refusal("Invalid characters in expression")
        return calculate(expression)
