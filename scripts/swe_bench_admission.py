"""Which SWE-bench instances can be trusted on this machine: gold passes, nothing and less do not.

    python scripts/swe_bench_admission.py results.jsonl [--environment docker] [INSTANCE…]

Goes on where an earlier run with the same file stopped. `--record FILE` writes the admitted ids in
the form that tests/eval/benchmarks/vectors/swe_bench_rebuilt.json has.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from chimera.errors import RunError
from chimera.eval.benchmarks.swe_bench import SWEBench
from chimera.eval.benchmarks.swe_bench_verified import SWEBenchVerified
from chimera.eval.kits.repositories.swe_instance import SWEBenchTask
from chimera.eval.trial import StartBackend
from chimera.eval.values import Submission


def outcome(
    benchmark: SWEBench, task: SWEBenchTask, submission: Submission, backend: str
) -> object:
    try:
        with benchmark.open_grading_environment(task, StartBackend(backend)) as env:
            verdict = benchmark.grade(task, submission, env)
    except RunError as error:
        return {"passed": None, "why": f"{error.boundary}: {error}"}
    return {"passed": verdict.passed, "why": verdict.why, "metrics": dict(verdict.metrics)}


def examined(benchmark: SWEBench, task: SWEBenchTask, backend: str) -> dict[str, object]:
    gold = benchmark.gold(task)
    assert gold is not None
    runs = {"gold": outcome(benchmark, task, gold, backend)}
    for number, mutant in enumerate(benchmark.mutants(task)):
        runs[f"mutant{number}"] = outcome(benchmark, task, mutant, backend)
    return {"id": task["id"], "environment": backend, "runs": runs}


def admitted(line: dict[str, dict[str, dict[str, object]]]) -> bool:
    runs = line["runs"]
    others = [run["passed"] for name, run in runs.items() if name != "gold"]
    return runs["gold"]["passed"] is True and all(passed is False for passed in others)


def base_files(line: dict[str, dict[str, dict[str, dict[str, object]]]]) -> str:
    """Of the files that the row's patches change: how many are known to be the base commit's."""
    known = line["runs"]["gold"].get("metrics", {}).get("base_files")
    return f"(base files: {known})" if known else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("instances", nargs="*")
    parser.add_argument("--environment", default="bubblewrap")
    parser.add_argument("--base-image", default="debian:bookworm-slim")
    parser.add_argument("--record", type=Path)
    options = parser.parse_intermixed_args()
    known = options.results.read_text().splitlines() if options.results.exists() else []
    lines = [json.loads(line) for line in known]
    done = {line["id"] for line in lines}
    for kind in (SWEBench, SWEBenchVerified):
        benchmark = kind(images="local", base_image=options.base_image)
        for task in benchmark.tasks():
            wanted = task["id"] in options.instances or not options.instances
            if not wanted or task["id"] in done or not task["instance"].requirement:
                continue
            done.add(task["id"])
            line = examined(benchmark, task, options.environment)
            lines.append(line)
            with options.results.open("a") as stream:
                stream.write(json.dumps(line) + "\n")
            print(task["id"], "admitted" if admitted(line) else "not admitted", base_files(line))
    if options.record:
        record = json.loads(options.record.read_text()) if options.record.exists() else {}
        record[options.environment] = sorted(line["id"] for line in lines if admitted(line))
        options.record.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
