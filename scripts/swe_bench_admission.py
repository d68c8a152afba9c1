"""Prove instances of SWE-bench, Verified or SWT-Bench on this machine, one line of JSON for each.

    python scripts/swe_bench_admission.py results.jsonl --repositories CLONES [INSTANCE…]

Gold must pass, nothing and mutants of the gold must not. Goes on where an earlier run with the same
file stopped; `--minutes` ends it between two instances. `--record` writes what the lines prove into
the records that `chimera benchmarks` reads.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chimera.errors import ChimeraError
from chimera.eval.benchmarks.swe_bench import SWEBench
from chimera.eval.benchmarks.swe_bench_verified import SWEBenchVerified
from chimera.eval.benchmarks.swt_bench import SWTBench
from chimera.eval.controls import Controls, machine_store
from chimera.eval.kits.repositories.built import build_failure
from chimera.eval.kits.repositories.instance_benchmark import InstanceBenchmark
from chimera.eval.kits.repositories.swe_instance import SWEBenchTask
from chimera.eval.proof.validate import validate
from chimera.eval.trial import StartBackend

SUITES: dict[str, tuple[type[InstanceBenchmark], dict[str, str]]] = {
    "lite": (SWEBench, {}),
    "verified": (SWEBenchVerified, {}),
    "swt-lite": (SWTBench, {"split": "lite"}),
    "swt-verified": (SWTBench, {"split": "verified"}),
}


def proven(
    benchmark: InstanceBenchmark, task: SWEBenchTask, backend: str, mutants: int
) -> dict[str, Any]:
    """The line of one instance: its answers with their verdicts, and where they were graded."""
    instance, started = task["instance"], time.monotonic()
    line: dict[str, Any] = {
        "task": task["id"],
        "version": instance.version,
        "environment": backend,
    }
    try:
        setup = benchmark.setup_of(instance)
        tree, packages = setup.tree(), setup.environment()
        line["exact"], line["missing_pins"] = tree.exact, list(packages.missing)
        line["python"] = [instance.python, packages.version]
        line["build_failure"] = build_failure(tree.path)
        start = StartBackend(backend)
        report = validate(benchmark, start, mutants=mutants, workers=1, tasks=[task])
        controls = Controls(store=machine_store())
        nothing = [*controls.make_all(benchmark, [task], start, workers=1, answers=("nothing",))]
    except ChimeraError as error:
        return {**line, "error": str(error)}
    answers = [
        {"answer": check.answer, "status": check.status, "why": check.why[:200]}
        for check in report.checks
    ]
    answers += [{"answer": c.answer, "status": c.status, "why": c.why[:200]} for c in nothing]
    twins = report.counts().get("twins", {})
    seconds = round(time.monotonic() - started, 1)
    return {**line, "answers": answers, "twins": twins, "seconds": seconds}


def named_value(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def wanted(options: argparse.Namespace) -> Iterator[tuple[str, InstanceBenchmark, SWEBenchTask]]:
    """The instances in the order in which they were named, once for each suite that has them."""
    settings: dict[str, Any] = dict(map(named_value, options.option))
    if options.repositories:
        settings |= {"source": "git", "repositories": options.repositories}
    suites = []
    for name in options.suite:
        kind, own = SUITES[name]
        benchmark = kind(**own, **settings)
        suites.append((name, benchmark, {task["id"]: task for task in benchmark.tasks()}))
    names = options.instances or sorted({name for _, _, tasks in suites for name in tasks})
    for name in names:
        for suite, benchmark, tasks in suites:
            if name in tasks:
                yield suite, benchmark, tasks[name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("instances", nargs="*")
    parser.add_argument("--suite", action="append", choices=SUITES)
    parser.add_argument("--environment", default="bubblewrap")
    parser.add_argument("--repositories", help="a directory of clones")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--mutants", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    options = parser.parse_intermixed_args()
    options.suite = options.suite or ["lite", "verified"]
    known = options.results.read_text().splitlines() if options.results.exists() else []
    done = {(line["task"], line["environment"]) for line in map(json.loads, known)}
    end = time.monotonic() + 60 * options.minutes
    for suite, benchmark, task in wanted(options):
        if (task["id"], options.environment) in done or time.monotonic() > end:
            continue
        done.add((task["id"], options.environment))
        line = {"suite": suite, **proven(benchmark, task, options.environment, options.mutants)}
        with options.results.open("a") as stream:
            stream.write(json.dumps(line) + "\n")
        shown = [f"{a['answer']} {a['status']}" for a in line.get("answers", ())]
        print(task["id"], *shown, line.get("error", ""), line.get("seconds", ""), flush=True)


if __name__ == "__main__":
    main()
