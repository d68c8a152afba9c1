"""Prove instances of SWE-bench, Verified or SWT-Bench on this machine, one line of JSON for each.

    python scripts/swe_bench_admission.py results.jsonl --repositories CLONES [INSTANCE…]

Gold must pass, nothing and mutants of the gold must not. Goes on where an earlier run with the same
file stopped; `--minutes` ends it between two instances. `--record` writes what the lines prove into
the records that `chimera benchmarks` reads.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from chimera import __version__
from chimera.errors import ChimeraError
from chimera.eval.benchmarks.swe_bench import SWEBench
from chimera.eval.benchmarks.swe_bench_verified import SWEBenchVerified
from chimera.eval.benchmarks.swt_bench import SWTBench
from chimera.eval.kits.repositories.built import build_failure
from chimera.eval.kits.repositories.instance_benchmark import InstanceBenchmark
from chimera.eval.kits.repositories.swe_instance import SWEBenchTask
from chimera.eval.proof.validate import ANSWERS, validate
from chimera.eval.trial import StartBackend
from chimera.text import first_line

RECORDS = Path(__file__).parents[1] / "chimera/eval/proof/records"
SUITES: dict[str, tuple[type[InstanceBenchmark], dict[str, str]]] = {
    "lite": (SWEBench, {}),
    "verified": (SWEBenchVerified, {}),
    "swt-lite": (SWTBench, {"split": "lite"}),
    "swt-verified": (SWTBench, {"split": "verified"}),
}

MODES = {"unit_test": "unit tests", "reproduction": "reproduction scripts"}
#: Lines that do not say which code made them.
EARLIER = "before 0.2.0+7730cf4"

#: A place on the machine that made a record; addresses are none.
PATH = re.compile(r"(?<![\w:/.])(?:/[\w.-]+){2,}")


def code_version() -> str:
    """The version that grades, and its commit where this is a checkout."""
    describe = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    said = subprocess.run(describe, cwd=RECORDS, capture_output=True, text=True, check=False)
    return "+".join(filter(None, (__version__, said.stdout.strip())))


def cpu_seconds() -> float:
    """What this process and those it started have used; containers are an engine's."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def proven(
    benchmark: InstanceBenchmark, task: SWEBenchTask, backend: str, mutants: int
) -> dict[str, Any]:
    """The line of one instance: its answers with their verdicts, and where they were graded."""
    instance, started, cpu = task["instance"], time.monotonic(), cpu_seconds()
    line: dict[str, Any] = {
        "task": task["id"],
        "version": instance.version,
        "environment": backend,
        **{name: value for name, value in benchmark.options().items() if name in ("mode", "split")},
        "code": CODE,
    }
    try:
        setup = benchmark.setup_of(instance)
        tree, packages = setup.tree(), setup.environment()
        line["exact"], line["missing_pins"] = tree.exact, list(packages.missing)
        line["python"] = [instance.python, packages.version]
        line["absent_files"] = list(tree.absent())
        said = first_line(build_failure(tree.path), most=400)
        line["build_failure"] = PATH.sub("…", said)
        start = StartBackend(backend)
        report = validate(benchmark, start, mutants=mutants, workers=1, tasks=[task])
    except ChimeraError as error:
        return {**line, "error": str(error)}
    answers = [
        {
            "answer": check.answer,
            "number": check.number,
            "status": check.status,
            "why": check.why[:200],
        }
        for check in report.checks
    ]
    gold = next((check.metrics for check in report.of("gold")), {})
    return {
        **line,
        "answers": answers,
        "twins": report.counts().get("twins", {}),
        "coverage": {name: gold[name] for name in sorted(gold) if name.startswith("coverage")},
        "seconds": round(time.monotonic() - started, 1),
        "cpu_seconds": round(cpu_seconds() - cpu, 1),
    }


CODE = code_version()


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
    known = {name for _, _, tasks in suites for name in tasks}
    if strangers := sorted(set(options.instances) - known):
        raise SystemExit(f"in none of {', '.join(options.suite)}: {', '.join(strangers)}")
    names = options.instances or sorted(known)
    for name in names:
        for suite, benchmark, tasks in suites:
            if name in tasks:
                yield suite, benchmark, tasks[name]


def lines_of(results: Path) -> list[dict[str, Any]]:
    """The lines of a file; of two about the same the later one counts."""
    text = results.read_text() if results.exists() else ""
    lines = [json.loads(line) for line in text.splitlines()]
    return list({named(line): line for line in lines}.values())


def named(line: dict[str, Any]) -> tuple[str, ...]:
    """What is proved once: an instance in an environment and, of SWT-Bench, in a mode."""
    return line["task"], line["environment"], line.get("mode", "")


def write_record(suites: Sequence[InstanceBenchmark], lines: Sequence[dict[str, Any]]) -> None:
    """The record of one benchmark, whose suites these are, of the lines about rows of its own."""
    ids = {task["id"] for benchmark in suites for task in benchmark.tasks()}
    own = [line for line in lines if line["task"] in ids]
    rows = [line for line in own if "answers" in line]
    gold, empty, mutants = ([(line["task"], a) for line in rows for a in line["answers"]
                             if a["answer"] == kind] for kind in ANSWERS)  # fmt: skip
    unproven = {task for task, answer in gold if answer["status"] != "passed"}
    idle = {task for task, answer in empty if answer["status"] != "failed"}
    proven = {line["task"] for line in rows} - unproven - idle
    slug = suites[0].slug
    place = RECORDS / f"{slug}.json"
    known = json.loads(place.read_text())
    record = {
        "benchmark": slug,
        "tasks": len(proven),
        "of": len(ids),
        "covers": _covers(known["covers"], rows, proven),
        "note": known["note"],
        "without_gold": 0,
        "answers": {
            kind: _counted(answers, "passed" if kind == "gold" else "failed")
            for kind, answers in zip(ANSWERS, (gold, empty, mutants), strict=True)
        },
        "twins": {
            name: sum(line["twins"].get(name, 0) for line in rows) for name in ("tests", "twinned")
        },
        "environments": {
            backend: len({r["task"] for r in rows if r["environment"] == backend} & proven)
            for backend in sorted({line["environment"] for line in rows})
        },
        "sources": {
            source: len({r["task"] for r in rows if r["exact"] is exact} & proven)
            for source, exact in (("base commit", True), ("source distribution", False))
        },
        "code": dict(sorted(Counter(r.get("code", EARLIER) for r in rows
                                    if r["task"] in proven).items())),
        "families": len({(r["task"].rpartition("-")[0], r["version"]) for r in rows
                         if r["task"] in proven}),
        "repositories": dict(sorted(Counter(t.rpartition("-")[0] for t in proven).items())),
        "gold_not_passed": [{"task": t, "why": a["why"]} for t, a in gold if t in unproven],
        "empty_passed": [{"task": t, "why": a["why"]} for t, a in empty if t in idle],
        "survivors": [{"task": t, "number": a["number"]} for t, a in mutants
                      if a["status"] == "passed"],
        "not_graded": [{"task": r["task"], "why": r["error"]} for r in own if "error" in r],
        **_modes(rows),
        "proven": sorted(proven),
    }  # fmt: skip
    place.write_text(json.dumps(record, indent=1) + "\n")


def _covers(known: str, rows: Sequence[dict[str, Any]], proven: set[str]) -> str:
    """What a reader must know at first sight: of which source, or in which mode."""
    held = [row for row in rows if row["task"] in proven]
    if modes := Counter(row["mode"] for row in held if "mode" in row):
        return ", ".join(f"{MODES[mode]} {count}" for mode, count in sorted(modes.items()))
    exact, rebuilt = ({r["task"] for r in held if r["exact"] is kind} for kind in (True, False))
    split = known.partition(":")[0]
    return f"{split}: {len(exact)} on base commits, {len(rebuilt - exact)} on rebuilt trees alone"


def _modes(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """SWT-Bench's: rows by mode, and the mean change coverage of the golden tests."""
    modes = Counter(row["mode"] for row in rows if "mode" in row)
    deltas = [row["coverage"].get("coverage_delta_gold") for row in rows]
    measured = [delta for delta in deltas if delta is not None]
    if not modes:
        return {}
    mean = round(sum(measured) / len(measured), 4) if measured else None
    return {"modes": dict(modes), "coverage": {"rows": len(measured), "mean_delta_gold": mean}}


def _counted(answers: Sequence[tuple[str, dict[str, Any]]], due: str) -> dict[str, int]:
    statuses = Counter(answer["status"] for _, answer in answers)
    return {
        "graded": len(answers),
        "as_due": statuses[due],
        "errors": statuses["error"],
        "passed": statuses["passed"],
    }


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
    parser.add_argument("--record", action="store_true", help="write records, grade nothing")
    options = parser.parse_intermixed_args()
    options.suite = options.suite or ["lite", "verified"]
    if options.record:
        made = [kind(**own) for kind, own in map(SUITES.__getitem__, options.suite)]
        for slug in {benchmark.slug for benchmark in made}:
            write_record([b for b in made if b.slug == slug], lines_of(options.results))
        return
    end = time.monotonic() + 60 * options.minutes
    for suite, benchmark, task in wanted(options):
        mode = str(benchmark.options().get("mode", ""))
        key = (task["id"], options.environment, mode)
        if time.monotonic() > end or key in {named(line) for line in lines_of(options.results)}:
            continue
        line = {"suite": suite, **proven(benchmark, task, options.environment, options.mutants)}
        with options.results.open("a") as stream:
            stream.write(json.dumps(line) + "\n")
        shown = [f"{a['answer']} {a['status']}" for a in line.get("answers", ())]
        print(task["id"], *shown, line.get("error", ""), line.get("seconds", ""), flush=True)


if __name__ == "__main__":
    main()
