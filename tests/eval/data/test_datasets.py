"""Rows from every kind of file; what is damaged is refused with its place."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest

from chimera.errors import DatasetError
from chimera.eval import filed
from chimera.eval.benchmark import tasks_of
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.data.rows import row_place, rows
from chimera.eval.filed import ById
from chimera.eval.run import explained_backend, select_tasks, shard_of
from chimera.eval.values import Task, Verdict

ROWS = [{"id": "a", "n": 1}, {"id": "b", "n": 2}]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)


class Tiny(DatasetBenchmark):
    slug = "tiny"
    setup = "Write tiny.jsonl."
    files = ("tiny.jsonl", "tiny.json")

    def task(self, row):
        return Task(id=row["id"], prompt=str(row["n"]))

    def grade(self, task, submission, env):
        return Verdict(submission.text == task["prompt"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", LINES.encode()),
        ("a.jsonl", b"\n" + LINES.encode() + b"\n\n"),
        ("a.json", json.dumps(ROWS).encode()),
        ("a.json", json.dumps({"tasks": ROWS}).encode()),
        ("a.jsonl.gz", gzip.compress(LINES.encode(), mtime=0)),
        ("a.json.gz", gzip.compress(json.dumps(ROWS).encode(), mtime=0)),
    ],
)
def test_rows_of_json_files(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)

    assert list(rows(tmp_path / name)) == ROWS


def test_rows_of_csv(tmp_path):
    (tmp_path / "a.csv").write_text('id,n\na,"1\n2"\nb,3\n')

    assert list(rows(tmp_path / "a.csv")) == [{"id": "a", "n": "1\n2"}, {"id": "b", "n": "3"}]


def test_rows_of_a_directory_come_in_the_order_of_names(tmp_path):
    (tmp_path / "2.json").write_text(json.dumps(ROWS[1]))
    (tmp_path / "1.json").write_text(json.dumps(ROWS[0]))
    (tmp_path / "notes.txt").write_text("not data")

    assert list(rows(tmp_path)) == ROWS


def test_rows_of_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow (extra 'parquet') is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "a.parquet")

    assert list(rows(tmp_path / "a.parquet")) == ROWS


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.jsonl", LINES.encode() + b'{"id": ', "a.jsonl:3: not valid JSON"),
        ("a.jsonl", b"[1]\n", "a.jsonl:1: expected an object"),
        ("a.json", b"[1", "a.json: not valid JSON"),
        ("a.json", b'["x"]', "entry 0: expected an object"),
        ("a.jsonl.gz", gzip.compress(LINES.encode() * 500, mtime=0)[:-20], "damaged"),
        ("a.jsonl.gz", b"not gzip at all", "damaged"),
        ("a.csv", b"id,n\na\n", "header's columns"),
        ("a.txt", b"", "not a known data file"),
        ("a.json", b"[" * 100_000, "not valid JSON"),
    ],
)
def test_damaged_files_are_refused_with_their_place(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)

    with pytest.raises(DatasetError, match=says):
        list(rows(tmp_path / name))


def test_a_decompression_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("chimera.eval.data.rows.MAX_BYTES", 1 << 20)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b" " * (8 << 20)))

    with pytest.raises(DatasetError, match="unpacks to more than"):
        list(rows(tmp_path / "a.jsonl.gz"))


def test_a_data_set_is_found_by_option_variable_and_directory(tmp_path, monkeypatch):
    for place in ("option", "variable", "root/tiny"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "tiny.jsonl").write_text(LINES)
    monkeypatch.setenv("CHIMERA_DATASETS_DIR", str(tmp_path / "root"))
    assert Tiny().dataset().source() == tmp_path / "root/tiny/tiny.jsonl"
    monkeypatch.setenv("CHIMERA_TINY_PATH", str(tmp_path / "variable"))
    assert Tiny().dataset().source() == tmp_path / "variable/tiny.jsonl"
    assert Tiny(tmp_path / "option").dataset().source() == tmp_path / "option/tiny.jsonl"
    assert [task["id"] for task in Tiny(tmp_path / "option").tasks()] == ["a", "b"]


def test_an_absent_data_set_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_DATASETS_DIR", str(tmp_path))

    with pytest.raises(DatasetError) as error:
        Tiny().tasks()

    message = str(error.value)
    assert "no dataset for 'tiny'" in message
    assert "Write tiny.jsonl." in message
    assert "CHIMERA_TINY_PATH" in message


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (LINES + LINES, "row 2: id 'a' appears twice"),
        ('{"id": "a"}\n', "row 0 has no field 'n'"),
        ("", "no task"),
    ],
)
def test_rows_that_do_not_fit_are_refused(tmp_path, content, says):
    (tmp_path / "tiny.jsonl").write_text(content)

    with pytest.raises(DatasetError, match=says):
        Tiny(tmp_path / "tiny.jsonl").tasks()


def test_a_row_of_a_directory_is_told_with_its_file(tmp_path):
    (tmp_path / "one.jsonl").write_text(LINES)
    (tmp_path / "two.jsonl").write_text('{"id": "c"}\n')

    assert row_place(tmp_path, 1) == f"{tmp_path}/one.jsonl: row 1"
    assert row_place(tmp_path, 2) == f"{tmp_path}/two.jsonl: row 0"


def test_limit(tmp_path):
    (tmp_path / "tiny.jsonl").write_text(LINES)

    assert [t["id"] for t in Tiny(tmp_path / "tiny.jsonl", limit=1).tasks()] == ["a"]
    assert list(Tiny(tmp_path / "tiny.jsonl", limit=0).tasks()) == []
    with pytest.raises(DatasetError, match="negative"):
        Tiny(limit=-1)


def peak(work):
    """Bytes that work holds at the most, beside what was there before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def gone_through(benchmark):
    """What the engine does with tasks before a run, and when it is graded again."""
    tasks = tasks_of(benchmark)
    chosen = select_tasks(tasks, f"{len(tasks) // 2}:", ["*1*", "*2*", "*3*"])
    assert sum(1 for _ in shard_of(chosen, "2/3"))
    assert explained_backend(benchmark, tasks)[0] == "none"
    assert len(ById(tasks)) == len(tasks)


def test_memory_hardly_grows_with_the_tasks(tmp_path, monkeypatch):
    monkeypatch.setattr(filed, "FEW", 200)
    few, many = 500, 3500
    peaks = []
    for count in (few, many):
        path = tmp_path / f"{count}.jsonl"
        lines = (json.dumps({"id": f"t{n}", "n": f"{n} {'x' * 300}"}) for n in range(count))
        path.write_text("\n".join(lines))
        gone_through(Tiny(path))
        peaks.append(peak(lambda path=path: gone_through(Tiny(path))))

    assert (peaks[1] - peaks[0]) / (many - few) < 20


def test_many_tasks_are_those_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(filed, "FEW", 20)
    path = tmp_path / "tiny.jsonl"
    path.write_text("".join(f'{{"id": "t{n}", "n": {n}}}\n' for n in range(300)))
    tasks = Tiny(path).tasks()
    path.unlink()

    expected = [{"id": f"t{n}", "prompt": str(n)} for n in range(300)]
    assert list(tasks) == expected
    assert [tasks[0], tasks[150], tasks[-1]] == [expected[0], expected[150], expected[-1]]
    assert list(select_tasks(tasks, "3", ["t*7"])) == [expected[7], expected[17], expected[27]]
    assert list(shard_of(tasks, "7/7")) == expected[6::7]


def test_an_id_that_comes_again_far_behind_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(filed, "FEW", 20)
    path = tmp_path / "tiny.jsonl"
    path.write_text("".join(f'{{"id": "t{n % 290}", "n": {n}}}\n' for n in range(300)))

    with pytest.raises(DatasetError, match="row 290: id 't0' appears twice"):
        Tiny(path).tasks()
