"""Terminal-Bench 2.0: tasks in a terminal, decided by their own tests in the agent's container.

Official rule: harbor 0.25.0 for folders with task.toml, terminal-bench 0.2.18 for task.yaml.
"""

from __future__ import annotations

from chimera.eval.kits.task_folders.benchmark import HarborBenchmark


class TerminalBench(HarborBenchmark):
    slug = "terminal-bench"
    default_agent = "terminal"
    trials_per_core = 1
    setup = (
        "Put the task folders (or a .tar.gz of them) into it: each has task.toml with "
        "tests/test.sh, or task.yaml with run-tests.sh. Containers need docker."
    )
