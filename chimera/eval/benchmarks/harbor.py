"""Any data set of task folders in Harbor's form, as its publisher gives it out.

Official rule: harbor 0.25.0.
"""

from __future__ import annotations

from chimera.eval.kits.task_folders.benchmark import HarborBenchmark


class Harbor(HarborBenchmark):
    slug = "harbor"
    description = "Any data set of task folders in Harbor's form, or a registry file of them"
    default_agent = "terminal"
    setup = (
        "Name it with --dataset: a directory of task folders (task.toml, instruction.md, "
        "environment/, tests/ or steps/), a .tar.gz of them, or a registry.json."
    )

    def graded_as(self) -> str:
        return "Harbor rewards (harbor 0.25.0)"
