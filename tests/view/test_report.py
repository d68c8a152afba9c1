"""Reports: small, whole, and with foreign text that means nothing in any of their languages."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib

import pytest

from chimera.errors import UsageError
from chimera.eval.runs.store import RunStore
from chimera.eval.values import Submission, TrialRecord, Verdict
from chimera.types import Message, Step
from chimera.view.report import write_report
from tests.view.made_runs import make_run

ODD = "a|b`c`$x_1$ \\input{/etc/passwd} <b>&\n## no heading %"


@pytest.fixture
def written(tmp_path):
    """`written("report.md", run, …)`: the text of a report."""

    def write(name, *runs, chosen=None):
        write_report(list(runs), tmp_path / name, chosen)
        return (tmp_path / name).read_text(encoding="utf-8")

    return write


@pytest.fixture
def odd(tmp_path):
    path = tmp_path / "odd.chi"
    with RunStore(path, create=True) as store:
        store.set_manifest({"identity": {"benchmark": ODD}, "model": ODD, "agent": ODD})
        store.write(TrialRecord(ODD, 0, "d", Submission(ODD), Verdict(False, ODD)))
    return path


def blocks(text):
    for packed in re.findall(r'<template id="block-\d+">([^<]*)</template>', text):
        yield from json.loads(zlib.decompress(base64.b64decode(packed)))


def test_a_report_holds_the_trials_that_were_asked_for(runs, written):
    with RunStore(runs / "a.chi") as store:
        not_passed = sum(not record.passed for record in store.records())
    failed = written("failed.html", runs / "a.chi")

    assert failed.count('class="fold trial"') == len(list(blocks(failed))) == not_passed
    assert written("none.html", runs / "a.chi", chosen="none").count('class="fold trial"') == 0
    assert written("all.html", runs / "a.chi", chosen="all").count('class="fold trial"') == 30


def test_the_trials_of_a_report_are_whole(runs, written):
    (first, *_) = blocks(written("all.html", runs / "a.chi", chosen="all"))
    titles = [part["title"] for part in first]

    assert titles[:4] == ["prompt", "report", "log", "answer"]
    assert titles[4:] == [f"{n} · {role}" for n, role in enumerate(
        ("system", "user", "assistant", "tool", "assistant", "tool", "assistant"), 1)]  # fmt: skip


def test_long_trials_are_shortened_so_that_a_report_stays_small(tmp_path, written):
    import random

    draw = random.Random(0)
    path = tmp_path / "long.chi"
    with RunStore(path, create=True) as store:
        for number in range(300):
            said = draw.randbytes(20_000).hex()
            steps = [Step(Message.user(said[i : i + 400])) for i in range(0, len(said), 400)]
            store.write(
                TrialRecord(
                    f"t{number}", 0, "d", Submission("x"), Verdict(False), trajectory=tuple(steps)
                )
            )
    text = written("long.html", path)

    assert len(text) < 5_000_000
    assert len(list(blocks(text))) == 300


def test_nothing_in_a_report_is_loaded(runs, written):
    text = written("all.html", runs / "a.chi", runs / "b.chi", chosen="all")

    assert not re.search(r"<link|<img|<iframe|\ssrc=|https?://(?!www.w3.org)", text)
    assert "script-src 'sha256-" in html.unescape(text)


def test_foreign_text_means_nothing_in_markdown(odd, written):
    text = written("odd.md", odd)
    rows = [line for line in text.splitlines() if line.startswith("|")]

    assert "\n## no" not in text
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {8}
    assert "``` a\\|b`c`" in text or "`` a\\|b`c`" in text


def test_foreign_text_means_nothing_in_latex(odd, written):
    text = written("odd.tex", odd)

    assert r"\textbackslash{}input\{" in text
    assert r"\input{" not in text.replace(r"\textbackslash{}input", "")
    assert r"\$x\_1\$" in text


def test_several_runs_are_compared_in_every_form(runs, written):
    three = [runs / "a.chi", runs / "b.chi", make_run(runs / "c.chi", tasks=30, seed=5)]

    assert "B against A" in written("c.html", *three)
    assert written("c.md", *three).count("| against A |") == 1
    assert "C $-$ A" in written("c.tex", *three)


@pytest.mark.parametrize("name", ["r.html", "r.md", "r.tex"])
def test_what_a_reader_must_know_is_in_every_form(runs, written, name):
    with RunStore(runs / "b.chi", write=True) as store:
        store.set_manifest({"identity": {"benchmark": "repository-tasks", "grader": "4"}})
    text = written(name, runs / "a.chi", runs / "b.chi")

    assert "differ in their grader" in text


def test_rows_of_latex_do_not_begin_with_an_order(runs, written):
    for name in ("a", "b"):
        with RunStore(runs / f"{name}.chi", write=True) as store:
            store.set_manifest({"model": "[5cm]*"})

    assert "\n[5cm" not in written("r.tex", runs / "a.chi", runs / "b.chi")


@pytest.mark.parametrize(
    ("name", "chosen", "why"),
    [("report.pdf", None, "a report is a file of"), ("r.html", "flipped", "needs two runs")],
)
def test_what_cannot_be_written_is_said(runs, written, name, chosen, why):
    with pytest.raises(UsageError, match=why):
        written(name, runs / "a.chi", chosen=chosen)
