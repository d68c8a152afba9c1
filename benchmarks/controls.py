"""What controls cost: CPU time of grading stored answers without them, with new and with kept ones.

python benchmarks/controls.py human-eval pass --limit 164
python benchmarks/controls.py swe-bench fail --task pallets__flask-5014 --wrong 'diff …'
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from chimera.eval.registry import create_benchmark
from chimera.eval.run import select_tasks

WRONG = "def nothing_of_it():\n    return 1\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benchmark")
    parser.add_argument("kind", choices=["pass", "fail"])
    parser.add_argument("--limit")
    parser.add_argument("--task", action="append", default=[])
    parser.add_argument("--wrong", default=WRONG, help="the answer that fails")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--cache", type=Path, help="trees and virtual environments made before")
    parser.add_argument("further", nargs="*", help="after --: further options of `chimera grade`")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        _write_answers(given, work / "answers.jsonl")
        _graded(given, work, "off")  # fills what every run would have made
        for _ in range(given.repeat):
            _clear(given, work)
            cost = {"off": _graded(given, work, "off")}
            _clear(given, work)
            cost |= {name: _graded(given, work, "auto") for name in ("first", "kept")}
            print(given.benchmark, given.kind, json.dumps(cost), flush=True)


def _write_answers(given: argparse.Namespace, file: Path) -> None:
    benchmark = create_benchmark(given.benchmark)
    lines = []
    for task in select_tasks(benchmark.tasks(), given.limit, tuple(given.task)):
        gold = benchmark.gold(task)
        assert gold is not None, f"{task['id']} has no reference"
        key = "model_patch" if gold.form == "model_patch" else "solution"
        text = gold.text if given.kind == "pass" else given.wrong
        lines.append(json.dumps({"task_id": task["id"], key: text}))
    file.write_text("\n".join(lines) + "\n")


def _graded(given: argparse.Namespace, work: Path, controls: str) -> dict[str, float]:
    """CPU seconds, and how the answers came out."""
    command = [
        *(sys.executable, "-m", "chimera", "grade", "--benchmark", given.benchmark),
        *("--predictions", str(work / "answers.jsonl"), "--controls", controls),
        *("--concurrency", "2", "--runs-dir", str(work / "runs")),
        *("--output", str(work / "out.json"), *given.further),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    variables = {**os.environ, "CHIMERA_CACHE_DIR": str(_cache(given, work))}
    subprocess.run(command, env=variables, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = json.loads((work / "out.json").read_text())
    counts = {name: found[name] for name in ("passed", "failed", "errored")}
    return {"cpu_seconds": round(seconds, 2), **counts}


def _cache(given: argparse.Namespace, work: Path) -> Path:
    return given.cache or work / "cache"


def _clear(given: argparse.Namespace, work: Path) -> None:
    """Forget what known answers came to."""
    for file in _cache(given, work).glob("controls.sqlite*"):
        file.unlink()
    for file in _cache(given, work).glob("*twin*/*.json"):
        file.unlink()


if __name__ == "__main__":
    main()
