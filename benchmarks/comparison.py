"""What comparing runs costs: CPU seconds and memory of `chimera compare` by the number of tasks.

    python benchmarks/comparison.py [--tasks 1000,10000,100000] [--runs 2]

The runs are made here, of one and of three samples a task; the figures include opening them.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from chimera.eval.runs.store import RunStore

MEASURE = """
import contextlib, io, json, resource, sys
from chimera.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(["compare", *sys.argv[1:], "--gate", "--margin", "0.02"])
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
"""


def write_run(path: Path, tasks: int, samples: int, seed: int) -> Path:
    """A run of that many trials without their texts, half of them passed."""
    with RunStore(path, create=True) as store:
        store.set_manifest({"identity": {"benchmark": "made"}, "planned": tasks * samples})
    generator = random.Random(seed)
    outcomes = ((n, k, generator.random() < 0.5) for n in range(tasks) for k in range(samples))
    with sqlite3.connect(path) as connection:
        connection.executemany(
            "INSERT INTO trials (task_id, sample, digest, status, score, why, cost, input_tokens,"
            " output_tokens, cached_tokens, steps, duration, attempts, started, stop_reason)"
            " VALUES (?, ?, '', ?, 0, '', 0.01, 1, 1, 0, 1, 1.0, 1, 1.0, '')",
            ((f"task-{n:06}", k, "passed" if good else "failed") for n, k, good in outcomes),
        )
        connection.execute(
            "INSERT INTO verdicts SELECT id, status = 'passed', 0, '', '{}', NULL FROM trials"
        )
    connection.close()
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="1000,10000,100000")
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args()
    print("tasks × samples × runs   CPU s   MB")
    for tasks in map(int, options.tasks.split(",")):
        for samples in (1, 3):
            with tempfile.TemporaryDirectory() as folder:
                paths = [
                    str(write_run(Path(folder) / f"{n}.chi", tasks, samples, n))
                    for n in range(options.runs)
                ]
                done = subprocess.run(
                    [sys.executable, "-c", MEASURE, *paths], capture_output=True, check=True
                )
            seconds, memory = json.loads(done.stdout)
            print(f"{tasks:>7,} × {samples} × {options.runs}   {seconds:6.2f}   {memory:6.0f}")


if __name__ == "__main__":
    main()
