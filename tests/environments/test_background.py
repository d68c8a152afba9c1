"""What stays in the background of an environment that Chimera itself supervises."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from chimera.environments import Machine
from chimera.environments.conformance.commands import beats, wait_for_beats


@pytest.mark.parametrize("backend", ["local", "bubblewrap"])
def test_background_processes_may_go_on_writing(
    backend: str, shared_environment: Callable[[str], Machine]
) -> None:
    """The stdout of a command that is over is read and forgotten, so that nobody breaks on it."""
    env = shared_environment(backend)
    env.run_command("(while :; do echo noise; echo beat >> noisy; sleep 0.1; done) &")
    wait_for_beats(env, "noisy")
    before = beats(env, "noisy")

    for _ in range(100):
        if beats(env, "noisy") > before + 3:
            break
        time.sleep(0.1)

    assert beats(env, "noisy") > before + 3
    env.stop_processes()
