"""The pages in real Chromium: clicks, keys, a run that goes on, hostile text, phones, axe-core."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chimera.cache import made_once
from chimera.eval.runs.store import RunStore
from chimera.eval.values import Submission, TrialRecord, Verdict
from chimera.types import Message, Step, ToolCall
from tests.conftest import missing
from tests.view.made_runs import make_run

playwright = pytest.importorskip("playwright.sync_api")
AXE = "axe-core@4.14.0"
HOSTILE = (
    "<script>window.owned = 1</script><img src=x onerror='window.owned = 1'>"
    '"><svg onload=alert(1)> </pre></template></script><style>*{display:none}</style>'
    "{{ 7 * 7 }} \x1b]0;owned\x07\x1b[31mred\x1b[0m \u202eevil\u2066 [x](javascript:alert(1)) "
    "http://evil.example/x.png"
)
pytestmark = pytest.mark.xdist_group("viewer")  # one Chromium for all of them
PAGES = (
    "/", "/run/a/", "/run/many/", "/run/a/trial?task=numbers-3&sample=0",
    "/run/b/trial?task=graphs-5&sample=0", "/run/a/part?task=graphs-0&sample=0&part=evidence:log",
    "/run/a/search?text=order", "/run/a/rests", "/run/a/rests?list=all",
    "/compare?run=a&run=b&run=many",
    "/pair?run=a&run=b&task=parsing-1&sample=0&other=0", "/absent",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser(require: Any) -> Iterator[Any]:
    from chimera.environments.web.settings import chromium

    if not os.environ.get("CHIMERA_CHROMIUM"):
        require("chromium")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=chromium(), chromium_sandbox=os.geteuid() != 0
        )
        yield started
        started.close()


@pytest.fixture
def visit(browser: Any, serving: Callable[[Path], str], runs: Path) -> Iterator[Callable[..., Any]]:
    """`visit("/run/a/")`: a page of ours that has been opened with the first address."""
    contexts: list[Any] = []
    first = serving(runs)

    def open_page(path: str = "/", **settings: Any) -> Any:
        context = browser.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.requested = []
        page.on("request", lambda request: page.requested.append(request.url))
        page.on("dialog", lambda dialog: page.requested.append("dialog"))
        page.goto(first)
        page.wait_for_url("**/")
        if path != "/":
            page.goto(first.partition("/?")[0] + path)
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def axe(require: Any) -> str:
    """The accessibility checker, as a script; fetched once and kept."""
    npm = require("npm")

    def install(folder: Path) -> None:
        command = [npm, "install", "--silent", "--no-audit", "--prefix", str(folder), AXE]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            missing(f"{AXE} cannot be installed: {done.stderr[-300:]}")

    folder = made_once("test-environments", AXE, install)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def test_two_runs_are_picked_and_compared_by_clicks(visit):
    page = visit()
    for name in ("a", "b"):
        page.get_by_label(f"Pick {name}", exact=True).check()
    page.get_by_role("button", name="Compare picked runs").click()

    page.wait_for_url("**/compare?*")
    assert "B against A" in page.inner_text("main")
    page.get_by_role("link", name="A | B").first.click()
    page.wait_for_url("**/pair?*")
    assert page.locator(".side").count() > 2


def test_two_runs_are_picked_and_compared_by_keys(visit):
    page = visit()
    for key in ("j", "x", "j", "x", "c"):
        page.keyboard.press(key)
    page.wait_for_url("**/compare?*")

    page.keyboard.press("u")
    page.wait_for_url("**/")
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()


def test_arrows_go_from_trial_to_trial_of_the_same_filter(visit):
    page = visit("/run/b/?status=failed")
    names = [row.inner_text() for row in page.locator("table.tasks tbody th").all()]
    page.locator("table.tasks tbody th a").first.click()
    seen = []
    for _ in range(3):
        seen.append(page.locator("h1").inner_text())
        url = page.url
        page.keyboard.press("ArrowRight")
        page.wait_for_url(lambda new, url=url: new != url)
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("name => document.querySelector('h1').innerText === name", arg=seen[2])

    assert seen == names[:3]
    assert "status=failed" in page.url


def test_filters_are_in_the_address(visit):
    page = visit("/run/a/")
    page.get_by_label("Outcome").select_option("failed")
    page.get_by_label("Sort by").select_option("cost")
    page.locator("#tasks").get_by_role("button", name="Show").click()
    page.wait_for_url("**status=failed*")

    assert "sort=cost" in page.url
    assert page.locator(".cell.passed").count() == 0
    page.get_by_role("link", name="graphs", exact=True).first.click()
    page.wait_for_url("**group=topic*")
    assert page.locator("table.tasks tbody tr").count() == 6


def test_kinds_of_steps_are_hidden_and_the_address_says_so(visit):
    page = visit("/run/a/trial?task=graphs-0&sample=0")
    page.get_by_label("results").uncheck()

    assert page.locator(".step.tool").first.is_hidden()
    assert "hide=tool" in page.url
    page.reload()
    assert page.locator(".step.tool").first.is_hidden()
    page.keyboard.press("f")
    assert page.locator(".step.assistant[open]").count() == 0


def test_a_page_follows_a_run_that_goes_on(visit, runs):
    page = visit("/run/many/")
    page.evaluate("window.same = true")
    before = page.locator("#headline .lead").first.inner_text()
    with RunStore(runs / "many.chi", write=True) as store:
        for record in list(store.records(whole=True))[:10]:
            store.write(TrialRecord(record.task_id, 9, "d", Submission("x"), Verdict(True)))
        page.wait_for_function(
            "text => document.querySelector('#headline .lead').innerText !== text", arg=before
        )

    assert " of 58 " in page.locator("#headline .lead").first.inner_text().replace("\n", " ")
    assert page.evaluate("window.same"), "the page was not loaded again"
    assert page.locator("#told").inner_text() == page.locator("#headline .lead").first.inner_text()


def test_notes_are_kept_beside_the_run_and_found_by_their_labels(visit, runs):
    before = (runs / "a.chi").read_bytes()
    page = visit("/run/a/trial?task=graphs-0&sample=0")
    page.keyboard.press("n")
    page.keyboard.type(f"odd {HOSTILE[:40]}")
    page.get_by_label("Labels").fill("flaky, Look again")
    page.get_by_role("button", name="Keep").click()
    page.wait_for_url("**#notes")

    assert page.locator("textarea").input_value() == f"odd {HOSTILE[:40]}"
    page.goto(page.url.partition("/trial")[0] + "/?label=look+again")
    assert page.locator("table.tasks tbody tr").count() == 1
    assert json.loads((runs / "a.chi.notes.json").read_text())[0]["labels"] == [
        "flaky",
        "look again",
    ]
    assert (runs / "a.chi").read_bytes() == before


def test_words_are_found_in_steps_and_lead_there(visit):
    page = visit("/run/a/")
    page.keyboard.press("/")
    page.keyboard.type("loses order Try")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?*")
    page.locator("mark").first.wait_for()
    page.locator(".hits a", has_text="parsing-1").first.click()
    page.wait_for_url("**#step-*")

    assert page.locator(".step:target").is_visible()


@pytest.fixture
def hostile(runs: Path) -> Path:
    """A run that is one attack on whoever looks at it."""
    path = runs / f"evil{HOSTILE[:8].replace('/', '')}.chi"
    line = "x" * 50_000_000
    calls = (ToolCall("1", HOSTILE, {HOSTILE: HOSTILE}), ToolCall("2", "raw", None, HOSTILE))
    steps = (
        Step(Message.user(HOSTILE)),
        Step(Message("assistant", HOSTILE, calls), metadata={HOSTILE: HOSTILE}),
        Step(Message.tool(line, "1")),
    )
    evidence = {HOSTILE: HOSTILE, "page.png": b"<script>window.owned = 1</script>", "log": HOSTILE}
    with RunStore(path, create=True) as store:
        store.set_manifest(
            {
                "identity": {"benchmark": HOSTILE},
                "model": HOSTILE,
                "agent": HOSTILE,
                HOSTILE: HOSTILE,
            }
        )
        store.add_tasks([{"id": HOSTILE, "prompt": HOSTILE, "metadata": {"kind": HOSTILE[:60]}},
                         {"id": "b", "prompt": "", "metadata": {"kind": "b"}}])  # fmt: skip
        verdict = Verdict(False, HOSTILE, None, {HOSTILE: HOSTILE, "odd": [HOSTILE]}, evidence)
        for task in (HOSTILE, "b"):
            store.write(TrialRecord(task, 0, "d", Submission(HOSTILE), verdict, trajectory=steps))
    return path


def test_hostile_text_is_only_shown(visit, hostile):
    from urllib.parse import quote

    page = visit()
    names = [page.url]
    run = f"/run/{quote(hostile.stem)}/"
    trial = f"{run}trial?task={quote(HOSTILE)}&sample=0"
    for path in (
        "/", run, f"{run}?group={quote('kind:' + HOSTILE[:60])}", trial,
        f"{run}part?task={quote(HOSTILE)}&sample=0&part=step:3&from=40000000",
        f"{run}part?task={quote(HOSTILE)}&sample=0&part=step:2", f"{run}search?text=owned+evil",
        f"/compare?run={quote(hostile.stem)}&run=a",
        f"/pair?run={quote(hostile.stem)}&run={quote(hostile.stem)}&task={quote(HOSTILE)}",
    ):  # fmt: skip
        answer = page.goto(names[0].rstrip("/") + path)
        assert answer.status == 200, path
        assert len(answer.body()) < 200_000, path
        assert page.evaluate("window.owned") is None
        assert page.locator("main").is_visible()
        assert not any(sign in page.content() for sign in "\x1b\u202e\u2066\x07")
        assert "{{ 7 * 7 }}" in page.content() or HOSTILE[:20] not in page.inner_text("main")
    assert all(url.startswith(names[0]) for url in page.requested), page.requested


def test_a_picture_that_is_none_runs_nothing(visit, hostile):
    from urllib.parse import quote

    page = visit()
    answer = page.request.get(
        f"{page.url}run/{quote(hostile.stem)}/file?task=b&sample=0&kind=evidence&name=page.png"
    )

    assert answer.headers["content-type"] == "application/octet-stream"
    assert "attachment" in answer.headers["content-disposition"]


@pytest.mark.parametrize("width", [360, 768])
def test_no_page_is_wider_than_a_phone(visit, width):
    page = visit(viewport={"width": width, "height": 700})
    home = page.url.rstrip("/")
    for path in PAGES:
        page.goto(home + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


@pytest.mark.parametrize(
    ("scheme", "rules"),
    [("light", {}), ("dark", {"runOnly": ["color-contrast"]})],  # the rest is the same
    ids=["light", "dark"],
)
def test_axe_finds_nothing_serious(visit, axe, scheme, rules):
    page = visit(color_scheme=scheme, reduced_motion="reduce")
    home, found = page.url.rstrip("/"), []
    for path in PAGES:
        page.goto(home + path)
        page.evaluate(axe)
        options = {"resultTypes": ["violations"], **rules}
        result = page.evaluate("options => axe.run(document, options)", options)
        found += [
            (path, violation["id"], violation["nodes"][0]["html"][:120])
            for violation in result["violations"]
            if violation["impact"] in ("serious", "critical")
        ]

    assert found == []


def test_colours_are_chosen_and_kept(visit):
    page = visit(color_scheme="light")
    page.keyboard.press("t")
    page.wait_for_url("**theme=dark*")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("link", name="Chimera", exact=True).click()
    page.wait_for_url("**/")

    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    assert dark != "rgb(255, 255, 255)"


def test_a_report_opens_from_the_disk_with_no_network(browser, runs, hostile, tmp_path, axe):
    from chimera.view.report import write_report

    target = tmp_path / "report.html"
    write_report([hostile], target, "all")
    page = browser.new_page(offline=True)
    requested = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(target.as_uri())
    page.locator("details.trial > summary").first.click()
    page.locator("details.trial .fold pre").first.wait_for()

    assert "window.owned = 1" in page.locator("details.trial").first.inner_text()
    assert page.evaluate("window.owned") is None
    assert requested == [target.as_uri()]
    page.evaluate(axe)
    result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [v["id"] for v in result["violations"] if v["impact"] in ("serious", "critical")] == []
    page.close()


def test_a_report_of_two_runs_compares_them(browser, runs, tmp_path):
    from chimera.view.report import write_report

    target = tmp_path / "two.html"
    make_run(runs / "c.chi", tasks=30, seed=8)
    write_report([runs / "a.chi", runs / "b.chi", runs / "c.chi"], target, None)
    page = browser.new_page(viewport={"width": 360, "height": 700})
    page.goto(target.as_uri())

    assert "C against A" in page.inner_text("main")
    assert page.locator("details.trial").count() > 10
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()
