"""Where agents work and checks run: one contract, several backends."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Mapping

from chimera.environments.base import Capability, Environment, EnvironmentSpec, ResourceLimits
from chimera.errors import UsageError

#: Name → `module:Class`. A backend of your own goes by such a path too.
BACKENDS: Mapping[str, str] = {
    "none": "chimera.environments.none:NoEnvironment",
    "local": "chimera.environments.local:LocalEnvironment",
    "bubblewrap": "chimera.environments.bubblewrap:BubblewrapEnvironment",
    "docker": "chimera.environments.docker:DockerEnvironment",
    "browser": "chimera.environments.browser:BrowserEnvironment",
}


@functools.cache
def backend_class(backend: str) -> type[Environment]:
    """The class behind a backend's name or `module:Class` path."""
    path = BACKENDS.get(backend, backend)
    module, colon, name = path.partition(":")
    if not colon:
        known = ", ".join(BACKENDS)
        raise UsageError(f"no environment '{backend}': there are {known}, or module:Class")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"the environment '{backend}' cannot be loaded: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Environment)):
        raise UsageError(f"{path} is not a subclass of chimera.environments.Environment")
    return found


def available(backend: str) -> str | None:
    """None when this machine can start `backend`, else what is missing and how to get it."""
    return backend_class(backend).availability()


def needed(spec: EnvironmentSpec) -> frozenset[Capability]:
    """All capabilities that `spec` asks for, said or implied."""
    implied: set[Capability] = set(spec.needs)
    if spec.image is not None or spec.build_context is not None:
        implied.add("image")
    if spec.network:
        implied.add("network")
    if spec.setup or spec.files or spec.mounts:
        implied.add("commands")
    return frozenset(implied)


def lacking(backend: str, spec: EnvironmentSpec) -> frozenset[Capability]:
    """What `spec` needs and `backend` cannot give."""
    return needed(spec) - backend_class(backend).capabilities


def start_environment(backend: str, spec: EnvironmentSpec) -> Environment:
    """Start a fresh environment, once it is clear that the backend can give what `spec` needs."""
    found = backend_class(backend)
    missing = lacking(backend, spec)
    if missing:
        able = [name for name in BACKENDS if name != "browser" and not lacking(name, spec)]
        advice = f"; --environment {' or '.join(able)} does" if able else ""
        raise UsageError(
            f"the environment '{backend}' does not offer what the task needs "
            f"({', '.join(sorted(missing))}){advice}"
        )
    reason = found.availability()
    if reason is not None:
        raise UsageError(f"the environment '{backend}' cannot be used here: {reason}")
    return found.start(spec)


def choose_backend(candidates: Iterable[str], spec: EnvironmentSpec) -> str:
    """The first of `candidates` that gives what `spec` needs and that this machine can start."""
    reasons: list[str] = []
    for backend in candidates:
        missing = lacking(backend, spec)
        if missing:
            reasons.append(f"{backend}: does not offer {', '.join(sorted(missing))}")
            continue
        reason = available(backend)
        if reason is None:
            return backend
        reasons.append(f"{backend}: {reason}")
    raise UsageError("no environment fits the task here:\n  " + "\n  ".join(reasons))


__all__ = [
    "BACKENDS",
    "Capability",
    "Environment",
    "EnvironmentSpec",
    "ResourceLimits",
    "available",
    "backend_class",
    "choose_backend",
    "lacking",
    "needed",
    "start_environment",
]
