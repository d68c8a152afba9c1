"""Terminal-Bench 2.0: tasks in a terminal, decided by their own tests on what the agent left.

Official rule: harbor 0.25.0 for folders with task.toml, terminal-bench 0.2.18 for task.yaml.
"""

from __future__ import annotations

from chimera.eval.data.sources import Item, RepositoryPart
from chimera.eval.kits.task_folders.benchmark import HarborBenchmark


class TerminalBench(HarborBenchmark):
    slug = "terminal-bench"
    aliases = ("tb2", "terminal-bench-2", "terminalbench")
    description = "Tasks in a terminal, each with an image and tests of its own"
    default_agent = "terminal"
    setup = (
        "Or put task folders (or a .tar.gz of them) there: each has task.toml with "
        "tests/test.sh, or task.yaml with run-tests.sh. Containers need docker."
    )
    sources = (
        Item(
            "terminal-bench-2",
            RepositoryPart(
                "laude-institute/terminal-bench-2", "69671fbaac6d67a7ef0dfec016cc38a64ef7a77c"
            ),
        ),
    )
    licence = "Apache-2.0"

    def graded_as(self) -> str:
        return "Terminal-Bench 2.0 tests, Harbor rewards"
