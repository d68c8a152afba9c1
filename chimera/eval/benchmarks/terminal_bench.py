"""Terminal-Bench 2.0: tasks in a terminal, decided by their own tests on what the agent left.

Official rule: harbor 0.25.0 for folders with task.toml, terminal-bench 0.2.18 for task.yaml.
"""

from __future__ import annotations

from chimera.eval.kits.task_folders.benchmark import HarborBenchmark


class TerminalBench(HarborBenchmark):
    slug = "terminal-bench"
    aliases = ("tb2", "terminal-bench-2", "terminalbench")
    description = "Tasks in a terminal, each with an image and tests of its own"
    default_agent = "terminal"
    setup = (
        "Put the task folders (or a .tar.gz of them) into it: each has task.toml with "
        "tests/test.sh, or task.yaml with run-tests.sh. Containers need docker."
    )

    def graded_as(self) -> str:
        return "Terminal-Bench 2.0 tests, Harbor rewards"
