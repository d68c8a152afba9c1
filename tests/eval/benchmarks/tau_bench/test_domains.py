"""The domains over the real databases: official texts, and every task's gold actions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chimera.eval.benchmarks._tau_bench import rewards
from chimera.eval.benchmarks._tau_bench.domains import Domain, LegacyDomain
from chimera.eval.benchmarks._tau_bench.kernel import Call, World
from chimera.eval.benchmarks._tau_bench.submissions import Grader, LegacyGrader

BOOKING = {
    "user_id": "mia_li_3668",
    "origin": "JFK",
    "destination": "SEA",
    "flight_type": "one_way",
    "cabin": "economy",
    "flights": [{"flight_number": "HAT136", "date": "2024-05-20"}],
    "passengers": [{"first_name": "Mia", "last_name": "Li", "dob": "1990-04-05"}],
    "payment_methods": [{"payment_id": "certificate_7504069", "amount": 1}],
    "total_baggages": 0,
    "nonfree_baggages": 0,
    "insurance": "no",
}


@pytest.fixture
def domain(dataset):
    return lambda name: Domain.at(dataset("tau2-bench"), name)


def answers(world: World, *calls: tuple[str, dict]) -> list[str]:
    return [world.respond(Call(name, arguments)).content for name, arguments in calls]


def user_does(world: World, *calls: tuple[str, dict]) -> list[str]:
    return [world.respond(Call(name, given, "user")).content for name, given in calls]


def test_airline_answers_word_for_word(domain):
    world = domain("airline").world()

    user, reservation, status, missing = answers(
        world,
        ("get_user_details", {"user_id": "sophia_silva_7557"}),
        ("get_reservation_details", {"reservation_id": "WUNA5K"}),
        ("get_flight_status", {"flight_number": "HAT001", "date": "2030-01-01"}),
        ("cancel_reservation", {"reservation_id": "NOPE"}),
    )

    assert user.startswith(
        '{"user_id": "sophia_silva_7557", "name": {"first_name": "Sophia", "last_name": "Silva"}, '
        '"address": {"address1": "141 Cedar Avenue", "address2": "Suite 436", "city": "Columbus", '
        '"country": "USA", "state": "OH", "zip": "43282"}'
    )
    assert '"gift_card_5094406", "amount": 274.0}' in user
    assert reservation.endswith('"insurance": "no", "status": null}')
    assert status == "Error: Flight HAT001 not found on date 2030-01-01"
    assert missing == "Error: Reservation NOPE not found"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"user_id": "nobody"}, "Error: User nobody not found"),
        (
            {"flights": [{"flight_number": "HAT136"}]},
            "Error: 1 validation error for FlightInfo\ndate\n  Field required [type=missing, "
            "input_value={'flight_number': 'HAT136'}, input_type=dict]\n    For further "
            "information visit https://errors.pydantic.dev/2.11/v/missing",
        ),
        ({"flights": "HAT136"}, "Error: 'str' object has no attribute 'flight_number'"),
        (
            {"cabin": "first"},
            "Error: 1 validation error for Reservation\ncabin\n  Input should be 'business', "
            "'economy' or 'basic_economy' [type=literal_error, input_value='first', "
            "input_type=str]\n    For further information visit "
            "https://errors.pydantic.dev/2.11/v/literal_error",
        ),
        (
            {"payment_methods": [{"payment_id": "gold", "amount": 1}]},
            "Error: Payment method gold not found",
        ),
    ],
)
def test_a_booking_that_fails_says_why_and_changes_nothing(domain, changes, text):
    world, untouched = domain("airline").world(), domain("airline").world()

    assert answers(world, ("book_reservation", {**BOOKING, **changes})) == [text]
    assert world.same_as(untouched) == (True, True)


def test_a_booking_is_charged_and_takes_seats(domain):
    world = domain("airline").world()
    (refusal,) = answers(world, ("book_reservation", BOOKING))
    price = int(refusal.partition("total price is ")[2].partition(",")[0])
    day = world.agent.db["flights"]["HAT136"]["dates"]["2024-05-20"]
    seats = day["available_seats"]["economy"]
    paid = {"payment_methods": [{"payment_id": "credit_card_4421486", "amount": price}]}

    first, second = answers(world, *[("book_reservation", {**BOOKING, **paid})] * 2)

    assert refusal == (f"Error: Payment amount does not add up, total price is {price}, but paid 1")
    assert json.loads(first)["reservation_id"] == "HATHAT"
    assert json.loads(second)["reservation_id"] == "HATHAU"
    assert json.loads(first)["flights"][0]["price"] == price
    assert day["available_seats"]["economy"] == seats - 2
    assert world.agent.db["users"]["mia_li_3668"]["reservations"][-2:] == ["HATHAT", "HATHAU"]


def test_retail_gives_all_replaced_items_the_last_variant_as_officially(domain):
    world = domain("retail").world()
    order = next(
        order
        for order in world.agent.db["orders"].values()
        if order["status"] == "pending"
        and len({item["product_id"] for item in order["items"]}) >= 2
        and not order["payment_history"][0]["payment_method_id"].startswith("gift")
    )
    items = order["items"][:2]
    new = []
    for item in items:
        variants = world.agent.db["products"][item["product_id"]]["variants"].values()
        new.append(next(v for v in variants if v["available"] and v["item_id"] != item["item_id"]))
    call = {
        "order_id": order["order_id"],
        "item_ids": [item["item_id"] for item in items],
        "new_item_ids": [variant["item_id"] for variant in new],
        "payment_method_id": order["payment_history"][0]["payment_method_id"],
    }

    changed, again = answers(world, *[("modify_pending_order_items", call)] * 2)

    changed_items = [
        i for i in json.loads(changed)["items"] if i["item_id"] in call["new_item_ids"]
    ]
    assert {item["price"] for item in changed_items} == {new[-1]["price"]}
    assert json.loads(changed)["status"] == "pending (item modified)"
    assert again == "Error: Non-pending order cannot be modified"


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("get_order_details", {"order_id": "W1"}, "Error: Order not found"),
        ("find_user_id_by_email", {"email": "x@y"}, "Error: User not found"),
        ("get_item_details", {"item_id": "0"}, "Error: Item not found"),
        ("calculate", {"expression": "1+1"}, "2.0"),
        ("calculate", {"expression": "import os"}, "Error: Invalid characters in expression"),
        ("transfer_to_human_agents", {"summary": ""}, "Transfer successful"),
    ],
)
def test_retail_texts(domain, name, arguments, text):
    assert answers(domain("retail").world(), (name, arguments)) == [text]


def test_telecom_keeps_phone_and_carrier_in_step(domain):
    world = domain("telecom").world()
    world.run_function("user", "set_user_info", {"name": "J", "phone_number": "555-123-2002"})
    world.run_function("user", "set_user_location", {"abroad": True})
    world.run_function("user", "break_vpn", {})
    line = {"customer_id": "C1001", "line_id": "L1002"}
    answers(world, ("disable_roaming", line))

    before = user_does(world, ("run_speed_test", {}), ("check_vpn_status", {}))
    agent = answers(world, ("enable_roaming", line), ("enable_roaming", line))
    after = user_does(world, ("toggle_roaming", {}), ("disconnect_vpn", {}), ("run_speed_test", {}))

    assert before == [
        "Speed test failed: No Connection.",
        "VPN is ON and connected. Details: {'server_address': '192.168.1.1', 'protocol': "
        "'OpenVPN', 'server_performance': <PerformanceLevel.POOR: 'poor'>}",
    ]
    assert agent == ["Roaming enabled successfully", "Roaming was already enabled"]
    assert after == [
        "Data Roaming is now ON.\n"
        "Status Bar: 📶⁴ Excellent | 5G | 📱 Data Enabled | 🔒 VPN Connected | 🔋 80%",
        "VPN disconnected successfully.\nStatus Bar: 📶⁴ Excellent | 5G | 📱 Data Enabled | 🔋 80%",
        "Speed Test Result: 275.00 Mbps (Excellent). Connection is very fast.",
    ]


def test_telecom_bills_are_asked_for_and_paid(domain):
    world = domain("telecom").world()
    world.run_function("user", "set_user_info", {"name": "J", "phone_number": "555-123-2002"})
    overdue = {"customer_id": "C1001", "line_id": "L1002", "new_bill_id": "B9"}
    world.run_function(
        "assistant", "suspend_line_for_overdue_bill", {**overdue, "contract_ended": False}
    )
    request = {"customer_id": "C1001", "bill_id": "B9"}

    sent, twice = answers(world, *[("send_payment_request", request)] * 2)
    seen, paid, gone = user_does(
        world, ("check_payment_request", {}), ("make_payment", {}), ("make_payment", {})
    )

    assert sent == "Payment request sent to the customer for bill B9"
    assert twice == "Error: A bill is already awaiting payment for this customer"
    assert seen == "You have a payment request for bill B9 of 65.0 USD."
    assert paid == "Payment of 65.0 USD has been made for bill B9."
    assert gone == "You do not have a payment request."
    assert world.run_function("assistant", "assert_no_overdue_bill", {"overdue_bill_id": "B9"})
    (usage,) = answers(world, ("get_data_usage", {"customer_id": "C1001", "line_id": "L1002"}))
    assert json.loads(usage)["data_limit_gb"] == "15.0"


def test_banking_unlocks_calls_and_logs(domain):
    world = domain("banking_knowledge").world()
    name = "freeze_debit_card_3892"
    card = next(
        key for key, card in world.agent.table("debit_cards").items() if card["status"] == "ACTIVE"
    )
    given = {"agent_tool_name": name, "arguments": json.dumps({"card_id": card})}

    locked, unlocked, frozen, again, wrong = answers(
        world,
        ("call_discoverable_agent_tool", given),
        ("unlock_discoverable_agent_tool", {"agent_tool_name": name}),
        ("call_discoverable_agent_tool", given),
        ("call_discoverable_agent_tool", given),
        ("call_discoverable_agent_tool", {**given, "arguments": '{"card": 1}'}),
    )

    assert locked.startswith(f"Error: Tool '{name}' has not been unlocked. You must first use `unl")
    assert unlocked == (
        f"Tool unlocked: {name}\n"
        "Description: Stop a debit card until it is unfrozen.\n\n"
        f"Tool: {name}\n"
        "Description: Stop a debit card until it is unfrozen.\n"
        "Parameters:\n  - card_id: string (required) - which debit card\n\n"
        "You can now use this tool by calling `call_discoverable_agent_tool` with "
        f"agent_tool_name='{name}' and the required arguments."
    )
    assert frozen.startswith("Debit Card Frozen Successfully\nCard ID: ")
    assert again == f"Error: Debit card '{card}' is already frozen."
    assert wrong == (
        "Error: Invalid arguments: KnowledgeTools.freeze_debit_card_3892() got an unexpected "
        "keyword argument 'card'"
    )
    logged = list(world.agent.table("agent_discoverable_tools").values())
    assert logged == [{"tool_name": name, "status": "CALLED"}]
    assert world.user is not None
    assert world.user.db is world.agent.db


def test_banking_knowledge_is_found_and_offered_by_variant(domain):
    bank = domain("banking_knowledge")

    offered = {
        variant: {known.name for known in bank.world(None, variant).agent.visible()}
        & {"KB_search", "grep"}
        for variant in ("bm25_grep", "grep_only", "no_knowledge")
    }
    found, nothing = answers(
        bank.world(), ("KB_search", {"query": "freeze debit card"}), ("grep", {"pattern": "zqzq"})
    )

    assert offered == {
        "bm25_grep": {"KB_search", "grep"},
        "grep_only": {"grep"},
        "no_knowledge": set(),
    }
    assert found.startswith("1. ")
    assert "   Score: " in found
    assert nothing == "No matches found for pattern: zqzq"
    policy = bank.policy({"required_documents": []}, "golden_retrieval")
    assert "(No documents provided)" in policy
    assert "{{" not in policy


def gold(task: dict) -> dict:
    criteria = task["evaluation_criteria"]
    actions = [
        {key: action[key] for key in ("name", "arguments", "requestor") if key in action}
        for action in criteria.get("actions") or ()
    ]
    return {"actions": actions, "outputs": criteria.get("communicate_info") or []}


def judge(messages, assertions):
    return [(True, "")] * len(assertions)


def sweep(domain: Domain, split: str | None = None) -> tuple[list[str], list[str]]:
    """Ids of the tasks whose gold fails, and of those that nothing passes."""
    failing, idle = [], []
    for task in domain.tasks(split):
        grader = Grader(task, lambda task=task: domain.world(task), judge)
        if grader.grade(gold(task)).value != 1.0:
            failing.append(task["id"])
        if grader.grade({"messages": []}).value == 1.0:
            idle.append(task["id"])
    return failing, idle


def dropped(domain: Domain) -> tuple[int, list[tuple[str, int]]]:
    """How many single calls that change the state were left out, and which nobody missed."""
    total, unmissed = 0, []
    for task in domain.tasks(None):
        content, world = gold(task), domain.world(task)
        grader = Grader(task, lambda task=task: domain.world(task), judge)
        for number, action in enumerate(content["actions"]):
            if not world.mutates(action["name"]):
                continue
            total += 1
            left = content["actions"][:number] + content["actions"][number + 1 :]
            if grader.grade({**content, "actions": left}).value == 1.0:
                unmissed.append((task["id"], number))
    return total, unmissed


def test_airline_gold_and_nothing(domain):
    failing, idle = sweep(domain("airline"))

    assert failing == []
    assert len(idle) == 23  # as the official evaluator gives


def test_retail_gold_and_nothing(domain):
    failing, idle = sweep(domain("retail"))

    assert failing == []
    assert len(idle) == 11  # as the official evaluator gives


def test_telecom_gold_and_nothing(domain):
    assert sweep(domain("telecom"), "small") == ([], [])


def test_mock_gold_and_nothing(domain):
    failing, idle = sweep(domain("mock"))

    # Both assert states that their own gold actions do not bring about.
    assert failing == ["update_task_with_history_and_env_assertions", "update_task_with_user_tools"]
    assert idle == ["create_task_1_nl_eval"]


@pytest.mark.full
def test_banking_gold_and_nothing(domain):
    assert sweep(domain("banking_knowledge")) == ([], [])


@pytest.mark.full
def test_telecom_gold_over_all_2285_tasks(domain):
    assert sweep(domain("telecom"), "full")[0] == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "calls", "unmissed"),
    [
        ("airline", 49, []),
        ("retail", 176, [("22", 1), ("64", 6), ("105", 0), ("110", 1)]),
    ],
)
def test_leaving_out_a_gold_call_fails(domain, name, calls, unmissed):
    assert dropped(domain(name)) == (calls, unmissed)


@pytest.mark.parametrize(
    ("name", "tasks", "idle"),
    [("airline", 50, 20), ("retail", 115, 11)],
)
def test_legacy_gold_and_words_alone(dataset, name, tasks, idle):
    domain = LegacyDomain.at(dataset("tau-bench"), name)
    graders = [(task, LegacyGrader(task, domain.toolkit)) for task in domain.tasks("test")]

    passed = [grader.grade(legacy_gold(task)).value for task, grader in graders]
    words = [
        grader.grade({"actions": [], "outputs": task["outputs"]}).value for task, grader in graders
    ]

    assert passed == [1.0] * tasks
    assert sum(words) == idle  # as the official environments give


def legacy_gold(task: dict) -> dict:
    actions = [{"name": a["name"], "arguments": a["kwargs"]} for a in task["actions"]]
    return {"actions": actions, "outputs": task["outputs"]}


@pytest.mark.parametrize(
    ("name", "call", "text"),
    [
        ("airline", ("get_user_details", {"user_id": "x"}), "Error: user not found"),
        ("airline", ("get_reservation_details", {"reservation_id": "x"}), "Error: user not found"),
        ("airline", ("fly", {}), "Unknown action fly"),
        (
            "airline",
            ("think", {}),
            "Error: Think.invoke() missing 1 required positional argument: 'thought'",
        ),
        ("retail", ("calculate", {"expression": "a"}), "Error: invalid characters in expression"),
        (
            "retail",
            ("cancel_pending_order", {"order_id": "#W0", "reason": "x"}),
            "Error: order not found",
        ),
    ],
)
def test_legacy_texts(dataset, name, call, text):
    toolkit = LegacyDomain.at(dataset("tau-bench"), name).toolkit()

    assert toolkit.respond(Call(*call)).content == text


def test_legacy_tasks_are_read_from_python_without_running_it(tmp_path: Path):
    source = tmp_path / "tau_bench" / "envs" / "airline"
    source.mkdir(parents=True)
    (source / "tasks_test.py").write_text(
        "from tau_bench.types import Task, Action\n"
        "raise SystemExit\n"
        "TASKS = [Task(annotator='0', user_id='u', instruction='i', outputs=['1'],\n"
        "  actions=[Action(name='think', kwargs={'thought': 'x' 'y'})])]\n"
    )

    (task,) = LegacyDomain.at(tmp_path, "airline").tasks("test")

    assert task["actions"] == [{"name": "think", "kwargs": {"thought": "xy"}}]
    assert rewards.gold_calls({}) == []
