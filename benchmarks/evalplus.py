"""HumanEval+ in full, gold answers, base and plus: seconds of Chimera and of evalplus, same run.

    python benchmarks/evalplus.py --official-python PATH [--workers 2] [--rounds 3]

Both get the same programs, the same number of workers, and their expected outputs beforehand; the
rounds take turns, so that a busy machine slows both. The floor is what the gold programs themselves
need for their inputs, called in one bare process and divided by the workers: no grader that tries
every input is faster. PATH is a Python with evalplus installed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from chimera.environments.none import NoEnvironment
from chimera.eval.benchmarks.humaneval_plus import HumanEvalPlus
from chimera.eval.kits.evalplus.benchmark import EvalPlusTask

THEIRS = """
import json, sys, time
from concurrent.futures import ThreadPoolExecutor
from evalplus.data import get_human_eval_plus, get_human_eval_plus_hash
from evalplus.evaluate import check_correctness, get_groundtruth
out, sys.stdout = sys.stdout, sys.stderr
workers, names = json.loads(sys.stdin.readline())
problems = get_human_eval_plus()
problems = {name: problems[name] for name in names}
truth = get_groundtruth(problems, get_human_eval_plus_hash() + "-" + str(len(names)), [])
def grade(name):
    problem = problems[name]
    found = check_correctness(
        "humaneval", 0, problem, problem["prompt"] + problem["canonical_solution"], truth[name],
        fast_check=True, min_time_limit=30.0)
    return all(found[kind][0] == "pass" for kind in ("base", "plus"))
print("ready", file=out, flush=True)
for line in sys.stdin:
    begin = time.monotonic()
    with ThreadPoolExecutor(workers) as pool:
        passed = sum(pool.map(grade, names))
    print(json.dumps([time.monotonic() - begin, passed]), file=out, flush=True)
"""

BARE = """
import json, sys, time
used = 0.0
for line in sys.stdin:
    program, entry_point, inputs = json.loads(line)
    names = {}
    exec(program, names)
    begin = time.process_time()
    for arguments in inputs:
        try:
            names[entry_point](*arguments)
        except Exception:
            pass
    used += time.process_time() - begin
print(used)
"""


def ours(
    benchmark: HumanEvalPlus, tasks: Sequence[EvalPlusTask], workers: int
) -> tuple[float, int]:
    def grade(task: EvalPlusTask) -> bool:
        return benchmark.grade(task, benchmark.gold(task), NoEnvironment()).passed

    begin = time.monotonic()
    with ThreadPoolExecutor(workers) as pool:
        passed = sum(pool.map(grade, tasks))
    return time.monotonic() - begin, passed


def floor(tasks: Sequence[EvalPlusTask], workers: int) -> float:
    """CPU seconds of the gold programs on all their inputs, nothing compared, for each worker."""
    lines = [
        json.dumps(
            [
                task["solution"],
                task["entry_point"],
                [*task["inputs"]["base"], *task["inputs"]["plus"]],
            ]
        )
        for task in tasks
    ]
    done = subprocess.run(
        [sys.executable, "-c", BARE],
        input="\n".join(lines), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(done.stdout) / workers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--official-python", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int)
    arguments = parser.parse_args()
    benchmark = HumanEvalPlus(limit=arguments.limit)
    tasks = benchmark.tasks()
    for task in tasks:
        for kind in ("base", "plus"):
            benchmark.expected(task, kind)
    variables = {**os.environ, "HUMANEVAL_OVERRIDE_PATH": str(benchmark.source())}
    seconds: dict[str, list[float]] = {"chimera": [], "evalplus": []}
    passed: dict[str, int] = {}
    least = floor(tasks, arguments.workers)
    with subprocess.Popen(
        [str(arguments.official_python), "-c", THEIRS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=variables,
    ) as theirs:
        assert theirs.stdin is not None
        assert theirs.stdout is not None
        theirs.stdin.write(json.dumps([arguments.workers, [task["id"] for task in tasks]]) + "\n")
        theirs.stdin.flush()
        if theirs.stdout.readline().strip() != "ready":
            raise SystemExit("evalplus did not start")
        for _ in range(arguments.rounds):
            took, passed["chimera"] = ours(benchmark, tasks, arguments.workers)
            seconds["chimera"].append(took)
            theirs.stdin.write("\n")
            theirs.stdin.flush()
            took, passed["evalplus"] = json.loads(theirs.stdout.readline())
            seconds["evalplus"].append(took)
        theirs.stdin.close()
    middle = {name: statistics.median(each) for name, each in seconds.items()}
    print(
        json.dumps(
            {
                "tasks": len(tasks),
                "workers": arguments.workers,
                "seconds": seconds,
                "median": middle,
                "floor": least,
                "passed": passed,
                "ratio": middle["evalplus"] / middle["chimera"],
                "load": os.getloadavg()[0],
            }
        )
    )


if __name__ == "__main__":
    main()
