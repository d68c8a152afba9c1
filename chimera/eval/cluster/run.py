"""A prepared run, made ready for many processes or a cluster."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from chimera.errors import UsageError
from chimera.eval.cluster.fleet import Carrier, Fleet
from chimera.eval.cluster.messages import Job, Setup
from chimera.eval.cluster.node import job_of, node_identity
from chimera.eval.cluster.processes import ProcessCarrier
from chimera.eval.cluster.ray import RayCarrier
from chimera.eval.harness import trials_at_once
from chimera.eval.run import PreparedRun
from chimera.eval.trial import TrialSpec
from chimera.eval.workers import Surroundings

MOST_PROCESSES = 256
PLACES = "processes, processes:N, ray, or ray://HOST:PORT"


def cluster_address(on: str) -> str | None:
    """The address that `--on` names; None is the cluster that Ray finds or starts by itself."""
    if on == "ray":
        return None
    if on.startswith("ray://"):
        return on
    raise UsageError(f"--on {on}: expected ray, or ray://HOST:PORT")


def process_count(on: str) -> int | None:
    """How many processes of this machine `--on` asks for; None: a cluster."""
    kind, _, count = on.partition(":")
    if kind == "processes":
        if count == "" and on == kind:
            return os.cpu_count() or 1
        if count.isascii() and count.isdigit() and 1 <= int(count) <= MOST_PROCESSES:
            return int(count)
    elif kind == "ray":
        return None
    raise UsageError(f"--on {on}: expected {PLACES}")


def on_nodes(
    prepared: PreparedRun, on: str, say: Callable[[str], None] = lambda _: None
) -> Callable[[Surroundings, int], Fleet]:
    """What makes the executor of a run whose trials are done where `on` says."""
    if prepared.settings.batch is not None:
        raise UsageError(
            "--batch collects calls in one process, and --on has several: name one of them\n"
            "  Without --on thousands of trials wait for a batch at once."
        )
    stored = prepared.answers is not None
    settings = asdict(prepared.settings)
    if settings["dataset"] is not None:
        settings["dataset"] = str(Path(settings["dataset"]).absolute())
    processes = process_count(on)
    address = cluster_address(on) if processes is None else None

    def make_job(number: int, spec: TrialSpec) -> Job:
        job = job_of(number, spec, prepared.agent, stored=stored)
        return job if processes is None else replace(job, journals=spec.journals)

    def make(surroundings: Surroundings, trials: int) -> Fleet:
        carrier: Callable[[Setup], Carrier]
        if processes is None:
            carrier = partial(RayCarrier, address=address)
        else:
            at_once = trials_at_once(prepared.benchmark, prepared.settings.concurrency)
            count = min(processes, at_once, trials)
            carrier = partial(ProcessCarrier, processes=count)
            settings.update(concurrency=math.ceil(at_once / count))
            if (most := prepared.settings.max_connections) is not None:
                settings.update(max_connections=math.ceil(most / count))
        setup = Setup(
            settings=settings,
            environment=prepared.environment,
            identity=node_identity(prepared.benchmark, None if stored else prepared.agent),
            stored_answers=stored,
            has_budget=(budget := surroundings.budget) is not None,
            budget=None if budget is None else budget.total,
        )
        return Fleet(carrier(setup), surroundings, make_job, say)

    return make
