"""SWE-bench Verified: the 500 instances that people checked, with room for long work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chimera.errors import DatasetError
from chimera.eval.benchmarks.swe_bench import Images, SWEBench, SWEBenchConfig
from chimera.eval.data.datasets import datasets_dir
from chimera.eval.kits.reports.swebench_logs import Version
from chimera.eval.kits.repositories.swe_instance import SourceKind

if TYPE_CHECKING:
    from chimera.agents.compaction import SummaryCompaction
    from chimera.providers.base import Provider
    from chimera.tools.base import Tool


class SWEBenchVerified(SWEBench):
    slug = "swe-bench-verified"
    setup = "Download SWE-bench Verified (500 instances) into it, as JSONL or Parquet."
    files = ("swe_bench_verified.{split}.jsonl.gz", "swe_bench_verified.{split}.jsonl",
             "{split}.parquet", "{split}.jsonl", "{split}.json")  # fmt: skip

    def __init__(
        self,
        dataset_path: str | Path | None = None,
        limit: int | None = None,
        split: str = "test",
        max_steps: int = 500,
        ipython: bool = True,
        condense_every_n_steps: int = 25,
        *,
        source: SourceKind = "auto",
        repositories: str | None = None,
        images: Images = "auto",
        base_image: str = "debian:bookworm-slim",
        keep_images: bool = False,
        interpreters: Sequence[str] | None = None,
        test_timeout: float = 1800.0,
        rule: Version = "5.0",
    ) -> None:
        super().__init__(
            dataset_path,
            limit,
            split,
            source=source,
            repositories=repositories,
            images=images,
            base_image=base_image,
            keep_images=keep_images,
            interpreters=interpreters,
            test_timeout=test_timeout,
            rule=rule,
        )
        self.config = SWEBenchConfig(
            max_steps=max_steps, ipython=ipython, condense_every_n_steps=condense_every_n_steps
        )

    @property
    def max_steps(self) -> int:
        return self.config.max_steps

    @property
    def ipython_enabled(self) -> bool:
        return self.config.ipython

    def build_ipython_tool(self) -> Tool | None:
        return self.config.build_ipython_tool()

    def build_condensation(self, provider: Provider | None = None) -> SummaryCompaction:
        return self.config.build_condensation(provider)

    def should_condense(self, step: int) -> bool:
        return self.config.should_condense(step)

    def place(self) -> Path:
        """Its own directory, or the one it shares with Lite."""
        try:
            return super().place()
        except DatasetError:
            shared = datasets_dir() / "swe-bench"
            if self.dataset_path is None and shared.exists():
                return shared
            raise
