"""SWE-bench Verified: the 500 instances that people checked, with room for long work."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from chimera.eval.benchmarks.swe_bench import SWEBench, SWEBenchConfig, SWEBenchOptions
from chimera.eval.data.sources import HubFile, Item
from chimera.eval.options import option

if TYPE_CHECKING:
    from chimera.agents.compaction import SummaryCompaction
    from chimera.providers.base import Provider
    from chimera.tools.base import Tool


@dataclass(frozen=True, slots=True)
class SWEBenchVerifiedOptions(SWEBenchOptions):
    max_steps: int = option(500, "steps of an agent; a number given to the agent wins", least=1)
    ipython: bool = option(True, "whether an agent has IPython in its environment")
    condense_every_n_steps: int = option(
        25, "steps after which a conversation is condensed; 0: never", least=0
    )


class SWEBenchVerified(SWEBench):
    slug = "swe-bench-verified"
    aliases = ("swebench-verified",)
    description = "The 500 instances of SWE-bench that people checked, with room for long work"
    setup = "Or put SWE-bench Verified (500 instances) there, as JSONL or Parquet."
    files = ("swe_bench_verified.{split}.jsonl.gz", "swe_bench_verified.{split}.jsonl",
             "swe_bench_verified.{split}.parquet", "{split}.parquet", "{split}.jsonl",
             "{split}.json")  # fmt: skip
    sources = (
        Item(
            "swe_bench_verified.test.parquet",
            HubFile(
                "princeton-nlp/SWE-bench_Verified",
                "data/test-00000-of-00001.parquet",
                "c104f840cc67f8b6eec6f759ebc8b2693d585d4a",
            ),
            sha256="a45b1fe4e2f0c8390b2b2938ac83e92ed5979000856808f3679c07812e9e6dcd",
            size=2_096_679,
        ),
    )
    licence = "MIT"
    shares = ("swe-bench",)

    option_type = SWEBenchVerifiedOptions
    settings: SWEBenchVerifiedOptions

    @cached_property
    def config(self) -> SWEBenchConfig:
        return SWEBenchConfig(
            max_steps=self.settings.max_steps,
            ipython=self.settings.ipython,
            condense_every_n_steps=self.settings.condense_every_n_steps,
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
