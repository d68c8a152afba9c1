"""What every adapter keeps, whatever its benchmark is."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

import chimera.eval.benchmarks as exported
from chimera.errors import DatasetError, UsageError
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.harness import content_digest
from chimera.eval.options import table
from chimera.eval.proof.status import benchmark_states, markdown_table
from chimera.eval.proof.validate import validate
from chimera.eval.registry import adapters, benchmark_class, create_benchmark
from chimera.eval.run import choose_backend
from chimera.eval.trial import StartBackend

DOCS = Path(__file__).parents[2] / "docs"
#: Where a data set's folder does not have the slug's name.
FOLDERS = {"swe-bench-verified": "swe-bench", "custom": None, "harbor": None}
#: A task that is quickly graded, and the options it needs; the others are graded by tests of
#: their own, for they need images, clones, sites or a judge.
QUICK = {
    "aider-polyglot": ("python/grep", {"language": "python"}),
    "aimo": (None, {}),
    "custom": (None, {}),
    "human-eval": (None, {}),
    "humaneval-plus": (None, {}),
    "livecodebench": (None, {"scenario": "codeexecution"}),
    "math-500": (None, {}),
    "mbpp": (None, {}),
    "mbpp-plus": (None, {}),
    "tau-bench": (None, {}),
    "tau2-bench": (None, {"domain": "mock"}),
}

slugs = pytest.mark.parametrize("slug", sorted(adapters()))


@slugs
def test_it_is_exported_named_and_documented(slug):
    cls = benchmark_class(slug)

    assert issubclass(cls, DatasetBenchmark)
    assert getattr(exported, cls.__name__) is cls
    assert cls.slug == slug
    assert cls.setup, "a hint where the data comes from"
    assert 10 < len(cls.description) < 100
    assert cls().graded_as()
    assert all(benchmark_class(alias) is cls for alias in cls.aliases)


@slugs
def test_its_page_tells_its_options(slug):
    page = (DOCS / "benchmarks" / f"{slug}.md").read_text(encoding="utf-8")
    options = benchmark_class(slug).option_type

    if table(options).count("\n") > 2:
        assert f"<!-- options -->\n{table(options)}<!-- /options -->" in page


@slugs
def test_options_make_the_round_trip_of_the_command_line(slug):
    benchmark = create_benchmark(slug)
    texts = {
        name: json.dumps(value) if isinstance(value, bool) else str(value)
        for name, value in benchmark.settings.outcome().items()
        if isinstance(value, str | int | float)
    }
    again = create_benchmark(slug, options=texts)

    assert again.options() == benchmark.options()
    json.dumps(benchmark.options())


@slugs
def test_an_option_that_it_does_not_have_is_refused(slug):
    with pytest.raises(UsageError, match="has no option 'no-such-thing'"):
        create_benchmark(slug, options={"no-such-thing": "1"})


@slugs
def test_a_missing_data_set_gives_the_hint(slug, tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_DATASETS_DIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(benchmark_class(slug), "packaged", None)

    with pytest.raises(DatasetError) as error:
        create_benchmark(slug).tasks()

    assert benchmark_class(slug).setup.split("\n")[0][:40] in str(error.value)


@slugs
def test_a_path_that_is_not_there_is_refused(slug, tmp_path):
    with pytest.raises(DatasetError):
        create_benchmark(slug, dataset=tmp_path / "absent").tasks()


@slugs
def test_real_tasks_are_whole_values_and_stay_behind_when_it_is_sent(slug, dataset):
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
    sent = pickle.dumps(benchmark)
    assert len(sent) < 20_000, "without its data"
    assert pickle.loads(sent).options() == benchmark.options()


@slugs
def test_a_task_that_names_a_file_counts_what_is_in_it(slug, dataset):
    """Or what known answers came to would be kept for files that have changed since."""
    folder = FOLDERS.get(slug, slug)
    if folder is None:
        pytest.skip("tasks of one's own: there is no real data set")
    dataset(folder)
    benchmark = create_benchmark(slug)
    task = benchmark.tasks()[0]

    named = [Path(text) for text in task.values() if isinstance(text, str) and text[:1] == "/"]
    beside = benchmark.files_beside(task)

    assert all(path.exists() for path in beside)
    assert all(any(path.is_relative_to(known) for known in beside) for path in named)


@pytest.mark.parametrize("slug", sorted(QUICK))
def test_gold_passes_and_nothing_fails(slug, dataset, prepared, tmp_path):
    task_id, options = QUICK[slug]
    if slug == "custom":
        row = {"id": "sum", "prompt": "1 + 1?", "expected": "2"}
        (tmp_path / "tasks.json").write_text(json.dumps([row]))
        benchmark = create_benchmark(slug, dataset=tmp_path / "tasks.json")
    else:
        dataset(FOLDERS.get(slug, slug))
        benchmark = create_benchmark(slug, options=options)
    tasks = [t for t in benchmark.tasks() if task_id in (None, t["id"])]
    chosen = [next(t for t in tasks if not benchmark.nothing_is_right(t))]
    prepared(benchmark, chosen)
    report = validate(
        benchmark,
        StartBackend(choose_backend(benchmark, chosen)),
        mutants=0,
        workers=1,
        tasks=chosen,
    )

    statuses = [(c.answer, c.status) for c in report.checks]
    assert statuses == [("gold", "passed"), ("empty", "failed")], [c.why for c in report.checks]


def test_the_status_table_in_the_docs_is_current():
    text = (DOCS / "benchmarks.md").read_text(encoding="utf-8")

    assert markdown_table(benchmark_states()) in text, (
        "write it anew: chimera benchmarks --markdown"
    )
