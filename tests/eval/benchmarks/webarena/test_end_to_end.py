"""Whole trials in a real browser on a real application, with all three kinds of checks."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chimera.agents.react import ReactAgent
from chimera.cli.main import main
from chimera.environments.base import Environment
from chimera.environments.browser import BrowserEnvironment
from chimera.environments.web.settings import BrowserSettings
from chimera.eval.benchmarks._webarena.grading import PageCheck
from chimera.eval.benchmarks._webarena.site_checks import SiteHelpers
from chimera.eval.benchmarks.webarena import WebArena
from chimera.eval.benchmarks.webarena_verified import WebArenaVerified
from chimera.eval.harness import Harness
from chimera.eval.runs.store import RunStore
from chimera.providers import create_provider
from chimera.types import AgentResult

pytestmark = pytest.mark.xdist_group("trac")  # one Trac for all of them
Move = tuple[Any, ...]


def field(name: str) -> str:
    return rf"textbox '{name}"


@dataclass(frozen=True)
class ScriptedVisitor:
    """Plays written moves: ("click", pattern of the element's line), ("type", pattern, text), …"""

    moves: dict[str, list[Move]]  # by a word of the prompt

    def run(self, prompt: str, env: Environment) -> AgentResult:
        assert isinstance(env, BrowserEnvironment)
        chosen = next(moves for word, moves in self.moves.items() if word in prompt)
        for move in chosen:
            self._play(env, *move)
        return AgentResult("", steps=len(chosen))

    def _play(self, env: BrowserEnvironment, name: str, *arguments: Any) -> None:
        tool = next(tool for tool in env.tools() if tool.name == name)
        if name in ("click", "hover", "type"):
            found = re.search(rf"\[(\d+)\] {arguments[0]}", env.observe())
            assert found, f"no {arguments[0]} in:\n{env.observe()}"
            known: dict[str, Any] = {"id": int(found[1])}
            if name == "type":
                known |= {"text": arguments[1], "press_enter": False}
        else:
            known = dict(zip(tool.parameters["properties"], arguments, strict=True))
        result = tool.execute(known, env)
        assert result.error is None, result.error


def row(number: int, intent: str, start: str, **evaluation: Any) -> dict[str, Any]:
    """A task in the official shape; the application stands in for the code host."""
    return {
        "sites": ["gitlab"],
        "task_id": number,
        "require_login": False,
        "storage_state": None,
        "start_url": f"__GITLAB__{start}",
        "intent": intent,
        "intent_template_id": 1,
        "eval": {
            "eval_types": list(evaluation),
            "reference_answers": evaluation.get("string_match"),
            "reference_url": evaluation.get("url_match", ""),
            "program_html": evaluation.get("program_html", []),
        },
    }


def ticket_checks(number: int, summary: str, priority: str) -> list[dict[str, Any]]:
    page = f"__GITLAB__/ticket/{number}"
    return [
        {
            "url": page,
            "locator": "document.querySelector('.summary').outerText",
            "required_contents": {"exact_match": summary},
        },
        {
            "url": page,
            "locator": "document.querySelector('td[headers=h_priority]').outerText",
            "required_contents": {"must_include": [priority]},
        },
        {"url": page, "locator": "", "required_contents": {"must_include": ["Garden |OR| Plot"]}},
    ]


ROWS = [
    row(1, "VERSION of the software?", "/about", string_match={"must_include": ["1.6"]}),
    row(2, "OPEN the form for new tickets.", "/wiki", url_match="__GITLAB__/newticket"),
    row(
        3,
        "CREATE a ticket 'Water the roses' of priority critical.",
        "/newticket",
        program_html=ticket_checks(1, "Water the roses", "critical"),
    ),
    row(
        4,
        "SAVE the word compost on the wiki page Garden, and stay there.",
        "/wiki/Garden",
        url_match="__GITLAB__/wiki/Garden",
        program_html=[
            {
                "url": "last",
                "locator": "document.querySelector('#wikipage').outerText",
                "required_contents": {"must_include": ["compost"]},
            }
        ],
    ),
]

RIGHT: dict[str, list[Move]] = {
    "VERSION": [("scroll", "down"), ("stop", "It is Trac 1.6.")],
    "CREATE": [
        ("type", field("Summary"), "Water the roses"),
        ("click", "option 'critical'"),
        ("scroll", "down"),
        ("scroll", "down"),
        ("click", "button 'Create ticket'"),
        ("stop", ""),
    ],
    "SAVE": [
        ("click", r"button 'Create this page'"),
        ("type", "textbox .. focused: True", "Leaves make compost."),
        ("press", "End"),
        ("scroll", "down"),
        ("scroll", "down"),
        ("click", "button 'Submit changes'"),
        ("stop", ""),
    ],
}


@pytest.fixture
def benchmark_for(tmp_path: Path, trac: str) -> Any:
    def make(*rows: dict[str, Any], **options: Any) -> WebArena:
        data = tmp_path / "test.raw.json"
        data.write_text(json.dumps(rows))
        urls = {"gitlab": trac}
        return WebArena(data, urls=urls, settle=0.2, log_in=False, **options)

    return make


@pytest.mark.slow
def test_wrong_end_states_fail_and_right_ones_pass(
    benchmark_for: Any, tmp_path: Path, trac: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same tasks, first with the work only claimed, then done."""
    claims = {
        "CREATE": [("stop", "Ticket 1 'Water the roses' is created, priority critical.")],
    }
    undone = Harness(benchmark_for(ROWS[2]), ScriptedVisitor(claims), concurrency=1).run()
    assert [(r.status, r.why.split(":")[0]) for r in undone.results] == [("failed", "program_html")]

    store = tmp_path / "run.chimera"
    rows = [ROWS[0], *ROWS[2:]]  # the second one is a model's, below
    done = Harness(benchmark_for(*rows), ScriptedVisitor(RIGHT), concurrency=1, store=store).run()
    assert [(r.status, r.why) for r in done.results] == [("passed", "")] * 3

    with RunStore(store) as stored:
        record = stored.record("3", 0)
    assert record.verdict is not None
    pictures = [name for name in record.verdict.evidence if name.endswith(".png")]
    assert len(pictures) >= 5
    assert record.verdict.evidence[pictures[-1]].startswith(b"\x89PNG")
    assert "trace.zip" in record.verdict.evidence
    with pytest.raises(SystemExit) as ended:
        main(["runs", "show", str(store), "3"])
    assert not ended.value.code
    assert "screenshot-01.png" in capsys.readouterr().out

    with BrowserEnvironment(BrowserSettings(sites=(trac,), start_urls=(trac,))) as env:

        def holds(number: int, summary: str, priority: str) -> bool:
            targets = json.dumps(ticket_checks(number, summary, priority))
            check = PageCheck.parse(
                {"program_html": json.loads(targets.replace("__GITLAB__", trac))}
            )
            return check.decide(env.live_page(wait=0.2), SiteHelpers()).passed

        assert holds(1, "Water the roses", "critical")
        assert not holds(1, "Water the roses", "minor")
        assert not holds(1, "Water the tulips", "critical")
        assert not holds(99, "Water the roses", "critical")


def test_a_model_solves_a_task_through_the_react_loop(
    benchmark_for: Any, tmp_path: Path, trac: str
) -> None:
    script = tmp_path / "script.json"
    calls = [("goto", {"url": f"{trac}/newticket"}), ("stop", {"answer": ""})]
    script.write_text(
        json.dumps([{"content": "", "tool_calls": [{"name": n, "arguments": a}]} for n, a in calls])
    )
    benchmark = benchmark_for(ROWS[1])
    agent = benchmark.prepare_agent(ReactAgent(provider=create_provider(f"scripted/{script}")))

    result = Harness(benchmark, agent).run()

    assert agent.max_steps == 30
    assert [(r.status, r.why) for r in result.results] == [("passed", "")]
    assert result.results[0].steps == 2


@pytest.mark.full
def test_a_model_without_tools_writes_its_actions(
    benchmark_for: Any, tmp_path: Path, trac: str
) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(["I look. ```goto [" + trac + "/about]```", "```stop [1.6]```"]))
    agent = ReactAgent(provider=create_provider(f"scripted/{script}"))

    result = Harness(benchmark_for(ROWS[0]), agent).run()

    assert [(r.status, r.why) for r in result.results] == [("passed", "")]


@pytest.mark.full
def test_a_page_that_stops_answering_is_no_verdict(benchmark_for: Any, trac: str) -> None:
    """The checks could not be made, so there is neither a pass nor a fail."""

    class Hanger:
        def run(self, prompt: str, env: Environment) -> AgentResult:
            assert isinstance(env, BrowserEnvironment)
            env.live_page().evaluate("() => { setTimeout(() => { while (true) {} }, 0) }")
            env.act("scroll", {"direction": "down"})
            return AgentResult("")

    result = Harness(benchmark_for(ROWS[3]), Hanger(), attempts=1).run()

    assert [r.status for r in result.results] == ["error"]
    assert "does not respond" in result.results[0].why


def test_the_verified_flavour_hands_in_the_network_archive(tmp_path: Path, trac: str) -> None:
    data = tmp_path / "webarena-verified.json"
    expected = {"task_type": "retrieve", "status": "SUCCESS", "retrieved_data": ["1.6"]}
    schema = {"type": "array", "items": {"type": "string"}}
    check = {"evaluator": "AgentResponseEvaluator", "expected": expected, "results_schema": schema}
    data.write_text(
        json.dumps(
            [
                {
                    "sites": ["gitlab"],
                    "task_id": 1,
                    "start_urls": ["__GITLAB__/about"],
                    "intent": "Get the VERSION.",
                    "eval": [check],
                }
            ]
        )
    )
    benchmark = WebArenaVerified(data, urls={"gitlab": trac}, log_in=False)
    reply = json.dumps({**expected, "task_type": "RETRIEVE"})
    store = tmp_path / "run.chimera"

    result = Harness(benchmark, ScriptedVisitor({"VERSION": [("stop", reply)]}), store=store).run()

    assert [(r.status, r.why) for r in result.results] == [("passed", "")]
    with RunStore(store) as stored:
        archive = stored.artifacts("1", 0, "submission")["network.har"]
    assert f"{trac}/about".encode() in archive
