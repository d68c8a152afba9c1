"""A run file of a stranger gives results or one clear refusal: no code, no traceback, no flood."""

from __future__ import annotations

import contextlib
import io
import json
import resource
import sqlite3
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chimera.cli.main import cli
from chimera.errors import UsageError
from chimera.eval.runs import database, seal
from chimera.eval.runs.database import zstd
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.store import RunStore
from chimera.eval.values import Submission, TrialError, TrialRecord, Verdict
from chimera.providers.meter import CallRecord
from chimera.types import Message, Step, Usage
from chimera.view.library import Library

RECORD = TrialRecord(
    task_id="t/1",
    sample=0,
    digest="d",
    submission=Submission("x = 1", "solution", {"a.bin": b"\x00\xff"}, {"k": [1]}, "```x = 1```"),
    verdict=Verdict(True, "held", 1.0, {"m": 1, "corrected": True}, {"log": "…", "s.png": b"P"}),
    usage=Usage(10, 5, 1),
    cost=0.125,
    duration=1.5,
    started=100.0,
    stop_reason="done",
    calls=(CallRecord("m", Usage(10, 5, 1), 0.125, 100.0, 1.0),),
    trajectory=(Step(Message.assistant("hi"), Usage(1, 1), timestamp=1.0),),
)
MANIFEST = {
    "identity": {"benchmark": "swe-bench-verified"},
    "planned": 3,
    "samples": 2,
    "started": 1.0,
    "model": "m",
    "agent": "direct",
    "settings": {"benchmark": "swe-bench-verified", "samples": 2},
}


def honest_run(path: Path) -> Path:
    with RunStore(path, create=True) as store:
        store.set_manifest(MANIFEST)
        store.add_tasks([{"id": "t/1", "prompt": "Say x."}])
        store.write(RECORD)
        store.write(replace(RECORD, sample=1, verdict=Verdict(False, "did not hold")))
        store.write(TrialRecord("t/2", 0, "d", error=TrialError("provider", "HTTP 500")))
        store.spend(0.5)
    return path


@pytest.fixture
def run(tmp_path):
    return honest_run(tmp_path / "run.chi")


def by_hand(path: Path, *statements: str, arguments: tuple[object, ...] = ()) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        connection.execute(statement, arguments)
    connection.close()


def read_all(path: Path) -> None:
    """Everything that can be asked of a run without running anything of it."""
    with RunStore(path) as store:
        result = EvalResult.of(store)
        result.summary(), result.reasons(), result.durations(), result.rates_of("m")
        result.pass_at(1), result.pass_hat(2), store.spent()
        for record in store.records(whole=True):
            store.task_prompt(record.task_id)
            assert store.record(record.task_id, record.sample) == record


def commands(path: Path, folder: Path) -> list[str]:
    """What the commands that read a run say of this one."""
    run, said = str(path), []
    for arguments in (
        ["runs", "list", "--runs-dir", str(path.parent)],
        ["runs", "show", run],
        ["runs", "show", run, "--json"],
        ["runs", "show", run, "t/1", "--save", str(folder / "saved")],
        ["compare", run, run],
        ["runs", "export", run],
        ["runs", "export", run, "--format", "json"],
        ["runs", "export", run, "--format", "predictions"],
        ["runs", "export", run, "--format", "atif", "--output", str(folder / "atif")],
        ["runs", "export", run, "--format", "swe-bench", "--output", str(folder / "swe")],
        ["eval", "--resume", run, "--dry-run"],
    ):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                cli.main(args=arguments, standalone_mode=False)
            except UsageError as error:
                out.write(str(error))
        said.append(out.getvalue())
    return said


def test_an_honest_run_is_read(run, tmp_path):
    read_all(run)
    said = commands(run, tmp_path / "out")

    assert "33.3% to 66.7% (1 of 2)" in said[0]
    assert "t/1#0" in said[1]
    assert not any("damaged" in text or "not a run" in text for text in said)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out", "run.chi"]


SCHEMAS = {
    "a view": ["CREATE VIEW v AS SELECT 1"],
    "a table that is an endless view": [
        "DROP TABLE tasks",
        "CREATE VIEW tasks AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) "
        "SELECT x AS task_id, x AS prompt, x AS metadata FROM c",
    ],
    "a view of a zero blob": [
        "DROP TABLE spending",
        "CREATE VIEW spending AS SELECT zeroblob(900000000) AS amount",
    ],
    "a trigger": [
        "CREATE TRIGGER t AFTER INSERT ON trials BEGIN DELETE FROM trials; END",
    ],
    "an index": ["CREATE INDEX i ON trials (why)"],
    "an index of an expression": ["CREATE INDEX i ON trials (hex(zeroblob(1000)))"],
    "a generated column": [
        "ALTER TABLE trials ADD COLUMN g TEXT AS (hex(zeroblob(100000000)))",
    ],
    "a virtual table": ["CREATE VIRTUAL TABLE f USING fts5(x)"],
    "statistics": ["ANALYZE"],
    "a table too many": ["CREATE TABLE more (x)"],
    "a table too few": ["DROP TABLE calls"],
    "a column renamed": ["ALTER TABLE trials RENAME COLUMN why TO reason"],
    "another version": ["PRAGMA user_version = 9"],
    "a looser column": [
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(sql, 'why TEXT NOT NULL', 'why TEXT')",
    ],
}


@pytest.mark.parametrize("statements", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("access", [{}, {"write": True}, {"create": True}], ids=str)
def test_only_the_schema_of_a_run_is_opened(run, statements, access):
    by_hand(run, *statements)

    with pytest.raises(UsageError, match=r"run\.chi is not a run"):
        RunStore(run, **access)


def without_most_of_its_index(path: Path) -> None:
    """The index of the trials becomes one that knows of a single trial."""
    by_hand(
        path,
        "PRAGMA journal_mode = DELETE",
        "PRAGMA writable_schema = ON",
        "CREATE TABLE z (a TEXT, b INTEGER, c INTEGER, PRIMARY KEY (a, b, c)) WITHOUT ROWID",
        "INSERT INTO z SELECT task_id, sample, id FROM trials NOT INDEXED LIMIT 1",
        "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = 'z') "
        "WHERE name = 'sqlite_autoindex_trials_1'",
        "DELETE FROM sqlite_master WHERE name = 'z'",
    )


@pytest.mark.parametrize("access", [{}, {"write": True}, {"create": True}], ids=str)
def test_an_index_that_does_not_have_each_trial_is_refused(run, access):
    without_most_of_its_index(run)

    with pytest.raises(UsageError, match="missing from index"):
        RunStore(run, **access)


def test_the_viewer_counts_no_run_whose_index_does_not_have_each_trial(run):
    without_most_of_its_index(run)
    (seen,) = Library([run]).runs()

    assert "missing from index" in (seen.known(patience=None).fault or "")


VALUES = {
    "text for a number": ("trials", "steps", "many"),
    "a blob for a text": ("trials", "task_id", b"\xff\x00"),
    "an unknown status": ("trials", "status", "solved"),
    "infinity": ("trials", "duration", float("inf")),
    "a time after all times": ("trials", "started", 1e300),
    "a negative number": ("trials", "sample", -1),
    "a cost in words": ("trials", "cost", "nothing"),
    "a verdict of 7": ("verdicts", "passed", 7),
    "metrics that are a list": ("verdicts", "metrics", "[1]"),
    "metrics that are cut": ("verdicts", "metrics", '{"m": '),
    "metrics without a bottom": ("verdicts", "metrics", '{"m":' + "[" * 100_000),
    "evidence that is text": ("verdicts", "evidence", "text"),
    "evidence that is not packed": ("verdicts", "evidence", b"{}"),
    "evidence that is cut": ("verdicts", "evidence", zstd.compress(b'{"log": "x"}')[:-3]),
    "evidence of another shape": ("verdicts", "evidence", zstd.compress(b"[1]")),
    "a trajectory of another shape": ("trajectories", "steps", zstd.compress(b'[{"message": 1}]')),
    "a file that is not packed": ("artifacts", "content", b"plain"),
    "data that is no JSON": ("submissions", "data", "{"),
    "a call that took a word": ("calls", "seconds", "long"),
    "a trial that paid": ("trials", "cost", -500.0),
    "a call that paid": ("calls", "cost", -1.0),
    "money back that was never spent": ("spending", "amount", -1000.0),
    "money in words": ("spending", "amount", "all of it"),
    "a manifest that is no JSON": ("manifest", "value", "nonsense"),
    "a manifest of numbers": ("manifest", "value", "1"),
    "a manifest of lists": ("manifest", "value", "[]"),
}


@pytest.mark.parametrize(("table", "column", "value"), VALUES.values(), ids=VALUES)
def test_a_value_of_the_wrong_kind_is_a_refusal_that_names_the_file(run, table, column, value):
    by_hand(run, f"UPDATE OR IGNORE {table} SET {column} = ?", arguments=(value,))

    with pytest.raises(UsageError, match=r"run\.chi"):
        read_all(run)


CONTRADICTIONS = {
    "verdicts turned around": "UPDATE verdicts SET passed = 1 - passed",
    "a status turned around": "UPDATE trials SET status = 'passed' WHERE status = 'failed'",
    "an error that passed": "UPDATE trials SET status = 'passed' WHERE status = 'error'",
    "an error beside a verdict": "UPDATE trials SET error_boundary = 'agent'",
    "an error without a reason": "UPDATE trials SET error_boundary = NULL",
    "a status without a verdict": "DELETE FROM verdicts",
    "a verdict of no trial": "UPDATE verdicts SET trial = trial + 1000",
    "a verdict of another trial": "INSERT INTO verdicts VALUES (77, 1, 1.0, '', '{}', NULL)",
}


@pytest.mark.parametrize("statement", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_file_that_says_two_things_of_a_trial_is_refused(run, statement):
    by_hand(run, statement)

    with pytest.raises(UsageError, match=r"run\.chi is damaged: the status of a trial"):
        RunStore(run)


@pytest.mark.parametrize(
    ("table", "column"), [("manifest", "value"), ("verdicts", "metrics"), ("submissions", "data")]
)
def test_values_that_lie_too_deep_in_each_other_are_refused(run, table, column):
    which = " WHERE key = 'settings'" if table == "manifest" else ""
    deep = '{"benchmark":' + "[" * 700 + "]" * 700 + "}"
    by_hand(run, f"UPDATE {table} SET {column} = ?{which}", arguments=(deep,))

    with pytest.raises(UsageError, match=r"run\.chi is damaged: .* too deep"):
        read_all(run)


def test_brackets_in_texts_are_not_depth(run):
    with RunStore(run, write=True) as store:
        store.set_manifest({"said": ['[{"\\' * 500] * 500})

    read_all(run)


def test_a_manifest_that_cannot_be_sealed_is_not_ones_own(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]

    assert not seal.is_own({"settings": {"benchmark": deep}, "seal": seal.seal({"settings": {}})})


def test_text_that_is_not_unicode_is_refused(run):
    by_hand(run, "UPDATE trials SET why = CAST(x'61ff' AS TEXT)")

    with pytest.raises(UsageError, match=r"run\.chi"):
        read_all(run)


def test_the_commands_say_which_file_is_damaged(run, tmp_path):
    by_hand(run, "UPDATE trials SET steps = 'many'")

    assert f"{run} is damaged: Expected `int`, got `str`" in commands(run, tmp_path / "out")[1]


def test_what_is_said_of_a_damaged_file_is_short(run):
    statement = "INSERT OR REPLACE INTO grounds VALUES (1, 'passed', ?, 'i')"
    by_hand(run, statement, arguments=("x" * 3_000_000,))

    command = [sys.executable, "-m", "chimera", "runs", "show", str(run)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 2
    assert "is damaged" in ended.stderr
    assert len(ended.stderr) < 10_000


def interior_page(size: int, child: int) -> bytes:
    """A page of a table's tree with as many entries as fit, all of which lead to `child`."""
    count = (size - 12) // 7
    cells = b"".join(struct.pack(">IB", child, 1) for _ in range(count))
    start = size - len(cells)
    header = struct.pack(">BHHHBI", 5, 0, count, start, 0, child)
    pointers = b"".join(struct.pack(">H", start + 5 * i) for i in range(count))
    return (header + pointers).ljust(start, b"\0") + cells


def page_bomb(path: Path, table: str, levels: int = 15) -> None:
    """Make a table whose few pages are visited more often than anyone can wait for."""
    connection = sqlite3.connect(path)
    (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    start, pages = (root[0] - 1) * size, len(content) // size
    leaf = bytes(content[start : start + size])
    content += leaf
    for level in range(levels):
        content += interior_page(size, pages + 1 + level)
    content[start : start + size] = interior_page(size, pages + levels + 1)
    struct.pack_into(">I", content, 28, len(content) // size)
    path.write_bytes(content)


@pytest.mark.parametrize("table", ["trials", "verdicts", "spending"])
def test_a_tree_that_never_ends_is_refused(run, table):
    page_bomb(run, table)

    with pytest.raises(UsageError, match=r"run\.chi"):
        read_all(run)


@pytest.mark.parametrize("table", ["manifest", "tasks", "submissions", "calls", "artifacts"])
def test_what_is_found_by_an_index_ends(run, tmp_path, table):
    page_bomb(run, table)

    results_or_refusal(run)


def test_a_folder_with_an_endless_file_is_listed(tmp_path, run):
    honest_run(tmp_path / "z.chi")
    page_bomb(run, "trials")
    said = commands(run, tmp_path / "out")[0]

    assert "left out" in said
    assert "z " in said


def packed_zeros(size: int) -> bytes:
    compressor = zstd.ZstdCompressor()
    block = b"[" + b"0," * 500_000
    parts = [compressor.compress(block) for _ in range(size // len(block) + 1)]
    return b"".join(parts) + compressor.flush()


def bomb(path: Path) -> None:
    """127 kB were seen to take 4 GB: packed values, one text in many places, JSON of nothing."""
    honest_run(path)
    large = packed_zeros(database.MAX_UNPACKED * 4)
    assert len(large) < 200_000
    by_hand(path, "UPDATE verdicts SET evidence = ?", arguments=(large,))
    by_hand(path, "UPDATE artifacts SET content = ?", arguments=(large,))
    by_hand(path, "UPDATE trajectories SET steps = ?", arguments=(large,))


def many_values(path: Path) -> None:
    honest_run(path)
    packed = zstd.compress(b'{"log":[' + b"[]," * 8_000_000 + b"[]]}")
    by_hand(path, "UPDATE verdicts SET evidence = ?", arguments=(packed,))


def shared_text(path: Path) -> None:
    honest_run(path)
    by_hand(path, "UPDATE trials SET why = ? WHERE id = 1", arguments=("x" * 100_000,))
    by_hand(path, "DELETE FROM trials WHERE id > 1")
    page_bomb(path, "trials")


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "make", [pytest.param(bomb, marks=SLOW), pytest.param(many_values, marks=SLOW), shared_text]
)
def test_a_small_file_does_not_fill_the_memory(tmp_path, make):
    path = tmp_path / "run.chi"
    make(path)
    code = (
        "import sys, resource; from pathlib import Path\n"
        "sys.path.insert(0, sys.argv[3])\n"
        "from test_run_files import commands\n"
        "commands(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)\n"
    )
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), str(tmp_path / "out"), here],
        capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (3 * 1024**3,) * 2),
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) < 800


def test_a_rollback_journal_is_not_followed(run):
    # It can name a file that SQLite then removes.
    run.with_name("run.chi-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(600))

    for access in ({}, {"write": True}, {"create": True}):
        with pytest.raises(UsageError, match="rollback journal"):
            RunStore(run, **access)


def test_reading_leaves_the_file_and_its_folder_as_they_were(run, tmp_path):
    before = run.read_bytes()
    run.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        read_all(run)
    finally:
        tmp_path.chmod(0o755)

    assert run.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["run.chi"]


def test_a_run_under_way_is_read_beside_its_writer(tmp_path):
    path = tmp_path / "run.chi"
    with RunStore(path, create=True) as store:
        store.write(RECORD)
        with RunStore(path) as reader:
            assert [record.task_id for record in reader.records()] == ["t/1"]
            store.write(replace(RECORD, task_id="later"))
            assert [record.task_id for record in reader.records()] == ["t/1", "later"]


def test_files_of_a_trial_are_saved_below_the_folder(run, tmp_path):
    by_hand(run, "UPDATE OR IGNORE artifacts SET name = '../../' || kind || '/../x' || char(0, 27)")
    commands(run, tmp_path / "out")

    saved = [file for file in tmp_path.rglob("*") if file.is_file() and file != run]
    assert saved
    assert all((tmp_path / "out") in file.parents for file in saved)


def test_reports_of_an_instance_stay_below_the_folder(run, tmp_path):
    by_hand(run, "UPDATE trials SET task_id = '../../../../../escaped' WHERE id = 1")
    commands(run, tmp_path / "deep" / "out")

    assert not list(tmp_path.glob("escaped*"))
    assert not list(tmp_path.parent.glob("escaped*"))


def test_values_of_other_types_do_not_stop_an_export(run, tmp_path):
    evidence = zstd.compress(b'{"tests_status": 3, "log": "x"}')
    metrics = '{"patch_applied": true, "timed_out": true, "timeout": "long"}'
    steps = zstd.compress(b'[{"message":{"role":"user","content":"x"},"timestamp":1e300}]')
    by_hand(run, "UPDATE verdicts SET evidence = ?", arguments=(evidence,))
    by_hand(run, "UPDATE verdicts SET metrics = ? WHERE trial = 1", arguments=(metrics,))
    by_hand(run, "UPDATE trajectories SET steps = ?", arguments=(steps,))

    commands(run, tmp_path / "out")

    assert (tmp_path / "out" / "atif" / "t_1-0.json").is_file()
    assert list((tmp_path / "out" / "swe").rglob("t_1/patch.diff"))


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return honest_run(tmp_path_factory.mktemp("honest") / "run.chi").read_bytes()


LENIENT = [HealthCheck.function_scoped_fixture]
some = settings(deadline=None, max_examples=20, suppress_health_check=LENIENT)
many = settings(deadline=None, max_examples=300, suppress_health_check=LENIENT)


def results_or_refusal(path: Path) -> None:
    with contextlib.suppress(UsageError):
        read_all(path)
    commands(path, path.parent / "out")


def flipped_bytes(tmp_path, honest, flips):
    content = bytearray(honest)
    for place, byte in flips:
        content[place % len(content)] = byte
    path = tmp_path / "run.chi"
    path.write_bytes(content)

    results_or_refusal(path)


flips = given(
    flips=st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=12)
)
test_flipped_bytes_give_results_or_a_refusal = some(flips(flipped_bytes))
test_flipped_bytes_give_results_or_a_refusal_for_long = pytest.mark.full(many(flips(flipped_bytes)))


COLUMNS = [
    *("manifest.key", "manifest.value", "tasks.prompt", "tasks.task_id", "verdicts.metrics"),
    *("verdicts.evidence", "verdicts.why", "verdicts.score", "verdicts.passed", "artifacts.name"),
    *("artifacts.kind", "artifacts.content", "calls.cost", "calls.model", "calls.cached"),
    *("submissions.text", "submissions.raw", "submissions.data", "submissions.form"),
    *("trajectories.steps", "spending.amount"),
    *(f"trials.{name}" for name in (
        "task_id", "sample", "digest", "status", "score", "why", "error_boundary", "error_message",
        "error_retryable", "cost", "input_tokens", "steps", "duration", "started", "stop_reason",
    )),
]  # fmt: skip
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
CONTENTS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(st.characters(codec="utf-8")),
    st.binary(),
    PLAIN.map(json.dumps),
    PLAIN.map(lambda value: zstd.compress(json.dumps(value).encode())),
)


def replaced_columns(tmp_path, honest, changes):
    path = tmp_path / "run.chi"
    path.write_bytes(honest)
    for name, value in changes:
        table, column = name.split(".")
        by_hand(path, f"UPDATE OR IGNORE {table} SET {column} = ?", arguments=(value,))

    results_or_refusal(path)


changes = given(
    changes=st.lists(st.tuples(st.sampled_from(COLUMNS), CONTENTS), min_size=1, max_size=3)
)
test_replaced_columns_give_results_or_a_refusal = some(changes(replaced_columns))
test_replaced_columns_give_results_or_a_refusal_for_long = pytest.mark.full(
    many(changes(replaced_columns))
)
