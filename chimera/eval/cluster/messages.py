"""What the driver of a run and its nodes say to each other: plain values, and never a key."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chimera.agents.base import Agent
from chimera.eval.trial import Submitter
from chimera.eval.values import Control, TrialRecord
from chimera.types import JSON


@dataclass(frozen=True, slots=True)
class Setup:
    """What is the same for every trial of a run; sent to a node once.

    A node makes benchmark and agent itself, with its own data and its own keys, and must come to
    the same `identity` as the driver.
    """

    settings: dict[str, JSON]
    environment: str
    identity: dict[str, JSON]
    stored_answers: bool = False  # no agent runs: each job brings its answer
    has_budget: bool = False  # calls are told to the driver, also where nothing limits them
    budget: float | None = None  # all of the money, where it is limited


@dataclass(frozen=True, slots=True)
class Job:
    """One trial, as far as a node cannot know it."""

    number: int
    task: Any  # the id of a task of the data set, or a task that came with its answer
    sample: int
    digest: str
    prior: TrialRecord | None = None
    answer: Agent | Submitter | None = None  # None: the run's own agent
    journals: Path | None = None  # where the node and the driver have the same files


@dataclass(frozen=True, slots=True)
class Joined:
    """A node that answered and can run this run's trials, so many at once."""

    node: str
    slots: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A node that answered and cannot take part."""

    node: str
    why: str


@dataclass(frozen=True, slots=True)
class Lost:
    """A node that will not answer any more."""

    node: str
    why: str


@dataclass(frozen=True, slots=True)
class Done:
    node: str
    number: int
    record: TrialRecord


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A trial that has its answer and no verdict yet."""

    node: str
    number: int
    record: TrialRecord


@dataclass(frozen=True, slots=True)
class Controlled:
    """A control that trials of the node rest on."""

    node: str
    control: Control


@dataclass(frozen=True, slots=True)
class Reserve:
    """May a call of this worst case be made? The reply is a refusal's text, or None for yes."""

    node: str
    reservation: int
    worst_case: float
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Settle:
    node: str
    reservation: int
    actual: float


@dataclass(frozen=True, slots=True)
class Throttled:
    """An endpoint refused a call for too many: every node slows down."""

    node: str
    endpoint: str
    seconds: float


Message = Joined | Refused | Lost | Done | Checkpoint | Controlled | Reserve | Settle | Throttled
