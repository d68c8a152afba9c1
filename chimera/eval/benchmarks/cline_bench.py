"""Cline Bench: engineering tasks from real sessions, as folders of Harbor's form.

Upstream has folders only; tasks as JSON (a directory of files, one file, or JSONL) are read too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from chimera.eval.benchmarks._cline_bench.rows import written_out
from chimera.eval.data.datasets import Dataset
from chimera.eval.data.rows import SUFFIXES, Row, rows
from chimera.eval.data.sources import Item, RepositoryPart
from chimera.eval.kits.task_folders.benchmark import HarborBenchmark, HarborOptions
from chimera.eval.kits.task_folders.folders import HarborTask, folders_in, load_task
from chimera.eval.options import option


@dataclass(frozen=True, slots=True)
class ClineOptions(HarborOptions):
    dataset_dir: Path | None = option(
        None, "the data set's place, by its earlier name", outcome=False
    )


class ClineBench(HarborBenchmark):
    slug = "cline-bench"
    aliases = ("cline",)
    description = "Engineering tasks from real sessions with a coding agent"
    default_agent = "react"
    setup = "Or put the folder tasks/ of cline/cline-bench (or a .tar.gz, or JSON files) there."
    sources = (
        Item(
            "tasks",
            RepositoryPart(
                "cline/cline-bench", "d1085569fb0ae3f9613957e6fc2706c6e2f7da9b", "tasks"
            ),
            sha256="06ea9532ee90761408396c48d5fbea1b81fd7a0150116435fddcab29c183e722",
            size=353_939,
        ),
    )
    licence = "none stated"

    option_type = ClineOptions
    settings: ClineOptions

    def graded_as(self) -> str:
        return "Harbor verifier, reward files"

    def dataset(self) -> Dataset:
        return replace(super().dataset(), given=self.dataset_path or self.settings.dataset_dir)

    def rows(self) -> Iterator[Row]:
        source = self.dataset().source()
        if source.is_file() and source.name.lower().endswith(SUFFIXES):
            yield from rows(source)
        elif folders := folders_in(source):
            yield from ({"directory": str(folder)} for folder in folders)
        else:
            yield from rows(source)

    def task(self, row: Row) -> HarborTask | None:
        if "directory" in row:
            return super().task(row)
        name = str(row.get("id") or row["task_id"])
        if self.settings.tasks and name not in self.settings.tasks:
            return None
        return load_task(written_out(row))
