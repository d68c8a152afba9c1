"""What a conversation is worth: tau2's product of the task's reward bases, and tau-bench's rule.

Messages are dicts in the form of the official result files: role, content, tool_calls (id, name,
arguments, requestor); tool messages carry the id of their call.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chimera.errors import GraderError, JudgeFault
from chimera.eval.benchmarks._tau_bench.kernel import Call, Requestor, World, error_text
from chimera.types import JSON

Messages = Sequence[Mapping[str, Any]]
#: Decides natural-language assertions over a conversation; one (met, reason) for each.
Judge = Callable[[Messages, Sequence[str]], Sequence[tuple[bool, str]]]

DEFAULT_BASIS = ("DB", "COMMUNICATE")
BASES = frozenset({"DB", "ENV_ASSERTION", "ACTION", "COMMUNICATE", "NL_ASSERTION"})
FINISHED = frozenset({"user_stop", "agent_stop"})


class AnotherWorld(GraderError):
    """A recorded conversation whose calls answer otherwise here: it is not judged."""


@dataclass(frozen=True, slots=True)
class Reward:
    """The value (0 or 1 by the official rule), what each basis gave, and what decided."""

    value: float
    why: str
    breakdown: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, JSON] = field(default_factory=dict)
    evidence: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(slots=True)
class Tally:
    """A reward in the making: each basis gives 1 when nothing is lacking and 0 when anything is."""

    breakdown: dict[str, float] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    details: dict[str, JSON] = field(default_factory=dict)

    def count(self, basis: str, lacking: Sequence[str]) -> None:
        self.breakdown[basis] = float(not lacking)
        self.reasons += lacking

    def reward(self) -> Reward:
        value = math.prod(self.breakdown.values(), start=1.0)
        differing = self.details.get("differing_results")
        told = [f"{len(differing)} recorded results differ from those here"] if differing else []
        return Reward(value, "; ".join([*self.reasons, *told]), self.breakdown, self.details)


@dataclass(frozen=True, slots=True)
class Replayed:
    """The world after the conversation, and calls that answered otherwise than was recorded."""

    world: World
    differing: Sequence[str]


def basis_of(criteria: Mapping[str, Any]) -> set[str]:
    """What a task's reward is made of; an empty list means nothing, and the reward is 1."""
    listed = criteria.get("reward_basis")
    return set(DEFAULT_BASIS if listed is None else listed)


def calls_in(messages: Messages) -> Iterator[Call]:
    """Every tool call of the conversation, the agent's and the user's."""
    for message in messages:
        if message.get("role") in ("assistant", "user"):
            for call in message.get("tool_calls") or ():
                yield _call(call, message)


def _call(call: Mapping[str, Any], message: Mapping[str, Any]) -> Call:
    requestor = call.get("requestor") or message["role"]
    arguments = call.get("arguments")
    if not isinstance(arguments, Mapping) or not isinstance(call.get("name"), str):
        raise ValueError(f"not a tool call: {json.dumps(call, default=str)[:200]}")
    side: Requestor = "user" if requestor == "user" else "assistant"
    return Call(call["name"], arguments, side, str(call.get("id") or ""))


def _recorded(messages: Messages) -> Iterator[tuple[Call, Mapping[str, Any]]]:
    """Each call with the tool message that answers it, which follow each other in order."""
    waiting: list[Call] = []
    for message in messages:
        role = message.get("role")
        if role == "tool":
            for answer in message.get("tool_messages") or (message,):
                if not waiting or (waiting[0].id and str(answer.get("id")) != waiting[0].id):
                    raise ValueError("a tool message does not follow its call")
                yield waiting.pop(0), answer
        elif waiting:
            raise ValueError("a tool call has no tool message")
        elif role in ("assistant", "user"):
            waiting = [_call(call, message) for call in message.get("tool_calls") or ()]
    if waiting:
        raise ValueError("a tool call has no tool message")


def start_state(world: World, task: Mapping[str, Any]) -> None:
    """Bring a fresh world to the task's initial state, without its message history."""
    state = task.get("initial_state") or {}
    data = state.get("initialization_data") or {}
    world.initialise(data.get("agent_data"), data.get("user_data"))
    for action in state.get("initialization_actions") or ():
        world.run_function(action["env_type"], action["func_name"], action.get("arguments") or {})


def replay(world: World, task: Mapping[str, Any], messages: Messages) -> Replayed:
    """Make the state-changing calls of a conversation in a fresh world.

    Reads and tools that do not exist change nothing and are passed over.
    """
    start_state(world, task)
    differing = []
    for call, answer in _recorded(messages):
        if not world.has(call.name) or not world.mutates(call.name):
            continue
        content = world.respond(call).content
        recorded = answer.get("content")
        if call.name in world.agent.own_words and isinstance(recorded, str):
            same = content.partition("\n")[0] == recorded.partition("\n")[0]
        else:
            same = _same_content(content, recorded)
        if not same:
            differing.append(f"{call.name}: {content[:120]!r}, recorded {str(recorded)[:120]!r}")
    world.sync()
    return Replayed(world, differing)


def _same_content(content: str, recorded: Any) -> bool:
    if not isinstance(recorded, str):
        return False
    recorded = error_text(ValueError(recorded))
    return bool(_parsed(content) == _parsed(recorded))


def _parsed(content: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content


def gold_calls(task: Mapping[str, Any]) -> list[Call]:
    criteria = task.get("evaluation_criteria") or {}
    return [
        Call(
            action["name"],
            action.get("arguments") or {},
            "user" if action.get("requestor") == "user" else "assistant",
            str(action.get("action_id") or ""),
        )
        for action in criteria.get("actions") or ()
    ]


def gold_world(
    make_world: Callable[[], World], task: Mapping[str, Any]
) -> tuple[World, Sequence[str]]:
    """The world after the gold actions, and which of them failed (officially only logged)."""
    state = task.get("initial_state") or {}
    world = replay(make_world(), task, state.get("message_history") or ()).world
    failed = []
    for call in gold_calls(task):
        if (error := world.replay(call)) is not None:
            failed.append(f"{call.name}: {error}")
    return world, failed


def matches(gold: Mapping[str, Any], call: Call) -> bool:
    """Whether a call is the gold action; without `compare_args` the call's own keys are compared,
    so that leaving arguments out matches. Who called is not compared."""
    if gold["name"] != call.name:
        return False
    compared = gold.get("compare_args")
    expected = gold.get("arguments") or {}
    if compared is None:
        compared = list(call.arguments)
    if not compared:
        return True
    given = {key: value for key, value in call.arguments.items() if key in compared}
    wanted = {key: value for key, value in expected.items() if key in compared}
    return given == wanted


def said(messages: Messages) -> Iterable[str]:
    """What the agent told the user."""
    for message in messages:
        content = message.get("content")
        if message.get("role") == "assistant" and isinstance(content, str) and content.strip():
            yield content


def unsaid(infos: Sequence[str] | None, texts: Iterable[str]) -> list[str]:
    """What is lacking where these things had to be said, in no matter which of the texts."""
    plain = [text.lower().replace(",", "") for text in texts]
    lacking = [info for info in infos or () if not any(info.lower() in text for text in plain)]
    return [f"never said {info!r}" for info in lacking]


def reward(
    task: Mapping[str, Any],
    messages: Messages,
    termination: str,
    make_world: Callable[[], World],
    judge: Judge | None,
    *,
    strict: bool = True,
) -> Reward:
    """tau2's reward: the product of what the task's reward bases give, each 0 or 1.

    A recorded conversation whose state-changing calls answer differently here was made in another
    world: with `strict` it cannot be judged (`AnotherWorld`), and without it cannot fail by the
    state it leaves; a pass says that it differs.
    """
    if termination not in FINISHED:
        return Reward(0.0, f"the conversation ended with {termination}")
    criteria = task.get("evaluation_criteria")
    if criteria is None:
        return Reward(1.0, "the task has no criteria")
    basis = basis_of(criteria)
    if unknown := basis - BASES:
        raise GraderError(f"unknown reward basis {', '.join(sorted(map(str, unknown)))}")
    tally = Tally()
    # officially nothing is compared where neither is there, and nothing is listed
    compared = criteria.get("actions") is not None or criteria.get("env_assertions") is not None
    if compared and basis & {"DB", "ENV_ASSERTION"}:
        try:
            replayed = replay(make_world(), task, messages)
        except ValueError as error:
            raise GraderError(f"the conversation cannot be replayed: {error}") from None
        if replayed.differing:
            tally.details["differing_results"] = list(replayed.differing)
        if "DB" in basis:
            _databases(tally, replayed.world, *gold_world(make_world, task))
        if "ENV_ASSERTION" in basis:
            tally.count("ENV_ASSERTION", _not_holding(replayed.world, criteria))
        if replayed.differing and (strict or tally.reasons):
            raise AnotherWorld(
                "the recorded conversation was made in another world: " + replayed.differing[0]
            )
    if "ACTION" in basis:
        tally.count("ACTION", _not_called(criteria, messages))
    if "COMMUNICATE" in basis:
        tally.count("COMMUNICATE", unsaid(criteria.get("communicate_info"), said(messages)))
    if "NL_ASSERTION" in basis:
        _assertions(tally, criteria.get("nl_assertions") or (), messages, judge)
    return tally.reward()


def _databases(tally: Tally, world: World, gold: World, failed: Sequence[str]) -> None:
    if failed:
        tally.details["failed_gold_actions"] = list(failed)
    sides = zip(("the database", "the user's database"), world.same_as(gold), strict=True)
    lacking = [f"{side} is not as the gold actions leave it" for side, same in sides if not same]
    tally.count("DB", lacking)


def _not_holding(world: World, criteria: Mapping[str, Any]) -> list[str]:
    return [
        f"does not hold: {assertion['func_name']}({assertion.get('arguments') or {}})"
        for assertion in criteria.get("env_assertions") or ()
        if not _holds(world, assertion)
    ]


def _holds(world: World, assertion: Mapping[str, Any]) -> bool:
    arguments = assertion.get("arguments") or {}
    try:
        result = world.run_function(assertion["env_type"], assertion["func_name"], arguments)
    except ValueError:
        return False  # what it speaks of is not there
    except (TypeError, AttributeError) as error:
        raise GraderError(f"{assertion['func_name']}: {error}") from None
    if not isinstance(result, bool):
        raise GraderError(f"{assertion['func_name']} is no assertion")
    return bool(result == assertion.get("assert_value", True))


def _not_called(criteria: Mapping[str, Any], messages: Messages) -> list[str]:
    made = list(calls_in(messages))
    return [
        f"no call like the gold {gold['name']}"
        for gold in criteria.get("actions") or ()
        if not any(matches(gold, call) for call in made)
    ]


def _assertions(
    tally: Tally, assertions: Sequence[str], messages: Messages, judge: Judge | None
) -> None:
    """Ask the judge, unless another basis has already made the reward 0."""
    if not assertions:
        tally.count("NL_ASSERTION", [])
        return
    if tally.reasons:
        tally.details["nl_assertions"] = "not judged: another basis failed"
        return
    if judge is None:
        raise JudgeFault(
            f"{len(assertions)} statements about the conversation need a judge model: "
            "give one with --option judge_model=…"
        )
    judged = list(zip(assertions, judge(messages, assertions), strict=True))
    tally.count("NL_ASSERTION", [f"judged not met: {text}" for text, (met, _) in judged if not met])
    tally.details["nl_assertions"] = [
        {"assertion": text, "met": met, "reason": reason} for text, (met, reason) in judged
    ]
