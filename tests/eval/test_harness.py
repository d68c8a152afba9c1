"""Runs: every trial once, whatever happens to the process, the provider or the machine."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, field
from decimal import Decimal
from typing import ClassVar

import pytest

from chimera.errors import BudgetExceeded, EnvironmentFault, UsageError
from chimera.eval.harness import Benchmark, Harness, Interrupted, SilentObserver, content_digest
from chimera.eval.runs.store import RunStore
from chimera.eval.submitters import Stored
from chimera.eval.values import Submission, Verdict
from chimera.providers.base import CallFailed
from chimera.providers.meter import TrialLimits
from chimera.types import AgentResult, Message, Step, Usage


class Parity(Benchmark):
    """Even tasks are solved by saying "even"."""

    def __init__(self, count=20):
        self.count = count

    def name(self):
        return "parity"

    def tasks(self):
        return [{"id": f"n{i}", "prompt": str(i)} for i in range(self.count)]

    def evaluate(self, task, agent_output, env):
        return (agent_output == "even") == (int(task["prompt"]) % 2 == 0)


@pytest.mark.parametrize(
    "settings",
    [
        {"budget": float("nan")},
        {"budget": -1.0},
        {"limits": TrialLimits(max_cost=float("nan"))},
        {"limits": TrialLimits(seconds=float("inf"))},
    ],
    ids=str,
)
def test_a_bound_that_no_amount_is_compared_with_is_refused(settings):
    with pytest.raises(UsageError, match="expected a number from 0 on"):
        Harness(benchmark=Parity(), agent=Even(), **settings)


@dataclass
class Observed:
    records: list

    def planned(self, total, done): ...
    def started(self, task_id, sample): ...
    def doing(self, task_id, sample, what, seconds): ...
    def finished(self, record):
        self.records.append(record)


@dataclass
class Even:
    seen: list = field(default_factory=list)

    def run(self, prompt, env):
        self.seen.append(prompt)
        return AgentResult("even")


def test_three_methods_are_a_benchmark():
    result = Harness(benchmark=Parity(), agent=Even()).run()

    assert (result.total, result.passed, result.failed, result.errored) == (20, 10, 10, 0)
    assert result.pass_rate == 0.5
    assert result.total_cost == 0.0
    assert {r.task_id for r in result.results if r.passed} == {f"n{i}" for i in range(0, 20, 2)}


@pytest.mark.parametrize("factory", [None, lambda: None, lambda spec: None])
def test_environment_factories_of_users(factory):
    assert Harness(benchmark=Parity(2), agent=Even(), env_factory=factory).run().total == 2


def test_samples_give_pass_at_k():
    class Lucky:
        def run(self, prompt, env):
            return AgentResult(
                "even" if int(prompt) % 2 == 0 else "odd" if prompt == "1" else "even"
            )

    result = Harness(benchmark=Parity(4), agent=Lucky(), samples=3).run()

    assert result.total == 12
    assert result.pass_at(3) == 0.75
    assert result.pass_hat(3) == 0.75
    assert result.pass_at(4) is None


def test_resume_runs_only_what_is_missing(tmp_path):
    first = Even()
    Harness(
        benchmark=Parity(6), agent=first, store=tmp_path / "r.chi", tasks=Parity().tasks()[:4]
    ).run()
    second = Even()
    result = Harness(benchmark=Parity(6), agent=second, store=tmp_path / "r.chi").run()

    assert sorted(second.seen) == ["4", "5"]
    assert result.total == 6


def test_a_changed_task_or_limit_is_run_again(tmp_path):
    Harness(benchmark=Parity(3), agent=Even(), store=tmp_path / "r.chi").run()

    class Changed(Parity):
        def tasks(self):
            tasks = super().tasks()
            tasks[1]["prompt"] = "100"
            return tasks

    again = Even()
    Harness(benchmark=Changed(3), agent=again, store=tmp_path / "r.chi").run()
    assert again.seen == ["100"]
    other = Even()
    Harness(
        benchmark=Changed(3), agent=other, store=tmp_path / "r.chi", env_factory=lambda: None
    ).run()
    assert len(other.seen) == 3


def test_resume_knows_each_sample_of_each_task(tmp_path):
    run = tmp_path / "run.chi"
    Harness(benchmark=Parity(), agent=Even(), samples=3, store=run).run()
    with RunStore(run) as store:
        digests = {store.record(*key).digest for key in store.each_key()}
    resumed = Even()
    Harness(benchmark=Parity(), agent=resumed, samples=3, store=run).run()

    assert len(digests) == 60
    assert resumed.seen == []

    class Other(Parity):
        def tasks(self):
            return [{**task, "note": "changed"} if task["id"] == "n7" else task
                    for task in super().tasks()]  # fmt: skip

    changed = Even()
    Harness(benchmark=Other(), agent=changed, samples=3, store=run).run()
    assert changed.seen == ["7"] * 3


def test_errors_are_run_again_on_resume_and_verdicts_are_not(tmp_path):
    class Flaky(Even):
        def run(self, prompt, env):
            if prompt == "2":
                raise EnvironmentFault("down")
            return super().run(prompt, env)

    result = Harness(benchmark=Parity(4), agent=Flaky(), store=tmp_path / "r.chi").run()
    assert (result.errored, result.total, result.pass_rate) == (1, 4, 0.25)
    healed = Even()
    healed.__class__ = Flaky  # the same agent by name, on a machine that works again
    Flaky.run = Even.run
    result = Harness(benchmark=Parity(4), agent=healed, store=tmp_path / "r.chi").run()
    assert (healed.seen, result.errored, result.passed) == (["2"], 0, 2)


def test_the_breaker_stops_a_run_that_only_fails():
    class Down(Even):
        def run(self, prompt, env):
            raise EnvironmentFault(f"no daemon at attempt {random.random()}")

    result = Harness(benchmark=Parity(500), agent=Down(), concurrency=2, breaker=5).run()

    assert result.errored < 20
    assert "5 trials in a row" in result.stopped
    assert result.not_run == 500 - result.total


def test_different_faults_do_not_trip_the_breaker():
    class Down(Even):
        def run(self, prompt, env):
            raise EnvironmentFault("abcdefghij"[int(prompt) % 10] * 3)

    assert Harness(benchmark=Parity(50), agent=Down(), concurrency=1).run().errored == 50


class Breaks(Parity):
    """A grader that every answer breaks."""

    def evaluate(self, task, agent_output, env):
        raise ValueError("the answer is odd")


class BreaksEnvironment(Parity):
    def evaluate(self, task, agent_output, env):
        raise EnvironmentFault("the sandbox is gone")


class BreaksCollecting(Parity):
    def collect(self, task, result, env):
        raise ValueError("what is handed in cannot be read")


@pytest.mark.parametrize("benchmark", [Breaks, BreaksEnvironment, BreaksCollecting])
def test_what_an_answer_can_cause_does_not_trip_the_breaker(benchmark):
    result = Harness(benchmark=benchmark(50), agent=Even(), concurrency=2, breaker=5).run()

    assert (result.errored, result.stopped) == (50, None)


def test_what_a_model_did_in_its_environment_does_not_trip_the_breaker():
    from chimera.agents import create_agent

    class Kills:
        model = create_agent("direct", model="scripted/text:kill -9 -1")

        def run(self, prompt, env):
            self.model.run(prompt, env)
            raise EnvironmentFault("the container is gone")

    result = Harness(benchmark=Parity(50), agent=Kills(), concurrency=2, breaker=5).run()

    assert (result.errored, result.stopped) == (50, None)


@pytest.mark.parametrize(
    ("fault", "stopped", "begun"),
    [
        (CallFailed("HTTP 400", retryable=False, refused=True), "5 trials in a row", 12),
        (CallFailed("HTTP 403", retryable=False, everywhere=True), "3 trials in a row", 12),
        (CallFailed("HTTP 500", retryable=True), "5 trials in a row", 12),
        (BudgetExceeded("the next call may cost $1000"), "the budget is used up", 3),
        (BudgetExceeded("others have reserved it", retryable=True), "5 trials in a row", 12),
    ],
)
def test_what_a_model_led_to_after_it_spoke_does_not_trip_the_breaker(fault, stopped, begun):
    """Every trial's first call does. But money that is gone pays no trial to its end."""
    from chimera.agents import create_agent

    class Asks:
        model = create_agent("direct", model="scripted/text:2")

        def __init__(self, *, first):
            self.first = first

        def run(self, prompt, env):
            if not self.first:
                self.model.run(prompt, env)
            raise fault

    def run(**agent):
        settings = {"concurrency": 1, "attempts": 1, "breaker": 5}
        return Harness(benchmark=Parity(12), agent=Asks(**agent), **settings).run()

    result = run(first=False)
    assert (result.errored, result.stopped is None) == (begun, begun == 12)
    assert stopped in run(first=True).stopped


@pytest.mark.parametrize(
    "odd",
    [
        {"usage": None},
        {"usage": {"input_tokens": 1}},
        {"usage": Usage(1.5, 1)},
        {"usage": Usage(2**70, 1)},
        {"steps": "x"},
        {"steps": -1},
        {"stop_reason": None},
        {"output": None},
    ],
    ids=str,
)
def test_an_odd_result_of_an_own_agent_is_an_error_of_its_trial(odd):
    class Odd:
        def run(self, prompt, env):
            return AgentResult(**{"output": "yes", **odd})

    result = Harness(benchmark=Parity(2), agent=Odd()).run()

    assert [each.why.partition(":")[0] for each in result.results] == ["agent"] * 2


@pytest.mark.parametrize("seconds", ["60", -1, math.nan, Decimal(60)])
def test_an_odd_time_of_an_own_task_is_an_error_of_its_trial(seconds):
    class Odd(Parity):
        def agent_seconds(self, task):
            return seconds

    result = Harness(benchmark=Odd(2), agent="nop").run()

    assert [each.why.partition(":")[0] for each in result.results] == ["grader"] * 2


def test_an_environment_for_grading_that_does_not_start_trips_the_breaker():
    class Fresh(Parity):
        grading = "fresh"

        def open_grading_environment(self, task, start):
            raise EnvironmentFault("no daemon")

    result = Harness(benchmark=Fresh(50), agent=Even(), concurrency=1, breaker=5).run()

    assert "5 trials in a row" in result.stopped


def test_stored_answers_are_all_graded_whatever_breaks():
    class Down(Parity):
        grading = "fresh"

        def open_grading_environment(self, task, start):
            raise EnvironmentFault("no daemon")

    class Notices(SilentObserver):
        heard: ClassVar[list[str]] = []

        def noticed(self, what):
            self.heard.append(what)

    benchmark = Down(30)
    answers = [(task, 0, Stored(Submission("even"))) for task in benchmark.tasks()]
    watch = Notices()
    result = Harness(
        benchmark=benchmark, agent=answers[0][2], predictions=answers, observer=watch, breaker=5
    ).run()

    assert (result.total, result.errored, result.stopped) == (30, 30, None)
    assert [text.partition(":")[0] for text in watch.heard] == [
        "5 trials in a row ended with the same error"
    ]
    assert "going on" in watch.heard[0]


def test_errors_count_as_not_passed_in_pass_at_k():
    class Half(Parity):
        def evaluate(self, task, agent_output, env):
            if task["id"] != "n0":
                raise ValueError("no verdict")
            return True

    result = Harness(benchmark=Half(4), agent=Even(), samples=2).run()

    assert (result.passed, result.errored) == (2, 6)
    assert (result.pass_at(2), result.pass_hat(2)) == (0.25, 0.25)


@pytest.mark.parametrize("place", ["answer", "why", "evidence", "error", "trajectory"])
def test_one_answer_that_is_no_text_costs_no_other_its_verdict(tmp_path, place):
    odd = chr(0xD800)

    class Odd(Even):
        def run(self, prompt, env):
            said = f"even{odd}" if prompt == "2" and place == "answer" else "even"
            told = (Step(Message.user(odd)),) if place == "trajectory" else ()
            return AgentResult(said, trajectory=told)

    class Judged(Parity):
        def grade(self, task, submission, env):
            if place == "error" and task["id"] == "n2":
                raise ValueError(odd)
            evidence = {"log": odd} if place == "evidence" else {}
            return Verdict(
                submission.text == "even", odd if place == "why" else "", None, {}, evidence
            )

    seen = []
    observer = Observed(seen)
    harness = Harness(benchmark=Judged(4), agent=Odd(), store=tmp_path / "r.chi", observer=observer)
    result = harness.run()

    expected = {"answer": "failed", "error": "error"}.get(place, "passed")
    assert {r.task_id: r.status for r in result.results} == {
        **dict.fromkeys(("n0", "n1", "n3"), "passed"), "n2": expected
    }  # fmt: skip
    assert len(json.dumps([r.why for r in seen], ensure_ascii=False).encode()) > 0
    assert harness.run().total == 4


def test_tasks_that_are_no_text_have_digests_and_ids_that_are_not_are_refused():
    class Odd(Parity):
        grading = "none"

        def tasks(self):
            return [{"id": self.count, "prompt": chr(0xD800)}]

    assert Harness(benchmark=Odd("a"), agent=Even()).run().total == 1
    with pytest.raises(UsageError, match="not text"):
        Harness(benchmark=Odd(chr(0xD800)), agent=Even()).run()


def test_an_empty_benchmark_is_refused():
    with pytest.raises(UsageError, match="no task"):
        Harness(benchmark=Parity(0), agent=Even()).run()


def test_an_id_that_appears_twice_is_refused():
    class Twice(Parity):
        def tasks(self):
            return [{"id": "a", "prompt": "1"}] * 2

    with pytest.raises(UsageError, match="twice"):
        Harness(benchmark=Twice(), agent=Even()).run()


def test_digests_do_not_depend_on_the_order_of_keys():
    assert (
        content_digest({"a": 1, "b": [2]})
        == content_digest({"b": [2], "a": 1})
        != content_digest({"a": 1, "b": [3]})
    )


SCRIPT = textwrap.dedent(
    """
    import sys, time, random
    from chimera.eval.harness import Benchmark, Harness
    from chimera.types import AgentResult

    class Parity(Benchmark):
        def name(self): return "parity"
        def tasks(self): return [{"id": f"n{i}", "prompt": str(i)} for i in range(120)]
        def evaluate(self, task, output, env): return output == "even"

    class Slow:
        def run(self, prompt, env):
            time.sleep(0.004)
            with open(sys.argv[2], "a") as log: log.write(prompt + "\\n")
            return AgentResult("even" if int(prompt) % 2 == 0 else "odd")

    print("ready", flush=True)
    result = Harness(
        benchmark=Parity(), agent=Slow(), store=sys.argv[1], samples=2, concurrency=4
    ).run()
    print(sorted((r.task_id, r.sample, r.status) for r in result.results))
    """
)


def killed_and_resumed(tmp_path, generator):
    """Kill a run at a random moment, then resume it: what it prints, and how many had survived."""
    script, store = tmp_path / "run.py", tmp_path / "r.chi"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(store), str(tmp_path / "log")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(generator.uniform(0.0, 0.35))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    survived = 0
    if store.exists():
        with RunStore(store, create=True) as opened:
            survived = len(opened.trial_keys())
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    runs = (tmp_path / "log").read_text().splitlines()
    assert len(runs) <= 240 + 8, "more than the trials that were under way ran twice"
    return done.stdout, survived


@pytest.mark.parametrize("seed", range(int(os.environ.get("CHIMERA_KILLS", "5"))))
def test_a_killed_run_resumes_to_exactly_the_undisturbed_results(tmp_path, seed):
    output, survived = killed_and_resumed(tmp_path, random.Random(seed))

    expected = sorted(
        (f"n{i}", sample, "failed" if i % 2 else "passed") for i in range(120) for sample in (0, 1)
    )
    assert output == f"ready\n{expected}\n"
    assert survived <= 240


def test_memory_stays_flat(tmp_path):
    script = textwrap.dedent(
        """
        import json, resource, sys
        from chimera.eval.harness import Benchmark, Harness
        from chimera.types import AgentResult

        class Many(Benchmark):
            grading = "none"
            def __init__(self, n): self.n = n
            def name(self): return "many"
            def tasks(self): return [{"id": str(i), "prompt": "x"} for i in range(self.n)]
            def evaluate(self, task, output, env): return True

        class Chatty:
            def run(self, prompt, env): return AgentResult("y" * 10_000)

        peaks = []
        for n in (200, 2000):
            store = f"{sys.argv[1]}/{n}.chi"
            Harness(benchmark=Many(n), agent=Chatty(), store=store, concurrency=4).run()
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        print(json.dumps(peaks))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    small, large = json.loads(done.stdout)

    # 1,800 further trials of 10 kB each would be 18 MB if they were kept.
    assert large - small < 8_000


class EndsAtOnce(SilentObserver):
    """Fails when it is told of the first trial, once all others have ended, too."""

    def __init__(self, failure):
        self.failure, self.executors = failure, []

    def harness(self, **settings):
        executors = self.executors

        class Watched(Harness):
            def _threads(self, surroundings, trials):
                executors.append(super()._threads(surroundings, trials))
                return executors[-1]

        return Watched(benchmark=Parity(8), concurrency=8, observer=self, **settings)

    def finished(self, record):
        (executor,) = self.executors
        while executor._results.qsize() < executor.pending:
            time.sleep(0.01)
        raise self.failure


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (KeyboardInterrupt, Interrupted),
        (ValueError, ValueError),
        (OSError, OSError),
        (SystemExit, SystemExit),
    ],
)
def test_what_had_ended_when_a_run_was_cut_off_is_not_paid_for_again(tmp_path, failure, raised):
    again, file = Even(), tmp_path / "r.chi"
    with pytest.raises(raised):
        EndsAtOnce(failure).harness(agent=Even(), store=file).run()

    result = Harness(benchmark=Parity(8), agent=again, store=file).run()

    assert again.seen == []
    assert result.total == 8


@pytest.mark.parametrize("failure", [SystemExit(0), GeneratorExit(), asyncio.CancelledError()])
def test_an_agent_that_asks_the_program_to_end_is_an_error_of_its_trial(tmp_path, failure):
    class Ending(Even):
        def run(self, prompt, env):
            if prompt == "3":
                raise failure
            return super().run(prompt, env)

    result = Harness(
        benchmark=Parity(8), agent=Ending(), store=tmp_path / "r.chi", attempts=1
    ).run()

    assert result.total == 8
    assert [each.task_id for each in result.store.records() if each.error] == ["n3"]


def test_an_answer_whose_verdict_cannot_be_stored_is_not_paid_for_again(tmp_path):
    depth = [200]

    class Odd(Parity):
        grading = "none"

        def evaluate(self, task, agent_output, env):
            deep: list = []
            for _ in range(depth[0]):
                deep = [deep]
            return Verdict(True, metrics={"deep": deep})

    again, file = Even(), tmp_path / "r.chi"
    first = Harness(benchmark=Odd(1), agent=Even(), store=file).run()
    (record,) = first.store.records(whole=True)
    assert record.error.boundary == "store"
    assert record.submission.text == "even"

    depth[0] = 0
    result = Harness(benchmark=Odd(1), agent=again, store=file).run()

    assert again.seen == []
    assert [each.status for each in result.store.records()] == ["passed"]


class InterruptedStore(RunStore):
    """Is interrupted once, in the middle of storing what has ended."""

    interrupted = False

    def _write_trial(self, record):
        if not self.interrupted:
            self.interrupted = True
            time.sleep(0.2)
            raise KeyboardInterrupt
        return super()._write_trial(record)


def test_what_was_being_stored_when_a_run_was_interrupted_is_not_paid_for_again(tmp_path):
    asked, again, file = Even(), Even(), tmp_path / "r.chi"
    with InterruptedStore(file, create=True) as store, pytest.raises(Interrupted):
        Harness(benchmark=Parity(8), agent=asked, store=store, concurrency=8).run()

    result = Harness(benchmark=Parity(8), agent=again, store=file).run()

    assert sorted([*asked.seen, *again.seen]) == [str(n) for n in range(8)]
    assert again.seen == []
    assert result.total == 8


def test_an_observer_is_told_of_each_trial_once_and_when_it_is_stored(tmp_path):
    told = []

    class Looking(SilentObserver):
        def finished(self, record):
            told.append((record.task_id, store.state(record.task_id, record.sample)[1]))

    with RunStore(tmp_path / "r.chi", create=True) as store:
        Harness(benchmark=Parity(50), agent=Even(), store=store, observer=Looking()).run()

    assert sorted(told) == sorted((f"n{n}", True) for n in range(50))
