"""The official package's process: started once, asked again and again, replaced when it ends."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimera.errors import GraderError
from chimera.eval.benchmarks._webarena_verified.package import OutOfTimeError, Package

API = """
import os
from pathlib import Path

with (Path(__file__).parent / "starts").open("a") as file:
    file.write("started\\n")


class Result(dict):
    def model_dump_json(self):
        import json
        return json.dumps(self)


class WebArenaVerified:
    def __init__(self, config):
        print("noise")

    def evaluate_task(self, task_id, agent_response, network_trace):
        if agent_response == "end":
            os._exit(3)
        if agent_response == "burn":
            os.kill(os.getpid(), 24)  # SIGXCPU, as the kernel sends it
        if agent_response.startswith("["):
            from webarena_verified.core.evaluation.evaluators import agent_response_evaluator
            read = agent_response_evaluator.AgentResponseEvaluator._normalized_actual_value
            read(None, agent_response)
        if agent_response == "raise":
            raise ValueError("no such thing")
        return Result(task_id=task_id, status="success", score=1.0)
"""

#: Reads replies as the official one does: lists hold alternatives, `^…$` is a pattern.
EVALUATOR = """
import json


class Value:
    def __init__(self, raw):
        self.raw = raw
        self.alternatives = raw if isinstance(raw, list) else [raw]
        self.is_regexp = str(self.alternatives[0]).startswith("^")


class AgentResponseEvaluator:
    def _normalized_actual_value(self, reply):
        return {"status": Value("SUCCESS"), "retrieved_data": tuple(map(Value, json.loads(reply)))}
"""


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Package]:
    """The driver with a package of this test's own in the official one's place."""
    folder = tmp_path / "webarena_verified"
    evaluators = "core/evaluation/evaluators"
    (folder / "types").mkdir(parents=True)
    (folder / evaluators).mkdir(parents=True)
    for name, content in {
        "__init__.py": "",
        "api.py": API,
        "types/__init__.py": "",
        f"{evaluators}/agent_response_evaluator.py": EVALUATOR,
        "types/config.py": "WebArenaVerifiedConfig = dict",
    }.items():
        (folder / name).write_text(content)
    python = tmp_path / "python"
    start = (
        f"import runpy, sys; sys.path.insert(0, '{tmp_path}'); "
        "runpy.run_path(sys.argv[2], run_name='__main__')"
    )
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{start}" "$@"\n')
    python.chmod(0o755)
    found = Package(str(python))
    yield found
    found.close()


def job(response: str) -> dict[str, object]:
    return {"task_id": 7, "response": response, "trace": [], "environments": {}}


def starts(tmp_path: Path) -> int:
    return len((tmp_path / "webarena_verified" / "starts").read_text().splitlines())


def test_one_process_decides_everything(package: Package, tmp_path: Path) -> None:
    found = [package.result(job("an answer")) for _ in range(3)]

    assert found == [{"task_id": 7, "status": "success", "score": 1.0}] * 3
    assert starts(tmp_path) == 1


@pytest.mark.parametrize(("response", "says", "started"), [("raise", "no such", 1), ("end", "", 2)])
def test_what_breaks_is_an_error_and_the_next_verdict_is_right(
    package: Package, tmp_path: Path, response: str, says: str, started: int
) -> None:
    with pytest.raises(GraderError, match=f"gave no result: .*{says}"):
        package.result(job(response))

    assert package.result(job("an answer"))["status"] == "success"
    assert starts(tmp_path) == started


@pytest.mark.parametrize(
    "reply",
    [
        '["^.*$"]',
        '[" ^.*$"]',
        "[[1, 2, 3]]",
        '["http://localhost/?q=%5E.*%24"]',
        '[{"name": "^.*$"}]',
        '[{"state": ["Ohio", "Utah"]}]',
    ],
)
def test_a_reply_gives_values_and_no_patterns_or_alternatives(package: Package, reply: str) -> None:
    with pytest.raises(GraderError, match="and no value"):
        package.result(job(reply))

    for honest in ('["$5 ^ 2"]', "[17]", '["http://localhost/?q=a"]', '[{"name": "Ohio"}]'):
        assert package.result(job(honest))["status"] == "success"


def test_what_takes_all_of_its_cpu_time_is_told_from_what_breaks(package: Package) -> None:
    with pytest.raises(OutOfTimeError):
        package.result(job("burn"))

    assert package.result(job("an answer"))["status"] == "success"
