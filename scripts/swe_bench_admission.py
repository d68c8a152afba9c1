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
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chimera.errors import ChimeraError
from chimera.eval.benchmarks.swe_bench import SWEBench
from chimera.eval.benchmarks.swe_bench_verified import SWEBenchVerified
from chimera.eval.benchmarks.swt_bench import SWTBench
from chimera.eval.kits.repositories.built import build_failure
from chimera.eval.kits.repositories.instance_benchmark import InstanceBenchmark
from chimera.eval.kits.repositories.swe_instance import SWEBenchTask
from chimera.eval.proof.validate import ANSWERS, validate
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
        line["absent_files"] = list(tree.absent())
        line["build_failure"] = build_failure(tree.path)
        start = StartBackend(backend)
        report = validate(benchmark, start, mutants=mutants, workers=1, tasks=[task])
    except ChimeraError as error:
        return {**line, "error": str(error)}
    answers = [
        {"answer": check.answer, "status": check.status, "why": check.why[:200]}
        for check in report.checks
    ]
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


def lines_of(results: Path) -> list[dict[str, Any]]:
    text = results.read_text() if results.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def named(line: dict[str, Any]) -> tuple[str, str]:
    return line["task"], line["environment"]


def write_record(benchmark: InstanceBenchmark, lines: list[dict[str, Any]], note: str) -> None:
    """The record of one benchmark, of the lines that are about rows of its own."""
    ids = {task["id"] for task in benchmark.tasks()}
    rows = [line for line in lines if line["task"] in ids and "answers" in line]
    found: dict[str, list[tuple[str, dict[str, str]]]] = {kind: [] for kind in ANSWERS}
    for line in rows:
        for answer in line["answers"]:
            found[answer["answer"]].append((line["task"], answer))
    counts = {
        kind: {
            "graded": len(all_of),
            "as_due": sum(
                a["status"] == ("passed" if kind == "gold" else "failed") for _, a in all_of
            ),
            "errors": sum(a["status"] == "error" for _, a in all_of),
            "passed": sum(a["status"] == "passed" for _, a in all_of),
        }
        for kind, all_of in found.items()
    }
    gold = {task for task, answer in found["gold"] if answer["status"] == "passed"}
    idle = {task for task, answer in found["empty"] if answer["status"] == "passed"}
    proven = gold - idle
    place = Path("chimera/eval/proof/records") / f"{benchmark.slug}.json"
    known = json.loads(place.read_text())
    backends = sorted({line["environment"] for line in rows})
    by = {
        backend: len({r["task"] for r in rows if r["environment"] == backend} & proven)
        for backend in backends
    }
    record = {
        "benchmark": benchmark.slug,
        "tasks": len(proven),
        "of": known["of"],
        "without_gold": 0,
        "answers": counts,
        "environments": by,
        "repositories": dict(sorted(Counter(t.rpartition("-")[0] for t in proven).items())),
        "twins": {
            name: sum(line["twins"].get(name, 0) for line in rows) for name in ("tests", "twinned")
        },
        "gold_not_passed": [
            {"task": task, "why": answer["why"]}
            for task, answer in found["gold"]
            if answer["status"] != "passed"
        ],
        "empty_passed": sorted(idle),
        "survivors": dict(Counter(t for t, a in found["mutant"] if a["status"] == "passed")),
        "not_tried_whole": [
            {"task": line["task"], "why": line["error"]}
            for line in lines
            if line["task"] in ids and "error" in line
        ],
        "proven": sorted(proven),
        "note": note,
        "covers": known["covers"],
    }
    place.write_text(json.dumps(record, indent=1) + "\n")


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
    end = time.monotonic() + 60 * options.minutes
    for suite, benchmark, task in wanted(options):
        key = (task["id"], options.environment)
        if time.monotonic() > end or key in {named(line) for line in lines_of(options.results)}:
            continue
        line = {"suite": suite, **proven(benchmark, task, options.environment, options.mutants)}
        with options.results.open("a") as stream:
            stream.write(json.dumps(line) + "\n")
        shown = [f"{a['answer']} {a['status']}" for a in line.get("answers", ())]
        print(task["id"], *shown, line.get("error", ""), line.get("seconds", ""), flush=True)


if __name__ == "__main__":
    main()
