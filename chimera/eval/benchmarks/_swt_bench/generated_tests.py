"""Decide tests that were written for an issue: they must fail without the fix and pass with it.

The rule is SWT-Bench's: transitions of single tests, compared with those of the tests that were
there before. Change coverage is measured with coverage.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from chimera.eval.kits.patches import diffs

Outcome = Literal["PASSED", "FAILED"]
Transition = Literal["P2P", "P2F", "F2P", "F2F"]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of tests: outcomes by test, and how many tests reached each line of each file."""

    statuses: Mapping[str, str] = field(default_factory=dict)
    reached: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def outcome(self, test: str) -> Outcome | None:
        """PASSED, FAILED, or None for whatever else a test can do (absent, skipped, broken)."""
        status = self.statuses.get(test)
        return cast(Outcome, status) if status in ("PASSED", "FAILED") else None


@dataclass(frozen=True, slots=True)
class Pair:
    """The same tests without (`pre`) and with (`post`) the gold code patch."""

    pre: Run
    post: Run

    def tests(self, transition: Transition) -> frozenset[str]:
        names = {*self.pre.statuses, *self.post.statuses}
        return frozenset(name for name in names if self._transition(name) == transition)

    def _transition(self, name: str) -> Transition | None:
        before, after = self.pre.outcome(name), self.post.outcome(name)
        if before == "PASSED":
            return "P2P" if after == "PASSED" else "P2F"
        if after == "PASSED":
            return "F2P"  # a test that failed, or that was not there
        return "F2F" if after == "FAILED" else None


@dataclass(frozen=True, slots=True)
class Judgement:
    resolved: bool
    added_f2p: frozenset[str]
    broken: frozenset[str]  # tests that held before and do not with the submission
    still_failing: frozenset[str]
    fail_to_any: bool
    added_p2p: bool
    well_formed: bool


def judge(submitted: Pair, base: Pair) -> Judgement:
    """S, F→P, F→×, P→P and W of the submitted tests against the tests that were there."""
    added = submitted.tests("F2P") - base.tests("F2P")
    broken = submitted.tests("P2F") - base.tests("P2F")
    failing = submitted.tests("F2F") - base.tests("F2F")
    grown = submitted.tests("F2P") > base.tests("F2P")
    kinds: tuple[Transition, ...] = ("P2P", "P2F", "F2P", "F2F")
    classified = sum(len(submitted.tests(kind)) for kind in kinds)
    existing = sum(len(base.tests(kind)) for kind in kinds)
    return Judgement(
        resolved=grown and not broken and not failing,
        added_f2p=added,
        broken=broken,
        still_failing=failing,
        fail_to_any=bool(added or failing),
        added_p2p=bool(submitted.tests("P2P") - base.tests("P2P")),
        well_formed=classified * 10 >= existing,
    )


@dataclass(frozen=True, slots=True)
class ChangeCoverage:
    """How much of the gold patch's executable lines tests reach; None where it has none."""

    coverage: float | None
    delta: float | None


def change_coverage(gold_patch: str, tests: Pair, base: Pair, gold: Pair) -> ChangeCoverage:
    """C and ΔC of `tests`: removed lines are looked up without the patch, added ones with it.

    A line counts for ΔC when more tests reach it than before. As in SWT-Bench, what reached a
    removed line before is taken from the run with the patch.
    """
    total = covered = more = 0
    for file in diffs.parse(gold_patch):
        removed = [n for hunk in file.hunks for n in hunk.removed]
        added = [n for hunk in file.hunks for n in hunk.added]
        for numbers, path, side in ((removed, file.old, "pre"), (added, file.new, "post")):
            if path is None:
                continue
            known = {
                **getattr(gold, side).reached.get(path, {}),
                **getattr(base, side).reached.get(path, {}),
            }
            hits = getattr(tests, side).reached.get(path, {})
            before = base.post.reached.get(path, {})
            for number in (n for n in numbers if n in known):
                total += 1
                covered += hits.get(number, 0) > 0
                more += hits.get(number, 0) > before.get(number, 0)
    if not total:
        return ChangeCoverage(None, None)
    return ChangeCoverage(covered / total, more / total)
