"""One small grader of each kind that needs no data set: what the table of attacks is made on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from chimera.eval.kits.python.grading import python_calls, python_stdin, python_tests
from chimera.eval.values import Verdict
from chimera.sandbox import Limits

LIMITS = Limits(
    cpu_seconds=0.5,
    wall_seconds=4.0,
    memory_bytes=256 << 20,
    file_bytes=8 << 20,
    output_bytes=1 << 20,
)
TESTS = """\
import math


def check(candidate):
    assert candidate([3, 1, 2]) == [1, 2, 3]
    assert candidate([]) == []
    assert abs(candidate([0.5])[0] - 0.5) < 1e-9 and math.isclose(candidate([0.25])[0], 0.25)
    assert len(candidate([5, 4])) == 2 and all(isinstance(x, int) for x in candidate([5, 4]))
    assert sorted(candidate([2, 1])) == [1, 2] and not candidate([2, 1]) != [1, 2]


check(arrange)
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A grader, the name of the function it wants, and a right answer."""

    grade: Callable[[str], Verdict]
    name: str
    gold: str


TARGETS: Mapping[str, Target] = {
    "python tests": Target(
        lambda program: python_tests(program, TESTS, limits=LIMITS),
        "arrange",
        "def arrange(values):\n    return sorted(values)\n",
    ),
    "python calls": Target(
        lambda program: python_calls(
            program, "arrange", [[[3, 1, 2]], [["b", "a"]]], [[1, 2, 3], ["a", "b"]], limits=LIMITS
        ),
        "arrange",
        "def arrange(values):\n    return sorted(values)\n",
    ),
    "python scripts": Target(
        lambda program: python_stdin(program, [("2 3\n", "5\n"), ("4 5\n", "9\n")], limits=LIMITS),
        "",
        "print(sum(map(int, input().split())))\n",
    ),
}
