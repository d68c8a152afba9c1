"""A run as continuous integration reads it: JUnit XML, CTRF, GitHub's annotations and summary.

Task ids and reasons come from data sets and models: they are text in these formats, never markup,
never a command to the runner.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from chimera import __version__
from chimera.eval.runs.result import LISTED, EvalResult, TaskEvalResult, json_lines
from chimera.eval.runs.store import RunStore
from chimera.text import first_line, markdown, one_line
from chimera.types import JSON

#: GitHub shows ten annotations of a step at the most.
MOST_REASONS = 4

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CTRF_STATUS = {"passed": "passed", "failed": "failed", "error": "other"}


def junit(store: RunStore) -> Iterator[str]:
    """The lines of a JUnit XML file: failed is a failure, no verdict an error, not run skipped."""
    result = EvalResult.of(store)
    name = _attribute(result.benchmark)
    counts = (
        f'tests="{result.total + result.not_run}" failures="{result.failed}" '
        f'errors="{result.errored}" time="{_seconds(store):.3f}"'
    )
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<testsuites name="chimera" {counts}>'
    yield f'<testsuite name={name} {counts} skipped="{result.not_run}">'
    for trial in result.iter_results():
        yield from _test_case(trial, name)
    for task, sample in _not_run(store):
        case = f"<testcase classname={name} name={_attribute(_title(task, sample))}"
        yield f'{case} time="0"><skipped message="not run"/></testcase>'
    yield "</testsuite>"
    yield "</testsuites>"


def _test_case(trial: TaskEvalResult, suite: str) -> Iterator[str]:
    title = _attribute(_title(trial.task_id, trial.sample))
    head = f'<testcase classname={suite} name={title} time="{trial.duration:.3f}"'
    if trial.status == "passed":
        yield f"{head}/>"
        return
    kind = "failure" if trial.status == "failed" else "error"
    message = _attribute(first_line(trial.why) or trial.status)
    yield f'{head}><{kind} type="{trial.status}" message={message}>{_text(trial.why)}</{kind}>'
    yield "</testcase>"


def ctrf(store: RunStore) -> Iterator[str]:
    """The lines of a Common Test Report Format document; no verdict is "other"."""
    result = EvalResult.of(store)
    skipped = (
        {"name": _title(task, sample), "status": "skipped", "duration": 0}
        for task, sample in _not_run(store)
    )
    started = int(1000 * float(store.manifest().get("started", 0)))
    summary = {
        "tests": result.total + sum(1 for _ in _not_run(store)),
        "passed": result.passed,
        "failed": result.failed,
        "pending": 0,
        "skipped": result.not_run,
        "other": result.errored,
        "start": started,
        "stop": started + int(1000 * _seconds(store)),
    }
    results = {
        "tool": {"name": "chimera", "version": __version__},
        "summary": summary,
        "tests": [LISTED],
        "extra": result.summary(),
    }
    document = {"reportFormat": "CTRF", "specVersion": "0.0.0", "results": results}
    return json_lines(document, chain(map(_ctrf_test, result.iter_results()), skipped))


def _ctrf_test(trial: TaskEvalResult) -> dict[str, JSON]:
    test: dict[str, JSON] = {
        "name": _title(trial.task_id, trial.sample),
        "status": _CTRF_STATUS[trial.status],
        "duration": round(1000 * trial.duration),
        "rawStatus": trial.status,
        "extra": {
            "score": trial.score,
            "cost": trial.cost,
            "metrics": trial.metrics,
            "uninformative": trial.uninformative,
            "uncontrolled": trial.uncontrolled,
        },
    }
    if trial.why:
        test |= {"message": first_line(trial.why), "trace": trial.why}
    return test


def github_commands(result: EvalResult, headline: str) -> Iterator[str]:
    """GitHub's workflow commands: the headline, and the reasons by how often they came."""
    yield f"::notice title=chimera::{_command_text(headline)}"
    for reason, count in result.reasons(MOST_REASONS):
        level = "error" if reason.startswith("[error]") else "warning"
        yield f"::{level} title=chimera {count} ×::{_command_text(one_line(reason))}"


def step_summary(result: EvalResult, headline: str) -> str:
    """Markdown for GitHub's job page."""
    summary = result.summary()
    cost = "unknown" if result.total_cost is None else f"${result.total_cost:.4f}"
    rows = {
        "model": summary["model"] or "–",
        "agent": summary["agent"] or "–",
        "passed": result.passed,
        "failed": result.failed,
        "no verdict": result.errored + result.not_run,
        "cost": cost,
        "run": Path(result.store.path).name,
    }
    lines = [f"### {markdown(headline)}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {markdown(str(value))} |" for name, value in rows.items()]
    reasons = result.reasons()
    if reasons:
        lines += ["", "| times | why not |", "|---|---|"]
        lines += [f"| {count} | {markdown(reason)} |" for reason, count in reasons]
    return "\n".join(lines) + "\n\n"


def _title(task: str, sample: int) -> str:
    return f"{task}#{sample}" if sample else task or "(no name)"


def _not_run(store: RunStore) -> Iterator[tuple[str, int]]:
    """Trials that were planned and of which nothing is stored."""
    samples = int(store.manifest().get("samples", 1))
    planned = int(store.manifest().get("planned", 0))
    left = max(0, planned - store.trial_count())
    query = (
        "SELECT task_id FROM tasks WHERE NOT EXISTS (SELECT 1 FROM trials "
        "WHERE trials.task_id = tasks.task_id AND sample = ?) LIMIT ?"
    )
    for sample in range(samples if left else 0):
        for (task,) in store.rows(tuple[str], query, (sample, left)):
            left -= 1
            yield task, sample


def _seconds(store: RunStore) -> float:
    rows = store.rows(tuple[float], "SELECT duration FROM trials")
    return sum(duration for (duration,) in rows)


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("�", text))


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("�", one_line(text)))


def _command_text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
