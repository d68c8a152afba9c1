"""SWE-bench on a machine without containers: gold and empty patches of a few real instances.

CHIMERA_DATASETS_DIR=… python examples/benchmarks/swe_bench_proper.py [INSTANCE…]
"""

from __future__ import annotations

import sys

from chimera.eval.benchmarks import SWEBenchVerified
from chimera.eval.trial import StartBackend
from chimera.eval.values import Submission

BACKEND = "bubblewrap"
INSTANCES = ("pytest-dev__pytest-7571", "pallets__flask-5014")


def main(names: list[str]) -> int:
    benchmark = SWEBenchVerified()
    start = StartBackend(BACKEND)
    wrong = 0
    for task in benchmark.tasks():
        if task["id"] not in (names or INSTANCES):
            continue
        gold = benchmark.gold(task)
        assert gold is not None
        for label, submission, due in (("gold", gold, True), ("empty", Submission(), False)):
            with benchmark.open_grading_environment(task, start) as env:
                verdict = benchmark.grade(task, submission, env)
            wrong += verdict.passed is not due
            status = "passed" if verdict.passed else "failed"
            print(f"{task['id']:40} {label:6} {status} {verdict.why}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
