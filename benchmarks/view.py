"""What `chimera view` takes for runs of any size: CPU and memory of the server, bytes of each page.

    python benchmarks/view.py [--trials 100000 1000000] [--samples 10] [--inspect 10000]

Runs are made up: tasks in groups, so many samples each, a prompt, an answer and a short trajectory
a trial, and one trial of 20 MB. The server is the command itself, asked over HTTP; a page's CPU is
what its process used from the request to the answer, the work of its threads included. First a
run is opened cold, then its pages are asked for when it is counted. With --inspect such trials,
without their steps, are written as a log of Inspect (in a virtual environment of its own) and
`inspect view` is started on it: the time until it answers, its memory, what any page loads.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import quote

from chimera.eval.runs.store import RunStore
from chimera.eval.values import Submission, TrialRecord, Verdict
from chimera.types import Message, Step, ToolCall, Usage

SUBJECTS = ("algebra", "geometry", "graphs", "parsing", "dates", "networks")
START = 1_790_000_000.0
LONG = 20_000_000
TICKS = os.sysconf("SC_CLK_TCK")


def trials(count: int, samples: int, seed: int) -> Iterator[tuple[int, str, int, bool, float]]:
    draw = random.Random(seed)
    for number in range(count):
        task, sample = divmod(number, samples)
        yield number + 1, f"task-{task:07}", sample, draw.random() < 0.6, draw.random()


def make_run(path: Path, count: int, samples: int, seed: int = 0) -> None:
    """A run file of so many trials, written row by row: the store's own way takes an hour."""
    with RunStore(path, create=True) as store:
        store.set_manifest(
            {
                "identity": {"benchmark": "made-up"}, "model": f"model-{seed}", "agent": "react",
                "planned": count, "samples": samples, "started": START,
            }
        )  # fmt: skip
        tasks = range(-(-count // samples))
        store.add_tasks(
            {
                "id": f"task-{n:07}",
                "prompt": f"Question {n}: what is the sum of {n} and {n + 1}? " * 4,
                "metadata": {"subject": SUBJECTS[n % 6], "level": n % 5},
            }
            for n in tasks
        )
        steps = store._database.pack(json.dumps([as_step(s) for s in short_steps()]).encode())
        write = store._database.connection.executemany
        with store._database.transaction():
            write(
                "INSERT INTO trials (id, task_id, sample, digest, status, score, why, cost, "
                "input_tokens, output_tokens, cached_tokens, steps, duration, attempts, started, "
                "stop_reason) VALUES (?,?,?,'d',?,?,?,?,?,?,0,7,?,1,?,'done')",
                (
                    (n, task, sample, "passed" if ok else "failed", float(ok),
                     "" if ok else f"check {n % 12} of 12 did not hold", 0.001 + 0.01 * luck,
                     1000 + n % 500, 200, 5 + 50 * luck, START + n * 0.05)
                    for n, task, sample, ok, luck in trials(count, samples, seed)
                ),
            )  # fmt: skip
            write(
                "INSERT INTO submissions VALUES (?, ?, 'answer', NULL, NULL)",
                (
                    (n, f"The answer is {n}, since {task} asks for it.")
                    for n, task, *_ in trials(count, samples, seed)
                ),
            )
            write(
                'INSERT INTO verdicts VALUES (?, ?, NULL, ?, \'{"decided_by":"match"}\', NULL)',
                (
                    (n, int(ok), "" if ok else f"check {n % 12} of 12 did not hold")
                    for n, _, _, ok, _ in trials(count, samples, seed)
                ),
            )
            write(
                "INSERT INTO trajectories VALUES (?, ?)",
                ((n, steps) for n in range(1, min(count, 2000) + 1)),
            )
        store.write(long_trial())


def short_steps() -> list[Step]:
    said = [
        Message.system("Answer in a sentence."),
        Message.user("What is the sum?"),
        Message.assistant("I add.", [ToolCall("1", "python", {"code": "print(1 + 2)"})]),
        Message.tool("3", "1"),
        Message.assistant("The answer is 3."),
    ]
    return [Step(m, Usage(100, 20), 0.0001, START + n) for n, m in enumerate(said)]


def as_step(step: Step) -> Any:
    import msgspec

    return msgspec.to_builtins(step)


def long_trial() -> TrialRecord:
    """One whose trajectory is 20 MB."""
    line = "a line of a log that somebody printed in a loop, and that nobody will read\n"
    part = line * (LONG // 400 // len(line))
    steps = tuple(
        Step(
            Message("assistant" if n % 2 else "tool", f"{n}\n{part}"), Usage(10, 10), 0.0, START + n
        )
        for n in range(400)
    )
    return TrialRecord(
        "long", 0, "d", Submission("x"), Verdict(True), steps=400, started=START, trajectory=steps
    )


class Server:
    """A server that is measured from outside, by its process."""

    def __init__(self, command: list[str], address: str | None = None, **settings: Any) -> None:
        self._began = time.perf_counter()
        told = subprocess.PIPE if address is None else subprocess.DEVNULL
        self.process = subprocess.Popen(
            command, stdout=told, stderr=subprocess.DEVNULL, text=True, **settings
        )
        self.address = address or self._told()
        self._browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))

    def _told(self) -> str:
        """The address that it prints."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.search(r"http://\S+", line):
                return found[0]
        raise SystemExit("the server did not start")

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self, name: str = "VmHWM") -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"{name}:\s+(\d+)", status)
        return int(found[1]) / 1024 if found else 0.0

    def get(self, url: str) -> bytes:
        with self._browser.open(url) as answer:
            content: bytes = answer.read()
        return content

    def started(self, url: str) -> float:
        """Seconds from the start of the process to its first answer."""
        while True:
            try:
                self.get(url)
                return time.perf_counter() - self._began
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.02)

    def page(self, url: str) -> tuple[float, int]:
        """Seconds of CPU that a page takes, and its bytes; the middle of three."""
        taken = []
        for _ in range(3):
            before = self.cpu()
            size = len(self.get(url))
            taken.append(self.cpu() - before)
        return sorted(taken)[1], size


def viewed(folder: Path, names: list[str]) -> Iterator[str]:
    command = [sys.executable, "-m", "chimera", "view", str(folder), "--no-browser"]
    environment = {**os.environ, "CHIMERA_CACHE_DIR": str(folder / "cache")}
    first, second = names
    with Server(command, env=environment) as server:
        origin = server.address.partition("/?")[0]
        yield f"start to first answer   {server.started(server.address):8.2f} s"
        before = server.cpu()
        server.get(f"{origin}/run/{first}/")
        yield f"cold: first page        {(server.cpu() - before) * 1000:8.0f} ms CPU"
        for name in names:
            while not json.loads(server.get(f"{origin}/run/{name}/?format=json"))["complete"]:
                time.sleep(0.5)
        yield f"counted, both runs      {server.cpu():8.1f} s CPU, {server.memory():.0f} MB at most"
        task = quote("task-0000007")
        pages = {
            "runs": "/",
            "run": f"/run/{first}/",
            "run, failed, by cost": f"/run/{first}/?status=failed&sort=cost&down=1",
            "run, a group, page 90": f"/run/{first}/?group=subject:parsing&page=90",
            "run, by a reason": f"/run/{first}/?reason=3&sort=time",
            "trial": f"/run/{first}/trial?task={task}&sample=0&status=failed&sort=cost&down=1",
            "trial of 20 MB": f"/run/{first}/trial?task=long&sample=0",
            "its step 390, whole": f"/run/{first}/part?task=long&sample=0&part=step:390",
            "comparison": f"/compare?run={first}&run={second}",
            "comparison, page 100": f"/compare?run={first}&run={second}&list=all&page=100",
            "side by side": f"/pair?run={first}&run={second}&task={task}&sample=0&other=0",
            "state (polled)": f"/state?run={first}",
        }
        for title, url in pages.items():
            cpu, size = server.page(origin + url)
            yield f"{title:24}{cpu * 1000:8.0f} ms CPU  {size / 1000:7.1f} kB"
        yield f"memory now              {server.memory('VmRSS'):8.0f} MB, {server.memory():.0f} max"


def reported(folder: Path, count: int = 1000) -> str:
    path = folder / "report.chi"
    path.unlink(missing_ok=True)
    make_run(path, count, 10)
    target = folder / "report.html"
    command = [sys.executable, "-m", "chimera", "report", str(path), "-o", str(target)]
    subprocess.run([*command, "--with", "all"], check=True, capture_output=True)
    return f"report of {count} trials   {target.stat().st_size / 1e6:8.2f} MB"


#: Written for the interpreter that has inspect-ai: the same trials as one of its logs.
_INSPECT = """
import sys
from inspect_ai.log import (EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec, EvalResults,
    EvalPlan, EvalStats, write_eval_log)
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput
from inspect_ai.scorer import Score
count, target = int(sys.argv[1]), sys.argv[2]
samples = [
    EvalSample(id=f"task-{n // 10:07}", epoch=n % 10 + 1, input=f"Question {n}: what is the sum?",
        target="3", messages=[ChatMessageUser(content=f"Question {n}"),
        ChatMessageAssistant(content=f"The answer is {n}.")],
        output=ModelOutput.from_content("made/model", f"The answer is {n}."),
        scores={"match": Score(value="C" if n % 5 else "I", answer=str(n))})
    for n in range(count)
]
spec = EvalSpec(created="2026-01-01T00:00:00+00:00", task="made-up", model="made/model",
    dataset=EvalDataset(name="made-up", samples=count), config=EvalConfig(epochs=10))
write_eval_log(EvalLog(status="success", eval=spec, plan=EvalPlan(), stats=EvalStats(),
    results=EvalResults(total_samples=count, completed_samples=count), samples=samples), target)
"""


def inspected(folder: Path, count: int, venv: Path) -> Iterator[str]:
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "inspect-ai"], check=True)
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    target = logs / "2026-01-01T00-00-00_made-up_x.eval"
    subprocess.run([python, "-c", _INSPECT, str(count), str(target)], check=True)
    command = [str(venv / "bin" / "inspect"), "view", "--log-dir", str(logs), "--port", "7599"]
    origin = "http://127.0.0.1:7599"
    with Server(command, origin) as server:
        yield f"start to first answer   {server.started(origin):8.2f} s"
        page = server.get(origin).decode()
        assets = re.findall(r'(?:src|href)="\.?/?(assets/[^"]+)"', page)
        loaded = sum(len(server.get(f"{origin}/{asset}")) for asset in assets)
        before = server.cpu()
        name = quote(str(target), safe="")
        try:
            body = len(server.get(f"{origin}/api/logs/{name}"))
            taken = (server.cpu() - before) * 1000
            yield f"whole log by its API    {taken:8.0f} ms CPU  {body / 1e6:7.1f} MB"
        except urllib.error.HTTPError as error:
            yield f"its API answered {error.code}"
        yield f"script and style        {loaded / 1e6:8.1f} MB for any page"
        yield f"memory now              {server.memory('VmRSS'):8.0f} MB, {server.memory():.0f} max"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trials", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--samples", type=int, default=10, help="trials of each task")
    parser.add_argument("--inspect", type=int, default=0, help="trials in a log of Inspect")
    parser.add_argument("--venv", type=Path, default=Path.home() / ".cache/chimera/bench/inspect")
    parser.add_argument("--folder", type=Path, help="keep what is made here")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = told.folder or Path(temporary)
        for count in told.trials:
            folder = root / f"{count}x{told.samples}"
            folder.mkdir(parents=True, exist_ok=True)
            for seed, name in enumerate(("first", "second")):
                if not (folder / f"{name}.chi").exists():
                    make_run(folder / f"{name}.chi", count, told.samples, seed)
            size = (folder / "first.chi").stat().st_size / 1e6
            print(f"\n{count:,} trials, {size:.0f} MB", flush=True)
            for line in viewed(folder, ["first", "second"]):
                print(f"  {line}", flush=True)
        print(f"\n{reported(root)}", flush=True)
        if told.inspect:
            print(f"\ninspect view, {told.inspect:,} trials", flush=True)
            for line in inspected(root, told.inspect, told.venv):
                print(f"  {line}", flush=True)


if __name__ == "__main__":
    main()
