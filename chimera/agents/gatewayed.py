"""What agents share whose model calls go through the gateway: its start and its account."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from chimera.agents.coding.layers import PYTHON, python_command
from chimera.environments.base import Machine
from chimera.errors import AgentError, BudgetExceeded, LimitReached
from chimera.gateway.session import Session
from chimera.providers.base import ContextOverflow
from chimera.providers.secrets import redact
from chimera.types import AgentResult, CommandResult

SHOWN_CHARACTERS = 2000


def forwarder_python(env: Machine) -> Sequence[str]:
    """An interpreter inside: the layer's own, which needs nothing of the image, or the image's."""
    if PYTHON.installed() is not None:
        command = python_command(PYTHON.layer().target)
        if env.run_command(["test", "-e", command[0]]).success:
            return [*command, "-I"]
    return ["python3", "-I"]


def put_file(env: Machine, path: str, text: str) -> None:
    """Write a file anywhere inside, for its user alone; a script can be run."""
    script = 'umask 077 && mkdir -p "${0%/*}" && cat > "$0"'
    if text.startswith("#!"):
        script += ' && chmod 700 "$0"'
    written = env.run_command(["sh", "-c", script, path], stdin=text.encode())
    if not written.success:
        raise AgentError(f"{path} could not be written: {written.output}")


def remove_path(env: Machine, path: str) -> None:
    """Remove what an agent was given; after the trial's time there is no command for it."""
    with contextlib.suppress(LimitReached):
        env.run_command(["rm", "-rf", path])


def outcome(name: str, session: Session, result: CommandResult, said: str | None) -> AgentResult:
    """What a program that asked through `session` has come to.

    One that a limit ended is graded as it stands. A fault of the model's service that it ended
    with, or that its time ran out with, is that service's; what the service refused to take of it
    is its own, and so is anything else that it did not end well with.
    """
    stop_reason, limit = "done", session.limit
    if isinstance(limit, BudgetExceeded):
        raise limit
    if limit is None and result.timed_out:
        limit = LimitReached("time", f"the time of {name} was up")
    time_is_up = limit is not None and limit.limit == "time"
    fault = session.fault or (session.unanswered if time_is_up else None)
    if fault is not None and (time_is_up or limit is None):
        raise fault
    if limit is not None:
        stop_reason = f"limit:{limit.limit}"
    elif result.exit_code != 0 and session.failure is not None:
        raise session.failure
    elif result.exit_code != 0:
        shown = redact(result.output)[-SHOWN_CHARACTERS:].strip()
        raise AgentError(f"{name} ended with exit code {result.exit_code}: {shown}")
    elif not session.recording.steps:
        shown = redact(result.output)[-SHOWN_CHARACTERS:].strip()
        raise AgentError(f"{name} ended without a call to its model: {shown}")
    elif session.failure is not None:
        stop_reason = "limit:context" if isinstance(session.failure, ContextOverflow) else "refused"
    meter = session.meter
    return AgentResult(
        redact(said if said is not None else session.recording.answer()),
        usage=meter.usage,
        cost=meter.cost,
        steps=session.calls,
        trajectory=session.recording.trajectory(),
        stop_reason=stop_reason,
        metadata={"exit_code": result.exit_code, "truncated": result.truncated},
    )
