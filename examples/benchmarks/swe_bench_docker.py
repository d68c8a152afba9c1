"""SWE-bench in containers: an image is built from a base image and used for one instance.

    CHIMERA_DATASETS_DIR=… python examples/benchmarks/swe_bench_docker.py BASE_IMAGE [INSTANCE…]

With `images="official"` in place of `images="local"` the published images are pulled instead.
"""

from __future__ import annotations

import sys

from chimera.eval.benchmarks import SWEBenchVerified
from chimera.eval.trial import StartBackend


def main(base_image: str, names: list[str]) -> int:
    benchmark = SWEBenchVerified(images="local", base_image=base_image)
    start = StartBackend("docker")
    failed = 0
    for task in benchmark.tasks():
        if task["id"] not in (names or ["pytest-dev__pytest-7571"]):
            continue
        gold = benchmark.gold(task)
        assert gold is not None
        with benchmark.open_grading_environment(task, start) as env:
            verdict = benchmark.grade(task, gold, env)
        failed += not verdict.passed
        print(f"{task['id']:40} {'passed' if verdict.passed else 'failed'} {verdict.why}")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
