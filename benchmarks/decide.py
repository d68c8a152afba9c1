"""What `--until decided` promises and delivers: simulated null runs, and recorded runs replayed.

    python benchmarks/decide.py [--runs 100000] [--replay FILE.json ...] [--orders 5]

A file to replay is {run: {task: rate}}, or LiveCodeBench's published list of performances. Of each
pair of its runs the tasks are taken in random orders, one sample of each, drawn by its rate. Beside
what was decided stands what happens when A and B are exchanged at random in every task, which no
test may tell apart.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from itertools import combinations
from pathlib import Path

import numpy as np

from chimera.eval.runs.sequential import BETS, SequentialTest
from chimera.eval.runs.stats import compare_aligned

ALPHA = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--replay", type=Path, action="append", default=[])
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=200, help="At most so many pairs of a file.")
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    if options.runs:
        print(f"equally good, {options.runs:,} runs each: share that claims a difference")
        for name, tasks, chances in NULLS:
            print(f"  {name:<58} {_alarms(generator, options.runs, tasks, chances):.4f}")
        print("different: share decided, wrong way, and share of the tasks needed by those decided")
        for name, tasks, chances in REAL:
            decided, wrong, used = _found(generator, options.runs // 10, tasks, chances)
            print(f"  {name:<44} {decided:.3f}  {wrong:.5f}  {used:.2f}")
        print("differing by the margin of 5 points: share that claims there is no such difference")
        for tasks, gain, loss in ((500, 0.075, 0.025), (2000, 0.15, 0.10)):
            wrong = _equivalent(generator, options.runs // 100, tasks, gain, loss)
            print(f"  {tasks} tasks, {gain + loss:.0%} differ {' ' * 30} {wrong:.4f}")
    for file in options.replay:
        _replay(file, options.orders, options.pairs)


def _same_agent(generator, runs, tasks):
    rates = generator.beta(0.5, 0.5, (runs, tasks))
    return _trials(generator, rates) - _trials(generator, rates)


def _coins(generator, runs, tasks):
    return _trials(generator, np.full((runs, tasks), 0.5)) * 2 - 1


def _rare(generator, runs, tasks):
    rates = np.full((runs, tasks), 0.02)
    return _trials(generator, rates) - _trials(generator, rates)


def _fixed_list(generator, runs, tasks):
    """Each run wins the same tasks again and again, as many as the other; only the order varies."""
    differences = np.array([1, -1] * (tasks // 4) + [0] * (tasks - tasks // 4 * 2), dtype=np.int8)
    return generator.permuted(np.tile(differences, (runs, 1)), axis=1)


def _uneven_list(generator, runs, tasks):
    """A fixed list of tasks that are won or lost by 40 points, evened out, with chance on top."""
    gains = np.resize([0.2, -0.2], tasks)
    gains = generator.permuted(np.tile(gains, (runs, 1)), axis=1)
    return _trials(generator, 0.5 + gains) - _trials(generator, 0.5 - gains)


def _better(gain, loss):
    def draw(generator, runs, tasks):
        lots = generator.random((runs, tasks))
        return (lots < gain).astype(np.int8) - (lots > 1 - loss).astype(np.int8)

    return draw


NULLS = (
    ("the same agent twice, tasks of all difficulties, 100 tasks", 100, _same_agent),
    ("the same, 500 tasks", 500, _same_agent),
    ("every task differs, by a coin, 500 tasks", 500, _coins),
    ("one task in 25 differs, 500 tasks", 500, _rare),
    ("a list of tasks that evens out exactly, 200 tasks", 200, _fixed_list),
    ("tasks that suit one or the other, evened out, 500 tasks", 500, _uneven_list),
)
REAL = (
    ("15 % gained, 5 % lost, 89 tasks", 89, _better(0.15, 0.05)),
    ("30 % gained, 10 % lost, 89 tasks", 89, _better(0.30, 0.10)),
    ("15 % gained, 5 % lost, 500 tasks", 500, _better(0.15, 0.05)),
    ("10 % gained, 7 % lost, 500 tasks", 500, _better(0.10, 0.07)),
    ("12 % gained, 8 % lost, 2,000 tasks", 2000, _better(0.12, 0.08)),
)


def _trials(generator, rates):
    return (generator.random(rates.shape) < rates).astype(np.int8)


def _table(tasks: int):
    """Whether so many wins (row) and losses (column) decide; the wealth knows nothing else."""
    counts = np.arange(tasks + 1)
    up, down = (np.stack([counts * math.log1p(sign * bet) for bet in BETS]) for sign in (1, -1))
    logs = np.concatenate([up[:, :, None] + down[:, None, :], down[:, :, None] + up[:, None, :]])
    most = logs.max(axis=0)
    return most + np.log(np.exp(logs - most).mean(axis=0)) >= -math.log(ALPHA)


def _walks(generator, runs, tasks, draw):
    """Per chunk of runs: wins and losses after each task, and whether that decides."""
    table = _table(tasks)
    for start in range(0, runs, 2000):
        differences = draw(generator, min(2000, runs - start), tasks)
        wins = np.cumsum(differences > 0, axis=1)
        losses = np.cumsum(differences < 0, axis=1)
        yield wins, losses, table[wins, losses]


def _alarms(generator, runs, tasks, draw) -> float:
    found = sum(hit.any(axis=1).sum() for _, _, hit in _walks(generator, runs, tasks, draw))
    return float(found / runs)


def _found(generator, runs, tasks, draw) -> tuple[float, float, float]:
    decided = wrong = used = 0
    for wins, losses, hit in _walks(generator, runs, tasks, draw):
        rows = np.flatnonzero(hit.any(axis=1))
        when = hit[rows].argmax(axis=1)
        decided += len(rows)
        wrong += int((wins[rows, when] < losses[rows, when]).sum())
        used += int((when + 1).sum())
    return decided / runs, wrong / runs, used / max(1, decided) / tasks


def _equivalent(generator, runs, tasks, gain, loss) -> float:
    wrong = 0
    for differences in _better(gain, loss)(generator, runs, tasks):
        test = SequentialTest(alpha=ALPHA, margin=gain - loss)
        for difference in differences:
            if test.add(int(difference)):
                break
        wrong += test.decision == "equivalent"
    return wrong / runs


def _replay(file: Path, orders: int, most: int) -> None:
    runs = _recorded(file)
    pairs = list(combinations(sorted(runs), 2))
    random.Random(0).shuffle(pairs)
    generator = random.Random(0)
    differing = decided = opposite = alarms = claims = tries = 0
    used = 0.0
    for first, second in pairs[:most]:
        tasks = sorted(runs[first].keys() & runs[second].keys())
        for _ in range(orders):
            generator.shuffle(tasks)
            a, b = (
                [float(generator.random() < runs[run][task]) for task in tasks]
                for run in (first, second)
            )
            differences = [y - x for x, y in zip(a, b, strict=True)]
            compared = compare_aligned(tasks, a, b)
            test = _walk(differences)
            tries += 1
            claims += test.decision is not None
            exchanged = [d * generator.choice((1, -1)) for d in differences]
            alarms += _walk(exchanged).decision is not None
            if compared.p_value <= ALPHA:
                differing += 1
                decided += test.decision is not None
                used += test.tasks / len(tasks)
            if test.decision is not None:
                opposite += (test.least > 0) != (compared.difference > 0)
    print(f"{file.name}: {len(runs)} runs, {tries} comparisons of about {len(tasks)} tasks")
    print(f"  differ when all tasks are run (p <= 0.05): {differing}")
    print(f"  of these decided early: {decided / max(1, differing):.3f}")
    print(f"  share of the tasks they took, all of them when undecided: {used / differing:.3f}")
    print(f"  decided the other way than all tasks: {opposite} of {claims}")
    print(f"  claims after A and B were exchanged at random in each task: {alarms / tries:.4f}")


def _walk(differences) -> SequentialTest:
    test = SequentialTest(alpha=ALPHA)
    for difference in differences:
        if test.add(difference):
            break
    return test


def _recorded(file: Path) -> dict[str, dict[str, float]]:
    content = json.loads(file.read_text(encoding="utf-8"))
    if "performances" not in content:
        return content
    runs: dict[str, dict[str, float]] = {}
    for row in content["performances"]:
        rate = row.get("pass@1", row.get("Pass@1"))
        if rate is not None:
            task = str(row.get("sample_id") or row["question_id"])
            runs.setdefault(row["model"], {})[task] = rate / 100
    return runs


if __name__ == "__main__":
    main()
