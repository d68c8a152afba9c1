"""What every backend does once its inside runs: files in place, set-up commands done."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from chimera.environments.base import EnvironmentSpec, Machine
from chimera.environments.supervised import SupervisedEnvironment
from chimera.environments.tar_streams import copy_clean
from chimera.errors import EnvironmentFault
from chimera.text import log_end

SHOWN = 2000
Filled = TypeVar("Filled", bound=Machine)


def provisioned(env: Filled, spec: EnvironmentSpec) -> Filled:
    """A fresh environment with what `spec` wants in it; closed again when that fails."""
    try:
        provision(env, spec)
    except BaseException:
        env.close()
        raise
    return env


def provision(env: Machine, spec: EnvironmentSpec) -> None:
    """Fill an environment; a set-up command that fails is a fault, not the answer's."""
    for target, content in spec.files.items():
        if (
            isinstance(content, Path)
            and content.is_dir()
            and isinstance(env, SupervisedEnvironment)
        ):
            copy_clean(env, content, target)  # an engine copies by itself, whatever is inside
        elif isinstance(content, Path):
            env.copy_in(content, target)
        else:
            env.write_file(target, content)
    for command in spec.setup:
        result = env.run_command(command, timeout=spec.setup_timeout)
        if not result.success:
            ended = "ran out of time" if result.timed_out else f"ended with {result.exit_code}"
            raise EnvironmentFault(
                f"the set-up command {command!r} {ended}: {log_end(result.output, SHOWN)}",
                retryable=result.timed_out,
            )
