"""Every error Chimera raises on purpose.

    ChimeraError
    ├── UsageError            the user asked for something that cannot be: exit code 2
    │   └── DatasetError      a data set is absent, damaged, or not of the expected shape
    ├── LimitReached          the agent used up steps, tokens, money or time; what it has is graded
    └── RunError              a fault outside the answer: recorded on the trial, never a verdict
        ├── ProviderError     the model's service failed or answered nonsense
        ├── EnvironmentFault  a sandbox or container did not start, or broke
        ├── AgentError        the agent's own program failed
        ├── GraderError       the checks could not be run
        │   └── JudgeFault    a judging model is missing, split, or answered nonsense
        ├── StoreError        a run or another file cannot be written: exit code 4
        └── BudgetExceeded    the run's money is reserved; the trial was not (fully) run

A `RunError` names the boundary it crossed and says whether trying again can help, and whether every
other trial would meet it too.
"""

from __future__ import annotations

import traceback
from enum import IntEnum
from pathlib import Path

_PACKAGE = str(Path(__file__).parent)


class ExitCode(IntEnum):
    """How a command ended, for the shell that called it."""

    DONE = 0
    GATE = 1  # a gate was not met
    USAGE = 2
    INCOMPLETE = 3  # some trials have no verdict
    UNWRITABLE = 4  # no place to write to: a full disk, no permission
    BROKEN = 70  # a fault of Chimera's own, told with its traceback
    INTERRUPTED = 130
    TERMINATED = 143


class ChimeraError(Exception):
    """An error with a message for a person: what is wrong, where, what to do."""

    boundary = "chimera"
    exit_code = ExitCode.INCOMPLETE
    retryable = False
    retry_after: float | None = None
    #: Every other trial would meet it too: a wrong key, no connection.
    everywhere = False


class UsageError(ChimeraError):
    """A wrong option, name, file or combination; nothing was run."""

    boundary = "usage"
    exit_code = ExitCode.USAGE


class DatasetError(UsageError):
    """A data set that is absent, damaged or not what the adapter expects."""

    boundary = "dataset"


class LimitReached(ChimeraError):
    """A limit of the trial (named by `limit`: steps, tokens, cost, time) ended the agent's work."""

    boundary = "limit"

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(message)
        self.limit = limit

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.limit, str(self))


class RunError(ChimeraError):
    """A fault outside the answer. `retryable` says whether another attempt can pass."""

    boundary = "run"

    def __init__(
        self, message: str, *, retryable: bool | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        if retryable is not None:
            self.retryable = retryable
        self.retry_after = retry_after


class ProviderError(RunError):
    boundary = "provider"


class EnvironmentFault(RunError):
    boundary = "environment"


class AgentError(RunError):
    boundary = "agent"


class GraderError(RunError):
    boundary = "grader"


class JudgeFault(GraderError):
    """A judging model's own: that a rule decides the reference without it does not turn it into
    the answer's."""

    boundary = "judge"


class StoreError(RunError):
    boundary = "store"
    exit_code = ExitCode.UNWRITABLE


class BudgetExceeded(RunError):
    boundary = "budget"


def fault(error: BaseException) -> str:
    """An exception of foreign code in a line: its type, its words, and the line it came from.

    That is the innermost of code that is not ours, so that whoever wrote it finds it.
    """
    text = f"{type(error).__name__}: {error}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<")
    ]
    if not frames or isinstance(error, SyntaxError):  # which says itself where it is
        return text
    foreign = [frame for frame in frames if not frame.filename.startswith(_PACKAGE)]
    last = (foreign or frames)[-1]
    return f"{text} ({Path(last.filename).name}:{last.lineno})"
