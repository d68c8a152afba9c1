"""What can be handed in for a tau task, and its reward: a conversation, actions, or a final state.

    {"messages": […], "termination_reason": "user_stop"}     a simulation of an official result file
    {"actions": [{"name", "arguments", "requestor"}, …], "outputs": ["said to the user", …]}
    {"final_state": {…}, "outputs": […]}                     the whole database; with a user's
                                                             database: {"agent_db": …, "user_db": …}

Nothing else is judged: words about actions are no actions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chimera.eval.benchmarks._tau_bench import rewards
from chimera.eval.benchmarks._tau_bench.environment import recorded
from chimera.eval.benchmarks._tau_bench.kernel import Call, Requestor, World
from chimera.eval.benchmarks._tau_bench.legacy import RESPOND, TERMINATING, LegacyToolkit
from chimera.eval.benchmarks._tau_bench.rewards import (
    FINISHED,
    Judge,
    Messages,
    Reward,
    Tally,
    unsaid,
)

FORMS = ("messages", "actions", "final_state")
HANDED_IN = (*FORMS, "outputs", "termination_reason")
MAX_ACTIONS = 2000


class NotJudged(ValueError):
    """What was handed in is not of a form that can be judged; the answer's own fault."""


def form_of(content: Any) -> str | None:
    """Which of the forms this is."""
    if not isinstance(content, Mapping):
        return None
    return next((form for form in FORMS if form in content), None)


def handed_in(content: Mapping[str, Any]) -> dict[str, Any]:
    """What an answer may say; what an official result file quotes beside it is not the answer's."""
    return {key: content[key] for key in HANDED_IN if key in content}


def actions_in(content: Mapping[str, Any]) -> list[Call]:
    actions = content["actions"]
    if not isinstance(actions, list) or len(actions) > MAX_ACTIONS:
        raise NotJudged(f"'actions' is no list of at most {MAX_ACTIONS} actions")
    calls = []
    for number, action in enumerate(actions):
        if not isinstance(action, Mapping) or not isinstance(action.get("name"), str):
            raise NotJudged(f"action {number} has no name")
        arguments = action.get("arguments", action.get("kwargs", {}))
        if not isinstance(arguments, Mapping) or not all(isinstance(k, str) for k in arguments):
            raise NotJudged(f"action {number}: arguments are no object")
        side: Requestor = "user" if action.get("requestor") == "user" else "assistant"
        calls.append(Call(action["name"], arguments, side, f"action_{number}"))
    return calls


def outputs_in(content: Mapping[str, Any]) -> list[str]:
    """What the agent said to the user, one message each."""
    outputs = content.get("outputs") or []
    if not isinstance(outputs, list) or not all(isinstance(text, str) for text in outputs):
        raise NotJudged("'outputs' is no list of texts")
    return outputs


def messages_in(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    messages = content["messages"]
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise NotJudged("'messages' is no list of messages")
    return messages


def ended_as(content: Mapping[str, Any]) -> str:
    return str(content.get("termination_reason") or "user_stop")


@dataclass(frozen=True, slots=True)
class Grader:
    """tau2's rule for every form."""

    task: Mapping[str, Any]
    make_world: Callable[[], World]
    judge: Judge | None = None
    strict: bool = True

    def grade(self, content: Mapping[str, Any]) -> Reward:
        form = form_of(content)
        if form == "final_state":
            return self._final_state(content)
        messages = messages_in(content) if form == "messages" else self._performed(content)
        return rewards.reward(
            self.task, messages, ended_as(content), self.make_world, self.judge, strict=self.strict
        )

    def _history(self) -> list[dict[str, Any]]:
        state = self.task.get("initial_state") or {}
        return [dict(message) for message in state.get("message_history") or ()]

    def _performed(self, content: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The conversation in which these actions are made and these words are said."""
        messages = self._history()
        world = rewards.replay(self.make_world(), self.task, messages).world
        for call in actions_in(content):
            messages += recorded(call, world.respond(call))
        return messages + _spoken(outputs_in(content))

    def _final_state(self, content: Mapping[str, Any]) -> Reward:
        criteria = self.task.get("evaluation_criteria") or {}
        basis = rewards.basis_of(criteria)
        if basis - {"DB", "COMMUNICATE"}:
            raise NotJudged(
                f"a final state cannot show {', '.join(sorted(basis - {'DB', 'COMMUNICATE'}))}"
            )
        if ended_as(content) not in FINISHED:
            return Reward(0.0, f"the conversation ended with {ended_as(content)}")
        gold, _ = rewards.gold_world(self.make_world, self.task)
        state = content["final_state"]
        pairs = [(gold.agent.db, state)]
        if gold.user is not None and gold.user.db is not gold.agent.db:
            if not isinstance(state, Mapping) or state.keys() != {"agent_db", "user_db"}:
                raise NotJudged("this domain's final state needs 'agent_db' and 'user_db'")
            pairs = [(gold.agent.db, state["agent_db"]), (gold.user.db, state["user_db"])]
        same = all(same_values(a, b) for a, b in pairs)
        tally = Tally()
        tally.count("DB", [] if same else ["the final state is not as the gold actions leave it"])
        said = rewards.said(_spoken(outputs_in(content)))
        tally.count("COMMUNICATE", unsaid(criteria.get("communicate_info"), said))
        return tally.reward()


def _spoken(texts: Sequence[str]) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": text} for text in texts]


def same_values(gold: Any, given: Any) -> bool:
    """Whether a state is the gold one: no key more, none less (but what is null may be left out),
    numbers by value, lists in order."""
    if isinstance(gold, dict):
        if not isinstance(given, Mapping) or given.keys() - gold.keys():
            return False
        return all(same_values(dict.get(gold, key), given.get(key)) for key in gold)
    if isinstance(gold, list):
        if not isinstance(given, list) or len(gold) != len(given):
            return False
        return all(map(same_values, gold, given))
    if isinstance(gold, bool) or isinstance(given, bool):
        return gold is given
    return bool(gold == given)


@dataclass(frozen=True, slots=True)
class LegacyGrader:
    """The rule of the first tau-bench: the data after the episode, and what was to be said."""

    task: Mapping[str, Any]
    make_toolkit: Callable[[], LegacyToolkit]

    def grade(self, content: Mapping[str, Any]) -> Reward:
        if ended_as(content) not in FINISHED:
            return Reward(0.0, f"the episode ended with {ended_as(content)}")
        gold = self.gold_toolkit()
        form = form_of(content)
        if form == "final_state":
            same, spoken = same_values(gold.db, content["final_state"]), outputs_in(content)
        else:
            calls, spoken = self._episode(content, form)
            toolkit = self.make_toolkit()
            for call in calls:
                if call.name in toolkit.tools and toolkit.tools[call.name].mutates:
                    toolkit.respond(call)
            same = toolkit.data_hash_equals(gold)
        tally = Tally()
        tally.count("DB", [] if same else ["the database is not as the gold actions leave it"])
        tally.count("OUTPUTS", unsaid(self.task.get("outputs"), spoken))
        return tally.reward()

    @staticmethod
    def _episode(content: Mapping[str, Any], form: str | None) -> tuple[list[Call], list[str]]:
        if form == "actions":
            calls = _until(actions_in(content), lambda call: call.name in TERMINATING)
            spoken = [str(call.arguments.get("content")) for call in calls if call.name == RESPOND]
            return calls, spoken + outputs_in(content)
        messages = _until(messages_in(content), _ends_episode)
        try:
            return list(rewards.calls_in(messages)), list(rewards.said(messages))
        except ValueError as error:
            raise NotJudged(str(error)) from None

    def gold_toolkit(self) -> LegacyToolkit:
        """The data as the gold actions leave them."""
        toolkit = self.make_toolkit()
        for action in self.task["actions"]:
            if action["name"] not in TERMINATING:
                arguments = action.get("kwargs", action.get("arguments")) or {}
                toolkit.respond(Call(action["name"], arguments))
        return toolkit


def _until(items: Sequence[Any], ends: Callable[[Any], bool]) -> list[Any]:
    """The items up to the first that ends an episode: what comes after it was never done."""
    last = next((number for number, item in enumerate(items, 1) if ends(item)), len(items))
    return list(items[:last])


def _ends_episode(message: Mapping[str, Any]) -> bool:
    if message.get("role") == "user":
        return "###STOP###" in str(message.get("content"))
    calls = message.get("tool_calls")
    return isinstance(calls, list) and any(
        isinstance(call, Mapping) and call.get("name") in TERMINATING for call in calls
    )


def legacy_simulation(trajectory: Messages) -> dict[str, Any]:
    """An episode of an official tau-bench result file as messages of the newer form.

    Only the first tool call of a message was made; how the episode ended is seen in its end.
    """
    messages: list[dict[str, Any]] = []
    ended = "max_steps"
    for message in trajectory:
        role, content = message.get("role"), message.get("content")
        calls = message.get("tool_calls") or ()
        if role == "assistant" and calls:
            function = calls[0]["function"]
            arguments = json.loads(function["arguments"])
            call = {"id": calls[0].get("id"), "name": function["name"], "arguments": arguments}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            ended = "agent_stop" if function["name"] in TERMINATING else "max_steps"
        elif role == "tool":
            messages.append({"role": "tool", "id": message.get("tool_call_id"), "content": content})
        elif role in ("assistant", "user"):
            messages.append({"role": role, "content": content})
            stopped = role == "user" and "###STOP###" in str(content)
            ended = "user_stop" if stopped else "max_steps"
    return {"messages": messages, "termination_reason": ended}
