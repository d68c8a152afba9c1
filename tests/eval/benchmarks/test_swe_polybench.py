"""SWE-PolyBench: the real record, and a small repository in each language with its real tools."""

from __future__ import annotations

import json

import pytest

from chimera.errors import DatasetError, UsageError
from chimera.eval.benchmarks._swe_polybench.logs import Results
from chimera.eval.benchmarks.swe_polybench import SWEPolyBench, localization_accuracy, shortcomings
from chimera.eval.kits.patches.diffs import new_file
from chimera.eval.proof.attack.repositories import FIXTURES, NODE, PYTHON, Repository, replaced


@pytest.mark.parametrize(
    ("passed", "failed", "f2p", "p2p", "resolved"),
    [
        ("a", "", "a", "b", True),
        ("a", "a", "a", "", True),
        ("ab", "b", "", "b", False),
        ("", "", "", "", True),
        ("b", "", "a", "b", False),
    ],
)
def test_the_official_rule(passed, failed, f2p, p2p, resolved):
    results = Results(frozenset(passed), frozenset(failed))

    assert (shortcomings(results, f2p, p2p) == ([], [])) is resolved


@pytest.fixture
def repository(tmp_path, monkeypatch, require):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))

    def make(runner: str) -> Repository:
        require("bwrap", *FIXTURES[runner].programs)
        return Repository(FIXTURES[runner], tmp_path / "fixture")

    return make


def check(runner: str, made: Repository) -> None:
    fixture, task = FIXTURES[runner], made.task
    gold = made.grade(fixture.gold)

    assert gold.passed, (gold.why, gold.evidence.get("log", "")[-2000:])
    assert gold.metrics["file_f1"] == 1.0
    assert gold.metrics["cst_node_recall"] == (1.0 if task["modified_nodes"] else None)
    assert gold.metrics["p2p_absent"] == 0
    assert gold.metrics["witness"] is (runner in ("unittest", "mocha", "jest"))
    verdict = made.grade(fixture.gold.replace("a + b", "a * b"))
    assert not verdict.passed
    assert "not passed" in verdict.why
    for mutant in made.benchmark.mutants(task):
        assert not made.grade(mutant.text).passed
    verdict = made.grade(new_file(fixture.tests[0], "nothing\n") + new_file("NOTES", "x\n"))
    assert not verdict.passed
    assert verdict.metrics["overridden_test_files"]


@pytest.mark.parametrize("runner", ["unittest", pytest.param("node", marks=pytest.mark.slow)])
def test_interpreted_languages(repository, runner):
    check(runner, repository(runner))


@pytest.mark.full
@pytest.mark.parametrize("runner", ["mocha", "jest", "maven"])
def test_compiled_languages(repository, runner):
    check(runner, repository(runner))


#: One of each kind; all of them are tried below.
CHOSEN = {
    "unittest": {
        "code exits",
        "code prints results and exits",
        "code replaces TestCase.run",
        "code disarms assertEqual and fail",
        "code forges log and witness at exit",
        "code makes the witness's account endless",
        "code equals everything",
    },
    "node": {"code prints results and exits", "code prints results and exits at once"},
}


@pytest.mark.parametrize("runner", CHOSEN)
def test_no_hostile_patch_is_a_fix(repository, runner):
    made, attacks = repository(runner), dict(FIXTURES[runner].attacks())
    tried = {name: made.outcome(attacks[name]) for name in CHOSEN[runner]}

    assert {name: seen for name, seen in tried.items() if not seen.startswith("failed")} == {}


@pytest.mark.full
@pytest.mark.parametrize("runner", FIXTURES)
def test_no_hostile_patch_at_all_is_a_fix(repository, runner):
    made = repository(runner)
    tried = {name: made.outcome(patch) for name, patch in FIXTURES[runner].attacks()}

    assert len(tried) > 10
    assert {name: seen for name, seen in tried.items() if not seen.startswith("failed")} == {}
    assert made.outcome(FIXTURES[runner].gold) == "PASSED"


def test_a_submission_does_not_choose_the_test_command(repository):
    made = repository("node")
    honest = NODE.files["package.json"]
    forged = json.dumps({"scripts": {"test": "echo ok 1 - adds; echo ok 2 - keeps"}}) + "\n"

    verdict = made.grade(replaced("package.json", honest, forged))

    assert not verdict.passed
    assert verdict.metrics["restored_scripts"] == ["scripts"]


def test_the_real_record(dataset):
    place = dataset("swe-polybench/polybench_full_record.sveltejs__svelte-536.json")
    (task,) = SWEPolyBench(place, split="full").tasks()

    assert (len(task["fail_to_pass"]), len(task["pass_to_pass"])) == (3, 616)
    assert task["modified_nodes"] == [
        "src/parse/read/expression.js->program->function_declaration:readExpression"
    ]
    assert localization_accuracy(task["patch"], task["patch"])["file_f1"] == 1.0
    assert localization_accuracy(task["patch"], new_file("x", "y\n"))["file_recall"] == 0.0


def test_options_are_checked(tmp_path):
    with pytest.raises(UsageError):
        SWEPolyBench(split="other")
    with pytest.raises(UsageError):
        SWEPolyBench(language="cobol")
    known = PYTHON.row()
    (tmp_path / "pb500.jsonl").write_text(json.dumps({**known, "language": "Cobol"}))
    with pytest.raises(DatasetError, match="Cobol"):
        SWEPolyBench(tmp_path).tasks()
    (tmp_path / "pb500.jsonl").write_text(json.dumps(known))
    with pytest.raises(DatasetError):
        SWEPolyBench(tmp_path, language="java").tasks()
