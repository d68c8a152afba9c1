"""FeatureBench: rows of both kinds, and a draft end to end."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from chimera.errors import DatasetError, UsageError
from chimera.eval.benchmarks.feature_bench import FeatureBench, reverse, summary
from chimera.eval.repositories import patches
from chimera.eval.trial import StartBackend
from chimera.eval.types import Verdict

REMOVES = """\
diff --git a/pkg/a.py b/pkg/a.py
--- a/pkg/a.py
+++ b/pkg/a.py
@@ -1,3 +1,1 @@
 one
-two
-three
diff --git a/tests/test_a.py b/tests/test_a.py
deleted file mode 100644
--- a/tests/test_a.py
+++ /dev/null
@@ -1 +0,0 @@
-def test_a(): pass
"""
ROW = {
    "instance_id": "owner__repo.12345678.test_a.abc.lv1",
    "repo": "owner/repo",
    "image_name": "image",
    "patch": REMOVES,
    "test_patch": REMOVES,
    "FAIL_TO_PASS": ["tests/test_a.py"],
    "PASS_TO_PASS": '["tests/test_b.py"]',
    "problem_statement": "Write it.",
    "repo_settings": json.dumps({"test_cmd": "pytest -q", "timeout_one": 7, "use_uv": True}),
}


def load(tmp_path, **changes):
    (tmp_path / "lite.jsonl").write_text(json.dumps({**ROW, **changes}))
    return FeatureBench(tmp_path).tasks()


def test_official_rows(tmp_path):
    (task,) = load(tmp_path)

    assert task["test_command"] == "uv run pytest -q"
    assert (task["timeout"], task["timeout_one"]) == (600.0, 7)
    assert task["pass_to_pass"] == ["tests/test_b.py"]
    assert task["test_patch_removes"]
    assert patches.paths(task["gold"]) == {"pkg/a.py"}
    assert "+two\n+three" in task["gold"]


def test_a_reversed_patch_undoes_the_patch(tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "pkg" / "a.py").write_text("one\ntwo\nthree\n")
    (tmp_path / "tests" / "test_a.py").write_text("def test_a(): pass\n")
    backwards = "".join(reverse(file) for file in patches.parse(REMOVES))
    for patch in (REMOVES, backwards):
        subprocess.run(["git", "apply", "-"], input=patch, text=True, cwd=tmp_path, check=True)

    assert (tmp_path / "pkg" / "a.py").read_text() == "one\ntwo\nthree\n"
    assert (tmp_path / "tests" / "test_a.py").exists()


def test_rows_that_cannot_be_run_are_refused(tmp_path, dataset):
    with pytest.raises(DatasetError, match="lv1 or"):
        load(tmp_path, instance_id="owner__repo.1")
    with pytest.raises(DatasetError, match="cannot be run"):
        FeatureBench(dataset("feature-bench/featurebench_tasks.jsonl.gz")).tasks()
    with pytest.raises(UsageError):
        FeatureBench(tmp_path, level_filter="lv3")
    (task,) = load(tmp_path, image_name="")
    with pytest.raises(UsageError, match="neither an image"):
        FeatureBench(tmp_path).open_environment(task, StartBackend("bubblewrap"))


def test_rates_divide_by_the_split():
    verdicts = [
        Verdict(True, metrics={"pass_rate": 1.0}),
        Verdict(False, metrics={"pass_rate": 0.5}),
    ]
    assert summary(verdicts, total=4) == {"resolved": 0.25, "passed": 0.375}


def test_drafts_load(dataset):
    tasks = FeatureBench(dataset("feature-bench")).tasks()
    assert len(tasks) == 3
    assert all(task["metadata"]["draft"] for task in tasks)


@pytest.mark.full
@pytest.mark.parametrize("repo", ["pydata/xarray", "sympy/sympy"])
def test_a_draft_end_to_end(dataset, require, monkeypatch, repo):
    require("bwrap", "git")
    if "CHIMERA_CACHE_DIR" not in os.environ:
        monkeypatch.setenv("CHIMERA_CACHE_DIR", str(Path.home() / ".cache" / "chimera" / "tests"))
    benchmark = FeatureBench(dataset("feature-bench"))
    (task,) = [task for task in benchmark.tasks() if task["repo"] == repo]

    def graded(submission):
        with benchmark.open_grading_environment(task, StartBackend("bubblewrap")) as env:
            return benchmark.grade(task, submission, env)

    gold = graded(benchmark.gold(task))

    assert gold.passed, gold.why
    assert gold.metrics["pass_rate"] == 1.0
    wrong = [*benchmark.mutants(task), *(s for _, s in benchmark.attacks(task))]
    assert not [s for s in wrong if graded(s).passed]
