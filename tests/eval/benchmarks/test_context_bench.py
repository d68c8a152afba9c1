"""Context-Bench: real questions over the real files, and what counts as an answer."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator

import pytest

from chimera.agents import create_agent
from chimera.environments.local import LocalEnvironment
from chimera.environments.none import NoEnvironment
from chimera.errors import DatasetError, GraderError, UsageError
from chimera.eval.benchmarks.context_bench import (
    TOOL_GRADERS,
    ContextBench,
    ContextTask,
    _artefacts,
)
from chimera.eval.harness import Harness
from chimera.eval.values import Submission
from chimera.types import AgentResult


@pytest.fixture
def bench(dataset):
    return lambda **options: ContextBench(dataset("context-bench"), **options)


@pytest.mark.parametrize(
    ("truth", "reply", "exact", "contains", "regex"),
    [
        ("Linda Robbins", "Linda Robbins", 1, 1, 1),
        ("Linda Robbins", "linda robbins", 0, 1, 0),
        ("Linda Robbins", "The answer is **Linda Robbins**.", 0, 1, 1),
        ("Linda Robbins", "Linda  Robbins", 0, 0, 0),
        ("Linda Robbins", " Linda Robbins\n", 1, 1, 1),
        ("4", "14", 0, 1, 1),
        ("145315.33", "$145,315.33", 0, 0, 0),
        ("a.c", "abc", 0, 0, 1),
        ("(", "x", 0, 0, 0),
        ("", "", 0, 0, 0),
    ],
)
def test_built_in_graders_give_the_official_scores(truth, reply, exact, contains, regex):
    scores = {name: grade(truth, reply) for name, grade in TOOL_GRADERS.items()}

    assert scores == {"exact_match": exact, "contains": contains, "regex_match": regex}


def test_every_gold_answer_passes_and_every_perturbed_one_fails(bench):
    benchmark = bench()
    tasks = benchmark.tasks()

    gold = [benchmark.grade(task, benchmark.gold(task), NoEnvironment()) for task in tasks]
    mutants = [
        benchmark.grade(task, mutant, NoEnvironment())
        for task in tasks
        for mutant in benchmark.mutants(task)
    ]

    assert len(tasks) == 100
    assert all(verdict.passed and verdict.metrics["decided_by"] == "exact" for verdict in gold)
    assert len(mutants) == 300
    assert not any(verdict.passed for verdict in mutants)


def test_hostile_answers_do_not_pass(bench):
    benchmark = bench()
    task = benchmark.tasks()[0]

    verdicts = {
        name: benchmark.grade(task, submission, NoEnvironment()).passed
        for name, submission in benchmark.attacks(task)
    }

    assert verdicts
    assert not any(verdicts.values())


def test_an_agent_answers_with_the_real_tools(bench, tmp_path):
    benchmark = bench()
    task = next(t for t in benchmark.tasks() if t["truth"] == "Tammy Roberts")
    script = tmp_path / "agent.json"
    script.write_text(
        json.dumps(
            [
                {
                    "content": "",
                    "tool_calls": [
                        {
                            "name": "grep_files",
                            "arguments": {"pattern": "Dawn", "include": "pets.txt"},
                        }
                    ],
                },
                {
                    "content": "",
                    "tool_calls": [
                        {
                            "name": "open_files",
                            "arguments": {"file_requests": [{"file_name": "people.txt"}]},
                        }
                    ],
                },
                "It is Tammy Roberts.",
            ]
        )
    )
    agent = create_agent("react", model=f"scripted/{script}")

    (result,) = Harness(benchmark=benchmark, agent=agent, tasks=[task]).run().results

    assert (result.status, result.steps) == ("passed", 3)
    assert result.metrics["decided_by"] == "rule"


def test_the_tools_show_windows_and_matches_of_the_real_files(bench):
    benchmark = bench()
    env = benchmark.open_environment(benchmark.tasks()[0], lambda spec: NoEnvironment())
    opened, grep = env.tools()

    listing = opened.execute({}, env).output
    window = opened.execute({"file_requests": [{"file_name": "people.txt", "offset": 4}]}, env)
    wrong = opened.execute({"file_requests": [{"file_name": "../people.txt"}]}, env)
    found = grep.execute({"pattern": r"^### Robert Smith \(", "include": "people.txt"}, env)
    broken = grep.execute({"pattern": "("}, env)
    many = grep.execute({"pattern": "pers-", "offset": 50}, env)

    assert listing.count("\n") == 9
    assert window.output.startswith("[people.txt, lines 4 to ")
    assert len(window.output) < 8200
    assert wrong.output.startswith("Error: no file '../people.txt'")
    assert "people.txt:1: ### Robert Smith (ID: pers-0001)" in found.output
    assert broken.error is not None
    assert many.output.startswith("[matches: 51 to 100 of ")


def test_open_replies_go_to_the_judge_and_need_one(bench, tmp_path):
    script = tmp_path / "judge.json"
    task = bench().tasks()[0]
    reply = Submission(text="Linda Robbins and Tammy Roberts both fit")

    with pytest.raises(GraderError, match="judge_model"):
        bench().grade(task, reply, NoEnvironment())
    scores = {}
    for answer in ('{"score": 1.0, "rationale": "a"}', '{"score": 0.5}', '{"score": 7}', "1.0"):
        script.write_text(json.dumps([answer]))
        judged = bench(judge_model=f"scripted/{script}")
        try:
            verdict = judged.grade(task, reply, NoEnvironment())
            scores[answer] = (verdict.passed, verdict.score, verdict.metrics["decided_by"])
        except GraderError:
            scores[answer] = "error"

    assert list(scores.values()) == [(True, 1.0, "judge"), (False, 0.5, "judge"), "error", "error"]


@pytest.fixture
def workspace() -> Iterator[LocalEnvironment]:
    with LocalEnvironment() as env:
        env.write_file("sample-0/art.html", b"<p>")
        env.write_file("secret/key", b"y")
        yield env


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        ("./sample-0", ["sample-0/art.html"]),
        ("/somewhere/sample-0/", ["sample-0/art.html"]),
        ("/etc", []),
        ("sample-0/..", []),
        (None, []),
    ],
)
def test_only_the_tasks_own_directory_is_handed_in(workspace, stated, found):
    assert list(_artefacts(workspace, "sample-0", stated)) == found


def test_skills_are_judged_by_their_rubrics(bench, tmp_path, workspace):
    script = tmp_path / "judge.json"
    script.write_text(json.dumps(['{"score": 1.0, "rationale": "complete"}']))
    benchmark = bench(suite="skills", variant="use", judge_model=f"scripted/{script}")
    task: ContextTask = benchmark.tasks()[0]
    result = AgentResult('```json\n{"sandbox_path": "./sample-0", "skills": ["a"]}\n```')

    done = benchmark.collect(task, result, workspace)
    nothing = benchmark.collect(task, AgentResult("done"), workspace)

    assert len(benchmark.tasks()) == 100
    assert "{pwd}" not in task["prompt"]
    assert benchmark.grade(task, done, NoEnvironment()).passed
    assert not benchmark.grade(task, nothing, NoEnvironment()).passed
    with pytest.raises(GraderError):
        bench(suite="skills").grade(task, done, NoEnvironment())


def test_suite_and_data_files_of_letta_evals_load_as_they_are(tmp_path):
    (tmp_path / "data.jsonl").write_text(
        '{"input": "2+2?", "ground_truth": "4"}\n{"prompt": "3+3?", "ground_truth": "6"}\n'
    )
    (tmp_path / "suite.yaml").write_text(
        "name: sums\ndataset: data.jsonl\ntarget: {kind: letta_code}\n"
        "graders: {right: {kind: tool, function: exact_match, extractor: last_assistant}}\n"
        "reward: {kind: metric, metric_key: right}\n"
    )
    benchmark = ContextBench(tmp_path / "suite.yaml")

    verdicts = [
        benchmark.grade(task, Submission(text=" 4"), NoEnvironment()) for task in benchmark.tasks()
    ]

    assert [task["prompt"] for task in benchmark.tasks()] == ["2+2?", "3+3?"]
    assert [verdict.passed for verdict in verdicts] == [True, False]
    assert verdicts[0].metrics["decided_by"] == "exact_match"


def test_wrong_options_and_missing_data_are_named(tmp_path):
    with pytest.raises(UsageError, match="suite must be filesystem or skills, got 'music'"):
        ContextBench(suite="music")
    with pytest.raises(UsageError, match="variant must be cloud or code in the suite filesystem"):
        ContextBench(variant="use")
    with pytest.raises(DatasetError, match="CHIMERA_CONTEXT_BENCH_PATH"):
        ContextBench(tmp_path).tasks()


def test_a_benchmark_can_be_sent_to_other_processes(bench):
    benchmark = bench()

    assert pickle.loads(pickle.dumps(benchmark)).tasks() == benchmark.tasks()
