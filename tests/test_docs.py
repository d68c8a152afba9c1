"""The documentation: it builds, its links lead somewhere, its workflow is one."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from chimera.cli.main import main
from chimera.eval.runs.store import RunStore
from tests.conftest import missing

ROOT = Path(__file__).parents[1]


def test_the_site_builds_and_every_link_leads_somewhere(tmp_path):
    if importlib.util.find_spec("mkdocs") is None:
        missing("mkdocs-material is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "api" / "index.html").read_text()
    assert "Run a benchmark as" in reference  # from the docstring of `evaluate`
    assert "https://fonts" not in reference


def test_what_is_to_be_installed_has_our_name_and_our_extras():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    files = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "chimera").rglob("*.py")]
    named = {
        (name, extra.strip())
        for file in files
        for name, listed in re.findall(
            r"pip install '?(chimera[\w-]*)\[([^]{]+)\]", file.read_text()
        )
        for extra in listed.split(",")
    }

    assert {name for name, _ in named} == {"chimera-eval"}
    assert {extra for _, extra in named} - set(extras) == set()


def test_the_workflow_is_one_and_its_command_runs(tmp_path, monkeypatch):
    [text] = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "ci.md").read_text(), re.DOTALL)
    steps = yaml.safe_load(text)["jobs"]["evals"]["steps"]
    [command] = [step["run"] for step in steps if "chimera eval" in step.get("run", "")]
    words = shlex.split(command.replace("\\\n", " ").replace("openai/gpt-4o-mini", "scripted/echo"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "a.json").write_text('{"id": "a", "prompt": "hi", "expected": "hi"}')
    with pytest.raises(SystemExit) as ended:
        main(words[1:])

    assert ended.value.code == 0
    assert (tmp_path / "junit.xml").exists()
    assert (tmp_path / "ctrf.json").exists()


def test_a_part_of_the_slurm_recipe_begins_once_and_goes_on(tmp_path):
    page = (ROOT / "docs" / "scale.md").read_text()
    [recipe] = re.findall(r"^    #!/bin/sh\n(?:    .*\n)+", page, re.MULTILINE)
    part = tmp_path / "parts" / "2"
    part.mkdir(parents=True)
    (part / "20260101-000000-000-cut-off.chi").touch()  # by a machine that was lost
    (tmp_path / "bench.py").write_text(BENCHMARK)
    (tmp_path / "recipe.sh").write_text(
        recipe.replace("-b human-eval -m openai/gpt-4o", "-b bench.py -m scripted/echo -e none")
    )
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for _ in range(2):
        subprocess.run(
            ["sh", "recipe.sh"], cwd=tmp_path, check=True,
            env={**os.environ, "HOME": str(tmp_path), "PATH": programs, "SLURM_ARRAY_TASK_ID": "2"},
        )  # fmt: skip

    (file,) = part.glob("*.chi")
    with RunStore(file) as store:
        assert sorted(record.task_id for record in store.records()) == ["t1", "t9"]


BENCHMARK = """
from chimera.eval.harness import Benchmark


class Numbers(Benchmark):
    grading = "none"

    def name(self):
        return "numbers"

    def tasks(self):
        return [{"id": f"t{number}", "prompt": str(number)} for number in range(12)]

    def evaluate(self, task, agent_output, env):
        return agent_output == task["prompt"]
"""
