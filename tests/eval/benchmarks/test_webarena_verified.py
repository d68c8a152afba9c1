"""WebArena-Verified on the real data: every task loads, gold passes, mutants fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.environments.none import NoEnvironment
from chimera.errors import GraderError, UsageError
from chimera.eval.benchmarks import webarena_verified
from chimera.eval.benchmarks._webarena.sites import SITES
from chimera.eval.benchmarks.webarena_verified import WebArenaVerified

URLS = {site: f"http://{site.replace('_', '-')}.test" for site in SITES}


def test_verified_data_loads_with_its_subset(dataset: Callable[[str], Path]) -> None:
    place = dataset("webarena-verified")
    whole = WebArenaVerified(place, urls=URLS)
    hard = WebArenaVerified(
        place, urls=URLS, subset=place / "subsets" / "webarena-verified-hard.json"
    )

    assert len(whole.tasks()) == 812
    assert len(hard.tasks()) == 258
    assert sum(whole.gold(task) is not None for task in whole.tasks()) == 314


def test_verified_gold_and_mutants(dataset: Callable[[str], Path]) -> None:
    benchmark = WebArenaVerified(dataset("webarena-verified"), urls=URLS)
    verdicts: Counter[str] = Counter()
    for task in benchmark.tasks():
        gold = benchmark.gold(task)
        if gold is None:
            continue
        try:
            assert benchmark.grade(task, gold, NoEnvironment()).passed, task["id"]
            verdicts["gold"] += 1
            for mutant in benchmark.mutants(task):
                assert not benchmark.grade(task, mutant, NoEnvironment()).passed, task["id"]
        except GraderError:
            verdicts["package"] += 1
    assert verdicts["gold"] > 180


def test_a_subset_is_a_file_with_ids_or_the_ids(tmp_path: Path) -> None:
    file = tmp_path / "two.json"
    file.write_text('{"task_ids": [9, 7]}')

    assert WebArenaVerified(subset=file).options()["subset"] == [7, 9]
    assert WebArenaVerified(subset=[7, 9]).options()["subset"] == [7, 9]
    with pytest.raises(UsageError, match="not a subset file"):
        WebArenaVerified(subset=tmp_path / "none.json")


def test_tasks_that_only_the_package_decides_are_named_beforehand(
    dataset: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webarena_verified, "package_python", lambda: None)
    benchmark = WebArenaVerified(dataset("webarena-verified"), urls=URLS, browser=False)
    lacks = {lack.what: lack.tasks or set() for lack in benchmark.missing(benchmark.tasks())}
    left = [
        task for task in benchmark.tasks() if not any(task["id"] in ids for ids in lacks.values())
    ]

    assert len(left) == 192
    assert all(
        benchmark.grade(task, gold, NoEnvironment()).passed
        for task in left
        if (gold := benchmark.gold(task)) is not None
    )
