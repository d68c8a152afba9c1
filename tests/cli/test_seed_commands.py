"""The first description's commands and calls, as they stand there."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import threading
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from chimera.errors import DatasetError
from chimera.eval.benchmarks import (
    ContextBench,
    LiveCodeBench,
    SWEBenchConfig,
    SWEPolyBench,
    TauBench,
)
from chimera.eval.door import main_for
from chimera.eval.harness import Harness
from chimera.eval.registry import adapters
from chimera.eval.submitters import create_submitter

ROOT = Path(__file__).parents[2]


@pytest.fixture
def embedded(monkeypatch):
    for variable in ("CHIMERA_MODEL", "ANTHROPIC_MODEL", "OPENAI_MODEL"):
        monkeypatch.delenv(variable, raising=False)


def test_a_preset_takes_the_options_of_eval_and_a_model_by_itself(chimera, dataset, embedded):
    dataset("aider-polyglot")
    command = ("shrew", "bench", "aider-polyglot", "--bench-limit", "5", "--language", "python")
    ran = chimera(*command, "--samples", "2", "--budget", "1", "--dry-run")

    assert ran.code == 0
    assert ran.err.splitlines()[0].startswith("no --model was given: local/smollm2 ")
    assert "agent        shrew" in ran.out
    assert "model        local/smollm2" in ran.out
    assert "trials       5 tasks × 2 samples" in ran.out
    assert "tasks        python/" in ran.out


@pytest.mark.parametrize("variable", ["CHIMERA_MODEL", "ANTHROPIC_MODEL", "OPENAI_MODEL"])
def test_the_default_model_is_configurable(chimera, embedded, monkeypatch, variable):
    monkeypatch.setenv(variable, "scripted/echo")
    ran = chimera("otter", "bench", "human-eval", "--bench-limit", "0", "--dry-run")

    assert "model        scripted/echo" in ran.out
    assert "trials       164 tasks × 1 samples" in ran.out


@pytest.mark.parametrize(
    ("domain", "benchmark"),
    [
        ("airline", "tau-bench"),
        ("retail", "tau-bench"),
        ("telecom", "tau2-bench"),
        ("banking", "tau2-bench"),
        ("mock", "tau2-bench"),
    ],
)
def test_every_domain_of_tau_bench(dataset, embedded, capsys, monkeypatch, domain, benchmark):
    for name in ("tau-bench", "tau2-bench"):
        dataset(name)
    monkeypatch.setattr(sys, "argv", ["tau_bench.py"])
    arguments = ["--limit", "3", "--domain", domain, "--dry-run"]
    code = main_for("tau-bench", "tau2-bench", arguments=arguments)
    said = capsys.readouterr()

    assert code == 0
    assert f"benchmark    {benchmark} " in said.out
    assert "'user_model': 'local/smollm2'" in said.out
    assert "trials       3 tasks × 1 samples" in said.out
    assert said.err.splitlines()[0] == (
        "no --model was given: local/smollm2, user model too (CHIMERA_MODEL names another)"
    )


@pytest.fixture
def staged(dataset, tmp_path, monkeypatch):
    """Task files as the first description stages them, and the tables in a directory a domain."""
    source = dataset("tau-bench")
    place = tmp_path / "datasets" / "tau-bench"
    place.mkdir(parents=True)
    (place / "airline.json").write_bytes((source / "airline" / "tasks.json").read_bytes())
    packed = (source / "retail" / "tasks_train.json.gz").read_bytes()
    (place / "retail_train.json").write_bytes(gzip.decompress(packed))
    monkeypatch.setenv("CHIMERA_DATASETS_DIR", str(tmp_path / "datasets"))

    def tables(domain):
        (place / domain).mkdir()
        for file in (source / domain).iterdir():
            if not file.name.startswith("tasks"):
                shutil.copy(file, place / domain)

    return place, tables


@pytest.mark.parametrize(
    ("domain", "split", "given"),
    [
        ("airline", "test", None),
        ("airline", "test", "airline.json"),
        ("retail", "train", None),
        ("retail", "train", "retail_train.json"),
    ],
)
def test_staged_tasks_and_a_file_of_tasks_are_graded(staged, domain, split, given):
    place, tables = staged
    with pytest.raises(DatasetError, match="without its database"):
        TauBench(domain=domain, split=split).tasks()
    tables(domain)
    bench = TauBench(place / given if given else None, 2, domain=domain, split=split)

    assert Harness(benchmark=bench, agent=create_submitter("oracle", {})).run().pass_rate == 1.0


def test_configurations_take_changes():
    assert SWEBenchConfig.for_lite(max_steps=50).max_steps == 50
    assert SWEBenchConfig.for_lite(max_steps=50).ipython is False
    assert SWEBenchConfig.for_verified(ipython=False).max_steps == 500


def test_livecodebench_by_the_short_name_and_by_dates():
    assert LiveCodeBench(scenario="testoutput").name() == "livecodebench:testoutputprediction"
    window = LiveCodeBench.rotated_window(model_cutoff=date(2024, 9, 1), months=3).settings
    assert (window.start_date[:10], window.end_date[:10]) == ("2024-09-01", "2024-11-30")


def test_context_bench_takes_questions_with_answers(tmp_path):
    rows = [{"question": "Who owns a dog?", "answer": "Alice"}, {"question": "And?", "answer": "B"}]
    (tmp_path / "own.json").write_text(json.dumps(rows))
    bench = ContextBench(tmp_path / "own.json")
    result = Harness(benchmark=bench, agent=create_submitter("oracle", {})).run()

    assert bench.tasks()[0]["prompt"] == "Who owns a dog?"
    assert (result.passed, result.total) == (2, 2)


def test_polybench_metrics_are_methods():
    def patch(name):
        return f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"

    task = {"patch": patch("x.py"), "modified_nodes": None}

    assert SWEPolyBench().localization_accuracy(task, patch("x.py"))["file_recall"] == 1.0
    assert SWEPolyBench().localization_accuracy(task, patch("y.py"))["file_recall"] == 0.0
    assert SWEPolyBench().cst_node_recall(task, patch("x.py"), {}, {}) is None


class Hub(BaseHTTPRequestHandler):
    """A hub with one data set of one file."""

    NAME, COMMIT = "data/lite-00000-of-00001.jsonl", "c" * 40
    CONTENT = json.dumps(
        {
            "instance_id": "a__b.lv1", "repo": "a/b", "base_commit": "1" * 40,
            "problem_statement": "p",
            "patch": "", "test_patch": "", "FAIL_TO_PASS": ["t.py"], "PASS_TO_PASS": [],
        }
    ).encode()  # fmt: skip

    def do_GET(self):
        if "/tree/" in self.path:
            file = {"type": "file", "path": self.NAME, "size": len(self.CONTENT), "oid": "e"}
            self._answer(json.dumps([file]).encode(), {"content-type": "application/json"})
        elif self.path.startswith("/api/"):
            siblings = [{"rfilename": self.NAME}, {"rfilename": "data/full.jsonl"}]
            about = {"id": "a/b", "sha": self.COMMIT, "siblings": siblings}
            self._answer(json.dumps(about).encode(), {"content-type": "application/json"})
        else:
            self._answer(self.CONTENT, {"etag": '"e"', "x-repo-commit": self.COMMIT})

    do_HEAD = do_GET

    def _answer(self, content, headers):
        self.send_response(200)
        for name, value in {**headers, "content-length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_): ...


def test_feature_bench_from_the_hub(tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    code = (
        "from chimera.eval.benchmarks import FeatureBench\n"
        "bench = FeatureBench.load_from_hub('LiberCoders/FeatureBench')\n"
        "print([task['id'] for task in bench.tasks()])\n"
    )
    variables = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HUB_OFFLINE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    server.shutdown()
    server.server_close()

    assert done.stdout == "['a__b.lv1']\n", done.stderr


def test_the_readme_beside_the_adapters_names_them_all():
    text = (ROOT / "chimera" / "eval" / "benchmarks" / "README.md").read_text()

    for slug, cls in adapters().items():
        assert f"`{cls.__name__}`" in text, slug
        assert f"`{cls.__module__.rpartition('.')[2]}.py`" in text, slug
