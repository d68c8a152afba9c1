"""What a newcomer fetches: data sets, weights, and what tests need beside them."""

from __future__ import annotations

import json
import sys

import pytest

from chimera import downloads
from chimera.cli import doctor
from chimera.providers import local
from tests.archive_server import serving

SOURCE = """
from chimera.eval.benchmark import Lack, Preparation
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.data.sources import Item, WebFile
from pathlib import Path

class Fetched(DatasetBenchmark):
    slug = "fetched"
    licence = "MIT"
    sources = (Item("rows.jsonl", WebFile("ADDRESS/rows.jsonl"), size=2_000_000),)

    def task(self, row):
        return {"id": row["id"], "prompt": "say yes"}

    def evaluate(self, task, agent_output, env):
        return True

    def missing(self, tasks=None):
        return [Lack("a lathe", "buy one")] if Path("lacking").exists() else []

    def preparations(self, tasks=None):
        done = Path("prepared")
        return [] if done.exists() else [Preparation("what its tests need", done.touch)]
"""


@pytest.fixture
def fetched(tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "PAUSE_SECONDS", 0.0)
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CHIMERA_DATASETS_DIR", str(tmp_path / "datasets"))
    with serving() as server:
        server.files["/rows.jsonl"] = b'{"id": "a"}\n'
        (tmp_path / "fetched_of_tests.py").write_text(SOURCE.replace("ADDRESS", server.address))
        monkeypatch.delitem(sys.modules, "fetched_of_tests", raising=False)
        yield str(tmp_path / "fetched_of_tests.py")
        sys.modules.pop("fetched_of_tests", None)


def test_a_run_without_its_data_says_the_command_that_fetches_it(chimera, fetched):
    ran = chimera("eval", "-b", fetched, "-a", "nop")

    assert ran.code == 2
    assert "chimera datasets pull fetched   (2.0 MB, MIT)" in ran.err


def test_data_is_pulled_with_its_licence_told(chimera, fetched, tmp_path):
    ran = chimera("datasets", "pull", fetched)

    assert ran.code == 0
    assert "licence: MIT" in ran.err
    assert ran.out.strip() == str(tmp_path / "datasets/fetched/rows.jsonl")


def test_all_that_a_benchmark_needs_is_fetched_by_one_command(chimera, fetched, tmp_path):
    ran = chimera("prepare", fetched)

    assert ran.code == 0
    assert "fetched is ready" in ran.out
    assert "what its tests need" in ran.err
    assert (tmp_path / "prepared").exists()
    assert (tmp_path / "datasets/fetched/rows.jsonl").exists()


def test_what_only_the_user_can_bring_is_listed(chimera, fetched, tmp_path):
    (tmp_path / "lacking").touch()
    ran = chimera("prepare", fetched)

    assert ran.code == 3
    assert "missing: a lathe: buy one" in ran.out


def test_the_first_run_prepares_by_itself_and_a_dry_one_only_says_so(chimera, fetched, tmp_path):
    chimera("datasets", "pull", fetched)
    dry = chimera("eval", "-b", fetched, "-a", "nop", "--dry-run")

    assert "what its tests need" in dry.out
    assert not (tmp_path / "prepared").exists()
    assert chimera("eval", "-b", fetched, "-a", "nop").code == 0
    assert (tmp_path / "prepared").exists()


@pytest.mark.parametrize(
    "command",
    [
        ["validate"],
        ["attack"],
        ["grade", "--predictions", "given.jsonl", "-b"],
    ],
)
def test_so_does_whatever_else_grades(chimera, fetched, tmp_path, command):
    chimera("datasets", "pull", fetched)
    (tmp_path / "given.jsonl").write_text('{"task_id": "a", "completion": "yes"}\n')
    ran = chimera(*command, fetched)

    assert "fetching what its tests need" in ran.err
    assert (tmp_path / "prepared").exists()


def test_data_sets_are_listed_with_what_they_are(chimera, monkeypatch, tmp_path):
    monkeypatch.setenv("CHIMERA_DATASETS_DIR", str(tmp_path / "none"))
    listed = {
        row["benchmark"]: row for row in json.loads(chimera("datasets", "list", "--json").out)
    }

    assert listed["mbpp"]["path"] is None
    assert listed["mbpp"]["licence"] == "CC-BY-4.0"
    assert listed["mbpp"]["command"] == "chimera datasets pull mbpp"
    assert listed["mbpp"]["download"] == "819 kB"
    assert listed["swe-polybench"]["download"] == "more than 12.4 MB"
    assert listed["human-eval"]["tasks"] == "164"


def test_data_that_no_command_fetches_is_told_with_its_place_alone(chimera, monkeypatch, tmp_path):
    monkeypatch.setenv("CHIMERA_DATASETS_DIR", str(tmp_path))
    ran = chimera("datasets", "pull", "dpai-arena")

    assert ran.code == 2
    assert f"cannot be fetched by a command; it belongs into {tmp_path}/dpai-arena\n" in ran.err
    assert "licence" not in ran.err


def test_other_weights_than_the_embedded_models_are_not_there(chimera):
    ran = chimera("models", "pull", "gpt-4o")

    assert ran.code == 2
    assert "local/smollm2" in ran.err


def test_services_are_listed_with_whether_their_key_is_set(chimera, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    told = chimera("models", "list").out

    assert "OPENAI_API_KEY is set" in told
    assert "set ANTHROPIC_API_KEY" in told


def test_the_embedded_model_is_good_only_when_a_token_came(monkeypatch, tmp_path):
    assert doctor._embedded_model().detail == "answers"

    monkeypatch.setattr(local, "INSTALLED", "no_such_package")
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))
    absent = doctor._embedded_model()

    assert not absent.good
    assert "chimera models pull" in absent.detail
