"""Where agents work and checks run: one contract, several backends."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from chimera.environments.base import (
    Capability,
    Environment,
    EnvironmentSpec,
    Machine,
    ResourceLimits,
    machine,
)
from chimera.errors import UsageError
from chimera.plugins import entry_point_names, load_class

#: Name → `module:Class`.
BACKENDS: Mapping[str, str] = {
    "none": "chimera.environments.none:NoEnvironment",
    "local": "chimera.environments.local:LocalEnvironment",
    "bubblewrap": "chimera.environments.bubblewrap:BubblewrapEnvironment",
    "docker": "chimera.environments.docker:DockerEnvironment",
    "browser": "chimera.environments.browser:BrowserEnvironment",
}
#: Those on other machines, `SCHEME://ADDRESS`.
REMOTE: Mapping[str, str] = {
    "k8s": "chimera.environments.remote.pods:PodSandbox",
    "kubernetes": "chimera.environments.remote.pods:PodSandbox",
    "ssh": "chimera.environments.remote.ssh:SSHSandbox",
    "e2b": "chimera.environments.remote.e2b:E2BSandbox",
    "modal": "chimera.environments.remote.modal:ModalSandbox",
    "daytona": "chimera.environments.remote.daytona:DaytonaSandbox",
}
#: Kinds that people look for and that nobody here has been able to try.
UNTRIED = ("apptainer", "singularity")


@functools.cache
def backend_class(backend: str) -> type[Environment]:
    """The class behind a backend's name or address, an entry point, or that of one's own code."""
    kind, separator, _ = backend.partition("://")
    if separator:
        return _remote_class(kind, backend)
    if kind in UNTRIED:
        raise _untried(kind)
    if kind in REMOTE:
        raise UsageError(
            f"'{kind}' wants a place: --environment {kind}://PLACE (docs/environments.md)"
        )
    return load_class(
        backend, Environment, what="environment", shipped=BACKENDS, group="chimera.environments"
    )


def _remote_class(kind: str, address: str) -> type[Environment]:
    from chimera.environments.remote.machine import RemoteMachine
    from chimera.environments.remote.sandboxes import Sandbox

    group = "chimera.sandboxes"
    if kind in UNTRIED and kind not in entry_point_names(group):
        raise _untried(kind)
    what = "kind of remote environment"
    return RemoteMachine.at(
        address,
        load_class(kind, Sandbox, what=what, shipped=REMOTE, group=group),  # type: ignore[type-abstract]
    )


def _untried(kind: str) -> UsageError:
    return UsageError(
        f"no environment for '{kind}' comes with Chimera: it could not be tried\n"
        "  A class of yours with three calls makes one: --environment file.py:Class://PLACE\n"
        "  (docs/environments.md, 'Places of another kind'; examples/container_sandbox.py)."
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
