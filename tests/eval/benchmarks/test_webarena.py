"""WebArena without a browser: tasks, replies, verdicts on answers and URLs."""

from __future__ import annotations

import gzip
import json
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chimera.environments.base import EnvironmentSpec
from chimera.environments.none import NoEnvironment
from chimera.errors import DatasetError, GraderError, UsageError
from chimera.eval.benchmarks._webarena.grading import Evaluation
from chimera.eval.benchmarks._webarena.sites import SITES, site_urls, variables
from chimera.eval.benchmarks.webarena import WebArena, read_reply
from chimera.eval.harness import Harness
from chimera.eval.registry import create_benchmark
from chimera.eval.values import Submission, Verdict
from chimera.types import AgentResult

URLS = {site: f"http://{site.replace('_', '-')}.test" for site in SITES}


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    for site in SITES:
        for name in variables(site):
            monkeypatch.delenv(name, raising=False)


def row(**changes: Any) -> dict[str, Any]:
    evaluation = {
        "eval_types": ["string_match"],
        "reference_answers": {"exact_match": "Quest Band"},
        "reference_url": "",
        "program_html": [],
    }
    return {
        "sites": ["shopping"],
        "task_id": 7,
        "storage_state": "./.auth/shopping_state.json",
        "start_url": "__SHOPPING__ |AND| __SHOPPING__/cart",
        "intent": "Name the best seller of __SHOPPING__",
        "intent_template_id": 3,
        "eval": evaluation | changes.pop("eval", {}),
    } | changes


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., WebArena]:
    def make(*rows: dict[str, Any], name: str = "test.raw.json", **options: Any) -> WebArena:
        lines = name.endswith("l")
        text = "\n".join(map(json.dumps, rows)) if lines else json.dumps(rows)
        (tmp_path / name).write_text(text)
        return WebArena(tmp_path, **{"urls": URLS, **options})

    return make


# ---------------------------------------------------------------------------------- real data


def test_every_task_of_the_real_data_loads(dataset: Callable[[str], Path]) -> None:
    benchmark = WebArena(dataset("webarena/test.raw.json.gz"), urls=URLS)
    tasks = benchmark.tasks()

    kinds: Counter[str] = Counter()
    for task in tasks:
        check = Evaluation.parse(json.loads(benchmark._resolved(json.dumps(task["eval"]))), "")
        kinds.update(k for k in ("string", "url", "page") if getattr(check, k) is not None)
        assert "__" not in " ".join(map(benchmark._resolved, task["start_urls"]))
    assert len(tasks) == 812
    assert kinds == {"string": 335, "url": 205, "page": 411}
    assert pickle.loads(pickle.dumps((benchmark, tasks)))[1] == tasks


def test_gold_passes_and_mutants_and_attacks_fail(dataset: Callable[[str], Path]) -> None:
    """On every real task with a reference answer; what needs a judge has no verdict without one."""
    benchmark = WebArena(dataset("webarena/test.raw.json.gz"), urls=URLS)

    def decided(task: Any, answer: Submission) -> str:
        try:
            return str(benchmark.grade(task, answer, NoEnvironment()).passed)
        except GraderError as error:
            return "judge" if "judge model" in str(error) else str(error)

    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for task in benchmark.tasks():
        gold = benchmark.gold(task)
        if gold is not None:
            right[decided(task, gold)] += 1
            wrong.update(decided(task, mutant) for mutant in benchmark.mutants(task))
            wrong.update(decided(task, attack) for _, attack in benchmark.attacks(task))
    assert right == {"True": 319, "judge": 82}
    assert set(wrong) == {"False", "judge"}
    assert wrong["False"] > 3000


# ------------------------------------------------------------------------------------- loading


def test_a_task(make: Callable[..., WebArena]) -> None:
    benchmark = make(row())
    (task,) = benchmark.tasks()

    assert task["id"] == "7"
    assert task["prompt"].startswith("Name the best seller of http://shopping.test\n")
    assert "Quest" not in task["prompt"]
    assert task["start_urls"] == ["__SHOPPING__", "__SHOPPING__/cart"]


def test_rows_of_the_older_flat_form(make: Callable[..., WebArena]) -> None:
    benchmark = make(
        {
            "task_id": "a",
            "intent": "?",
            "eval_types": ["string_match", "url_match"],
            "reference_answer": "Widget",
            "reference_url": "http://shop.test/w",
        },
        name="test.jsonl",
    )
    (task,) = benchmark.tasks()

    def passes(reply: str) -> bool:
        return benchmark.evaluate(task, reply, NoEnvironment())

    assert passes("ANSWER: widget\nURL: http://shop.test/w")
    assert not passes("ANSWER: widget\nURL: http://shop.test/v")
    assert not passes("ANSWER: gadget\nURL: http://shop.test/w")
    assert not passes("ANSWER: widget")


def test_a_configuration_file_a_task(tmp_path: Path) -> None:
    for number in (0, 1):
        (tmp_path / f"{number}.json").write_text(json.dumps(row(task_id=number)))

    assert [task["id"] for task in WebArena(tmp_path).tasks()] == ["0", "1"]


@pytest.mark.parametrize(
    ("evaluation", "problem"),
    [
        ({"eval_types": ["vibes"]}, "unknown evaluators"),
        ({"eval_types": []}, "none at all"),
        ({"reference_answers": {}}, "requires nothing"),
        ({"reference_answers": {"must_include": "x"}}, "not a list"),
        ({"reference_answers": {"close_match": "x"}}, "unknown kinds"),
        ({"eval_types": ["url_match"], "reference_url": ""}, "requires nothing"),
        (
            {"eval_types": ["url_match"], "reference_url": "x", "url_note": "EXACT"},
            "unknown rule",
        ),
        ({"eval_types": ["program_html"]}, "requires nothing"),
        (
            {
                "eval_types": ["program_html"],
                "program_html": [
                    {"url": "last", "locator": "css=a", "required_contents": {"exact_match": "x"}}
                ],
            },
            "unknown locator",
        ),
    ],
)
def test_a_task_that_cannot_be_graded_is_refused(
    make: Callable[..., WebArena], evaluation: dict[str, Any], problem: str
) -> None:
    with pytest.raises(DatasetError, match=problem):
        make(row(eval=evaluation)).tasks()


def test_an_absent_data_set_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHIMERA_WEBARENA_PATH", str(tmp_path / "none"))

    with pytest.raises(DatasetError, match="CHIMERA_WEBARENA_PATH"):
        WebArena().tasks()


def test_sites_filter_and_options_from_the_command_line(make: Callable[..., WebArena]) -> None:
    rows = [row(), row(task_id=8, sites=["shopping", "reddit"]), row(task_id=9, sites=["map"])]
    assert [t["id"] for t in make(*rows, sites=["shopping", "map"]).tasks()] == ["7", "9"]

    options = {"sites": "shopping", "urls": "shopping=http://a:1/,map=http://b", "judge": "x/y"}
    made = create_benchmark("webarena", options=options)
    assert isinstance(made, WebArena)
    assert made.urls == {"shopping": "http://a:1", "map": "http://b"}
    assert made.options()["judge"] == "x/y"
    with pytest.raises(UsageError, match="unknown"):
        WebArena(sites=["shop"])
    with pytest.raises(UsageError, match="SITE=URL"):
        WebArena(urls=["http://a"])


# ------------------------------------------------------------------------------------ the sites


def test_urls_come_from_options_then_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOPPING", "http://upstream/")
    monkeypatch.setenv("CHIMERA_WEBARENA_REDDIT", "http://forum")
    monkeypatch.setenv("MAP", "not a url")

    assert site_urls() == {"shopping": "http://upstream", "reddit": "http://forum"}
    assert site_urls({"shopping": "http://mine"})["shopping"] == "http://mine"


def test_a_site_that_is_not_set_is_said(make: Callable[..., WebArena]) -> None:
    benchmark = make(row(), urls=None)
    (task,) = benchmark.tasks()

    assert "__SHOPPING__" in task["prompt"]
    with pytest.raises(UsageError, match="CHIMERA_WEBARENA_SHOPPING"):
        benchmark._resolved("__SHOPPING__/x")


def test_what_is_missing_for_tasks_is_their_sites_and_their_judge(
    make: Callable[..., WebArena],
) -> None:
    fuzzy = {"eval_types": ["string_match"], "reference_answers": {"fuzzy_match": ["x"]}}
    benchmark = make(
        row(task_id=1, sites=["shopping"]),
        row(task_id=2, sites=["map"], eval=fuzzy),
        urls={"shopping": "http://127.0.0.1:1"},
    )

    lacks = {lack.what: lack for lack in benchmark.missing(benchmark.tasks())}

    assert "does not answer" in lacks["the site shopping"].remedy
    assert lacks["the site shopping"].tasks == {"1"}
    assert "CHIMERA_WEBARENA_MAP" in lacks["the site map"].remedy
    assert lacks["a model that judges answers"].tasks == {"2"}
    assert len(lacks) == 3


def test_replies_alone_need_no_site_but_the_addresses_that_references_name(
    make: Callable[..., WebArena],
) -> None:
    page = {"eval_types": ["program_html"], "program_html": [
        {"url": "last", "locator": "", "required_contents": {"exact_match": "x"}}]}  # fmt: skip
    address = {"eval_types": ["url_match"], "reference_url": "__MAP__/x"}
    benchmark = make(
        row(task_id=1),
        row(task_id=2, eval=page),
        row(task_id=3, eval=address),
        urls=None,
        browser=False,
    )

    lacks = {lack.what: lack.tasks for lack in benchmark.missing(benchmark.tasks())}

    assert lacks == {"what a browser saw": {"2"}, "the address of map": {"3"}}


# -------------------------------------------------------------------------------------- replies


@pytest.mark.parametrize(
    ("reply", "answer", "url"),
    [
        ('{"answer": "5", "url": "http://a/"}', "5", "http://a/"),
        ('Done:\n```json\n{"answer": 5}\n```', "5", None),
        ('{"answer": null, "url": "http://a/"}', "", "http://a/"),
        ("ANSWER: Widget Pro\nURL: http://a/b", "Widget Pro", "http://a/b"),
        ("URL: http://a/b\nANSWER: x", "x", "http://a/b"),
        ("ANSWER: no\nthen\nANSWER: yes", "yes", None),
        ("ANSWER: two\nlines\nURL: http://a", "two\nlines", "http://a"),
        ("URL: http://a/b", "", "http://a/b"),
        ("just text ", "just text", None),
        ("", "", None),
    ],
)
def test_replies(reply: str, answer: str, url: str | None) -> None:
    assert read_reply(reply) == (answer, url)


def test_a_url_that_only_quotes_the_reference_is_forged(make: Callable[..., WebArena]) -> None:
    benchmark = make(row(eval={"eval_types": ["url_match"], "reference_url": "__SHOPPING__/cart"}))
    (task,) = benchmark.tasks()

    def verdict(url: str) -> Verdict:
        return benchmark.grade(task, benchmark.extract(task, f"URL: {url}"), NoEnvironment())

    honest = verdict("http://shopping.test/cart/")
    assert honest.passed
    assert honest.metrics["url_source"] == "claimed"
    assert verdict("http://shopping.test/cart/more").metrics["url_strict"] is False
    assert not verdict("http://evil.test/shopping.test/cart").passed
    assert not verdict("").passed


def test_pages_cannot_be_checked_without_a_browser(make: Callable[..., WebArena]) -> None:
    target = {"url": "last", "locator": "", "required_contents": {"must_include": ["x"]}}
    benchmark = make(row(eval={"eval_types": ["program_html"], "program_html": [target]}))
    (task,) = benchmark.tasks()

    with pytest.raises(GraderError, match="live browser"):
        benchmark.grade(task, Submission("x"), NoEnvironment())


class Upstream(NoEnvironment):
    """An environment that decides by itself, as upstream's does."""

    def __init__(self, result: Any = 1.0) -> None:
        self.result, self.asked = result, []  # type: ignore[var-annotated]

    def evaluate_task(self, task: Any, output: str) -> Any:
        self.asked.append((task["id"], output))
        return self.result


@pytest.mark.parametrize(
    ("result", "passed"),
    [(1.0, True), (0.0, False), (0.5, False), (True, True), (Verdict(False, "no"), False)],
)
def test_an_environment_that_decides_is_delegated_to(
    make: Callable[..., WebArena], result: Any, passed: bool
) -> None:
    benchmark, env = make(row()), Upstream(result)
    (task,) = benchmark.tasks()

    assert benchmark.evaluate(task, "ANSWER: x", env) is passed
    assert env.asked == [("7", "ANSWER: x")]
    with pytest.raises(GraderError, match="yes"):
        benchmark.evaluate(task, "x", Upstream("yes"))


def test_a_run_with_the_users_own_environment(make: Callable[..., WebArena]) -> None:
    class Agent:
        def run(self, prompt: str, env: Any) -> AgentResult:
            return AgentResult("ANSWER: quest band")

    assert Harness(make(row()), Agent(), env_factory=lambda: NoEnvironment()).run().pass_rate == 1.0
    refusing = Harness(make(row()), Agent(), env_factory=lambda: Upstream(0.0), controls="off")
    assert refusing.run().pass_rate == 0.0


def test_the_judge_decides_fuzzy_answers(make: Callable[..., WebArena]) -> None:
    answers = {"reference_answers": {"fuzzy_match": ["about a week"]}}

    def verdict(judge: str) -> Verdict:
        benchmark = make(row(eval=answers), judge=judge)
        (task,) = benchmark.tasks()
        return benchmark.grade(task, Submission("seven days"), NoEnvironment())

    assert verdict("scripted/text:That is correct.").passed
    assert not verdict("scripted/text:incorrect").passed
    with pytest.raises(GraderError):
        verdict("scripted/text:who knows")


def test_replies_alone_on_demand(make: Callable[..., WebArena]) -> None:
    benchmark = make(row(), browser=False)
    (task,) = benchmark.tasks()

    assert benchmark.environments == ("none",)
    assert benchmark.environment(task) == EnvironmentSpec()
    assert benchmark.environment(make(row()).tasks()[0]).needs == frozenset()


def test_packed_data_is_read(tmp_path: Path) -> None:
    file = tmp_path / "test.raw.json.gz"
    file.write_bytes(gzip.compress(json.dumps([row()]).encode()))

    assert len(WebArena(tmp_path).tasks()) == 1
