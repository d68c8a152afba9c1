"""Rewards and turn rules, on verdicts that the official evaluator gave."""

from __future__ import annotations

import pytest

from chimera.errors import GraderError, LimitReached
from chimera.eval.benchmarks._tau_bench import rewards
from chimera.eval.benchmarks._tau_bench.environment import GREETING, Conversation, Rules
from chimera.eval.benchmarks._tau_bench.kernel import Call, Reply, World
from chimera.eval.benchmarks._tau_bench.mock import MockTools, MockUserTools
from chimera.eval.benchmarks._tau_bench.submissions import (
    Grader,
    NotJudged,
    legacy_simulation,
    same_values,
)
from chimera.eval.benchmarks._tau_bench.users import STOP, Turn, scenario_text, user_prompt
from chimera.types import ToolCall

GOLD = {"user_id": "user_1", "title": "Important Meeting"}
CREATE = {"name": "create_task", "arguments": GOLD}
WRONG = {"name": "create_task", "arguments": {**GOLD, "title": "Wrong"}}
FAILING = {"name": "create_task", "arguments": {"user_id": "nope", "title": "x"}}


def make_world() -> World:
    task = {"task_id": "task_1", "title": "Test", "description": None, "status": "pending"}
    user = {"user_id": "user_1", "name": "Test User", "tasks": ["task_1"]}
    return World(
        MockTools({"tasks": {"task_1": task}, "users": {"user_1": user}}),
        MockUserTools({"notifications": {}}),
    )


def task(**criteria: object) -> dict:
    return {"id": "t", "evaluation_criteria": {"actions": [CREATE], **criteria}}


def graded(content: dict, judge=None, **criteria: object) -> rewards.Reward:
    return Grader(task(**criteria), make_world, judge).grade(content)


@pytest.mark.parametrize(
    ("actions", "ended", "value"),
    [
        ([CREATE], "user_stop", 1.0),
        ([], "user_stop", 0.0),
        ([CREATE], "max_steps", 0.0),
        ([CREATE], "agent_stop", 1.0),
        ([CREATE], "too_many_errors", 0.0),
        ([CREATE], "agent_error", 0.0),
        ([CREATE], "anything else", 0.0),
        ([{"name": "get_users", "arguments": {}}, CREATE], "user_stop", 1.0),
        ([{"name": "no_such_tool", "arguments": {}}, CREATE], "user_stop", 1.0),
        ([CREATE, CREATE], "user_stop", 0.0),
        ([WRONG], "user_stop", 0.0),
        ([WRONG, CREATE], "user_stop", 0.0),
        ([FAILING, CREATE], "user_stop", 1.0),
    ],
)
def test_database_reward(actions, ended, value):
    assert graded({"actions": actions, "termination_reason": ended}).value == value


@pytest.mark.parametrize(
    ("compared", "arguments", "matches"),
    [
        (None, {"a": 1, "b": [1, 2]}, True),
        (None, {"a": 1}, True),
        (None, {}, True),
        (None, {"a": 1, "b": [2, 1]}, False),
        (None, {"a": 1, "b": [1, 2], "c": 3}, False),
        (None, {"a": 1.0, "b": [1, 2]}, True),
        (None, {"a": "1", "b": [1, 2]}, False),
        (["a"], {"a": 1, "b": [9]}, True),
        (["a"], {"b": [9]}, False),
        ([], {"z": 1}, True),
    ],
)
def test_action_match(compared, arguments, matches):
    gold = {"name": "f", "arguments": {"a": 1, "b": [1, 2]}, "compare_args": compared}

    assert rewards.matches(gold, Call("f", arguments)) is matches
    assert not rewards.matches(gold, Call("g", arguments))


@pytest.mark.parametrize(
    ("said", "value"),
    [
        (["It is 1,093 dollars"], 1.0),
        (["SENT"], 0.0),
        (["10", "93"], 0.0),
        (["210930"], 1.0),
        ([], 0.0),
    ],
)
def test_what_had_to_be_said_is_said_in_one_message(said, value):
    content = {"actions": [CREATE], "outputs": said}

    assert graded(content, communicate_info=["1093"]).value == value


def test_a_tool_result_or_the_user_does_not_say_it():
    messages = [
        {"role": "user", "content": "1093"},
        {"role": "tool", "id": "x", "content": "1093"},
    ]

    assert rewards.unsaid(["1093"], rewards.said(messages)) == ["never said '1093'"]


def test_assertions_are_made_in_the_world_after_the_conversation():
    done = {
        "env_type": "assistant",
        "func_name": "assert_task_status",
        "arguments": {"task_id": "task_2", "expected_status": "pending"},
    }
    basis = {"reward_basis": ["ENV_ASSERTION"], "env_assertions": [done]}

    assert graded({"actions": [CREATE]}, **basis).value == 1.0
    assert graded({"actions": []}, **basis).value == 0.0
    with pytest.raises(GraderError, match="no_such"):
        graded(
            {"actions": []},
            reward_basis=["ENV_ASSERTION"],
            env_assertions=[{**done, "func_name": "no_such"}],
        )


def test_the_action_basis_wants_every_gold_action():
    gold = [CREATE, {"name": "transfer_to_human_agents", "arguments": {}, "compare_args": []}]
    basis = {"reward_basis": ["ACTION"], "actions": gold}
    transfer = {"name": "transfer_to_human_agents", "arguments": {"summary": "x"}}

    assert graded({"actions": [CREATE, transfer]}, **basis).value == 1.0
    assert graded({"actions": [CREATE]}, **basis).value == 0.0


def test_statements_need_a_judge_but_only_when_they_decide():
    basis = {"reward_basis": ["DB", "NL_ASSERTION"], "nl_assertions": ["was polite"]}

    with pytest.raises(GraderError, match="judge model"):
        graded({"actions": [CREATE]}, **basis)
    assert graded({"actions": []}, **basis).value == 0.0
    met = graded({"actions": [CREATE]}, lambda _, texts: [(True, "")], **basis)
    unmet = graded({"actions": [CREATE]}, lambda _, texts: [(False, "")], **basis)
    assert (met.value, unmet.value) == (1.0, 0.0)
    assert unmet.why == "judged not met: was polite"


def test_an_unknown_basis_is_an_error_not_a_pass():
    with pytest.raises(GraderError, match="VIBES"):
        graded({"actions": [CREATE]}, reward_basis=["VIBES"])


def test_a_record_made_in_another_world_has_no_verdict():
    call = {"id": "1", **CREATE}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "id": "1", "content": '{"task_id": "task_77"}'},
    ]

    with pytest.raises(GraderError, match="another world"):
        graded({"messages": messages})
    lenient = Grader(task(), make_world, strict=False).grade({"messages": messages})
    assert (lenient.value, lenient.why) == (1.0, "1 recorded results differ from those here")
    assert "differing_results" in lenient.details


def test_a_record_made_in_another_world_never_fails_by_the_state_it_leaves():
    wrong = {"id": "1", **CREATE, "arguments": {**CREATE["arguments"], "title": "another"}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [wrong]},
        {"role": "tool", "id": "1", "content": '{"task_id": "task_77"}'},
    ]

    with pytest.raises(GraderError, match="another world"):
        Grader(task(), make_world, strict=False).grade({"messages": messages})


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "assistant", "tool_calls": [{"id": "1", **CREATE}]}],
        [{"role": "tool", "id": "1", "content": "x"}],
        [
            {"role": "assistant", "tool_calls": [{"id": "1", **CREATE}]},
            {"role": "tool", "id": "2", "content": "x"},
        ],
    ],
)
def test_a_torn_conversation_has_no_verdict(messages):
    with pytest.raises(GraderError, match="cannot be replayed"):
        graded({"messages": messages})


@pytest.mark.parametrize(
    "content",
    [
        {"actions": {"name": "create_task"}},
        {"actions": [7]},
        {"actions": [{"name": "create_task", "arguments": [1]}]},
        {"actions": [CREATE], "outputs": "everything"},
        {"actions": [CREATE] * 2001},
        {"messages": "all of them"},
        {"final_state": {"tasks": {}}},
    ],
)
def test_what_is_of_no_known_form_is_the_answers_fault(content):
    with pytest.raises(NotJudged):
        graded(content)


def test_a_final_state_is_compared_whole():
    gold, _ = rewards.gold_world(make_world, task())
    state = {"agent_db": gold.agent.db, "user_db": {"notifications": {}}}
    forged = {**state, "agent_db": {**gold.agent.db, "passed": True}}

    assert graded({"final_state": state}).value == 1.0
    assert graded({"final_state": forged}).value == 0.0
    assert graded({"final_state": {**state, "agent_db": make_world().agent.db}}).value == 0.0


@pytest.mark.parametrize(
    ("gold", "given", "same"),
    [
        ({"a": 1.0}, {"a": 1}, True),
        ({"a": True}, {"a": 1}, False),
        ({"a": None}, {}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": {}}, {"a": "everything"}, False),
    ],
)
def test_states_of_answers(gold, given, same):
    assert same_values(gold, given) is same


class ScriptedUser:
    """Says what was written down, turn by turn; past the end it stops the conversation."""

    def __init__(self, turns) -> None:
        self.turns = iter(turns)

    def next(self, messages) -> Turn:
        turn = next(self.turns, STOP)
        return Turn(turn) if isinstance(turn, str) else turn


def talk(*turns: Turn | str, **rules: object) -> Conversation:
    return Conversation(make_world().respond, ScriptedUser(turns), Rules(**rules))


@pytest.mark.parametrize("sign", ["###STOP###", "bye ###TRANSFER###", "###OUT-OF-SCOPE###"])
def test_the_user_ends_the_conversation(sign):
    conversation = talk("hello", sign)

    assert conversation.begin() == "hello"
    assert conversation.say("what can I do?") is None
    assert conversation.termination == "user_stop"
    assert conversation.messages[0] == {"role": "assistant", "content": GREETING}
    with pytest.raises(LimitReached):
        conversation.say("are you there?")


def test_the_users_calls_are_answered_to_the_user_only():
    call = Turn(calls=(ToolCall("1", "check_notifications", {}),))
    conversation = talk("hello", call, "I see nothing")
    conversation.begin()

    assert conversation.say("look, please") == "I see nothing"
    made = [m for m in conversation.messages if m.get("requestor") == "user"]
    assert [m["content"] for m in made] == ["[]"]


def test_steps_and_failing_calls_are_limited():
    conversation = talk("hello", *["go on"] * 9, max_steps=4, max_errors=None)
    conversation.begin()
    conversation.say("one")
    assert conversation.say("two") is None
    assert conversation.termination == "max_steps"

    conversation = talk(
        "hello", "###STOP###", max_steps=3
    )  # officially the limit is looked at last
    conversation.begin()
    assert conversation.say("one") is None
    assert conversation.termination == "max_steps"

    conversation = talk("hello", max_errors=2)
    conversation.begin()
    conversation.call("no_such", {})
    assert conversation.termination is None
    conversation.call("no_such", {})
    assert conversation.termination == "too_many_errors"


def test_legacy_counts_the_agents_steps_and_ends_with_a_transfer():
    rules = {"max_steps": 2, "max_errors": None, "agent_steps_only": True}
    conversation = talk("hello", "and?", "###STOP###", **rules)
    conversation.begin()
    assert conversation.say("one") == "and?"
    assert conversation.say("two") is None
    assert conversation.termination == "user_stop"

    terminating = frozenset({"transfer_to_human_agents"})
    conversation = talk("hello", terminating=terminating)
    conversation.begin()
    conversation.call("transfer_to_human_agents", {"summary": "x"})
    assert conversation.termination == "agent_stop"


def test_an_old_result_file_counts_the_first_call_of_a_message():
    call = {"id": "1", "function": {"name": "think", "arguments": '{"thought": "a"}'}}
    other = {"id": "2", "function": {"name": "think", "arguments": '{"thought": "b"}'}}
    trajectory = [
        {"role": "system", "content": "policy"},
        {"role": "assistant", "content": None, "tool_calls": [call, other]},
        {"role": "tool", "tool_call_id": "1", "content": ""},
        {"role": "user", "content": "###STOP###"},
    ]

    simulation = legacy_simulation(trajectory)

    assert [call.arguments for call in rewards.calls_in(simulation["messages"])] == [
        {"thought": "a"}
    ]
    assert simulation["termination_reason"] == "user_stop"
    assert legacy_simulation(trajectory[:-1])["termination_reason"] == "max_steps"


def test_the_user_is_told_its_scenario():
    instructions = {
        "domain": "x",
        "reason_for_call": "refund\n\nnow",
        "known_info": None,
        "unknown_info": "",
        "task_instructions": "be firm",
    }
    scenario = {"persona": "calm", "instructions": instructions}

    assert scenario_text(scenario) == (
        "Persona:\n\tcalm\nInstructions:\n\tDomain: x\n\tReason for call:\n\t\trefund\n\n\t\tnow\n"
        "\tUnknown info:\n\n\tTask instructions:\n\t\tbe firm"
    )
    assert user_prompt("Rules.<PERSONA_GUIDELINES>\n", "just this", with_tools=True) == (
        "Rules.\n\n\n<scenario>\njust this\n</scenario>"
    )
    assert scenario_text("just this") == "just this"
    assert Reply("x").error is False
