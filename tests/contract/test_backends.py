"""What every backend says of itself; what it does is for the conformance suite."""

from __future__ import annotations

import pytest

from chimera.environments import (
    BACKENDS,
    EnvironmentSpec,
    Machine,
    backend_class,
    missing_capabilities,
    start_environment,
)
from chimera.errors import UsageError

backends = pytest.mark.parametrize("name", sorted(BACKENDS))


@backends
def test_it_is_a_machine_where_it_runs_commands(name: str):
    backend = backend_class(name)

    assert backend.name == name
    assert issubclass(backend, Machine) is ("commands" in backend.capabilities)


@backends
def test_what_it_lacks_is_said_before_anything_starts(name: str):
    spec = EnvironmentSpec(needs=frozenset({"dialogue"}))

    assert missing_capabilities(name, spec) == {"dialogue"}
    with pytest.raises(UsageError, match="dialogue"):
        start_environment(name, spec)


@backends
def test_it_is_here_or_says_what_is_missing(name: str):
    reason = backend_class(name).availability()

    assert reason is None or len(reason) > 10
