"""The values on the way of a trial: Task, Submission, Verdict, Prediction, TrialRecord."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NotRequired, TypedDict

import msgspec

from chimera.errors import AgentError, GraderError, UsageError
from chimera.providers.meter import CallRecord
from chimera.text import storable_value
from chimera.types import JSON, Step, Usage

#: The largest score that is kept.
MOST_SCORE = 1e300


class Task(TypedDict):
    """One problem. Adapters add what their grader needs; agents see only the prompt."""

    id: str
    prompt: str
    metadata: NotRequired[Mapping[str, JSON]]  # shown in results and usable as groups (subject, …)


@dataclass(frozen=True, slots=True)
class Submission:
    """What is handed in for grading; stored before grading so that it can be graded again.

    `form` says how `text` is to be read: "answer" (extracted from a reply), or the name of the
    field of an official prediction file it came from ("completion", "solution", "model_patch").
    """

    text: str = ""
    form: str = "answer"
    files: Mapping[str, bytes] = field(default_factory=dict)
    data: JSON = None
    raw: str | None = None  # the whole reply that `text` was extracted from


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the official checks ran and held. `why` says in a line what decided."""

    passed: bool
    why: str = ""
    score: float | None = None  # None: 1.0 or 0.0 by `passed`
    metrics: Mapping[str, JSON] = field(default_factory=dict)
    evidence: Mapping[str, JSON] = field(
        default_factory=dict
    )  # logs, reports, screenshots (bytes allowed)

    @property
    def value(self) -> float:
        return float(self.passed) if self.score is None else self.score

    @classmethod
    def of(cls, outcome: object) -> Verdict:
        """What a user's own check decided: a verdict, yes or no, or a score of which 1 passes.

        Anything else is a fault of the check: what merely counts as true must not pass.
        """
        if isinstance(outcome, Verdict):
            return outcome
        plain = _plain(outcome)
        if isinstance(plain, bool):
            return cls(plain)
        if isinstance(plain, (int, float)) and 0 <= plain <= 1:
            return cls(plain == 1, score=float(plain))
        raise GraderError(
            f"the check gave {plain!r:.100}, not True, False, a score from 0 to 1 or a Verdict"
        )


def checked_verdict(outcome: object) -> Verdict:
    """What a grader gave as a verdict whose parts are what they must be.

    Raises `GraderError`: a text or a list that merely counts as true is no pass.
    """
    verdict = Verdict.of(outcome)
    passed, score = _plain(verdict.passed), _plain(verdict.score)
    if not isinstance(passed, bool):
        raise _unlike("passed", verdict.passed, "True or False")
    if score is not None and not (isinstance(score, (int, float)) and abs(score) <= MOST_SCORE):
        raise _unlike("score", verdict.score, "a number or None")
    if not isinstance(verdict.why, str):
        raise _unlike("why", verdict.why, "a text")
    for name in ("metrics", "evidence"):
        values = getattr(verdict, name)
        if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
            raise _unlike(name, values, "values by their names")
    if passed is verdict.passed and score is verdict.score:
        return verdict
    return replace(verdict, passed=passed, score=None if score is None else float(score))


def checked_submission(handed_in: object) -> Submission:
    """What was handed in, once it is a submission; raises `AgentError`."""
    if not isinstance(handed_in, Submission):
        kind = type(handed_in).__name__
        raise AgentError(f"what was handed in is {kind}: expected a Submission")
    texts = [handed_in.text, handed_in.form, "" if handed_in.raw is None else handed_in.raw]
    files = handed_in.files.items() if isinstance(handed_in.files, Mapping) else [("", None)]
    named = all(isinstance(name, str) and isinstance(held, bytes) for name, held in files)
    if not (named and all(isinstance(text, str) for text in texts)):
        what = "expected texts, and files as bytes by their names"
        raise AgentError(f"what was handed in is {handed_in!r:.200}: {what}")
    return handed_in


def _plain(value: object) -> object:
    return value.item() if hasattr(value, "item") else value  # of numpy's scalars


def _unlike(part: str, value: object, expected: str) -> GraderError:
    return GraderError(f"the verdict's {part} is {value!r:.100}: expected {expected}")


@dataclass(frozen=True, slots=True)
class Prediction:
    """A stored answer. `task` is set when the file itself says what it is graded against."""

    task_id: str
    submission: Submission
    task: Task | None = None


Status = Literal["passed", "failed", "error"]
#: What a known answer came to. "none": there is no such answer; "off": controls were not wanted;
#: "unneeded": the verdict does not depend on it.
ControlStatus = Literal["passed", "failed", "error", "none", "off", "unneeded"]
ControlAnswer = Literal["reference", "nothing"]


@dataclass(frozen=True, slots=True)
class TrialControls:
    """What known answers came to where a verdict was reached: the reference, and nothing at all.

    `identity` names the environment; the controls themselves are kept under it.
    """

    positive: ControlStatus = "unneeded"
    negative: ControlStatus = "unneeded"
    identity: str = ""


@dataclass(frozen=True, slots=True)
class Control:
    """One known answer, graded as any other is, in an environment of one identity."""

    identity: str
    answer: ControlAnswer
    benchmark: str
    task_id: str
    status: Status
    why: str = ""
    log: str = ""  # what the checks printed, or what stopped them
    #: Whether the fault is one of grading this answer; the environment had started by then.
    of_answer: bool = False
    made: float = 0.0
    seconds: float = 0.0
    #: What the identity was made of, as JSON.
    details: str = ""

    @property
    def holds(self) -> bool:
        """Whether it came out as it must: only such controls are kept for later runs."""
        return self.status == ("passed" if self.answer == "reference" else "failed")


@dataclass(frozen=True, slots=True)
class TrialError:
    """Why a trial has no verdict."""

    boundary: str
    message: str
    retryable: bool = False
    #: An answer, or what a model did, may have brought it about: no sign of a broken machine.
    of_answer: bool = field(default=False, compare=False)
    #: Every other trial would meet it too.
    everywhere: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """Everything that is kept of one trial."""

    task_id: str
    sample: int
    digest: str
    submission: Submission | None = None
    verdict: Verdict | None = None
    error: TrialError | None = None
    usage: Usage = Usage()
    cost: float | None = 0.0
    steps: int = 0
    duration: float = 0.0
    attempts: int = 1
    started: float = 0.0
    stop_reason: str = ""
    calls: tuple[CallRecord, ...] = ()
    trajectory: tuple[Step, ...] = ()
    #: None: no verdict was reached, or nobody asked for controls.
    control: TrialControls | None = None

    @property
    def uninformative(self) -> bool:
        """Whether it passed where doing nothing passes too."""
        return self.passed and self.control is not None and self.control.negative == "passed"

    @property
    def uncontrolled(self) -> bool:
        """Whether there is a verdict that no known answer stands behind."""
        if self.verdict is None:
            return False
        found = self.control or TrialControls("off", "off")
        return (found.negative if self.passed else found.positive) in ("none", "off")

    @property
    def status(self) -> Status:
        if self.verdict is None:
            return "error"
        return "passed" if self.verdict.passed else "failed"

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    @property
    def why(self) -> str:
        if self.error is not None:
            return f"{self.error.boundary}: {self.error.message}"
        return self.verdict.why if self.verdict else ""

    @property
    def output(self) -> str:
        if self.submission is None:
            return ""
        return self.submission.raw if self.submission.raw is not None else self.submission.text


def content_digest(value: JSON) -> str:
    """A short name for a task, or for anything else that can be stored."""
    try:
        encoded = msgspec.json.encode(value, enc_hook=_encode_other, order="sorted")
    except UnicodeEncodeError:  # lone surrogates
        cleaned = storable_value(value)
        encoded = msgspec.json.encode(cleaned, enc_hook=_encode_other, order="sorted")
    except (OverflowError, RecursionError, TypeError, ValueError) as error:
        raise UsageError(f"a task or an option cannot be stored: {error}") from None
    return hashlib.sha256(encoded).hexdigest()[:32]


def _encode_other(value: object) -> object:
    if isinstance(value, Path | range | complex):
        return repr(value)
    if hasattr(value, "__dict__"):
        return vars(value)
    raise UsageError(f"a task holds a {type(value).__name__}, which cannot be stored")
