"""Cline Bench: engineering tasks from real sessions, as folders of Harbor's form.

Upstream has folders only; tasks as JSON (a directory of files, one file, or JSONL) are read too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from chimera.eval.data.rows import SUFFIXES, Row, rows
from chimera.eval.kits.task_folders.benchmark import (
    HarborBenchmark,
    HarborTask,
    load_task,
    materialised,
)


class ClineBench(HarborBenchmark):
    """`dataset_dir` is an earlier name of `dataset_path`."""

    slug = "cline-bench"
    default_agent = "react"
    trials_per_core = 1
    setup = "Put the folder tasks/ of cline/cline-bench (or a .tar.gz, or JSON files) into it."

    def __init__(
        self,
        dataset_dir: str | Path | None = None,
        dataset_path: str | Path | None = None,
        limit: int | None = None,
        tasks: Sequence[str] | None = None,
        base_images: Sequence[str] | None = None,
        network: bool | None = None,
        time_factor: float = 1.0,
    ) -> None:
        super().__init__(
            dataset_path or dataset_dir, limit, tasks, base_images, network, time_factor
        )

    def rows(self) -> Iterator[Row]:
        place = self.place()
        if place.is_file() and place.name.lower().endswith(SUFFIXES):
            yield from rows(place)
            return
        directories = self.directories()
        if not directories and place.is_dir():
            yield from rows(place)
            return
        yield from ({"directory": str(folder)} for folder in directories)

    def task(self, row: Row) -> HarborTask | None:
        if "directory" in row:
            return super().task(row)
        name = str(row.get("id") or row["task_id"])
        if self.task_ids and name not in self.task_ids:
            return None
        return load_task(materialised(row))
