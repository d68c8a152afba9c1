"""What saturates first when a run grows past the machines at hand: a discrete-event simulation.

    python benchmarks/simulate.py [--trials 10000000] [--nodes 1000] [--providers 100] …
    python benchmarks/simulate.py --check       # against real runs over nodes of this machine

Each trial waits for its node's slot, makes its calls at a provider that lets so many begin a
second, is graded on one of its node's cores, goes over the driver's desk and is written by the
driver; desk and driver each do one thing at a time. The costs below are assumed, and the desk's
are left out; `--check` measures those of desk and driver, and all can be given. A server's share
of the time it was busy says what saturates first, and the table below the result says from which
size on each one does.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any


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
    desk: float = 0.0  # CPU of the desk for a trial
    asked: float = 0.0  # CPU of the desk for a call
    image: float = 30.0  # a node's first trial: an image is fetched
    drivers: int = 1  # shards of the run, each with a desk and a driver of its own
    spread: int = 1  # 0: every call takes the mean time


@dataclass(frozen=True, slots=True)
class Outcome:
    seconds: float
    driver: float  # share of the time that it was busy
    desk: float
    provider: float
    cores: float
    slots: float


def simulate(plan: Plan, seed: int = 0) -> Outcome:
    """Every trial's way through slot, provider, core and driver, each event in its time."""
    chance = random.Random(seed)
    providers, cores = [0.0] * plan.providers, [0.0] * (plan.nodes * plan.cores)
    desks, drivers = [0.0] * plan.drivers, [0.0] * plan.drivers
    gap = 1.0 / plan.starts
    # (when, what ends then, slot): the slot's wait, the calls, the grading, the desk, the writing
    stages = {
        1: (cores, plan.grading),
        2: (desks, desk_work(plan)),
        3: (drivers, driver_work(plan)),
    }
    events = [(plan.image, 0, slot) for slot in range(plan.nodes * plan.slots)]
    begun, waited = 0, 0.0
    while events:
        now, stage, slot = events[0]
        if stage in (0, 4):
            if begun == plan.trials:
                heapq.heappop(events)
                continue
            begun += 1
            place = chance.randrange(plan.providers)
            turn = max(now, providers[place])
            providers[place] = turn + plan.calls * gap  # it spreads the starts of the calls
            end = turn + (
                chance.gammavariate(plan.calls, plan.call)
                if plan.spread
                else plan.calls * plan.call
            )
            waited += end - now
            heapq.heapreplace(events, (end, 1, slot))
            continue
        servers, cost = stages[stage]
        place = slot // plan.slots * plan.cores + slot % plan.cores if stage == 1 else slot
        place %= len(servers)
        servers[place] = end = max(now, servers[place]) + cost
        waited += end - now
        heapq.heapreplace(events, (end, stage + 1, slot))
    last = max(drivers)
    return Outcome(
        seconds=last,
        driver=plan.trials * driver_work(plan) / plan.drivers / last,
        desk=plan.trials * desk_work(plan) / plan.drivers / last,
        provider=plan.trials * plan.calls * gap / plan.providers / last,
        cores=plan.trials * plan.grading / len(cores) / last,
        slots=waited / (plan.nodes * plan.slots) / last,
    )


def driver_work(plan: Plan) -> float:
    return plan.driver + plan.calls * plan.ledger


def desk_work(plan: Plan) -> float:
    return plan.desk + plan.calls * plan.asked


def saturation(plan: Plan) -> dict[str, float]:
    """Trials a second at which each part is busy all the time."""
    return {
        "driver": plan.drivers / driver_work(plan),
        **({"desk": plan.drivers / work} if (work := desk_work(plan)) else {}),
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
    print(f"  busy: driver {outcome.driver:.0%}, desk {outcome.desk:.0%}, ", end="")
    print(f"rate limits {outcome.provider:.0%}, ", end="")
    print(f"cores {outcome.cores:.0%}, slots {outcome.slots:.0%}")
    for part, most in sorted(rates.items(), key=lambda item: item[1]):
        print(f"  {part:<28} saturates at {most:>10,.0f} trials/s")


# --- against reality


WAITS = """
import random
import time
from chimera.agents.base import BaseAgent
from chimera.eval.harness import Benchmark, Submission, Verdict
from chimera.providers.prices import FlatPrice
from chimera.providers.scripted import ScriptedProvider
from chimera.types import AgentResult, Message


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

    def __init__(self, calls: int = 1, call: float = 1.0, spread: int = 0, model: str = "") -> None:
        self.calls, self.call, self.spread = int(calls), float(call), int(spread)

    def identity(self):
        return {"agent": self.name}

    def run(self, prompt, env):
        chance = random.Random(prompt)
        price = FlatPrice(1.0, 1.0)
        provider = ScriptedProvider(name="scripted/echo", model="echo", price_override=price)
        for _ in range(self.calls):
            reply = provider.complete([Message.user(prompt)], max_tokens=2)
            time.sleep(chance.expovariate(1 / self.call) if self.spread else self.call)
        return AgentResult(reply.content, steps=1)
"""
#: Real runs: nodes, trials at once on each, calls of a trial, seconds a call, whether these vary.
SETTINGS = (
    (1, 20, 1, 2.0, 0),
    (2, 20, 1, 2.0, 0),
    (4, 20, 1, 2.0, 0),
    (4, 20, 10, 0.2, 1),
    (4, 40, 5, 0.8, 1),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """A real run: seconds from the first trial's start to the last one's end, and CPU."""

    wall: float
    driver: float
    desk: float


def check() -> None:
    """Real runs beside their simulation, which knows the costs from two other runs alone."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - so Ray calls it
    cluster, nodes = Cluster(), 0
    try:
        with tempfile.TemporaryDirectory() as directory:
            folder = Path(directory)
            (folder / "waits.py").write_text(WAITS)
            for setting in SETTINGS:
                while nodes < setting[0]:
                    added(cluster)
                    nodes += 1
                if nodes == 1:
                    costs = measured_costs(folder, cluster.address)
                beside(folder, cluster.address, costs, *setting)
    finally:
        cluster.shutdown()


def added(cluster: Any) -> None:
    """One more machine; Ray gives up on a busy one that takes over half a minute to start."""
    for attempt in range(10):
        before = children()
        try:
            cluster.add_node(num_cpus=1, include_dashboard=False)
        except Exception as error:
            for left in children() - before:  # they would make the next one slower still
                os.kill(left, signal.SIGKILL)
            if "timed out during startup" not in str(error) or attempt == 9:
                raise
        else:
            return


def children() -> set[int]:
    """The processes that this one has started."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int((place / "stat").read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(place.name))
    return found


def measured_costs(folder: Path, address: str) -> dict[str, float]:
    """What driver and desk need for a trial and for a call, by runs of one and of many calls."""
    trials, few, many = 200, 1, 11
    none, one, more = (
        measured(folder, address, count, 20, calls, 1.0 / calls, 0)
        for count, calls in ((1, 1), (trials, few), (trials, many))
    )
    calls = trials * (many - few)
    ledger, asked = (more.driver - one.driver) / calls, (more.desk - one.desk) / calls
    costs = {
        "driver": (one.driver - none.driver) / trials - ledger,
        "ledger": ledger,
        "desk": (one.desk - none.desk) / trials - asked,
        "asked": asked,
    }
    said = ", ".join(f"{name} {cost * 1000:.2f} ms" for name, cost in costs.items())
    print(f"measured CPU: {said}; load {os.getloadavg()[0]:.1f}", flush=True)
    return costs


def beside(
    folder: Path, address: str, costs: dict[str, float],
    nodes: int, slots: int, calls: int, call: float, spread: int,
) -> None:  # fmt: skip
    trials = nodes * slots * 10
    real = measured(folder, address, trials, slots, calls, call, spread)
    plan = Plan(trials=trials, nodes=nodes, slots=slots, cores=1, providers=1, starts=1e9,
                calls=calls, call=call, grading=0.0, image=0.0, spread=spread, **costs)  # fmt: skip
    foreseen, ideal = simulate(plan).seconds, trials * calls * call / (nodes * slots)
    print(f"{nodes} nodes of {slots}, {trials} trials of {calls} calls of {call:g} s: ", end="")
    print(
        f"{real.wall:.1f} s, simulated {foreseen:.1f} s ({real.wall / foreseen - 1:+.0%}), ", end=""
    )
    print(
        f"ideal {ideal:.1f} s ({ideal / real.wall:.0%}); load {os.getloadavg()[0]:.1f}", flush=True
    )


def measured(
    folder: Path, address: str, trials: int, slots: int, calls: int, call: float, spread: int
) -> Measured:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(
        [*(sys.executable, "-m", "chimera", "eval", "--on", "ray", "-e", "none", "--json"),
         *("-b", "waits.py:Waits", "-a", "waits.py:Waiter", "--controls", "off"),
         *("-n", str(slots), "--option", f"count={trials}", "--runs-dir", "runs"),
         *("--agent-option", f"calls={calls}", "--agent-option", f"call={call}"),
         *("--agent-option", f"spread={spread}", "--budget", "1000")],
        cwd=folder,
        env={**os.environ, "RAY_ADDRESS": address},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        desk, lines = 0.0, list[bytes]()
        for line in child.stdout:
            lines.append(line)
            desk = max(desk, desk_cpu())
    assert json.loads(lines[-1])["passed"] == trials, lines[-1]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(span(folder / "runs"), cpu, desk)


def desk_cpu() -> float:
    """CPU seconds of the desk that is there now, of a cluster that this process started."""
    for place in Path("/proc").iterdir():
        with suppress(OSError):
            numbers = (place / "stat").read_text().rpartition(")")[2].split()
            if (place / "cmdline").read_bytes().startswith(b"ray::DeskActor"):
                parent = Path("/proc", numbers[1], "stat").read_text().rpartition(")")[2].split()
                if int(parent[1]) != os.getpid():
                    continue
                return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


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
    parser.add_argument(
        "--check", action="store_true", help="real runs over 1, 2 and 4 nodes of this machine"
    )
    arguments = vars(parser.parse_args())
    if arguments.pop("check"):
        check()
        return
    plan = Plan(**arguments)
    began = time.monotonic()
    for drivers in sorted({plan.drivers, 4, 16}):
        show(replace(plan, drivers=drivers))
    print(f"simulated in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
