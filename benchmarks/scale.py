"""What a large run costs: every command that reads or goes on with one, at several sizes.

    python benchmarks/scale.py [--trials 10000 100000 1000000] [--evaluated N] [--without COMMAND …]

A run of so many trials is made with a model that answers at once, on tasks from a file of that many
lines, then each command is started as a person starts it. A run of more than `--evaluated` trials
is begun so, interrupted, and filled up by the run store with trials like those that it has: what
reads it cannot tell, and it takes a quarter of the time. CPU time and the most memory are those of
the command's process; a command is linear when its CPU for each trial stays and its memory does not
grow.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import msgspec

from chimera.eval.runs.store import RunStore
from chimera.eval.values import Control, TrialRecord, content_digest

#: Trials that an interrupted run has at least: a pass and a fail among them.
BEGUN = 20

MODULE = '''
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.harness import Submission, Verdict


class Many(DatasetBenchmark):
    """As many tasks as its file has; each third answer is wrong."""

    slug = "many"
    grading = "none"

    def task(self, row):
        return {"id": row["id"], "prompt": row["prompt"]}

    def gold(self, task):
        """What an echo says, but for each third task."""
        wrong = int(task["id"][5:]) % 3 == 0
        return Submission(task["prompt"][::-1] if wrong else task["prompt"])

    def grade(self, task, submission, env):
        passed = submission.text.strip() == self.gold(task).text
        return Verdict(passed, "equal" if passed else "not equal", evidence={"log": "line " * 60})
'''


def rows(count: int) -> Iterator[dict[str, str]]:
    return ({"id": f"task/{n}", "prompt": f"What is {n}?" + " Think." * 20} for n in range(count))


def measured(command: list[str], directory: Path) -> tuple[float, float, float]:
    """CPU seconds, MB at the most and wall seconds of a command's own process."""
    began = time.monotonic()
    child = subprocess.Popen(
        command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert child.stderr is not None
    said = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)}\n{said.decode()[-2000:]}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, time.monotonic() - began


def commands(count: int) -> dict[str, list[str]]:
    """What is measured, in order: later ones read what `eval` made."""
    chimera, runs = [sys.executable, "-m", "chimera"], ["--runs-dir", "runs"]
    plan = ["-b", "many.py:Many", "--dataset", "many.jsonl", "-m", "scripted/echo", "-e", "none"]
    return {
        "eval": [*chimera, "eval", *plan, "--json", *runs],
        "eval --resume": [*chimera, "eval", "--resume", "--json", *runs],
        "runs list": [*chimera, "runs", "list", *runs],
        "runs show": [*chimera, "runs", "show", "latest", *runs],
        "runs show TASK": [*chimera, "runs", "show", "latest", f"task/{count // 2}", *runs],
        "runs export": [*chimera, "runs", "export", "latest", "--output=/dev/null", *runs],
        "compare": [*chimera, "compare", "runs/a.chi", "runs/b.chi"],
        "runs merge": [*chimera, "runs", "merge", "whole.chi", "runs/a.chi", "runs/c.chi"],
        "grade --check": [*chimera, "grade", "runs/a.chi", "--check"],
        "grade": [*chimera, "grade", "runs/a.chi"],
    }  # fmt: skip


def begin(command: list[str], directory: Path) -> Path:
    """Start a run and interrupt it after some trials; its file."""
    child = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    trials = (line for line in child.stdout if '"event":"trial"' in line)
    list(islice(trials, BEGUN))
    child.send_signal(signal.SIGINT)
    list(trials)
    if child.wait() != 130:
        raise SystemExit(f"{' '.join(command)} was not interrupted: {child.returncode}")
    (run,) = (directory / "runs").glob("*.chi")
    return run


def fill(run: Path, count: int) -> None:
    """Store a trial of each task that has none, like one that is there, with its control."""
    with RunStore(run, write=True) as store:
        found = further(store, rows(count))
        while batch := list(islice(found, 64)):
            for control, _ in batch:
                store.add_control_soon(control)
            list(store.write_all([record for _, record in batch]))


def further(
    store: RunStore, tasks: Iterable[dict[str, str]]
) -> Iterator[tuple[Control, TrialRecord]]:
    known = list(store.records(whole=True))
    done = {record.task_id for record in known}
    like = {record.passed: record for record in known}
    controls = {control.identity: control for control in store.controls()}
    base = content_digest(store.manifest()["identity"])
    for number, task in enumerate(tasks):
        if task["id"] in done:
            continue
        record, said = like[number % 3 != 0], task["prompt"]
        assert record.submission is not None
        assert record.control is not None
        identity = content_digest([base, number])
        control = replace(controls[record.control.identity], identity=identity, task_id=task["id"])
        yield (
            control,
            replace(
                record,
                task_id=task["id"],
                digest=content_digest([base, content_digest(task), 0, ""]),
                submission=replace(record.submission, text=said, raw=said),
                trajectory=tuple(
                    replace(step, message=replace(step.message, content=said))
                    for step in record.trajectory
                ),
                control=replace(record.control, identity=identity),
            ),
        )


def copies(run: Path) -> None:
    """What is compared and merged: the run twice, and the plan of it without a trial."""
    for copy in ("a", "b"):
        shutil.copy(run, run.with_name(f"{copy}.chi"))
    with RunStore(run) as store, RunStore(run.with_name("c.chi"), create=True) as empty:
        empty.set_manifest(store.manifest())


def measure(count: int, evaluated: int, directory: Path, left_out: list[str]) -> None:
    (directory / "many.py").write_text(MODULE)
    with (directory / "many.jsonl").open("wb") as file:
        file.writelines(msgspec.json.encode(row) + b"\n" for row in rows(count))
    measurements = commands(count)
    if count > evaluated:
        fill(begin(measurements.pop("eval"), directory), count)
    for name, command in measurements.items():
        if name in left_out:
            continue
        if not (directory / "runs" / "a.chi").exists() and "runs/a.chi" in command:
            (made,) = (directory / "runs").glob("*.chi")
            copies(made)
        cpu, memory, wall = measured(command, directory)
        each = cpu / count * 1e6
        print(
            f"{count:>9,}  {name:<16}{cpu:>9.2f}{each:>10.0f}{memory:>9.0f}{wall:>9.1f}"
            f"  {os.getloadavg()[0]:.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument(
        "--directory", type=Path, help="where the runs are made (default: temporary)"
    )
    parser.add_argument(
        "--evaluated", type=int, default=100_000, help="larger runs are begun, then filled up"
    )
    parser.add_argument("--without", nargs="+", default=[], help="commands that are left out")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(f"load {os.getloadavg()[0]:.1f}")
    print(f"{'trials':>9}  {'command':<16}{'CPU s':>9}{'µs each':>10}{'MB':>9}{'wall s':>9}  load")
    for count in arguments.trials:
        with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
            measure(count, arguments.evaluated, Path(directory), arguments.without)


if __name__ == "__main__":
    main()
