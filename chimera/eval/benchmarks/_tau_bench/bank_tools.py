"""The tools of tau2-bench's bank that must be unlocked."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any

from chimera.eval.benchmarks._tau_bench.bank import need
from chimera.eval.benchmarks._tau_bench.bank_texts import own_texts
from chimera.eval.benchmarks._tau_bench.kernel import FunctionT, Kind, check_arguments, tool

KEYWORD = Parameter.KEYWORD_ONLY
UNNAMED = "Error: Missing required parameters."
IN_BRACKETS = "Error: Missing required parameters ({})."
LISTED = "Error: Missing required parameters. Required: {}."


def need_all(refusal: str, **given: object) -> None:
    """Refuse a call that leaves any of these empty; their names fill the place in the refusal."""
    need(all(given.values()), refusal.format(", ".join(given)))


def inner(kind: Kind) -> Callable[[FunctionT], Any]:
    """Declare a method as a tool that must be unlocked. Its parameters are those the bank states,
    and it may take them as `**given`, in that order; one with a default it names itself."""

    def mark(function: FunctionT) -> Any:
        own = signature(function).parameters
        stated = [
            own.get(name, Parameter(name, KEYWORD)).replace(kind=KEYWORD)
            for name in own_texts()[function.__name__].parameters
        ]
        whole = Signature([own["self"], *stated])

        @wraps(function)
        def in_order(self: Any, **given: Any) -> Any:
            check_arguments(function.__qualname__, whole, {"self": self, **given})
            return function(self, **{p.name: given[p.name] for p in stated if p.name in given})

        in_order.__dict__["__signature__"] = whole
        return tool(kind, discoverable=True)(in_order)

    return mark
