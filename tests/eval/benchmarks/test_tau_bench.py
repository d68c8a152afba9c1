"""The adapters: whole trials with scripted models, stored outputs, the command line."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from chimera.agents import create_agent
from chimera.environments.none import NoEnvironment
from chimera.errors import DatasetError, GraderError, UsageError
from chimera.eval.benchmarks._tau_bench.benchmark import submission as handed_in
from chimera.eval.benchmarks.tau_bench import Tau2Bench, TauBench, main
from chimera.eval.harness import Harness
from chimera.eval.submitters import create_submitter
from chimera.eval.values import Submission, Verdict

NO_ENVIRONMENT = NoEnvironment()


def start(spec):
    return NoEnvironment()


@pytest.fixture
def tau2(dataset):
    return lambda domain, **options: Tau2Bench(dataset("tau2-bench"), domain=domain, **options)


@pytest.fixture
def tau(dataset):
    return lambda domain, **options: TauBench(dataset("tau-bench"), domain=domain, **options)


def scripts(content: dict, folder: Path) -> tuple[str, str]:
    """Scripted models that make the gold calls: the agent its own, the user the user's."""
    agent: list[object] = ["Hello."]
    user: list[object] = ["Hello, please help me."]
    for action in content["actions"]:
        call = {"name": action["name"], "arguments": action["arguments"]}
        turn = {"content": "", "tool_calls": [call]}
        if action.get("requestor") == "user":
            agent.append("Please do that now.")
            user += [turn, "Done."]
        else:
            agent.append(turn)
    agent.append(" ".join(["All is done.", *content["outputs"]]))
    user.append("###STOP###")
    for name, replies in (("agent", agent), ("user", user)):
        (folder / f"{name}.json").write_text(json.dumps(replies))
    return f"scripted/{folder / 'agent.json'}", f"scripted/{folder / 'user.json'}"


def played(benchmark, task, agent_model: str):
    agent = create_agent("react", model=agent_model)
    (result,) = Harness(benchmark=benchmark, agent=agent, tasks=[task]).run().results
    return result


@pytest.mark.parametrize(
    ("domain", "task_id"),
    [
        ("airline", "8"),
        ("retail", "0"),
        ("telecom", "[mobile_data_issue]data_mode_off|data_usage_exceeded[PERSONA:None]"),
        ("banking_knowledge", "task_001"),
        ("mock", "create_task_1"),
    ],
)
def test_a_scripted_conversation_reaches_reward_1(tau2, tmp_path, domain, task_id):
    judge = tmp_path / "judge.json"
    judge.write_text(json.dumps(['{"results": [{"metExpectation": true, "reasoning": "so"}]}']))
    plain = tau2(domain)
    task = next((t for t in plain.tasks() if t["id"] == task_id), plain.tasks()[0])
    agent_model, user_model = scripts(plain._gold_content(task), tmp_path)

    benchmark = tau2(domain, user_model=user_model, judge_model=f"scripted/{judge}")
    result = played(benchmark, task, agent_model)

    assert (result.status, result.why) == ("passed", "")
    assert result.score == 1.0


@pytest.mark.parametrize("domain", ["airline", "retail"])
def test_a_scripted_conversation_of_the_first_tau_bench_passes(tau, tmp_path, domain):
    task = next(t for t in tau(domain).tasks() if not t["row"]["outputs"])
    agent_model, user_model = scripts(tau(domain)._gold_content(task), tmp_path)

    result = played(tau(domain, user_model=user_model), task, agent_model)

    assert (result.status, result.why) == ("passed", "")


def test_an_agent_that_does_the_wrong_thing_fails(tau2, tmp_path):
    task = tau2("mock").tasks()[0]
    wrong = {"name": "create_task", "arguments": {"user_id": "user_1", "title": "Other"}}
    agent_model, user_model = scripts({"actions": [wrong], "outputs": []}, tmp_path)

    result = played(tau2("mock", user_model=user_model), task, agent_model)

    assert result.status == "failed"
    assert "database" in result.why


def test_the_oracle_passes_and_nothing_gets_what_the_rule_gives(tau2):
    benchmark = tau2("airline", limit=4)

    passed = [
        Harness(benchmark=benchmark, agent=create_submitter(name, {})).run().pass_rate
        for name in ("oracle", "nop")
    ]

    assert passed == [1.0, 0.75]


def test_tasks_that_ask_for_nothing_are_known_from_the_data(tau2, tau):
    asking_nothing = {
        name: sum(map(benchmark.nothing_is_right, benchmark.tasks()))
        for name, benchmark in (("tau2", tau2("airline")), ("tau", tau("airline")))
    }

    assert asking_nothing == {"tau2": 23, "tau": 19}  # as many as an idle agent passes


def graded(benchmark, task, output: str) -> Verdict:
    return benchmark.grade(task, benchmark.extract(task, output), NO_ENVIRONMENT)


def test_stored_outputs(tau2):
    benchmark = tau2("mock")
    task = benchmark.tasks()[0]
    gold = json.dumps(benchmark._gold_content(task))

    assert graded(benchmark, task, gold).passed
    assert graded(benchmark, task, f"Here it is:\n```json\n{gold}\n```").passed
    assert not graded(benchmark, task, '{"actions": []}').passed
    assert benchmark.evaluate(task, gold, NO_ENVIRONMENT) is True


@pytest.mark.parametrize("domain", ["airline", "mock"])
def test_plain_text_never_passes(tau2, domain):
    benchmark = tau2(domain)
    for task in benchmark.tasks()[:5]:
        gold = benchmark._gold_content(task)
        names = ", ".join(action["name"] for action in gold["actions"])
        verdict = graded(benchmark, task, f"I did {names}. {' '.join(gold['outputs'])}")

        assert not verdict.passed


@pytest.mark.parametrize("version", ["tau", "tau2"])
def test_hostile_answers_fail_where_gold_is_more_than_nothing(tau, tau2, version):
    benchmark = (tau if version == "tau" else tau2)("airline")
    tasks = [t for t in benchmark.tasks() if benchmark.mutants(t) and any(benchmark.mutants(t))]

    for task in tasks[:3]:
        for name, submission in benchmark.attacks(task):
            assert not benchmark.grade(task, submission, NO_ENVIRONMENT).passed, name
        for mutant in benchmark.mutants(task):
            assert not benchmark.grade(task, mutant, NO_ENVIRONMENT).passed


def test_an_environment_of_the_users_own_decides(tau):
    class Own(NoEnvironment):
        def evaluate_task(self, task, output):
            return {"reward": 1.0 if output == "right" else 0.5}

    benchmark = tau("airline")
    task = benchmark.tasks()[0]

    right = benchmark.grade(task, benchmark.extract(task, "right"), Own())
    half = benchmark.grade(task, benchmark.extract(task, "wrong"), Own())

    assert (right.passed, half.passed, half.score) == (True, False, 0.5)


def test_statements_without_a_judge_are_an_error(tau2):
    benchmark = tau2("retail")
    task = next(t for t in benchmark.tasks() if t["row"]["evaluation_criteria"]["nl_assertions"])

    with pytest.raises(GraderError, match="judge_model"):
        benchmark.grade(task, benchmark.gold(task), NO_ENVIRONMENT)


@pytest.mark.parametrize("reply", ["yes, all met", '{"results": []}', '{"results": [{}]}'])
def test_a_judge_that_does_not_judge_is_an_error(tau2, tmp_path, reply):
    script = tmp_path / "judge.json"
    script.write_text(json.dumps([reply]))
    benchmark = tau2("retail", judge_model=f"scripted/{script}")
    task = next(t for t in benchmark.tasks() if t["row"]["evaluation_criteria"]["nl_assertions"])

    with pytest.raises(GraderError, match="judge"):
        benchmark.grade(task, benchmark.gold(task), NO_ENVIRONMENT)


def official_file(tmp_path: Path, **changes: object) -> Path:
    call = {
        "id": "c1",
        "name": "create_task",
        "arguments": {"user_id": "user_1", "title": "Embedded"},
        "requestor": "assistant",
    }
    result = '{"task_id": "task_2", "title": "Embedded", "description": null, "status": "pending"}'
    messages = [
        {"role": "assistant", "content": "Hi! How can I help you today?", "tool_calls": None},
        {"role": "user", "content": "Please make a task."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "id": "c1", "content": result, "requestor": "assistant", "error": False},
        {"role": "user", "content": "###STOP###"},
    ]
    action = {"name": "create_task", "arguments": call["arguments"], "action_id": "a"}
    embedded = {"id": "mine", "evaluation_criteria": {"actions": [action]}, "user_scenario": {}}
    simulation = {"task_id": "mine", "messages": messages, "termination_reason": "user_stop"}
    simulation["reward_info"] = {"reward": 1.0}
    content = {
        "info": {"environment_info": {"domain_name": "mock"}},
        "tasks": [embedded],
        "simulations": [simulation, {**simulation, "termination_reason": "max_steps"}],
        **changes,
    }
    path = tmp_path / "results.json"
    path.write_text(json.dumps(content))
    return path


def test_official_result_files_are_graded_against_their_own_tasks(tau2, tmp_path):
    benchmark = tau2("mock")

    verdicts = [
        benchmark.grade(p.task, p.submission, NO_ENVIRONMENT)
        for p in benchmark.read_predictions(official_file(tmp_path))
    ]

    assert [verdict.passed for verdict in verdicts] == [True, False]
    assert [verdict.metrics["recorded_reward"] for verdict in verdicts] == [1.0, 1.0]


def test_an_answer_quotes_no_result_file(tau2, tmp_path):
    """Quoted gold actions can be an error, and a quoted reward is shown: neither is an answer."""
    benchmark = tau2("mock")
    task = benchmark.tasks()[0]
    quoted = {"actions": [], "quoted_actions": [{"name": "x"}], "recorded_reward": 1.0}
    path = tmp_path / "predictions.jsonl"
    path.write_text(
        "\n".join(
            json.dumps({"task_id": task["id"], **each})
            for each in (quoted, {"output": quoted}, {"output": json.dumps(quoted)})
        )
    )

    for prediction in benchmark.read_predictions(path):
        verdict = benchmark.grade(task, prediction.submission, NO_ENVIRONMENT)
        assert not verdict.passed
        assert "recorded_reward" not in verdict.metrics


def test_a_result_file_of_another_domain_is_refused(tau2, tmp_path):
    path = official_file(tmp_path, info={"environment_info": {"domain_name": "retail"}})

    with pytest.raises(DatasetError, match="domain=retail"):
        list(tau2("mock").read_predictions(path))


def test_rows_with_actions_or_outputs_are_predictions(tau2, tmp_path):
    benchmark = tau2("mock")
    gold = benchmark._gold_content(benchmark.tasks()[0])
    lines = [
        {"task_id": "create_task_1", **gold},
        {"task_id": "create_task_1", "output": json.dumps(gold)},
        {"task_id": "create_task_1", "output": gold},
        {"task_id": "create_task_1", "output": "create_task"},
    ]
    path = tmp_path / "predictions.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))

    task = benchmark.tasks()[0]
    passed = [
        benchmark.grade(task, p.submission, NO_ENVIRONMENT).passed
        for p in benchmark.read_predictions(path)
    ]

    assert passed == [True, True, True, False]


def test_old_result_files(tau, tmp_path):
    benchmark = tau("airline")
    task = next(t for t in benchmark.tasks() if not any(benchmark.mutants(t)))
    trajectory = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": " ".join(task["row"]["outputs"])},
        {"role": "user", "content": "###STOP###"},
    ]
    entry = {"task_id": int(task["id"]), "traj": trajectory, "info": {"task": dict(task["row"])}}
    path = tmp_path / "old.json"
    path.write_text(json.dumps([entry, {**entry, "traj": trajectory[:-1]}]))

    passed = [
        benchmark.grade(p.task, p.submission, NO_ENVIRONMENT).passed
        for p in benchmark.read_predictions(path)
    ]

    assert passed == [True, False]


def test_what_follows_the_end_of_an_episode_was_never_done(tau):
    tau = tau("retail")
    task = next(t for t in tau.tasks() if not tau.nothing_is_right(t))
    gold = tau.gold(task).data
    end = {"name": "transfer_to_human_agents", "arguments": {"summary": "x"}}
    said = [{"role": "user", "content": "Bye. ###STOP###"}]
    calls = [{"id": str(n), **action} for n, action in enumerate(gold["actions"])]
    made = [{"role": "assistant", "content": None, "tool_calls": [call]} for call in calls]

    def passes(**data):
        return tau.grade(task, handed_in({**gold, **data}), NoEnvironment()).passed

    assert passes()
    assert passes(actions=[*gold["actions"], end])
    assert not passes(actions=[end, *gold["actions"]])
    del gold["actions"]
    spoken = [{"role": "assistant", "content": text} for text in gold["outputs"]]
    assert passes(messages=[*made, *spoken, *said])
    assert not passes(messages=[*spoken, *said, *made])


def test_a_recording_that_differs_here_is_nobodys_failure(tau2, tmp_path):
    tau2 = tau2("mock")
    task = tau2.tasks()[0]
    talk = tau2._gold_content(task)["actions"]
    messages = []
    for number, action in enumerate(talk):
        call = {"id": str(number), **action}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "id": str(number), "content": '{"created": "long ago"}'})
    data = {"messages": messages, "termination_reason": "user_stop"}

    with pytest.raises(DatasetError, match="another world"):
        tau2.grade(task, handed_in(data), NoEnvironment())
    with pytest.raises(GraderError, match="another world"):
        tau2.grade(task, tau2.extract(task, json.dumps(data)), NoEnvironment())


def test_a_verdict_says_that_a_result_file_brings_another_task(tau2, tmp_path):
    tau2 = tau2("mock")
    task = tau2.tasks()[0]
    row, other = task["row"], json.loads(json.dumps(task["row"]))
    other["evaluation_criteria"] |= {
        "actions": [],
        "reward_basis": ["DB"],
        "communicate_info": None,
    }
    dumped = {**row, "ticket": None}
    for tasks, marked in (([dumped], False), ([other], True)):
        simulation = {"task_id": task["id"], "messages": [], "termination_reason": "user_stop"}
        file = tmp_path / "results.json"
        file.write_text(json.dumps({"tasks": tasks, "simulations": [simulation]}))
        ((found),) = tau2.read_predictions(file)

        verdict = tau2.grade(found.task, found.submission, NoEnvironment())

        assert verdict.metrics.get("own_task", False) is marked
        assert verdict.passed is marked


@pytest.mark.parametrize(
    "changes",
    [
        {"evaluation_criteria": "x"},
        {"evaluation_criteria": {"actions": [1]}},
        {"evaluation_criteria": {"actions": 5}},
        {"evaluation_criteria": {"env_assertions": ["x"]}},
        {"evaluation_criteria": {"reward_basis": 5}},
        {"evaluation_criteria": {"reward_basis": [[]]}},
        {"initial_state": {"message_history": [5]}},
        {"initial_state": [1]},
    ],
)
def test_a_task_that_cannot_be_read_is_its_own_trials_fault(tau2, tmp_path, changes):
    tau2 = tau2("mock")
    row, other = (dict(task["row"]) for task in tau2.tasks()[:2])
    talk = {"messages": [], "termination_reason": "user_stop"}
    simulations = [{"task_id": each["id"], **talk} for each in (row, other)]
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"tasks": [{**row, **changes}, other], "simulations": simulations}))

    broken, whole = tau2.read_predictions(file)

    assert broken.submission.data["own_task"] is True
    assert "own_task" not in whole.submission.data


def test_an_episodes_task_that_cannot_be_read_is_its_own_trials_fault(tau, tmp_path):
    entry = {"task_id": 0, "traj": [], "info": {"task": {"actions": [1]}}}
    file = tmp_path / "episodes.json"
    file.write_text(json.dumps([entry]))

    (found,) = tau("airline").read_predictions(file)

    assert found.submission.data["own_task"] is True


def test_a_verdict_says_that_the_data_set_has_no_such_task(tau2, tmp_path):
    tau2 = tau2("mock")
    ((_, found),) = [tau2.read_predictions(official_file(tmp_path))]

    verdict = tau2.grade(found.task, found.submission, NoEnvironment())

    assert verdict.metrics["own_task"] is verdict.metrics["unknown_task"] is True
    assert "which the data set does not have" in verdict.why


def test_tasks_of_a_result_file_without_an_id_are_named(tau2, tmp_path):
    with pytest.raises(DatasetError, match="no objects with an id"):
        list(tau2("mock").read_predictions(official_file(tmp_path, tasks=[5])))


def test_values_can_be_sent_to_other_processes(tau2):
    benchmark = tau2("mock")

    again = pickle.loads(pickle.dumps(benchmark))

    assert again.tasks() == benchmark.tasks()
    assert again.options() == benchmark.options()


def test_splits_and_domains_that_do_not_exist_are_named(tau2, tau):
    with pytest.raises(DatasetError, match="no split 'night'"):
        tau2("telecom", split="night").tasks()
    with pytest.raises(UsageError, match="domain must be airline or retail, got 'telecom'"):
        tau("telecom").tasks()
    assert len(tau2("telecom").tasks()) == 114
    assert len(tau2("banking").tasks()) == 97


def test_the_command_prints_a_table(tau2, tmp_path, capsys):
    task = tau2("mock").tasks()[0]
    agent_model, user_model = scripts(tau2("mock")._gold_content(task), tmp_path)
    place = str(tau2("mock").dataset_path)
    shared = ["--benchmark", "tau2-bench", "--domain", "mock", "--limit", "1", "--no-color"]
    shared += ["--runs-dir", str(tmp_path)]

    code = main([*shared, "--dataset", place, "--model", agent_model, "--user-model", user_model])

    assert code == 0
    printed = capsys.readouterr().out
    assert "100.0% passed (1 of 1" in printed
    assert "\x1b[" not in printed


def test_without_the_data_set_the_command_says_how_to_get_it(tmp_path, capsys):
    code = main(["--dataset", str(tmp_path / "none"), "--model", "scripted/echo", "--no-color"])

    assert code == 2
    said = capsys.readouterr().err
    assert "no dataset for 'tau-bench'" in said
    assert "CHIMERA_TAU_BENCH_PATH" in said


def test_the_environment_offers_tools_and_policy(tau2):
    benchmark = tau2("telecom")
    env = benchmark.open_environment(benchmark.tasks()[0], start)

    names = {tool.name for tool in env.tools()}

    assert "enable_roaming" in names
    assert "toggle_roaming" not in names  # the user's
    assert "<tech_support_policy>" in env.system_prompt
    assert Submission().data is None


def test_a_bank_without_the_official_texts_says_so(tau2):
    bank, airline = tau2("banking"), tau2("airline")

    assert "differ from the official ones" in bank.notes()[0]
    assert bank.options()["tool_texts"] == "own"
    assert airline.notes() == ()
    assert "tool_texts" not in airline.options()


def simulations(benchmark, **info):
    task = benchmark.tasks()[1]
    gold = task["row"]["evaluation_criteria"]["actions"]
    entry = {
        "task_id": task["id"],
        "messages": [{"role": "assistant", "content": "Hello."}],
        "termination_reason": "user_stop",
        "reward_info": {"reward": 0.0, "action_checks": [{"action": a} for a in gold]},
    }
    return {"info": info, "tasks": [task["row"]], "simulations": [entry]}


def test_quoted_gold_actions_that_the_task_does_not_have_are_an_error(tau2, tmp_path):
    benchmark = tau2("retail")
    content, file = simulations(benchmark), tmp_path / "results.json"
    file.write_text(json.dumps(content))
    (agreeing,) = benchmark.read_predictions(file)
    checks = content["simulations"][0]["reward_info"]["action_checks"]
    checks[0]["action"] = {**checks[0]["action"], "arguments": {"order_id": "#W0"}}
    file.write_text(json.dumps(content))
    (contradicting,) = benchmark.read_predictions(file)

    assert not benchmark.grade(agreeing.task, agreeing.submission, NO_ENVIRONMENT).passed
    with pytest.raises(DatasetError, match="gold actions that its task does not have"):
        benchmark.grade(contradicting.task, contradicting.submission, NO_ENVIRONMENT)


def test_solo_mode_is_refused_by_name(tau2, tmp_path):
    benchmark, file = tau2("telecom"), tmp_path / "results.json"
    file.write_text(
        json.dumps(simulations(benchmark, agent_info={"implementation": "llm_agent_solo"}))
    )
    ticket = {**benchmark.tasks()[0]}
    ticket["row"] = {**ticket["row"], "ticket": "No service.", "user_scenario": None}

    with pytest.raises(DatasetError, match="solo mode"):
        list(benchmark.read_predictions(file))
    with pytest.raises(DatasetError, match="solo mode"):
        benchmark.open_environment(ticket, start)
