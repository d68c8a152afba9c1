"""FeatureBench: rows of both kinds, and a draft end to end."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import subprocess
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pytest

from chimera.errors import DatasetError, UsageError
from chimera.eval.benchmarks.feature_bench import FeatureBench, reverse, summary
from chimera.eval.kits.patches import diffs
from chimera.eval.trial import StartBackend
from chimera.eval.values import Submission, Verdict

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
    assert diffs.paths(task["gold"]) == {"pkg/a.py"}
    assert "+two\n+three" in task["gold"]


def test_a_reversed_patch_undoes_the_patch(tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "pkg" / "a.py").write_text("one\ntwo\nthree\n")
    (tmp_path / "tests" / "test_a.py").write_text("def test_a(): pass\n")
    backwards = "".join(reverse(file) for file in diffs.parse(REMOVES))
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
    wrong = [*islice(benchmark.mutants(task), 2), *(s for _, s in benchmark.attacks(task))]
    assert not [s for s in wrong if graded(s).passed]


# An image as the official ones are laid out

DOCKERFILE = """\
FROM {base}
COPY site /usr/local/lib/python3.11/dist-packages
COPY project /root/my_repo
ENV PIP_BREAK_SYSTEM_PACKAGES=1
COPY pip /usr/local/bin/pip
RUN mkdir /testbed
"""
WHOLE = "def double(x):\n    return 2 * x\n\n\ndef triple(x):\n    return 3 * x\n"
TEST = "from shop import triple\n\n\ndef test_triple():\n    assert triple(2) == 6\n"
OTHER = "from shop import double\n\n\ndef test_double():\n    assert double(2) == 4\n"
PACKAGE = {
    "pyproject.toml": """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
""",
    "backend.py": """\
import zipfile


def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "written-1-py3-none-any.whl"
    about = {
        "METADATA": "Metadata-Version: 2.1\\nName: written\\nVersion: 1\\n",
        "WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        wheel.write("written.py")
        for file, text in about.items():
            wheel.writestr(f"written-1.dist-info/{file}", text)
    return name
""",
    "written.py": WHOLE,
}
FAR = "from written import triple\n\n\ndef test_triple():\n    assert triple(2) == 6\n"


def difference(old, new, name):
    """A patch from one text to another; None is no file."""
    sides = [text.splitlines(keepends=True) if text else [] for text in (old, new)]
    names = [f"{side}/{name}" if text else "/dev/null" for side, text in (("a", old), ("b", new))]
    mode = "new file mode 100644\n" if not old else "deleted file mode 100644\n" if not new else ""
    body = "".join(difflib.unified_diff(*sides, *names))
    return f"diff --git a/{name} b/{name}\n{mode}{body}"


@pytest.fixture
def image(docker_image, tmp_path):
    """An image that has pip and a small project."""
    from chimera.environments.engine import Engine

    context = tmp_path / "context"
    shutil.copytree(Path(find_spec("pip").origin).parent, context / "site" / "pip")
    (context / "project" / "tests").mkdir(parents=True)
    (context / "project" / "shop.py").write_text(WHOLE)
    (context / "project" / "tests" / "test_triple.py").write_text(TEST)
    (context / "project" / "tests" / "test_double.py").write_text(OTHER)
    (context / "pip").write_text('#!/bin/sh\nexec python3 -m pip "$@"\n')
    (context / "pip").chmod(0o755)
    (context / "Dockerfile").write_text(DOCKERFILE.format(base=docker_image))
    engine = Engine.find()
    built = engine.build(context)
    yield built
    engine.call("rmi", "--force", built)


def graded(benchmark, task, patch):
    start = StartBackend("docker")
    with benchmark.open_grading_environment(task, start) as env:
        return benchmark.grade(task, Submission(text=patch, form="model_patch"), env)


@pytest.mark.slow
def test_both_levels_in_an_image(tmp_path, image):
    half = WHOLE.partition("\n\n\ndef triple")[0] + "\n"
    removes = difference(WHOLE, half, "shop.py")
    without_test = difference(TEST, None, "tests/test_triple.py")
    settings = json.dumps({"test_cmd": "python3 -m pytest -rA", "timeout_one": 0})
    common = {"image_name": image, "repo_settings": settings, "PASS_TO_PASS": "[]"}
    first, second = (
        load(tmp_path, **{**common, **own})[0]
        for own in (
            {
                "patch": removes + without_test,
                "test_patch": without_test,
                "FAIL_TO_PASS": ["tests/test_triple.py"],
                "PASS_TO_PASS": '["tests/test_double.py"]',
            },
            {
                "instance_id": "owner__repo.12345678.test_far.abc.lv2",
                "patch": "",
                "test_patch": difference(None, FAR, "tests/test_far.py"),
                "FAIL_TO_PASS": ["tests/test_far.py"],
            },
        )
    )
    benchmark = FeatureBench(tmp_path)
    written = "".join(difference(None, text, name) for name, text in PACKAGE.items())
    wrong = written.replace("3 * x", "4 * x")

    assert graded(benchmark, first, first["gold"]).passed
    assert not graded(benchmark, first, first["gold"].replace("3 * x", "4 * x")).passed
    assert not graded(benchmark, first, "").passed
    assert graded(benchmark, second, written).passed
    assert not graded(benchmark, second, wrong).passed
    assert not graded(benchmark, second, difference(None, WHOLE, "written.py")).passed
