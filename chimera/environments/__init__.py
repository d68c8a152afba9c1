"""Where agents work and checks run: one contract, several backends."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from chimera.environments.base import (
    Capability,
    Environment,
    EnvironmentSpec,
    Machine,
    ResourceLimits,
    machine,
)
from chimera.errors import UsageError
from chimera.plugins import load_class

if TYPE_CHECKING:
    from chimera.environments.remote.machine import RemoteMachine

#: Name → `module:Class`.
BACKENDS: Mapping[str, str] = {
    "none": "chimera.environments.none:NoEnvironment",
    "local": "chimera.environments.local:LocalEnvironment",
    "bubblewrap": "chimera.environments.bubblewrap:BubblewrapEnvironment",
    "docker": "chimera.environments.docker:DockerEnvironment",
    "browser": "chimera.environments.browser:BrowserEnvironment",
}
#: Those on other machines, `SCHEME://ADDRESS`.
REMOTE: Mapping[str, str] = {"ssh": "chimera.environments.remote.ssh:SSHEnvironment"}


@functools.cache
def backend_class(backend: str) -> type[Environment]:
    """The class behind a backend's name or address, an entry point, or that of one's own code."""
    scheme, separator, _ = backend.partition("://")
    if separator:
        return _remote_class(scheme).at(backend)
    return load_class(
        backend, Environment, what="environment", shipped=BACKENDS, group="chimera.environments"
    )


def _remote_class(scheme: str) -> type[RemoteMachine]:
    from chimera.environments.remote.machine import RemoteMachine

    return load_class(
        scheme,
        RemoteMachine,
        what="kind of remote environment",
        shipped=REMOTE,
        group="chimera.environments",
    )


def available(backend: str) -> str | None:
    """None when this machine can start `backend`, else what is missing and how to get it."""
    return backend_class(backend).availability()


def needed_capabilities(spec: EnvironmentSpec) -> frozenset[Capability]:
    """All that `spec` asks for, said or implied."""
    implied: set[Capability] = set(spec.needs)
    if spec.image is not None or spec.build_context is not None:
        implied.add("image")
    if spec.network:
        implied.add("network")
    if spec.setup or spec.files or spec.mounts:
        implied.add("commands")
    return frozenset(implied)


def missing_capabilities(backend: str, spec: EnvironmentSpec) -> frozenset[Capability]:
    """What `spec` needs and `backend` cannot give."""
    return needed_capabilities(spec) - backend_class(backend).capabilities


def start_environment(backend: str, spec: EnvironmentSpec) -> Environment:
    """Start a fresh environment, once it is clear that the backend can give what `spec` needs."""
    found = backend_class(backend)
    missing = missing_capabilities(backend, spec)
    if missing:
        able = [
            name for name in BACKENDS if name != "browser" and not missing_capabilities(name, spec)
        ]
        advice = f"; --environment {' or '.join(able)} does" if able else ""
        raise UsageError(
            f"the environment '{backend}' does not offer what the task needs "
            f"({', '.join(sorted(missing))}){advice}"
        )
    reason = found.availability()
    if reason is not None:
        raise UsageError(f"the environment '{backend}' cannot be used here: {reason}")
    return found.start(spec)


__all__ = [
    "BACKENDS",
    "Capability",
    "Environment",
    "EnvironmentSpec",
    "Machine",
    "ResourceLimits",
    "available",
    "backend_class",
    "machine",
    "start_environment",
]
