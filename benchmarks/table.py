"""The table of README, "Speed": each figure beside a peer's of the same run, in CPU time.

    python benchmarks/table.py [--write README.md] [--keep FILE] [--turns 3] [--only verdict …]

The contestants take turns and are started as their users start them; of each the cheapest turn
counts, since other work on a machine only adds to it. `--keep` writes what was measured after each
part to a file, and a second start goes on with what is missing.
"""

from __future__ import annotations

import argparse
import json
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path

import grading
import in_flight
import mathematics
import opening
import overhead
from costs import load, peer

BEGIN, END = "<!-- made by benchmarks/table.py -->", "<!-- until here -->"
Figures = Mapping[str, float]


def least(turns: list[Figures]) -> dict[str, float]:
    """Of each contestant the cheapest turn."""
    return {name: min(turn[name] for turn in turns if name in turn) for name in turns[0]}


def verdict(turns: int) -> Figures:
    names = [name for name in grading.DRIVERS if name != "floor"]
    given = Namespace(rounds=turns + 1, turns=turns + 1, workers=4, only=names)
    found = grading.in_turns(given)  # the first turn loads what the others use
    return {
        name: min(turn["cpu"] for turn in each) / len(grading.rows()) * 1000
        for name, each in found.items()
    }


def contestants() -> dict[str, tuple[Mapping[str, str], str]]:
    return {
        "chimera": (overhead.OWN, overhead.OURS),
        "inspect-ai": (peer("inspect", *overhead.INSPECT), overhead.PEER),
    }


def first(turns: int) -> Figures:
    """Seconds from the start of a process to its first stored verdict."""

    def turn() -> Figures:
        return {name: overhead.measure(*each, 1)[0] for name, each in contestants().items()}

    return least([turn() for _ in range(turns)])


def trial(turns: int, ours: int = 3000, theirs: int = 300) -> Figures:
    counts = {"chimera": ours, "inspect-ai": theirs}

    def turn() -> Figures:
        return {name: _each(*each, counts[name]) for name, each in contestants().items()}

    return least([turn() for _ in range(turns)])


def opened(turns: int, files: int = 5000, times: int = 5) -> Figures:
    found = least([opening.turn(files, times) for _ in range(turns)])
    return {name: seconds * 1000 for name, seconds in found.items()}


def _each(where: Mapping[str, str], script: str, count: int) -> float:
    """CPU milliseconds of a trial, the start taken off."""
    whole, start = (overhead.measure(where, script, trials)[0] for trials in (count, 1))
    return (whole - start) / (count - 1) * 1000


def call(turns: int, calls: int = 1000) -> Figures:
    given = Namespace(calls=calls, at_once=calls, seconds=2.0, turns=turns, no_peer=False)
    found = list(in_flight.in_turns(given))
    return {name: min(row[1] for who, row in found if who == name) for name, _ in found}


def answers(turns: int) -> Figures:
    costs = [mathematics.turn() for _ in range(turns)]
    return least([{name: cost.cpu for name, cost in turn.items()} for turn in costs])


PARTS: Mapping[str, tuple[str, str, Callable[[int], Figures]]] = {
    "verdict": ("a HumanEval verdict, confined and judged apart", "ms", verdict),
    "first": ("the first verdict of a run, from the start of its process", "s", first),
    "trial": ("a trial beside the model, stored", "ms", trial),
    "opening": ("a repository of 5,000 files opened, used once and removed", "ms", opened),
    "call": ("a model call, 1,000 of 2 s at once", "ms", call),
    "answers": ("500 MATH answers by three rules", "s", answers),
}
NAMES = {
    "bare": "forked, unconfined, nothing stored",
    "floor": "`cp`, `bwrap`, `rm`",
    "inspect": "Inspect",
    "inspect-ai": "Inspect",
}


def row(part: str, figures: Figures) -> str:
    work, unit, _ = PARTS[part]
    own = figures["chimera"]
    others = (
        f"{NAMES.get(name, name)} {figure:.3g} {unit} ({figure / own:.2g} times)"
        for name, figure in figures.items()
        if name != "chimera"
    )
    return f"| {work} | {own:.3g} {unit} | {', '.join(others)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="what was measured so far")
    parser.add_argument("--write", type=Path, help="a page whose table is replaced")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    given = parser.parse_args()
    kept = json.loads(given.keep.read_text()) if given.keep and given.keep.exists() else {}
    for part in given.only:
        if part not in kept:
            kept[part] = dict(PARTS[part][2](given.turns))
            print(f"{part}: {kept[part]} ({load()})", flush=True)
            if given.keep:
                given.keep.write_text(json.dumps(kept))
    rows = [row(part, kept[part]) for part in PARTS if part in kept]
    table = "\n".join(["| CPU time of | Chimera | others |", "|---|---|---|", *rows])
    print(table)
    if given.write:
        before, _, rest = given.write.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        given.write.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")


if __name__ == "__main__":
    main()
