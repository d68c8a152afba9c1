"""What a person sees while a run goes on."""

from __future__ import annotations

import io

from chimera.cli.display import LiveDisplay, PlainLines
from chimera.eval.values import TrialError, TrialRecord, Verdict

RECORDS = [
    TrialRecord("a", 0, "", verdict=Verdict(True), cost=0.5),
    TrialRecord("b", 0, "", verdict=Verdict(False, "x != y")),
    TrialRecord("c", 0, "", error=TrialError("provider", "HTTP 500")),
]


def test_the_live_display_shows_progress_rate_cost_running_and_errors():
    from rich.console import Console

    display = LiveDisplay()
    with display:
        display.planned(5, 1)
        for record in RECORDS:
            display.started(record.task_id, 0)
            display.finished(record)
        display.started("slow", 0)
        console = Console(file=io.StringIO(), width=120)
        console.print(display._render())
    text = console.file.getvalue()

    assert "4/5" in text
    assert "passed 50.0%" in text
    assert "$0.5000" in text
    assert "errors: provider 1" in text
    assert "slow#0" in text


def test_plain_lines_say_what_decided(capsys):
    display = PlainLines()
    display.planned(3, 0)
    for record in RECORDS:
        display.finished(record)
    lines = capsys.readouterr().err.splitlines()

    assert lines[0] == "3 trials"
    assert "fail  b#0" in lines[2]
    assert "x != y" in lines[2]
    assert "ERROR c#0" in lines[3]
