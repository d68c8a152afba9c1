"""What saturates first when a run grows past the machines at hand: a discrete-event simulation.

    python benchmarks/simulate.py [--trials 10000000] [--nodes 1000] [--providers 100] …
    python benchmarks/simulate.py --check       # against real runs over nodes of this machine

Each trial waits for its node's slot, makes its calls at a provider that lets so many begin a
second, is graded on one of its node's cores, and is written by the driver, which does one thing at
a time. The costs are those that `benchmarks/scale.py` and the check measure; all can be given.
A server's share of the time it was busy says what saturates first, and the table below the result
says from which size on each one does.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes and costs; seconds unless said otherwise."""

    trials: int = 10_000_000
    nodes: int = 1_000
    slots: int = 32  # trials at once on a node
    cores: int = 8  # of a node
    providers: int = 100
    starts: float = 50.0  # calls that a provider lets begin a second
    calls: int = 10  # of a trial
    call: float = 4.0  # a call's mean time
    grading: float = 0.5  # CPU of a verdict
    driver: float = 0.0007  # CPU of the driver for a trial: message, verdict, file
    ledger: float = 0.00025  # CPU of the driver for a call: reserve and settle
    image: float = 30.0  # a node's first trial: an image is fetched
    drivers: int = 1  # shards of the run, each with a driver of its own


@dataclass(frozen=True, slots=True)
class Outcome:
    seconds: float
    driver: float  # share of the time that it was busy
    provider: float
    cores: float
    slots: float


def simulate(plan: Plan, seed: int = 0) -> Outcome:
    """Every trial's way through slot, provider, core and driver, each event in its time."""
    chance = random.Random(seed)
    providers, cores = [0.0] * plan.providers, [0.0] * (plan.nodes * plan.cores)
    drivers = [0.0] * plan.drivers
    gap, work = 1.0 / plan.starts, plan.driver + plan.calls * plan.ledger
    # (when, what ends then, slot): 0 the slot's wait, 1 the calls, 2 the grading, 3 the writing
    events = [(plan.image, 0, slot) for slot in range(plan.nodes * plan.slots)]
    begun, waited = 0, 0.0
    while events:
        now, stage, slot = events[0]
        if stage in (0, 3):
            if begun == plan.trials:
                heapq.heappop(events)
                continue
            begun += 1
            place = chance.randrange(plan.providers)
            turn = max(now, providers[place])
            providers[place] = turn + plan.calls * gap  # it spreads the starts of the calls
            end = turn + chance.gammavariate(plan.calls, plan.call)
            waited += end - now
            heapq.heapreplace(events, (end, 1, slot))
            continue
        servers, cost = (cores, plan.grading) if stage == 1 else (drivers, work)
        place = slot // plan.slots * plan.cores + slot % plan.cores if stage == 1 else slot
        place %= len(servers)
        servers[place] = end = max(now, servers[place]) + cost
        waited += end - now
        heapq.heapreplace(events, (end, stage + 1, slot))
    last = max(drivers)
    return Outcome(
        seconds=last,
        driver=plan.trials * work / plan.drivers / last,
        provider=plan.trials * plan.calls * gap / plan.providers / last,
        cores=plan.trials * plan.grading / len(cores) / last,
        slots=waited / (plan.nodes * plan.slots) / last,
    )


def saturation(plan: Plan) -> dict[str, float]:
    """Trials a second at which each part is busy all the time."""
    return {
        "driver": plan.drivers / (plan.driver + plan.calls * plan.ledger),
        "rate limits": plan.providers * plan.starts / plan.calls,
        "cores": plan.nodes * plan.cores / plan.grading,
        "slots (waiting for models)": plan.nodes
        * plan.slots
        / (plan.calls * plan.call + plan.grading),
    }


def show(plan: Plan) -> None:
    outcome, rates = simulate(plan), saturation(plan)
    rate, first = plan.trials / outcome.seconds, min(rates, key=rates.__getitem__)
    print(f"{plan.trials:,} trials over {plan.nodes:,} nodes, drivers: {plan.drivers}")
    print(f"  {outcome.seconds / 3600:.2f} h, {rate:,.0f} trials/s; first at its limit: {first}")
    print(f"  busy: driver {outcome.driver:.0%}, rate limits {outcome.provider:.0%}, ", end="")
    print(f"cores {outcome.cores:.0%}, slots {outcome.slots:.0%}")
    for part, most in sorted(rates.items(), key=lambda item: item[1]):
        print(f"  {part:<28} saturates at {most:>10,.0f} trials/s")


# --- against reality


WAITS = """
import time
from chimera.agents.base import BaseAgent
from chimera.eval.harness import Benchmark, Submission, Verdict
from chimera.types import AgentResult


class Waits(Benchmark):
    grading = "none"

    def __init__(self, count: int = 100) -> None:
        self.count = int(count)

    def name(self):
        return "waits"

    def options(self):
        return {"count": self.count}

    def tasks(self):
        return [{"id": f"t{n}", "prompt": str(n)} for n in range(self.count)]

    def gold(self, task):
        return Submission(task["prompt"])

    def grade(self, task, submission, env):
        return Verdict(submission.text == task["prompt"])


class Waiter(BaseAgent):
    name = "waiter"

    def __init__(self, seconds: float = 1.0, model: str = "") -> None:
        self.seconds = float(seconds)

    def identity(self):
        return {"agent": self.name}

    def run(self, prompt, env):
        time.sleep(self.seconds)
        return AgentResult(prompt, steps=1)
"""


def check(nodes: int, trials: int, seconds: float, slots: int) -> None:
    """A real run of waiting trials over nodes on this machine, beside its simulation."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    for _ in range(nodes - 1):
        cluster.add_node(num_cpus=1)
    try:
        with tempfile.TemporaryDirectory() as directory:
            wall, cpu = measured(Path(directory), cluster.address, trials, seconds, slots)
    finally:
        cluster.shutdown()
    ideal = trials * seconds / (nodes * slots)
    plan = Plan(trials=trials, nodes=nodes, slots=slots, cores=1, providers=1, starts=1e9, calls=1,
                call=seconds, grading=0.0, image=0.0, driver=cpu / trials, ledger=0.0)  # fmt: skip
    foreseen = simulate(plan).seconds
    print(f"{nodes} nodes, {trials} trials of {seconds:g} s, {slots} at once on each:")
    print(f"  {wall:.1f} s, ideal {ideal:.1f} s ({ideal / wall:.0%}), simulated {foreseen:.1f} s; ")
    print(f"  driver {cpu / trials * 1000:.2f} ms CPU a trial; load {os.getloadavg()[0]:.1f}")


def measured(
    folder: Path, address: str, trials: int, seconds: float, slots: int
) -> tuple[float, float]:
    """Seconds from the first trial to the last, and the driver's CPU beyond its start."""
    (folder / "waits.py").write_text(WAITS)

    def run(count: int) -> tuple[float, float]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        child = subprocess.run(
            [*(sys.executable, "-m", "chimera", "eval", "--on", "ray", "-e", "none", "--json"),
             *("-b", "waits.py:Waits", "-a", "waits.py:Waiter", "--controls", "off"),
             *("-n", str(slots), "--option", f"count={count}", "--runs-dir", "runs"),
             *("--agent-option", f"seconds={seconds}")],
            cwd=folder,
            env={**os.environ, "RAY_ADDRESS": address},
            capture_output=True,
            check=True,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        summary = json.loads(child.stdout.splitlines()[-1])
        assert summary["passed"] == count, summary
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return span(folder / "runs"), cpu

    _, start = run(1)
    wall, cpu = run(trials)
    return wall, max(0.0, cpu - start)


def span(runs: Path) -> float:
    """From the first trial's start to the last one's end, by the newest run's own clock."""
    from chimera.eval.runs.files import run_files
    from chimera.eval.runs.store import RunStore

    with RunStore(run_files(runs)[-1]) as store:
        times = [(record.started, record.started + record.duration) for record in store.records()]
    return max(end for _, end in times) - min(start for start, _ in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for each in fields(Plan):
        parser.add_argument(f"--{each.name}", type=type(each.default), default=each.default)
    parser.add_argument("--check", action="store_true", help="real runs over 1, 2 and 4 nodes")
    arguments = vars(parser.parse_args())
    if arguments.pop("check"):
        for nodes in (1, 2, 4):
            check(nodes, trials=nodes * 200, seconds=2.0, slots=20)
        return
    plan = Plan(**arguments)
    began = time.monotonic()
    for drivers in sorted({plan.drivers, 4, 16}):
        show(replace(plan, drivers=drivers))
    print(f"simulated in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
