"""A run over nodes: every trial once, whatever is lost; never more money than there is."""

from __future__ import annotations

import contextlib
import queue
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import pytest

from chimera.errors import EnvironmentFault
from chimera.eval.cluster import fleet
from chimera.eval.cluster.fleet import Fleet
from chimera.eval.cluster.messages import (
    Done,
    Job,
    Joined,
    Lost,
    Message,
    Reserve,
    Settle,
    Setup,
    Throttled,
)
from chimera.eval.cluster.node import job_of, node_identity
from chimera.eval.controls import Controls
from chimera.eval.run import PreparedRun, RunSettings, prepare
from chimera.eval.runs.result import EvalResult
from chimera.eval.trial import TrialSpec
from chimera.eval.values import TrialError, TrialRecord
from chimera.eval.workers import Surroundings
from chimera.providers.limiter import tell_refusal
from chimera.providers.meter import Budget

from .threads import ThreadCarrier


class Cluster:
    """Runs settings over thread nodes and keeps what it made."""

    def __init__(self, settings: RunSettings, **carrier: Any) -> None:
        self.prepared: PreparedRun = prepare(settings)
        self.options, self.said = carrier, list[str]()
        self.carrier: ThreadCarrier

    def executor(self, surroundings: Surroundings, _: int) -> Fleet:
        identity = node_identity(self.prepared.benchmark, self.prepared.agent)
        setup = Setup(
            asdict(self.prepared.settings),
            self.prepared.environment,
            identity | self.options.pop("other", {}),
            has_budget=(budget := surroundings.budget) is not None,
            budget=None if budget is None else budget.total,
        )
        self.carrier = ThreadCarrier(setup, **self.options)
        agent = self.prepared.agent
        return Fleet(
            self.carrier,
            surroundings,
            lambda number, spec: job_of(number, spec, agent, stored=False),
            self.said.append,
        )

    def run(self) -> EvalResult:
        harness = self.prepared.harness(self.prepared.open_store(Path("runs")))
        harness.executor = self.executor
        return harness.run()


def settings(file: Path, **more: Any) -> RunSettings:
    return RunSettings(
        benchmark=f"{file}:Waits", agent=f"{file}:Payer", concurrency=2, environment="none", **more
    )


def outcomes(result: EvalResult) -> dict[str, str]:
    return {record.task_id: record.status for record in result.results}


EXPECTED = {f"t{n}": "failed" if n % 2 else "passed" for n in range(20)}


def test_trials_are_spread_over_the_nodes_and_all_have_their_verdict(waits: Path):
    cluster = Cluster(settings(waits))

    result = cluster.run()

    assert outcomes(result) == EXPECTED
    assert {node for node, _ in cluster.carrier.sent} == {"node0", "node1"}
    assert [job.task for _, job in cluster.carrier.sent] == sorted(
        EXPECTED, key=lambda t: int(t[1:])
    )


@pytest.mark.parametrize("after", [1, 3, 7, 12, 19])
def test_a_lost_nodes_trials_run_elsewhere_and_its_late_words_count_for_nothing(
    waits: Path, after: int
):
    cluster = Cluster(settings(waits), lose_after={after: "node0"})

    result = cluster.run()

    assert outcomes(result) == EXPECTED
    assert len(result.results) == 20
    assert cluster.carrier.given_up == ["node0"]


def test_what_a_lost_node_may_have_spent_counts_as_spent(waits: Path):
    cluster = Cluster(settings(waits), nodes=1)
    fleet = cluster.executor(Surroundings(budget := Budget(10.0), print, print), 1)
    fleet.start()
    cluster.carrier.replies[99] = queue.Queue()

    def hear(*messages: Message) -> None:
        for message in messages:
            cluster.carrier.events.put((message, 99))
        with contextlib.suppress(queue.Empty):
            fleet.result(timeout=0.1)

    while fleet.workers < 2:  # the node has not joined
        hear()
    hear(Reserve("node0", 1, 4.0, None))
    hear(Lost("node0", "its cable was cut"), Settle("node0", 1, 0.5))

    assert (budget.spent, budget.reserved) == (4.0, 0.0)


def test_without_a_budget_no_price_is_needed(waits: Path):
    result = Cluster(settings(waits, agent_option=("priced=false",))).run()

    assert outcomes(result) == EXPECTED


@pytest.mark.parametrize("dollars", [0.005, 0.09, 0.12])
def test_nodes_together_never_spend_more_than_the_budget(waits: Path, dollars: float):
    result = Cluster(settings(waits, budget=dollars), nodes=3).run()

    assert 0 <= (result.total_cost or 0) <= dollars
    assert result.stopped is not None
    assert "budget" in result.stopped


class Ledger:
    """A carrier that only writes down who got which trial."""

    def __init__(self) -> None:
        self.events: queue.Queue[tuple[Message, int | None]] = queue.Queue()
        self.trials: dict[str, list[int]] = {}

    def next(self, timeout: float) -> tuple[Message, int | None]:
        return self.events.get(block=False)

    def send(self, node: str, job: Job) -> None:
        self.trials.setdefault(node, []).append(job.number)

    def start(self) -> None: ...
    def reply(self, ticket: int, refusal: str | None) -> None: ...
    def slow_down(self, node: str, endpoint: str, seconds: float) -> None: ...
    def wish(self, nodes: int) -> None: ...
    def give_up(self, node: str) -> None: ...
    def close(self) -> None: ...


@pytest.fixture
def told() -> Told:
    return Told()


class Told:
    """A fleet of six trials whose nodes are nothing but words."""

    def __init__(self) -> None:
        self.carrier = Ledger()
        self.fleet = Fleet(
            self.carrier,
            Surroundings(None, lambda *_: None, lambda *_: None),
            lambda number, _: Job(number, f"t{number}", 0, ""),
        )
        for _ in range(6):
            self.fleet.submit(cast("TrialSpec", None))

    def hear(self, *messages: Message) -> list[TrialRecord]:
        """The trials that have ended with that."""
        found = list[TrialRecord]()
        for message in messages:
            self.carrier.events.put((message, None))
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self.fleet.result(timeout=0.01))
        return found


def out_of_memory(node: str) -> Lost:
    return Lost(node, "out of memory")


def test_a_trial_that_ends_every_node_it_meets_is_an_error_and_its_neighbours_are_not(told: Told):
    assert not told.hear(Joined("a", 2), out_of_memory("a"), Joined("b", 2), out_of_memory("b"))
    assert told.carrier.trials == {"a": [1, 2], "b": [1, 2]}

    assert not told.hear(Joined("c", 3), Joined("d", 2))
    assert told.carrier.trials["c"] == [1, 3, 4]
    assert told.carrier.trials["d"] == [2, 5]

    (error,) = told.hear(out_of_memory("c"))
    assert (error.task_id, error.status) == ("t1", "error")
    assert "3 nodes were lost" in error.why
    assert told.fleet.pending == 5


def test_a_trial_that_lost_two_nodes_waits_for_one_without_another_such(told: Told):
    told.hear(Joined("a", 2), out_of_memory("a"), Joined("b", 2), out_of_memory("b"))
    told.hear(Joined("c", 8))
    assert told.carrier.trials["c"] == [1, 3, 4, 5, 6]

    (done,) = told.hear(Done("c", 1, TrialRecord("t1", 0, "")))

    assert done.task_id == "t1"
    assert told.carrier.trials["c"] == [1, 3, 4, 5, 6, 2]
    told.fleet.finish()
    assert told.fleet.pending == 5


def test_trials_that_wait_for_a_node_of_their_own_are_forgotten_at_the_end(told: Told):
    told.hear(Joined("a", 2), out_of_memory("a"), Joined("b", 2), out_of_memory("b"))

    told.fleet.finish()

    assert told.fleet.pending == 0


def test_a_node_with_another_grader_takes_no_part(waits: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fleet, "NO_NODE_SECONDS", 0.1)
    cluster = Cluster(settings(waits), other={"grader": 7})

    with pytest.raises(EnvironmentFault, match=r"its grader is 1, the driver's 7"):
        cluster.run()


def test_every_other_node_slows_down_when_an_endpoint_refuses_one(waits: Path):
    cluster = Cluster(settings(waits), nodes=3)
    original = cluster.executor

    def executor(surroundings: Surroundings, trials: int) -> Fleet:
        made = original(surroundings, trials)
        told = iter([True])

        def refuse(node: str, job: Any) -> None:
            working = {name for name, _ in cluster.carrier.sent}
            if len(working) == 3 and next(told, False):
                cluster.carrier.post(Throttled(node, "service", 2.0))

        cluster.carrier.on_send = refuse
        return made

    harness = cluster.prepared.harness(cluster.prepared.open_store(Path("runs")))
    harness.executor = executor
    harness.run()

    assert len(cluster.carrier.slowed) == 2


def test_a_node_tells_what_an_endpoint_refused_it(waits: Path):
    cluster = Cluster(settings(waits), nodes=1)
    fleet = cluster.executor(Surroundings(None, print, print), 1)
    fleet.start()
    while fleet.workers < 2:  # the node has not joined
        with contextlib.suppress(queue.Empty):
            fleet.result(timeout=0.1)

    tell_refusal("service", 3.0)
    heard = cluster.carrier.next(5)[0]
    fleet.stop()
    tell_refusal("service", 4.0)

    assert heard == Throttled("node0", "service", 3.0)
    with pytest.raises(queue.Empty):
        cluster.carrier.next(0.1)


def test_a_stored_run_goes_on_over_nodes(waits: Path):
    first = Cluster(settings(waits, limit="7"))
    store = first.prepared.open_store(Path("runs"))
    first.prepared.harness(store).run()

    second = Cluster(settings(waits))
    harness = second.prepared.harness(store)
    harness.executor = second.executor
    result = harness.run()

    assert outcomes(result) == EXPECTED
    assert len(second.carrier.sent) == 13


def test_a_node_that_was_lost_before_it_is_heard_of_gets_nothing(waits: Path):
    """Two ways lead to the driver: the word of a node's end may be faster than its own."""
    cluster = Cluster(settings(waits), nodes=1)
    original = cluster.executor

    def executor(surroundings: Surroundings, trials: int) -> Fleet:
        made = original(surroundings, trials)
        cluster.carrier.events.put((Lost("ghost", "killed"), None))
        cluster.carrier.events.put((Joined("ghost", 50), None))
        return made

    harness = cluster.prepared.harness(cluster.prepared.open_store(Path("runs")))
    harness.executor = executor

    assert outcomes(harness.run()) == EXPECTED
    assert {node for node, _ in cluster.carrier.sent} == {"node0"}
    assert "node ghost ended before it could take part: killed" in cluster.said


def test_a_trial_whose_node_breaks_inside_is_told_of(waits: Path, monkeypatch: pytest.MonkeyPatch):
    original = Controls.run

    def run(self: Controls, spec: TrialSpec, **more: Any) -> TrialRecord:
        if spec.task["id"] == "t3":
            raise SystemExit("an adapter's exit")
        return original(self, spec, **more)

    monkeypatch.setattr(Controls, "run", run)
    result = Cluster(settings(waits)).run()

    assert outcomes(result) == {**EXPECTED, "t3": "error"}
    assert "an adapter's exit" in next(r.why for r in result.results if r.task_id == "t3")


def test_a_nodes_own_key_stays_there(waits: Path, monkeypatch: pytest.MonkeyPatch):
    """The driver, which stores what comes, has keys of its own and knows no other's."""
    monkeypatch.setenv("SERVICE_API_KEY", "the-nodes-own-key-1234")
    original, heard = ThreadCarrier.post, list[Message]()

    def post(self: ThreadCarrier, message: Message) -> None:
        heard.append(message)
        original(self, message)

    def run(self: Controls, spec: TrialSpec, **_: Any) -> TrialRecord:
        error = TrialError("agent", "401 for the-nodes-own-key-1234")
        return TrialRecord(spec.task["id"], spec.sample, spec.digest, error=error)

    monkeypatch.setattr(ThreadCarrier, "post", post)
    monkeypatch.setattr(Controls, "run", run)
    Cluster(settings(waits)).run()

    assert "401 for [redacted]" in str(heard)
    assert "the-nodes-own-key" not in str(heard)


def test_more_nodes_are_wished_for_while_trials_wait(waits: Path):
    cluster = Cluster(settings(waits), nodes=1)
    wishes = list[int]()
    original = cluster.executor

    def executor(surroundings: Surroundings, trials: int) -> Fleet:
        made = original(surroundings, trials)
        cluster.carrier.on_send = lambda *_: wishes.append(cluster.carrier.wished)
        return made

    harness = cluster.prepared.harness(cluster.prepared.open_store(Path("runs")))
    harness.executor = executor
    harness.run()

    assert max(wishes) == 1  # two trials wait, and a node takes two
    assert cluster.carrier.wished == 0
