"""A prepared run, made ready for a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from chimera.errors import UsageError
from chimera.eval.cluster.fleet import Fleet
from chimera.eval.cluster.messages import Job, Setup
from chimera.eval.cluster.node import job_of, node_identity
from chimera.eval.cluster.ray import RayCarrier
from chimera.eval.run import PreparedRun
from chimera.eval.trial import TrialSpec
from chimera.eval.workers import Surroundings


def cluster_address(on: str) -> str | None:
    """The address that `--on` names; None is the cluster that Ray finds or starts by itself."""
    if on == "ray":
        return None
    if on.startswith("ray://"):
        return on
    raise UsageError(f"--on {on}: expected ray, or ray://HOST:PORT")


def on_ray(
    prepared: PreparedRun, address: str | None, say: Callable[[str], None] = lambda _: None
) -> Callable[[Surroundings, int], Fleet]:
    """What makes the executor of a run whose trials are done by a Ray cluster."""
    stored = prepared.answers is not None
    settings = asdict(prepared.settings)
    if settings["dataset"] is not None:
        settings["dataset"] = str(Path(settings["dataset"]).absolute())

    def make_job(number: int, spec: TrialSpec) -> Job:
        return job_of(number, spec, prepared.agent, stored=stored)

    def make(surroundings: Surroundings, _: int) -> Fleet:
        setup = Setup(
            settings=settings,
            environment=prepared.environment,
            identity=node_identity(prepared.benchmark, None if stored else prepared.agent),
            stored_answers=stored,
            has_budget=surroundings.budget is not None,
        )
        return Fleet(RayCarrier(setup, address), surroundings, make_job, say)

    return make
