"""How far a Python twin goes in each test: as far as the reference shows that it can.

With the full reach it also tries objects of the same class with another content. Some objects are
equal whatever they contain: where that is so for the reference the reach of that test is less, down
to the check at its end alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass

_FULL, _PLAIN, _END = 2, 1, 0
_FUNCTION = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Reach:
    """The reach in each test, by its function's name."""

    most: int = _FULL
    lowered: tuple[tuple[str, int], ...] = ()

    def of(self, name: str, *, wild: bool = False) -> int:
        """The reach in a test, or in one that expects what equals all: where no reference says how
        far it can go, that is not far."""
        if wild and self.most < _FULL:
            return _END
        return dict(self.lowered).get(name, self.most)

    @property
    def careful(self) -> Reach:
        """The same without objects of the same class; nowhere more than it was."""
        most = min(self.most, _PLAIN)
        return Reach(most, tuple((name, min(each, most)) for name, each in self.lowered))

    def less(self, tests: Iterable[str], most: int) -> Reach:
        """At most so much in tests that a report names."""
        names = (name for test in tests for name in _FUNCTION.findall(test.rpartition("::")[2])[:1])
        lowered = {**dict(self.lowered), **dict.fromkeys(names, most)}
        return Reach(self.most, tuple(sorted(lowered.items())))


#: To begin with, where a reference tells how far it can go.
FULL_REACH = Reach()
#: Where no reference tells.
CAREFUL_REACH = Reach(_PLAIN)
#: Nothing but the check at the end of each test.
LEAST_REACH = Reach(_END)


def learnt_reach(
    failing: Callable[[Reach], Set[str]], least: Set[str]
) -> tuple[Reach, frozenset[str]]:
    """How far twins go, and the tests that the reference fails then, told by twins that keep none.
    `least` are those that it fails with the least reach."""
    reach, failed = FULL_REACH, frozenset[str]()
    for less in (_PLAIN, _END):
        failed |= failing(reach)
        missed = least - failed
        if not missed:
            break
        reach = reach.less(missed, less)
    return reach, failed | least
