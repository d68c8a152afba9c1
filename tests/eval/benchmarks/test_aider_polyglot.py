"""Aider Polyglot: loading, two attempts, and verdicts by the exercises' own tests."""

from __future__ import annotations

import json
import pickle
from collections.abc import Collection
from pathlib import Path

import pytest

from chimera.agents.direct import DirectAgent
from chimera.environments.local import LocalEnvironment
from chimera.errors import DatasetError, UsageError
from chimera.eval.benchmarks._aider_polyglot import reports
from chimera.eval.benchmarks._aider_polyglot.attacks import HOSTILE, hostile
from chimera.eval.benchmarks._aider_polyglot.conversation import reply_files, second_message
from chimera.eval.benchmarks._aider_polyglot.languages import LANGUAGES
from chimera.eval.benchmarks._aider_polyglot.twins import Form
from chimera.eval.benchmarks.aider_polyglot import AiderPolyglot
from chimera.eval.proof.validate import validate
from chimera.eval.submitters import NopAgent, OracleAgent
from chimera.eval.trial import StartBackend, TrialSpec, run_trial
from chimera.eval.values import Submission
from chimera.programs import why_unusable
from chimera.providers.scripted import Reply, Script, ScriptedProvider
from chimera.types import CommandResult

SLOW = {"cpp", "java"}


def dear(language: str, full: Collection[str]) -> list[pytest.MarkDecorator]:
    """Compilers and Jest take seconds; test_aider_polyglot_forgers.py has something of each that
    does not."""
    return [pytest.mark.full] if language in full else [pytest.mark.slow] * (language != "python")


STUB = "def double(number):\n    pass\n"
GOLD = "def double(number):\n    return 2 * number\n"
#: What imports `random` shares a process with the solution.
TESTS = """import random
import unittest
from twice import double

class TwiceTest(unittest.TestCase):
    def test_two(self):
        self.assertEqual(double(2), 4)

    def test_zero(self):
        self.assertEqual(double(0), 0)
"""


def write_exercise(place: Path) -> Path:
    files = {
        ".docs/introduction.md": "Numbers.",
        ".docs/instructions.md": "Double a number.",
        ".meta/example.py": GOLD,
        ".meta/config.json": json.dumps(
            {
                "files": {
                    "solution": ["twice.py"],
                    "test": ["twice_test.py"],
                    "example": [".meta/example.py"],
                }
            }
        ),
        "twice.py": STUB,
        "twice_test.py": TESTS,
    }
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_exercise(tmp_path / "python/exercises/practice/twice")
    return tmp_path


@pytest.fixture
def start(require, prepared) -> StartBackend:
    require("bwrap")
    prepared(AiderPolyglot(language="python"))
    return StartBackend("bubblewrap")


def trial(benchmark, agent, start):
    return run_trial(TrialSpec(benchmark, benchmark.tasks()[0], 0, agent, start, attempts=1))


def scripted(*replies: str) -> DirectAgent:
    script = Script(tuple(Reply(reply) for reply in replies))
    return DirectAgent(provider=ScriptedProvider(name="scripted/x", model="x", script=script))


def answer(code: str) -> str:
    return f"Here it is.\n\ntwice.py\n```python\n{code}```\n"


def test_a_task_shows_docs_and_stub_and_hides_tests(root):
    (task,) = AiderPolyglot(root).tasks()

    assert task["id"] == "python/twice"
    assert task["prompt"].startswith("Numbers.\n\nDouble a number.")
    assert STUB.strip() in task["prompt"]
    assert "assertEqual" not in task["prompt"]
    assert task["editable"] == ["twice.py"]
    assert pickle.loads(pickle.dumps(AiderPolyglot(root))).options()["attempts"] == 2


def test_the_agent_never_gets_tests_or_reference(root, prepared):
    prepared(AiderPolyglot(language="python"))
    benchmark = AiderPolyglot(root)

    spec = benchmark.environment(benchmark.tasks()[0])

    assert sorted(spec.files) == ["twice.py"]
    assert not spec.network


@pytest.mark.parametrize(
    ("options", "name", "languages"),
    [
        ({}, "aider-polyglot", ()),
        ({"language": "rust"}, "aider-polyglot:rust", ("rust",)),
        (
            {"languages": ["go", "python"], "language": "rust"},
            "aider-polyglot:go+python",
            ("go", "python"),
        ),
    ],
)
def test_the_list_of_languages_wins(options, name, languages):
    benchmark = AiderPolyglot(**options)

    assert benchmark.name() == name
    assert benchmark.languages == languages


def test_an_unknown_language_is_refused():
    with pytest.raises(UsageError, match=r"unknown language 'cobol'; known: cpp, go"):
        AiderPolyglot(language="cobol")


def test_the_place_comes_from_the_variable(root, monkeypatch):
    monkeypatch.setenv("CHIMERA_AIDER_POLYGLOT_PATH", str(root))

    assert len(AiderPolyglot().tasks()) == 1


def test_the_real_archive_has_all_exercises(dataset, tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))

    tasks = AiderPolyglot(dataset("aider-polyglot")).tasks()

    count = {name: sum(t["language"] == name for t in tasks) for name in LANGUAGES}
    assert count == {"cpp": 26, "go": 39, "java": 47, "javascript": 49, "python": 34, "rust": 30}
    assert all(task["reference"] and task["editable"] for task in tasks)


def test_the_reference_passes_and_the_stub_fails(root, start):
    benchmark = AiderPolyglot(root)

    gold, stub = trial(benchmark, OracleAgent(), start), trial(benchmark, NopAgent(), start)

    assert gold.passed, gold.why
    assert gold.verdict.metrics["pass_rate_1"] == 1
    assert stub.status == "failed"
    assert "2 of 2 tests failed" in stub.why


def test_a_second_attempt_follows_the_test_output(root, start):
    benchmark = AiderPolyglot(root)

    record = trial(benchmark, scripted(answer(GOLD.replace("2 *", "3 *")), answer(GOLD)), start)

    assert record.passed, record.why
    metrics = record.verdict.metrics
    assert (metrics["pass_rate_1"], metrics["pass_rate_2"], metrics["attempts"]) == (0, 1, 2)
    told = [s.message.content for s in record.trajectory if s.message.role == "user"][1]
    assert "test_two" in told
    assert "6 != 4" in told


def test_a_first_attempt_that_passes_ends_the_conversation(root, start):
    record = trial(AiderPolyglot(root), scripted(answer(GOLD), "never asked"), start)

    assert record.passed
    assert record.verdict.metrics["pass_rate_1"] == 1
    assert record.verdict.metrics["well_formed"] == 1
    assert record.steps == 1


def test_two_failed_attempts_are_a_failure_and_malformed_ones_are_counted(root, start):
    record = trial(AiderPolyglot(root), scripted("I do not know.", "Still not."), start)

    assert record.status == "failed"
    assert record.verdict.metrics["well_formed"] == 0
    assert record.verdict.metrics["attempts"] == 2


def test_attacks_fail(root, start):
    benchmark = AiderPolyglot(root)
    (task,) = benchmark.tasks()

    for name, submission in benchmark.attacks(task):
        with benchmark.open_grading_environment(task, start) as env:
            verdict = benchmark.grade(task, submission, env)
        assert not verdict.passed, name


#: language → an exercise, and files that compile with its tests but solve nothing.
UNSOLVED = {
    "cpp": (
        "yacht",
        {
            "yacht.h": "#pragma once\n#include <string>\n#include <vector>\nnamespace yacht {\n"
            "inline int score(std::vector<int>, std::string) { return 0; }\n}\n",
            "yacht.cpp": '#include "yacht.h"\n',
        },
    ),
    "go": ("zebra-puzzle", {}),
    "java": ("wordy", {}),
    "javascript": ("pig-latin", {}),
    "rust": ("acronym", {}),
}
EQUAL_IN_RUST = """#[derive(Debug)]
pub struct Equal;
impl PartialEq<&str> for Equal {
    fn eq(&self, _: &&str) -> bool {
        true
    }
}
pub fn abbreviate(_: &str) -> Equal {
    Equal
}
"""


def test_hostile_code_that_passes_the_published_tests_is_found_by_the_twin(root, start):
    benchmark = AiderPolyglot(root)
    (task,) = benchmark.tasks()
    found = list(hostile("python", {"twice.py": STUB.encode()}))

    verdicts = {name: graded(benchmark, task, files, start) for name, files in found}

    assert len(verdicts) == 4
    assert {name: verdict.metrics.get("tampering") for name, verdict in verdicts.items()} == (
        dict.fromkeys(verdicts, True)
    )
    assert not any(verdict.passed for verdict in verdicts.values())


def graded(benchmark, task, submission, start):
    with benchmark.open_grading_environment(task, start) as env:
        return benchmark.grade(task, submission, env)


@pytest.mark.parametrize(
    "language",
    # JavaScript's is the slowest; code beside honest assertions shows the same of its twin
    [pytest.param(name, marks=dear(name, full={*SLOW, "javascript"})) for name in UNSOLVED],
)
def test_hostile_code_in_every_language_is_found_by_the_twin(language, dataset, prepared, require):
    require("bwrap")
    prepared(AiderPolyglot(language=language))
    name, files = UNSOLVED[language]
    benchmark = AiderPolyglot(dataset("aider-polyglot"), language=language, timeout=600)
    task = next(t for t in benchmark.tasks() if t["id"] == f"{language}/{name}")
    stubs = {path: (Path(task["directory"]) / path).read_bytes() for path in task["editable"]}
    found = list(hostile(language, {**stubs, **{n: t.encode() for n, t in files.items()}}))
    if language == "rust":
        found.append(
            ("equals everything", Submission(files={"src/lib.rs": EQUAL_IN_RUST.encode()}))
        )

    for what, submission in found:
        verdict = graded(benchmark, task, submission, StartBackend("bubblewrap"))

        assert not verdict.passed, what
        # nobody reads what these tests print: whoever writes a report and ends them leaves none
        unread = verdict.why.startswith(("there is no test report", "no test ran"))
        assert unread or verdict.metrics.get("tampering"), (what, verdict.why, verdict.evidence)


def test_failing_by_chance_does_not_help_a_forger(root, start):
    """It must pass the true form and fail the twin, but for the test that keeps its values."""
    benchmark = AiderPolyglot(root)
    (task,) = benchmark.tasks()
    forging = (HOSTILE / "forged.python").read_text()
    told = "import pathlib, re\ntests = pathlib.Path('twice_test.py').read_text()\n"
    told += "found = re.findall(r'[.]test.([0-9]+), ([0-9]+)', tests)\n"
    told += "if any(one != other for one, other in found):\n    raise ValueError\n"
    submission = Submission(files={"twice.py": (STUB + told + forging).encode()})

    verdict = graded(benchmark, task, submission, start)

    assert not verdict.passed
    assert "with its own values failed" in verdict.why


def test_both_runs_look_alike_to_the_code(root, start):
    """Environment, arguments and names of files: what differs would tell a forger where it is."""
    benchmark = AiderPolyglot(root)
    (task,) = benchmark.tasks()
    telling = (
        b"import os, sys\nassert 0, repr((sorted(os.environ), sys.argv[1:2], sorted(os.listdir())))"
    )
    seen = []
    with benchmark.open_grading_environment(task, start) as env:
        for form in (Form(twin=False), Form(twin=True)):
            with env.fresh() as fresh:
                run = benchmark._tests(task)._run_form({"twice.py": telling}, fresh, form)
            seen += [line for line in run.output.splitlines() if line.startswith("E ")]

    assert len(seen) == 2
    assert seen[0] == seen[1]


def test_an_answer_that_calls_itself_the_reference_brings_no_other_files(root, start):
    benchmark = AiderPolyglot(root)
    (task,) = benchmark.tasks()
    files = {"twice.py": GOLD.encode(), "conftest.py": b"raise SystemExit\n"}

    assert graded(benchmark, task, Submission(files=files, form="reference"), start).passed


ONE_TEST = TESTS.partition("    def test_zero")[0]


def test_with_a_single_test_nothing_is_kept(root, start):
    (root / "python/exercises/practice/twice/twice_test.py").write_text(ONE_TEST)
    gold = trial(AiderPolyglot(root), OracleAgent(), start)

    assert gold.passed, gold.why
    assert gold.verdict.metrics["twin"] == {"tests": 1, "twinned": 1}


def test_a_pass_says_how_many_of_its_tests_have_a_twin(root, start):
    gold = trial(AiderPolyglot(root), OracleAgent(), start)

    assert gold.verdict.metrics["twin"] == {"tests": 2, "twinned": 2}


def test_only_solution_files_are_carried(root, start):
    benchmark = AiderPolyglot(root)
    (task,) = benchmark.tasks()
    files = {"twice.py": GOLD.encode(), "twice_test.py": b"", "../twice_test.py": b""}

    with benchmark.open_grading_environment(task, start) as env:
        verdict = benchmark.grade(task, Submission(files=files), env)
        kept = env.read_text("twice/twice_test.py")

    assert verdict.passed
    assert all(line.strip() in kept for line in TESTS.splitlines())


def write_tasks(place: Path, **fields: object) -> Path:
    row = {"id": "python/twice", "language": "python", "prompt": "Double.", **fields}
    (place / "tasks.json").write_text(json.dumps([row]))
    write_exercise(place / "exercises/twice")
    return place


def grade(benchmark: AiderPolyglot, code: str, start) -> tuple[bool, str]:
    (task,) = benchmark.tasks()
    with benchmark.open_grading_environment(task, start) as env:
        verdict = benchmark.grade(task, Submission(files={"twice.py": code.encode()}), env)
    return verdict.passed, str(verdict.metrics["decided_by"])


def test_expected_files_decide_first_and_the_command_second(tmp_path, start):
    place = write_tasks(
        tmp_path,
        expected_files={"twice.py": GOLD},
        test_command="python -m pytest -q",
        exercise_dir="twice",
        timeout_s=60,
    )
    benchmark = AiderPolyglot(place)

    assert grade(benchmark, GOLD, start) == (True, "diff")
    assert grade(benchmark, "def double(number):\n    return number + number\n", start) == (
        True,
        "tests",
    )
    assert grade(benchmark, STUB, start) == (False, "tests")


def test_a_reference_passes_no_command_that_answers_cannot(tmp_path, start):
    command = "/nowhere/bin/pytest -q"
    fields = {"expected_files": {"twice.py": GOLD}, "test_command": command}
    benchmark = AiderPolyglot(write_tasks(tmp_path, exercise_dir="twice", **fields))

    assert trial(benchmark, OracleAgent(), start).status != "passed"


def test_a_command_passes_only_what_fails_its_twin(tmp_path, start):
    place = write_tasks(tmp_path, test_command="python -m pytest -q", exercise_dir="twice")
    disarmed = STUB + (HOSTILE / "runner.python").read_text()

    assert grade(AiderPolyglot(place), GOLD, start) == (True, "tests")
    assert grade(AiderPolyglot(place), disarmed, start) == (False, "tests")


def test_without_a_command_the_expected_files_alone_decide(tmp_path, start):
    place = write_tasks(tmp_path, expected_files={"twice.py": GOLD}, exercise_dir="twice")

    assert grade(AiderPolyglot(place), GOLD + "\n", start) == (True, "diff")
    assert grade(AiderPolyglot(place), GOLD.replace("2", "3"), start) == (False, "diff")


def test_a_command_that_runs_no_test_does_not_pass(tmp_path, start):
    place = write_tasks(tmp_path, test_command="true", exercise_dir="twice")

    assert grade(AiderPolyglot(place), GOLD, start) == (False, "tests")


def test_an_exercise_outside_the_data_set_is_refused(tmp_path):
    (tmp_path / "set").mkdir()
    write_tasks(tmp_path / "set", test_command="true", exercise_dir="../../other")
    (tmp_path / "other").mkdir()

    with pytest.raises(DatasetError, match="outside the data set"):
        AiderPolyglot(tmp_path / "set").tasks()


@pytest.mark.parametrize(
    ("reply", "files"),
    [
        ("a.py\n```\nx\n```", {"a.py": "x\n"}),
        (
            "**`a.py`**\n\n```python\nx\n```\nand\n# b.py\n```\ny\n```",
            {"a.py": "x\n", "b.py": "y\n"},
        ),
        ("src/b.py:\n```\ny\n```", {"b.py": "y\n"}),
        ("other.py\n```\nx\n```", {}),
        ("no code", {}),
        ("a.py\n````\n```\nx\n```\n````", {"a.py": "```\nx\n```\n"}),
    ],
)
def test_files_in_replies(reply, files):
    assert reply_files(reply, ["a.py", "b.py"]) == files


def test_one_block_without_a_name_is_the_one_file():
    assert reply_files("```\nx\n```", ["a.py"]) == {"a.py": "x\n"}
    assert reply_files("```\nx\n```\n```\ny\n```", ["a.py"]) == {}


def test_the_second_message_is_bounded_and_without_durations():
    message = second_message("1 failed in 0.12s\n" + "x" * 100_000, ["a.py"])

    assert "in 0.12s" not in message
    assert len(message) < 31_000
    assert "`a.py`" in message


@pytest.mark.parametrize("tests", [1, 2_000, 200_000])
def test_a_report_that_is_longer_than_any_is_none(tests, require):
    """A long one is read in a process of its own, as the code under test can have written it."""
    require("bwrap")
    entries = [{"fullName": f"t{number}", "status": "passed"} for number in range(tests)]
    suites = [{"name": "a", "status": "passed", "assertionResults": entries}]
    text = json.dumps({"numFailedTestSuites": 0, "testResults": suites}).encode()
    read = LANGUAGES["javascript"].read

    report, _ = read(lambda _: text, CommandResult(b"", b"", 0))

    assert report is not None
    assert report.complete is (tests < 200_000)
    assert len(report.passed()) == (tests if report.complete else 0)


def test_what_go_prints():
    events = [
        {"Action": "pass", "Test": "TestA", "Output": ""},
        {"Action": "fail", "Test": "TestB"},
        {"Action": "fail", "Package": "p"},
    ]
    go, _ = reports.go_events("\n".join(json.dumps(e) for e in events).encode())
    unfinished, text = reports.go_events(b'{"Action":"output","Output":"hello\\n"}')

    assert (go.passed(), go.failed()) == (["TestA"], ["TestB", "p"])
    assert (unfinished, text) == (None, "hello\n")


@pytest.mark.parametrize(
    ("results", "passed", "failed"),
    [
        ("ok a\nfailed b\nend 101\n", ["a"], ["b"]),
        ("failed: note: test did not panic as expected b::c\nend 101\n", [], ["b::c"]),
        ("ok own\nend 0\nok a\nignored b\nend 0\n", ["own", "a"], []),
        ("ok a\nend 101\n", ["a"], ["a test"]),
    ],
)
def test_what_cargo_s_binaries_log(results, passed, failed):
    report = reports.cargo(results, ".test c ... ok\ntest d ... FAILED\n")

    assert (report.passed(), report.failed()) == (passed, failed)


@pytest.mark.parametrize("results", ["", "ok a\n", "ok a\nend 0\nok b\n", "ok a\nend 134\nend 0\n"])
def test_a_binary_that_does_not_come_to_its_end_leaves_no_report(results):
    assert reports.cargo(results, "test result: ok. 1 passed; 0 failed;\n") is None


def test_examples_in_comments_count_by_what_cargo_prints():
    printed = (
        "test src/lib.rs - f (line 3) ... ok\n"
        "test src/lib.rs - g (line 9) - compile fail ... FAILED\n"
    )
    report = reports.cargo("end 0\n", printed)

    assert report.passed() == ["src/lib.rs - f (line 3)"]
    assert report.failed() == ["src/lib.rs - g (line 9) - compile fail"]


@pytest.mark.parametrize(
    "language",
    [pytest.param(name, marks=dear(name, full=SLOW)) for name in LANGUAGES],
)
def test_a_real_exercise_in_every_language(language, dataset, prepared, require):
    require("bwrap")
    prepared(AiderPolyglot(language=language))
    name = "yacht" if language == "cpp" else "wordy"
    benchmark = AiderPolyglot(dataset("aider-polyglot"), language=language, timeout=600)
    task = next(t for t in benchmark.tasks() if t["id"] == f"{language}/{name}")
    start = StartBackend("bubblewrap")

    gold = run_trial(TrialSpec(benchmark, task, 0, OracleAgent(), start, attempts=1))
    stub = run_trial(TrialSpec(benchmark, task, 0, NopAgent(), start, attempts=1))

    assert gold.passed, gold.why
    assert stub.status == "failed", stub.why


@pytest.mark.full
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_reference_passes_and_every_stub_fails(language, dataset, prepared, require):
    require("bwrap")
    prepared(AiderPolyglot(language=language))
    benchmark = AiderPolyglot(dataset("aider-polyglot"), language=language, timeout=600)

    report = validate(benchmark, StartBackend("bubblewrap"), mutants=0, workers=2)

    wrong = {(check.task_id, check.answer) for check in report.checks if not check.as_due}
    assert wrong == {pair for pair in DATA_DEFECTS if pair[0].startswith(f"{language}/")}


#: No test at all; and refactorings, whose stubs are right already.
DATA_DEFECTS = {
    ("go/counter", "gold"),
    ("go/ledger", "empty"),
    ("go/markdown", "empty"),
    ("java/ledger", "empty"),
    ("java/tree-building", "empty"),
    ("javascript/ledger", "empty"),
}


@pytest.fixture
def no_programs(monkeypatch):
    why_unusable.cache_clear()
    monkeypatch.setenv("PATH", "/nowhere")
    yield
    why_unusable.cache_clear()


@pytest.mark.usefixtures("no_programs")
def test_what_is_missing_names_a_package():
    found = {lack.what: lack.remedy for lack in AiderPolyglot().missing()}

    assert found["Rust with Cargo"] == "apt-get install cargo"
    assert found["CMake"] == "apt-get install cmake"


@pytest.mark.usefixtures("no_programs")
def test_what_is_missing_concerns_the_tasks_of_its_language():
    tasks = [{"id": "go/a", "language": "go"}, {"id": "python/b", "language": "python"}]
    found = {lack.what: lack.tasks for lack in AiderPolyglot().missing(tasks)}

    assert found["Go 1.18 or later"] == {"go/a"}
    assert "CMake" not in found


def test_packages_are_fetched_once(tmp_path, monkeypatch, require):
    require("g++", "cmake", "make")
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))
    benchmark = AiderPolyglot(language="cpp")
    (waiting,) = benchmark.preparations()

    waiting.make()

    assert benchmark.preparations() == []


def test_a_local_environment_will_do(root, prepared):
    prepared(AiderPolyglot(language="python"))
    benchmark = AiderPolyglot(root)
    (task,) = benchmark.tasks()

    with benchmark.open_grading_environment(task, LocalEnvironment.start) as env:
        verdict = benchmark.grade(task, benchmark.gold(task), env)

    assert verdict.passed, verdict.why


def test_agents_see_no_tables_of_tests(tmp_path, prepared):
    prepared(AiderPolyglot(language="go"))
    exercise = tmp_path / "go" / "exercises" / "practice" / "two"
    exercise.mkdir(parents=True)
    for name in ("two.go", "two_test.go", "cases_test.go", "go.mod"):
        (exercise / name).write_text("package two\n")
    (exercise / ".meta").mkdir()
    files = {"solution": ["two.go"], "test": ["two_test.go"], "example": []}
    (exercise / ".meta" / "config.json").write_text(json.dumps({"files": files}))
    (task,) = AiderPolyglot(tmp_path).tasks()

    assert AiderPolyglot(tmp_path).environment(task).files.keys() == {"two.go", "go.mod"}
