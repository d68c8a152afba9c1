"""A run in the formats of other programs, as those read them."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from chimera.errors import UsageError
from chimera.eval.exports import export_files, export_lines
from chimera.eval.runs.store import RunStore
from chimera.eval.values import Submission, TrialError, TrialRecord, Verdict
from chimera.providers.meter import CallRecord
from chimera.types import Message, Step, ToolCall, Usage

HOSTILE = '=HYPERLINK("http://x")\n,"\'\0\x1b'


def text_of(store, kind):
    return "".join(f"{line}\n" for line in export_lines(store, kind))


@pytest.fixture
def store(tmp_path):
    """One trial of an agent with tools, a failure with a hostile text, an error."""
    call = ToolCall("c1", "bash", {"command": "ls", "n": 1}, "")
    steps = (
        Step(Message.user("do it"), timestamp=100.0),
        Step(Message.assistant("", [call]), usage=Usage(5, 2), cost=0.1, timestamp=101.0),
        Step(Message.tool("file", "c1"), timestamp=103.0),
        Step(Message.assistant("done"), timestamp=104.0),
    )
    with RunStore(tmp_path / "run.chi", create=True) as opened:
        opened.set_manifest(
            {
                "identity": {"benchmark": "human-eval", "options": {}},
                "model": "maker/m",
                "agent": "react",
                "planned": 3,
                "samples": 1,
                "started": 100.0,
            }
        )
        opened.add_tasks([{"id": task, "prompt": f"solve {task}"} for task in ("a/1", "b", "c")])
        opened.write(
            TrialRecord(
                "a/1", 0, "d", Submission("x = 1", raw="done"), Verdict(True, metrics={"m": 1}),
                usage=Usage(5, 2, 1), cost=0.1, steps=4, duration=5.0, started=100.0,
                calls=(CallRecord("maker/m", Usage(5, 2, 1), 0.1, 100.5, 0.5),), trajectory=steps,
            )
        )  # fmt: skip
        opened.write(TrialRecord("b", 0, "d", Submission(HOSTILE), Verdict(False, HOSTILE)))
        opened.write(TrialRecord("c", 0, "d", error=TrialError("provider", "gone"), started=100.0))
        yield opened


def test_no_cell_of_a_csv_file_is_a_formula(store):
    rows = list(csv.DictReader(io.StringIO(text_of(store, "csv"))))

    assert [row["status"] for row in rows] == ["passed", "failed", "error"]
    assert rows[1]["output"].startswith("'=HYPERLINK")
    assert rows[1]["why"].startswith("'=")
    assert rows[0]["cost"] == "0.1"
    assert rows[2]["score"] == ""


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", " =", "＝"])
def test_whatever_begins_a_formula_is_marked(tmp_path, start):
    with RunStore(tmp_path / "run.chi", create=True) as store:
        store.write(TrialRecord(f"{start}1+1", 0, "", verdict=Verdict(True)))
        (row,) = csv.DictReader(io.StringIO(text_of(store, "csv"), newline=""))

    assert row["task_id"] == f"'{start}1+1"


def test_parquet_has_the_types_of_the_columns(store, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    export_files(store, "parquet", tmp_path / "out" / "trials.parquet")
    rows = parquet.read_table(tmp_path / "out" / "trials.parquet").to_pylist()

    assert [row["passed"] for row in rows] == [True, False, False]
    assert (rows[0]["cost"], rows[0]["input_tokens"], rows[2]["score"]) == (0.1, 5, None)
    assert rows[1]["output"] == HOSTILE


def spans_of(line):
    (resource,) = json.loads(line)["resourceSpans"]
    return resource["scopeSpans"][0]["spans"]


def test_spans_of_a_trial_form_one_trace(store):
    lines = text_of(store, "otlp").splitlines()
    root, call, tool = spans_of(lines[0])

    assert len(lines) == 3
    assert {span["traceId"] for span in (root, call, tool)} == {root["traceId"]}
    assert (len(root["traceId"]), len(root["spanId"])) == (32, 16)
    assert call["parentSpanId"] == tool["parentSpanId"] == root["spanId"]
    assert [span["name"] for span in (root, call, tool)] == [
        "invoke_agent react", "chat maker/m", "execute_tool bash"
    ]  # fmt: skip
    assert (tool["startTimeUnixNano"], tool["endTimeUnixNano"]) == ("101000000000", "103000000000")
    assert spans_of(lines[2])[0]["status"] == {"code": 2, "message": "provider: gone"}
    tokens = next(a for a in call["attributes"] if a["key"] == "gen_ai.usage.input_tokens")
    assert tokens["value"] == {"intValue": "5"}


def test_every_eval_ever(store, tmp_path):
    (summary,) = export_files(store, "every-eval-ever", tmp_path / "eee")
    document = json.loads(summary.read_text())
    (result,) = document["evaluation_results"]
    samples = tmp_path / "eee" / document["detailed_evaluation_results"]["file_path"]
    lines = [json.loads(line) for line in samples.read_text().splitlines()]

    assert summary.parent == tmp_path / "eee" / "data" / "human-eval" / "maker" / "m"
    assert result["score_details"]["score"] == pytest.approx(1 / 3)
    assert result["score_details"]["details"]["errored"] == "1"
    assert [line["interaction_type"] for line in lines] == ["agentic", "single_turn", "single_turn"]
    assert [line["error"] for line in lines] == [None, None, "provider: gone"]
    assert lines[0]["messages"][1]["tool_calls"][0]["arguments"] == {"command": "ls", "n": "1"}


def test_an_inspect_log_is_whole(store, tmp_path):
    export_files(store, "inspect", tmp_path / "run.eval")
    with zipfile.ZipFile(tmp_path / "run.eval") as archive:
        header = json.loads(archive.read("header.json"))
        sample = json.loads(archive.read("samples/a/1_epoch_1.json"))
        summaries = json.loads(archive.read("summaries.json"))

    assert header["results"]["scores"][0]["metrics"]["accuracy"]["value"] == pytest.approx(1 / 3)
    assert [message["role"] for message in sample["messages"]] == [
        "user", "assistant", "tool", "assistant"
    ]  # fmt: skip
    assert sample["scores"]["chimera"]["value"] == "C"
    assert [summary["error"] for summary in summaries] == [None, None, "provider: gone"]


@pytest.mark.parametrize("task", ["../../x", "/etc/x", "a//b", "a\\..\\b", ".", "x" * 70_000])
def test_no_id_leaves_an_inspect_log(tmp_path, task):
    with RunStore(tmp_path / "run.chi", create=True) as store:
        store.write(TrialRecord(task, 0, "", verdict=Verdict(True)))
        export_files(store, "inspect", tmp_path / "run.eval")
    with zipfile.ZipFile(tmp_path / "run.eval") as archive:
        (name,) = (name for name in archive.namelist() if name.startswith("samples/"))

    assert name.count("/") == 1
    assert ".." not in name


def test_a_run_without_verdicts_has_no_score_in_any_format(tmp_path):
    with RunStore(tmp_path / "run.chi", create=True) as store:
        store.write(TrialRecord("a", 0, "", error=TrialError("agent", "broke")))
        export_files(store, "inspect", tmp_path / "run.eval")
        with pytest.raises(UsageError, match="has no verdict"):
            export_files(store, "every-eval-ever", tmp_path / "every")
    with zipfile.ZipFile(tmp_path / "run.eval") as archive:
        header = json.loads(archive.read("header.json"))

    assert header["results"]["scores"] == []


READ = """
import sys
from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries
assert read_eval_log_sample(sys.argv[1], id="a/1", epoch=1).messages[1].tool_calls
log = read_eval_log(sys.argv[1])
assert len(read_eval_log_sample_summaries(sys.argv[1])) == 3
for sample in log.samples:
    score = sample.scores["chimera"].value if sample.scores else sample.error.message
    print(sample.id, sample.epoch, score, len(sample.messages))
print(log.status, log.results.scores[0].metrics["accuracy"].value)
"""


@pytest.mark.full
def test_inspect_itself_reads_the_log(store, tmp_path):
    """With the real package, in an interpreter of its own (CHIMERA_INSPECT_PYTHON names one)."""
    interpreter = os.environ.get("CHIMERA_INSPECT_PYTHON")
    if not interpreter:
        pytest.skip("CHIMERA_INSPECT_PYTHON is not set: an interpreter with inspect_ai is needed")
    export_files(store, "inspect", tmp_path / "run.eval")
    done = subprocess.run(
        [interpreter, "-c", READ, tmp_path / "run.eval"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert sorted(lines[:3]) == ["a/1 1 C 4", "b 1 I 2", "c 1 provider: gone 1"]
    assert lines[3].startswith("success 0.33")


def test_human_evals_own_results(store, tmp_path):
    (results,) = export_files(store, "human-eval", tmp_path / "official")
    lines = [json.loads(line) for line in results.read_text().splitlines()]

    assert results.name == "samples.jsonl_results.jsonl"
    assert [(line["task_id"], line["passed"]) for line in lines] == [("a/1", True), ("b", False)]
    assert lines[0]["result"] == "passed"
    assert lines[1]["result"].startswith("failed: ")


def run_of(path, benchmark, options, records):
    with RunStore(path, create=True) as store:
        identity = {"benchmark": benchmark, "options": options}
        store.set_manifest({"identity": identity, "model": "maker/m", "started": 100.0})
        store.add_tasks([{"id": r.task_id, "prompt": "p", "metadata": {}} for r in records])
        for record in records:
            store.write(record)
    return RunStore(path)


def test_evalplus_own_results(tmp_path):
    passed = Verdict(True, metrics={"base": True, "plus": True})
    half = Verdict(False, metrics={"base": True, "plus": False, "limit": "cpu"})
    records = [
        TrialRecord("HumanEval/0", 0, "", Submission("x"), passed),
        TrialRecord("HumanEval/0", 1, "", Submission("y"), half),
        TrialRecord("HumanEval/1", 0, "", error=TrialError("provider", "gone")),
    ]
    with run_of(tmp_path / "r.chi", "humaneval-plus", {}, records) as store:
        (file,) = export_files(store, "evalplus", tmp_path / "official")
    content = json.loads(file.read_text())

    assert list(content["eval"]) == ["HumanEval/0"]
    samples = content["eval"]["HumanEval/0"]
    assert [s["plus_status"] for s in samples] == ["pass", "timeout"]
    assert content["pass_at_k"] == {"base": {"pass@1": 1.0}, "plus": {"pass@1": 0.5}}


def test_livecodebenchs_own_results(tmp_path):
    records = [
        TrialRecord("1873_A", n, "", Submission("code", raw="reply"), Verdict(n == 0))
        for n in (0, 1)
    ]
    with run_of(tmp_path / "r.chi", "livecodebench", {}, records) as store:
        (file,) = export_files(store, "livecodebench", tmp_path / "official")
    (problem,) = json.loads(file.read_text())

    assert file.name == "Scenario.codegeneration_eval_all.json"
    assert problem["graded_list"] == [True, False]
    assert (problem["code_list"], problem["output_list"]) == (["code"] * 2, ["reply"] * 2)
    assert problem["pass@1"] == 0.5


def test_tau2s_own_results(tmp_path):
    messages = [{"role": "assistant", "content": "Hi"}, {"role": "user", "content": "###STOP###"}]
    data = {"messages": messages, "termination_reason": "user_stop"}
    record = TrialRecord("3", 1, "", Submission("", data=data), Verdict(True, score=1.0))
    with run_of(tmp_path / "r.chi", "tau2-bench", {"domain": "mock"}, [record]) as store:
        (file,) = export_files(store, "tau2", tmp_path / "official")
    content = json.loads(Path(file).read_text())
    (simulation,) = content["simulations"]

    assert content["info"]["environment_info"]["domain_name"] == "mock"
    assert (simulation["task_id"], simulation["trial"], simulation["messages"]) == (
        "3",
        1,
        messages,
    )
    assert simulation["reward_info"]["reward"] == 1.0
