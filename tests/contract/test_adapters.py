"""What every adapter keeps, whatever its benchmark is."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import chimera.eval.benchmarks as exported
from chimera.errors import DatasetError
from chimera.eval.benchmark import Benchmark
from chimera.eval.harness import content_digest
from chimera.eval.proof.status import OFFICIAL, benchmark_states, markdown_table
from chimera.eval.registry import ALIASES, BENCHMARKS, benchmark_class, create_benchmark

DOCS = Path(__file__).parents[2] / "docs"
#: Where a data set's folder does not have the slug's name.
FOLDERS = {"swe-bench-verified": "swe-bench", "custom": None}

slugs = pytest.mark.parametrize("slug", sorted(BENCHMARKS))


@slugs
def test_it_is_exported_named_and_documented(slug):
    cls = benchmark_class(slug)

    assert issubclass(cls, Benchmark)
    assert getattr(exported, cls.__name__) is cls
    assert cls.slug == slug
    assert cls.setup, "a hint where the data comes from"
    assert slug in OFFICIAL
    assert (DOCS / "benchmarks" / f"{slug}.md").is_file()


@slugs
def test_a_missing_data_set_gives_the_hint(slug, tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_DATASETS_DIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    if slug == "human-eval":
        monkeypatch.setattr(benchmark_class(slug), "packaged", None)

    with pytest.raises(DatasetError) as error:
        create_benchmark(slug).tasks()

    assert benchmark_class(slug).setup.split("\n")[0][:40] in str(error.value)


@slugs
def test_a_path_that_is_not_there_is_refused(slug, tmp_path):
    with pytest.raises(DatasetError):
        create_benchmark(slug, dataset=tmp_path / "absent").tasks()


@slugs
def test_real_tasks_are_whole_values(slug, dataset):
    folder = FOLDERS.get(slug, slug)
    if folder is None:
        pytest.skip("tasks of one's own: there is no real data set")
    dataset(folder)
    benchmark = create_benchmark(slug)
    tasks = benchmark.tasks()
    ids = [task["id"] for task in tasks]

    assert ids
    assert len(ids) == len(set(ids))
    assert all(isinstance(task["prompt"], str) and task["prompt"].strip() for task in tasks)
    sample = tasks[0]
    assert pickle.loads(pickle.dumps(sample)) == sample
    assert content_digest(sample) == content_digest(pickle.loads(pickle.dumps(sample)))
    content_digest(benchmark.options())
    again = pickle.loads(pickle.dumps(benchmark))
    assert again.name() == benchmark.name()


def test_aliases_lead_to_benchmarks():
    assert set(ALIASES.values()) <= set(BENCHMARKS)
    assert not set(ALIASES) & set(BENCHMARKS)


def test_the_status_table_in_the_docs_is_current():
    text = (DOCS / "benchmarks.md").read_text(encoding="utf-8")

    assert markdown_table(benchmark_states()) in text, (
        "write it anew: chimera benchmarks --markdown"
    )
