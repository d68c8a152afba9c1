"""Whether two mathematical answers are equal, by named published rules, in processes that end.

An answer that sends a computer algebra system on an endless journey costs its CPU time and is not
equal.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

from chimera.errors import EnvironmentFault, UsageError
from chimera.eval.benchmarks._math500.rules import compares, equal
from chimera.eval.kits.apart import Ended, apart

PACKAGES = ("math_verify", "pylatexenc", "sympy")


@dataclass(frozen=True, slots=True)
class Equality:
    """The answer of one rule; `limit` names the limit that ended the comparison, if one did."""

    equal: bool
    limit: str | None = None


def compare(given: str, gold: str, *, rule: str) -> Equality:
    """Whether `given` equals `gold` by a rule: hendrycks, prm800k, math-verify.

    `math-verify-reply` takes both texts as they are instead of as an answer and its gold.
    """
    return compare_by(given, gold, (rule,))[rule]


def compare_by(given: str, gold: str, rules: Collection[str]) -> dict[str, Equality]:
    """The same by several rules; each is asked for by itself, since any of them may not end."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"comparing mathematical answers needs {', '.join(missing)}\n"
            "  Install it: pip install 'chimera-eval[math]'"
        )
    _require_working_packages()
    return {rule: _compared(given, gold, rule) for rule in rules}


def _compared(given: str, gold: str, rule: str) -> Equality:
    try:
        found = apart(equal, [rule], given, gold, modules=("math_verify",))
    except Ended as end:
        return Equality(False, limit=str(end))
    return Equality(found[rule])


@cache
def _require_working_packages() -> None:
    try:
        work = apart(compares, modules=("math_verify",))
    except Ended as end:
        raise EnvironmentFault(f"comparing two known answers ended with: {end}") from end
    if not work:
        raise EnvironmentFault("the packages that compare mathematical answers are broken")
