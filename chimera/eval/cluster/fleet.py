"""The driver's side of a run over many nodes: who gets which trial, and what becomes of the lost.

Everything is decided in the one thread that also writes the run's file, so there is nothing to
lock, and no trial is stored twice: a node that was given up is no longer listened to.
"""

from __future__ import annotations

import contextlib
import heapq
import math
import queue
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from chimera.errors import BudgetExceeded, EnvironmentFault
from chimera.eval.cluster.messages import (
    Checkpoint,
    Controlled,
    Done,
    Job,
    Joined,
    Lost,
    Message,
    Refused,
    Reserve,
    Settle,
    Throttled,
)
from chimera.eval.cluster.node import unfinished
from chimera.eval.trial import TrialSpec
from chimera.eval.values import TrialError, TrialRecord
from chimera.eval.workers import Surroundings

#: How often a trial may lose its node before it is an error: it may be what ends them.
MOST_LOSSES = 3
#: How long to wait when no node is there, before the run stops.
NO_NODE_SECONDS = 120.0


class Carrier(Protocol):
    """Carries between the driver and nodes, wherever these are. Only `next` waits."""

    def start(self) -> None: ...
    def next(self, timeout: float) -> tuple[Message, int | None]:
        """What came next, with the ticket of a reply that is waited for; `queue.Empty` if none."""
        ...

    def send(self, node: str, job: Job) -> None: ...
    def reply(self, ticket: int, refusal: str | None) -> None: ...
    def slow_down(self, node: str, endpoint: str, seconds: float) -> None: ...
    def wish(self, nodes: int) -> None:
        """So many nodes more would have something to do now."""
        ...

    def give_up(self, node: str) -> None: ...
    def close(self) -> None: ...


@dataclass(slots=True)
class _Node:
    slots: int
    jobs: dict[int, Job] = field(default_factory=dict)
    reserved: dict[int, float] = field(default_factory=dict)

    @property
    def free(self) -> int:
        return self.slots - len(self.jobs)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A call that may be made as soon as others give money back."""

    request: Reserve
    ticket: int
    until: float | None


class Fleet:
    """The executor of a run whose trials are done by nodes."""

    def __init__(
        self,
        carrier: Carrier,
        surroundings: Surroundings,
        make_job: Callable[[int, TrialSpec], Job],
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._carrier, self._surroundings = carrier, surroundings
        self._make_job, self._say = make_job, say
        self._nodes: dict[str, _Node] = {}
        self._refused: dict[str, str] = {}
        self._gone: set[str] = set()
        self._room: list[tuple[int, str]] = []  # a heap: the node with most room first
        self._queue: deque[Job] = deque()
        self._suspects: deque[Job] = deque()  # one more loss, and they are errors
        self._losses: dict[int, int] = {}
        self._results: deque[TrialRecord] = deque()
        self._calls: list[_Waiting] = []
        self._numbers = 0
        self._slots = 0
        self._alone_since = time.monotonic()
        self.pending = 0
        self.finishing = False

    @property
    def workers(self) -> int:
        return self._slots or 1

    def start(self) -> None:
        self._carrier.start()
        self._alone_since = time.monotonic()

    def submit(self, spec: TrialSpec) -> None:
        self.pending += 1
        self._numbers += 1
        self._queue.append(self._make_job(self._numbers, spec))
        self._place()

    def result(self, timeout: float | None = None) -> TrialRecord:
        """The next finished trial; raises `queue.Empty` when none came in time."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._results:
            left = 3600.0 if end is None else end - time.monotonic()
            if left <= 0:
                raise queue.Empty
            try:
                message, ticket = self._carrier.next(self._until_something_ends(left))
            except queue.Empty:
                self._tend()
                continue
            self._take(message, ticket)
        self.pending -= 1
        return self._results.popleft()

    def finish(self) -> None:
        """Begin no further trial: those that no node has are forgotten."""
        self.finishing = True
        for waiting in (self._queue, self._suspects):
            self.pending -= len(waiting)
            waiting.clear()
        self._carrier.wish(0)

    def stop(self) -> None:
        self.finish()
        with contextlib.suppress(queue.Empty, EnvironmentFault):
            while True:  # what came before the end was asked for counts
                self._take(*self._carrier.next(0))
        self._carrier.close()

    def ended(self) -> Iterator[TrialRecord]:
        while self._results:
            yield self._results.popleft()

    # What comes from nodes

    def _take(self, message: Message, ticket: int | None) -> None:
        if message.node in self._gone:  # what it still says may come after the word of its end
            if ticket is not None:
                self._carrier.reply(ticket, "this node was given up")
        elif isinstance(message, Joined):
            self._nodes[message.node] = _Node(message.slots)
            self._slots += message.slots
            self._offer(message.node)
            self._say(f"node {message.node} takes {message.slots} trials at once")
            self._place()
        elif isinstance(message, Refused):
            self._refused[message.node] = message.why
            self._say(f"node {message.node} cannot take part: {message.why}")
            self._place()
        elif isinstance(message, Lost):
            self._lose(message)
        elif message.node in self._nodes:
            self._hear(self._nodes[message.node], message, ticket)

    def _hear(self, node: _Node, message: Message, ticket: int | None) -> None:
        """What a node says of its trials."""
        if isinstance(message, Done):
            if node.jobs.pop(message.number, None) is not None:
                self._losses.pop(message.number, None)
                self._results.append(message.record)
                self._offer(message.node)
                self._place()
        elif isinstance(message, Checkpoint):
            if (job := node.jobs.get(message.number)) is not None:
                node.jobs[message.number] = replace(job, prior=message.record)
                self._surroundings.checkpoint(message.record)
        elif isinstance(message, Controlled):
            self._surroundings.controlled(message.control)
        elif isinstance(message, Reserve) and ticket is not None:
            until = None if message.seconds is None else time.monotonic() + message.seconds
            if not self._decide(waiting := _Waiting(message, ticket, until)):
                self._calls.append(waiting)
        elif isinstance(message, Settle):
            self._settle(node, message.reservation, message.actual)
        elif isinstance(message, Throttled):
            for other in self._nodes:
                if other != message.node:
                    self._carrier.slow_down(other, message.endpoint, message.seconds)

    def _lose(self, lost: Lost) -> None:
        """Its trials run elsewhere; what its calls may have cost counts as spent."""
        self._gone.add(lost.node)
        self._carrier.give_up(lost.node)
        node = self._nodes.pop(lost.node, None)
        if node is None:  # it had not joined; another may come
            self._refused[lost.node] = lost.why
            self._say(f"node {lost.node} ended before it could take part: {lost.why}")
            return
        self._slots -= node.slots
        self._say(f"node {lost.node} is lost ({lost.why}): {len(node.jobs)} trials run again")
        if not self._nodes:
            self._alone_since = time.monotonic()
        self._calls = [call for call in self._calls if call.request.node != lost.node]
        for reservation, worst_case in tuple(node.reserved.items()):
            self._settle(node, reservation, worst_case)
        for job in reversed(node.jobs.values()):
            self._losses[job.number] = losses = self._losses.get(job.number, 0) + 1
            if self.finishing:
                self.pending -= 1
            elif losses >= MOST_LOSSES:
                message = (
                    f"{losses} nodes were lost while they had this trial; the last: {lost.why}"
                )
                error = TrialError("cluster", message, retryable=True, of_answer=True)
                self._results.append(unfinished(job, error))
            else:
                (self._suspects if self._is_suspect(job) else self._queue).appendleft(job)
        self._place()

    # Who gets what

    def _offer(self, name: str) -> None:
        """A node has come, or has more or less room than before."""
        if (free := self._nodes[name].free) > 0:
            heapq.heappush(self._room, (-free, name))

    def _is_suspect(self, job: Job) -> bool:
        """Whether its next loss makes a trial an error."""
        return self._losses.get(job.number, 0) == MOST_LOSSES - 1

    def _place(self) -> None:
        """Give waiting trials to the nodes with most room."""
        passed_over = []
        while (self._queue or self._suspects) and self._room:
            room, name = heapq.heappop(self._room)
            node = self._nodes.get(name)
            if node is None or node.free != -room:  # it was said before something changed
                continue
            job = self._next_for(node)
            if job is None:
                passed_over.append((room, name))
                continue
            node.jobs[job.number] = job
            task_id = job.task if isinstance(job.task, str) else job.task["id"]
            self._surroundings.started(task_id, job.sample)
            self._carrier.send(name, job)
            self._offer(name)
        for each in passed_over:
            heapq.heappush(self._room, each)
        if self._nodes or self._refused:  # otherwise the first are still on their way
            slots = self.workers / max(1, len(self._nodes))
            self._carrier.wish(math.ceil(len(self._queue) / slots) + len(self._suspects))

    def _next_for(self, node: _Node) -> Job | None:
        """What a node gets. No two suspects share one: where a trial ends its nodes, those that ran
        beside it before must not be held for it."""
        if self._suspects and not any(map(self._is_suspect, node.jobs.values())):
            return self._suspects.popleft()
        return self._queue.popleft() if self._queue else None

    def _tend(self) -> None:
        """What the passing of time does."""
        now = time.monotonic()
        self._calls = [call for call in self._calls if not self._decide(call, now)]
        if not self._nodes and self.pending and now - self._alone_since > NO_NODE_SECONDS:
            reasons = "".join(f"\n  {node}: {why}" for node, why in self._refused.items())
            raise EnvironmentFault(
                f"no node has been there for {NO_NODE_SECONDS:g} s to run trials{reasons}"
            )

    def _until_something_ends(self, left: float) -> float:
        now = time.monotonic()
        ends = [call.until - now for call in self._calls if call.until is not None]
        return max(0.0, min([left, 1.0, *ends]))

    # Money

    def _decide(self, call: _Waiting, now: float | None = None) -> bool:
        """Answer a call that asks for money, unless it must wait."""
        budget, request = self._surroundings.budget, call.request
        try:
            if budget is not None:
                budget.reserve(request.worst_case, timeout=0)
        except BudgetExceeded as refusal:
            late = now is not None and call.until is not None and now >= call.until
            if budget is not None and budget.may_fit_later(request.worst_case) and not late:
                return False
            self._carrier.reply(call.ticket, str(refusal))
            return True
        self._nodes[request.node].reserved[request.reservation] = request.worst_case
        self._carrier.reply(call.ticket, None)
        return True

    def _settle(self, node: _Node, reservation: int, actual: float) -> None:
        budget = self._surroundings.budget
        worst_case = node.reserved.pop(reservation, None)
        if budget is None or worst_case is None:
            return
        budget.settle(worst_case, actual)
        self._calls = [call for call in self._calls if not self._decide(call)]
