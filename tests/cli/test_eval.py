"""`chimera eval`, `bench`, `grade`, `runs`, `compare`: the whole way, with a scripted model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

TASKS = [
    {"id": "capital", "prompt": "Capital of France?", "expected": "Paris"},
    {"id": "year", "prompt": "A year?", "regex": r"\b\d{4}\b"},
    {"id": "short", "prompt": "Be short.", "python_check": "def check(r): return len(r) < 10"},
]


@pytest.fixture
def tasks(tmp_path):
    folder = tmp_path / "tasks"
    folder.mkdir()
    for task in TASKS:
        (folder / f"{task['id']}.json").write_text(json.dumps(task))
    return folder


def test_eval_and_bench_give_the_same_verdicts(chimera, tasks, tmp_path):
    model = ["--model", "scripted/text:Paris"]
    first = chimera(
        "eval", "--benchmark", "custom", "--dataset", tasks, *model, "--output", tmp_path / "a.json"
    )
    second = chimera(
        "bench", "--suite", "custom", "--tasks-dir", tasks, *model, "--output", tmp_path / "b.json"
    )
    results = [
        {(r["task_id"], r["status"]) for r in json.loads((tmp_path / f).read_text())["results"]}
        for f in ("a.json", "b.json")
    ]

    assert (first.code, second.code) == (0, 0)
    assert results[0] == results[1]
    assert results[0] == {("capital", "passed"), ("year", "failed"), ("short", "passed")}


def test_the_output_document(chimera, tasks, tmp_path):
    out = tmp_path / "deep" / "out.json"
    chimera("eval", "-b", "custom", "--dataset", tasks, "-m", "scripted/text:1999", "--output", out)
    document = json.loads(out.read_text())

    assert {
        *("benchmark", "dataset", "model", "agent", "total", "passed", "failed", "errored"),
        *("pass_rate", "interval", "total_cost", "usage", "run", "results"),
    } <= document.keys()
    assert document["model"] == "scripted/text:1999"
    assert document["dataset"]["path"] == str(tasks)
    assert {
        *("task_id", "sample", "status", "passed", "score", "why", "output", "cost", "steps"),
        *("duration", "metrics"),
    } <= document["results"][0].keys()


def test_json_events_and_the_gate(chimera, tasks):
    ran = chimera(
        *("eval", "-b", "custom", "--dataset", tasks, "-m", "scripted/text:Paris"),
        *("--json", "--fail-under", "0.9"),
    )
    events = [json.loads(line) for line in ran.out.splitlines()]

    assert ran.code == 1
    assert [e["event"] for e in events] == ["planned", "trial", "trial", "trial", "summary"]
    assert events[-1]["passed"] == 2


def test_settings_come_from_toml_and_variables_and_flags_win(chimera, tasks, tmp_path, monkeypatch):
    (tmp_path / "c.toml").write_text(
        f'benchmark = "custom"\ndataset = "{tasks}"\nmodel = "scripted/text:Paris"\nsamples = 2\n'
    )
    monkeypatch.setenv("CHIMERA_LIMIT", "1")
    ran = chimera("eval", "--config", "c.toml", "--samples", "3", "--dry-run")

    assert ran.code == 0
    assert "1 tasks × 3 samples" in ran.out
    (tmp_path / "bad.toml").write_text("sampels = 2\n")
    assert "unknown key 'sampels'" in chimera("eval", "--config", "bad.toml").err


def test_a_task_without_a_check_is_refused(chimera, tasks):
    (tasks / "z.json").write_text('{"id": "z", "prompt": "hello"}')
    ran = chimera("eval", "-b", "custom", "--dataset", tasks, "-m", "scripted/text:x")

    assert ran.code == 2
    assert "task 'z' has no check" in ran.err


def test_a_benchmark_of_ones_own_by_import_path(chimera, tmp_path, monkeypatch):
    (tmp_path / "my_mod.py").write_text(
        textwrap.dedent(
            """
            from chimera.eval.harness import Benchmark

            class MyBench(Benchmark):
                def name(self): return "mine"
                def tasks(self): return [{"id": "a", "prompt": "say a"}, {"id": "b", "prompt": "b"}]
                def evaluate(self, task, agent_output, env): return agent_output == task["id"]
            """
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    ran = chimera("eval", "--benchmark", "my_mod:MyBench", "--model", "scripted/text:a", "--json")

    assert ran.code == 0
    assert json.loads(ran.out.splitlines()[-1])["pass_rate"] == 0.5


def test_a_benchmark_by_entry_point(chimera, tmp_path, monkeypatch):
    (tmp_path / "plug.py").write_text(
        "from chimera.eval.harness import Benchmark\n"
        "class Plug(Benchmark):\n"
        "    def name(self): return 'plug'\n"
        "    def tasks(self): return [{'id': 'a', 'prompt': 'x'}]\n"
        "    def evaluate(self, task, agent_output, env): return True\n"
    )
    info = tmp_path / "plug-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[chimera.benchmarks]\nplugged = plug:Plug\n")
    monkeypatch.syspath_prepend(tmp_path)
    ran = chimera("eval", "--benchmark", "plugged", "--agent", "nop", "--json")

    assert ran.code == 0
    assert json.loads(ran.out.splitlines()[-1])["passed"] == 1
    assert "plugged" in chimera("benchmarks").out


def test_grade_takes_answers_as_they_are_and_extracts_from_replies(chimera, tmp_path):
    body = "    return x + y\n"
    lines = [
        {"task_id": "HumanEval/53", "completion": body},
        {"task_id": "HumanEval/53", "completion": "return x + y"},
        {"task_id": "HumanEval/53", "solution": f"def add(x, y):\n{body}"},
        {"task_id": "HumanEval/53", "output": f"Sure:\n```python\ndef add(x, y):\n{body}```\n"},
        {"id": "HumanEval/53", "output": "I cannot."},
    ]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = chimera(
        *("grade", "--benchmark", "human-eval", "--predictions", "p.jsonl"),
        *("--output", "out.json"),
    )
    results = json.loads((tmp_path / "out.json").read_text())["results"]

    assert ran.code == 0
    by_sample = [r["status"] for r in sorted(results, key=lambda r: r["sample"])]
    assert by_sample == ["passed", "failed", "passed", "passed", "failed"]
    assert chimera("grade", "latest", "--check").code == 0


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"completion": "x"}', "no task id"),
        ('{"task_id": "HumanEval/0"}', "no answer"),
        ('{"task_id": "HumanEval/999", "completion": ""}', "has no task"),
        ('{"task_id": "HumanEval/0", "completion": 5}', "not a string"),
        ('{"task_id": ', "p.jsonl:1: not valid JSON"),
        ("", "no predictions"),
    ],
)
def test_bad_predictions_are_refused(chimera, tmp_path, line, says):
    (tmp_path / "p.jsonl").write_text(line + "\n")
    ran = chimera("grade", "--benchmark", "human-eval", "--predictions", "p.jsonl")

    assert ran.code == 2
    assert says in ran.err


def test_a_changed_verdict_is_found_by_check(chimera, tasks):
    chimera("eval", "-b", "custom", "--dataset", tasks, "-m", "scripted/text:Paris")
    assert chimera("grade", "latest", "--check").code == 0
    (tasks / "capital.json").write_text(json.dumps({**TASKS[0], "expected": "London"}))
    ran = chimera("grade", "latest", "--check")

    assert ran.code == 1
    assert "changed: capital#0 passed → failed" in ran.out
    assert chimera("grade", "latest").code == 0
    assert "1 of 3" in chimera("runs", "show", "latest").out


def test_errors_are_told_apart_and_exit_3(chimera, tasks, tmp_path):
    (tmp_path / "s.json").write_text("[]")
    ran = chimera(
        *("eval", "-b", "custom", "--dataset", tasks, "--retries", "0"),
        *("--agent", "command:exit 3", "--environment", "local"),
    )

    assert ran.code == 3
    assert "no verdicts: 3 errors" in ran.out


def test_runs_and_compare(chimera, tasks, tmp_path):
    for text in ("Paris", "in 1999"):
        chimera("eval", "-b", "custom", "--dataset", tasks, "-m", f"scripted/text:{text}")
    listed = json.loads(chimera("runs", "list", "--json").out)
    first, second = (row["run"] for row in listed)
    compared = json.loads(chimera("compare", first, second, "--json").out)

    paired = compared["pairs"][0]["paired"]
    assert (paired["only_first"], paired["only_second"]) == (["capital"], ["year"])
    shown = chimera("runs", "show", first, "capital")
    assert "Capital of France?" in shown.out
    exported = chimera("runs", "export", first, "--format", "predictions").out.splitlines()
    assert {json.loads(line)["output"] for line in exported} == {"Paris"}
    atif = chimera("runs", "export", first, "--format", "atif", "--output", tmp_path / "atif")
    assert atif.code == 0
    assert len(list((tmp_path / "atif").glob("*.json"))) == 3
    assert chimera("runs", "rm", first).code == 0
    assert len(json.loads(chimera("runs", "list", "--json").out)) == 1


def test_errors_count_as_not_passed_in_compare(chimera, tasks, tmp_path):
    made = ("eval", "-b", "custom", "--dataset", tasks, "--retries", "0")
    chimera(*made, "-m", "scripted/text:Paris")
    chimera(*made, "--agent", "command:exit 3", "--environment", "local")
    first, second = (row["run"] for row in json.loads(chimera("runs", "list", "--json").out))
    compared = json.loads(chimera("compare", first, second, "--json").out)

    paired = compared["pairs"][0]["paired"]
    assert (compared["tasks"], paired["second_rate"]) == (3, 0.0)
    assert paired["only_first"] == ["capital", "short"]


def test_ctrl_c_stores_what_is_done_and_resume_finishes(tmp_path):
    tasks = [{"id": f"t{i}", "prompt": "x", "regex": "x"} for i in range(30)]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    (tmp_path / "slow.py").write_text(
        "import time\nfrom chimera.types import AgentResult\n"
        "class Slow:\n"
        "    def run(self, prompt, env):\n"
        "        time.sleep(0.2)\n        return AgentResult(prompt)\n"
    )
    command = [
        *(sys.executable, "-m", "chimera", "eval", "-b", "custom", "--dataset", "tasks.json"),
        *("--agent", "slow:Slow", "--concurrency", "2"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)}
    interruptible = ["env", "--default-signal=INT"]  # whatever started the tests ignores
    process = subprocess.Popen(
        [*interruptible, *command], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    for line in process.stderr:
        if line.startswith("[4/"):
            break
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=30)[1]

    assert process.returncode == 130
    assert "chimera eval --resume" in said
    done = subprocess.run(
        [*command[:4], "--resume", "latest", "--json"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert events[0]["done"] >= 4
    assert events[-1]["passed"] == 30


def test_a_benchmark_with_an_environment_of_its_own_takes_any_agent(chimera, dataset):
    dataset("tau2-bench")
    ran = chimera(
        "eval",
        "-b",
        "tau2-bench",
        "-o",
        "domain=mock",
        "-o",
        "user_model=scripted/echo",
        "-m",
        "scripted/text:x",
        "--dry-run",
    )

    assert ran.code == 0
    assert "agent        react" in ran.out
    assert "environment  none" in ran.out
