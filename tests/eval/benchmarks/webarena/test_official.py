"""Agreement with libwebarena's own evaluators, run in an environment of their own."""

from __future__ import annotations

import html
import itertools
import json
import os
import random
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from chimera.environments.browser import BrowserEnvironment
from chimera.environments.web.settings import BrowserSettings
from chimera.errors import RunError
from chimera.eval.benchmarks._webarena.grading import PageCheck, StringCheck, UrlCheck
from chimera.eval.benchmarks._webarena.site_checks import SiteHelpers
from chimera.eval.benchmarks._webarena.sites import SITES
from chimera.eval.benchmarks.webarena import WebArena

pytestmark = pytest.mark.full

URLS = {site: f"http://{site.replace('_', '-')}.test" for site in SITES}


class Official:
    """The official evaluators in a process of the Python they are installed in."""

    def __init__(self, python: Path, *arguments: str, **variables: str) -> None:
        driver = Path(__file__).with_name("official_driver.py")
        self._process = subprocess.Popen(
            [python, driver, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **variables},
        )

    def decide(self, case: Mapping[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "libwebarena's process ended"
        return json.loads(answer)

    def __enter__(self) -> Official:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def python(installed: Callable[..., Path]) -> Path:
    if configured := os.environ.get("CHIMERA_LIBWEBARENA_PYTHON"):
        return Path(configured)
    return installed("libwebarena", "libwebarena==0.0.5") / "python"


# -------------------------------------------------------------------------- answers and URLs


def perturbed(text: str, others: list[str], chance: random.Random) -> Iterator[str]:
    """The answer itself, and what agents make of it."""
    yield from (text, text.upper(), f' "{text}" ', f"'{text}'", f"{text}.", f"({text})", f"${text}")
    yield from (f"The answer is {text}.", f"{text}, of course", f"{text}0", f"1{text}", f"{text}%")
    yield from (text.replace(" ", "  "), text.replace(",", ""), text[: len(text) // 2], text[::-1])
    yield from (f"{text}\n{text}", text.replace(" ", "\n"), f"- {text};", f"{text}: yes", "N/A", "")
    yield from (chance.choice(others), f"{chance.choice(others)} {text}", f"{text}'s", f"x{text}x")
    yield from ("".join(chance.choice(text + " .,'\"5") for _ in range(8)) for _ in range(3))


def test_string_match_agrees_on_every_reference_answer(
    dataset: Callable[[str], Path], python: Path, record_property: Any
) -> None:
    benchmark = WebArena(dataset("webarena/test.raw.json.gz"), urls=URLS)
    chance = random.Random(1)
    tasks = [task for task in benchmark.tasks() if task["eval"]["reference_answers"]]
    golds = [str(gold.text) for task in tasks if (gold := benchmark.gold(task)) is not None]
    counts: Counter[str] = Counter()
    with Official(python) as official:
        for task in tasks:
            check = StringCheck.parse(task["eval"], task["intent"])
            fuzzy = " ".join(check.fuzzy)
            reference = check.exact or " ".join((*check.include, fuzzy)) or "N/A"
            for answer, mark in itertools.product(perturbed(reference, golds, chance), (0.0, 1.0)):
                if mark == 1.0 and not (check.fuzzy or check.unachievable):
                    continue
                ours = check.decide(answer, judge(mark)).passed
                config = {"eval": task["eval"], "intent": task["intent"]}
                case = {"kind": "string_match", "config": config, "answer": answer}
                theirs = official.decide({**case, "stub": {"fuzzy": mark, "ua": mark}})
                if not answer.strip() and (check.fuzzy or check.unachievable):
                    assert not ours  # upstream asks the judge even about an empty answer
                    counts["empty, not asked"] += 1
                else:
                    assert theirs == {"score": float(ours)}, (task["id"], answer)
                    counts["agree, pass" if ours else "agree, fail"] += 1
    record_property("string_match", dict(counts))
    print("string_match", dict(counts))
    assert counts["agree, pass"] > 1500
    assert counts["agree, fail"] > 1500


def judge(mark: float) -> Callable[[str], str]:
    def reply(question: str) -> str:
        if "examination" in question:
            return "correct" if mark else "incorrect"
        return "same" if mark else "different"

    return reply


def test_url_match_agrees_on_every_reference_url(
    dataset: Callable[[str], Path], python: Path, record_property: Any
) -> None:
    benchmark = WebArena(dataset("webarena/test.raw.json.gz"), urls=URLS)
    chance = random.Random(2)
    tasks = [task for task in benchmark.tasks() if task["eval"]["reference_url"]]
    others = [benchmark._resolved(task["eval"]["reference_url"]) for task in tasks]
    counts: Counter[str] = Counter()
    with Official(python) as official:
        for task in tasks:
            evaluation = json.loads(benchmark._resolved(json.dumps(task["eval"])))
            check = UrlCheck.parse(evaluation)
            for url in perturbed_urls(evaluation["reference_url"], others, chance):
                ours = check.decide(url).passed
                case = {"kind": "url_match", "config": {"eval": evaluation}, "url": url}
                assert official.decide(case) == {"score": float(ours)}, (task["id"], url)
                counts["agree, pass" if ours else "agree, fail"] += 1
    record_property("url_match", dict(counts))
    print("url_match", dict(counts))
    assert counts["agree, pass"] > 1000
    assert counts["agree, fail"] > 1000


def perturbed_urls(reference: str, others: list[str], chance: random.Random) -> Iterator[str]:
    for url in reference.split(" |OR| "):
        path, _, query = url.partition("?")
        yield from (url, f"{url}/", path, f"{path}/more", f"{path}x", f"{url}#part", path[:-1])
        yield from (url.replace("http:", "https:"), url.upper(), f"{url}{'&' if query else '?'}a=1")
        yield from (
            f"http://evil.test/{url}",
            f"http://evil.test/?u={url}",
            url.replace("%20", "+"),
        )
        yield from (
            f"{path}?{query}&{query}",
            f"{path}?x=&{query.replace('=', '=0')}",
            "about:blank",
        )
        yield from (
            chance.choice(others),
            "?".join(reversed(url.split("?"))),
            url.replace("/", "//"),
        )
    yield from (reference, reference.replace(" |OR| ", "|OR|"))


def test_tokens_agree_with_the_official_tokeniser(python: Path) -> None:
    """Random texts around single digits, where the rule for tokens decides."""
    chance = random.Random(3)
    pieces = [*"05.,:;'\"-$%()[]{}<>?!*&#@/ ax\n", "...", "--", "''", " ", " ", "'s", "“", "’", "–"]
    with Official(python) as official:
        for _ in range(6000):
            answer = "".join(chance.choice(pieces) for _ in range(chance.randint(1, 9)))
            config = {"eval": {"reference_answers": {"must_include": ["5"]}}, "intent": ""}
            theirs = official.decide({"kind": "string_match", "config": config, "answer": answer})
            ours = StringCheck(include=("5",)).decide(answer, None).passed
            assert theirs == {"score": float(ours)}, repr(answer)


# ------------------------------------------------------------------------------- live pages

MEMBERS = "".join(
    f"<tr><td data-label='Account'><span class='gl-avatar-labeled-sublabel'>@{name}</span></td>"
    f"<td class='col-max-role'><span>{role}</span></td></tr>"
    for name, role in {"koush": "Developer", "yjlou": "Reporter", "a'b": "Guest"}.items()
)
SITE_PAGES = {
    "/members": f"<title>Members</title><table>{MEMBERS}</table>",
    "/f/books/42/": "<title>Post</title>"
    "<div class='submission__inner'>A post &lt;of&gt; words</div>"
    "<input id='n' value='5'><input id='empty' value=''><ul><li>one<li>two &amp; three</ul>",
}


class Sites(BaseHTTPRequestHandler):
    """Pages in the shape of the forum and the code host, and the shop's REST interface."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/rest/V1/products/"):
            known = "B0" in path
            rating = [{"rating_name": "Rating", "percent": 80}]
            self._answer(json.dumps([{"nickname": "Emma & Co", "ratings": rating}] * known))
        elif path == "/rest/V1/orders":
            self._answer(json.dumps({"items": [{"increment_id": "00042"}]}))
        elif path.startswith("/sales/order/view/order_id/42"):
            self._answer("<title>Order</title><h1>Order # 42</h1><p class='total'>$ 10.00</p>")
        else:
            self._answer(SITE_PAGES.get(path, f"<title>Other</title><p>{html.escape(path)}"))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer('"token"')

    def _answer(self, text: str) -> None:
        content = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def sites() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Sites) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def requirements(*texts: str) -> list[dict[str, Any]]:
    """Ways to require what is there, and what is not."""
    found: list[dict[str, Any]] = []
    for text in texts:
        found += [
            {"exact_match": text},
            {"exact_match": f"'{text.upper()}'"},
            {"exact_match": f"{text}."},
            {"must_include": [text]},
            {"must_include": [text[:3], text[-2:]]},
            {"must_include": [f"nothing |OR| {text}"]},
            {"must_include": ["nothing", text]},
            {"must_include": [f"nothing|OR|{text}"]},
        ]
    return [
        *found,
        {"exact_match": ""},
        {"must_include": ["None"]},
        {"must_include": ["0"]},
        {"exact_match": "x", "must_include": texts[:1]},
        {"fuzzy_match": texts[0]},
    ]


def few(text: str) -> list[dict[str, Any]]:
    """The same for cases that open a page each."""
    return requirements(text)[:8]


Cases = dict[str, tuple[str, list[dict[str, Any]]]]


def live_cases(trac: str, sites: str) -> Cases:
    """kind → (where the browser is, targets)."""
    wiki, post = f"{trac}/wiki/WikiStart", f"{sites}/f/books/42/comment/7"

    def targets(
        url: str, locator: str, required: list[dict[str, Any]], **more: Any
    ) -> list[dict[str, Any]]:
        return [
            {"url": url, "locator": locator, "required_contents": item, **more} for item in required
        ]

    heading = "document.querySelector('h1').outerText"
    title = requirements("Welcome to Trac", "Trac")
    role = "func:gitlab_get_project_memeber_role(__page__, '{}')"
    click = ["document.querySelector('#trac-wiki-expander') || null"]
    open_post = "func:reddit_get_post_url('__last_url__')"
    return {
        "empty, last": (wiki, targets("last", "", requirements("Welcome to Trac", "</html>"))),
        "empty, fixed": (post, targets(f"{sites}/members", "  ", few("Reporter"))),
        "querySelector": (wiki, targets("last", heading, title)),
        "querySelector, other page": (post, targets(wiki, heading, few("Welcome to Trac"))),
        "querySelectorAll": (
            wiki,
            targets(
                "last",
                "document.querySelectorAll('#mainnav a')[1].outerText",
                requirements("Timeline", "TIMELINE"),
            ),
        ),
        "spread": (
            wiki,
            targets(
                "last",
                "[...document.querySelectorAll('#mainnav a')].map(e => e.innerText).join(' ')",
                requirements("Wiki Timeline", "Roadmap"),
            )
            + targets("last", "[...document.querySelectorAll('h1')].length", requirements("1")),
        ),
        "values of other kinds": (
            f"{sites}/f/books/42/",
            [
                target
                for script in (
                    "document.querySelector('#none')",
                    "document.querySelector('#none').value",
                    "document.querySelector('#n').value * 1.0",
                    "document.querySelector('#n').value / 2",
                    "document.querySelector('#n').value == 5",
                    "document.querySelector('#empty').value",
                    "document.nonsense(",
                    "[...document.querySelectorAll('li')].map(e => e.innerText)",
                    "document.querySelector('li')",
                )
                for target in targets("last", script, requirements("5"))
            ],
        ),
        "prep_actions": (wiki, targets("last", heading, title, prep_actions=click)),
        "prep_actions that fail": (
            wiki,
            targets("last", heading, title, prep_actions=["document.none.click()"]),
        ),
        "prep_actions that change the page": (
            f"{sites}/f/books/42/",
            targets(
                "last",
                "document.querySelector('.submission__inner').outerText",
                requirements("changed", "hang"),
                prep_actions=["document.querySelector('.submission__inner').innerText = 'changed'"],
            ),
        ),
        "func: member role": (
            f"{sites}/members",
            [
                target
                for name in ("koush", "yjlou", "nobody", "")
                for target in targets("last", role.format(name), requirements("Developer"))
            ],
        ),
        "func: member role, other page": (
            post,
            targets(f"{sites}/members", role.format("yjlou"), few("Reporter")),
        ),
        "func: review author": (
            wiki,
            targets(
                "last",
                "func:shopping_get_sku_latest_review_author('B07')",
                requirements("Emma & Co", "Emma &amp; Co"),
            )
            + targets(
                "last", "func:shopping_get_sku_latest_review_author('none')", requirements("Emma")
            ),
        ),
        "func: review rating": (
            wiki,
            targets(
                "last", "func:shopping_get_sku_latest_review_rating('B07')", requirements("80", "8")
            )
            + targets(
                "last", "func:shopping_get_sku_latest_review_rating('none')", requirements("80")
            ),
        ),
        "url func: post": (
            post,
            targets(
                open_post,
                "document.querySelector('.submission__inner').outerText",
                few("A post <of> words"),
            ),
        ),
        "url func: no post": (
            f"{sites}/u/somebody",
            targets(
                open_post,
                "document.querySelector('p').outerText",
                few("/u/somebody"),
            ),
        ),
        "url func: latest order": (
            wiki,
            targets(
                "func:shopping_get_latest_order_url()",
                "document.querySelector('h1').outerText",
                few("Order # 42"),
            ),
        ),
    }


def test_program_html_agrees_on_the_same_live_page(
    python: Path, trac: str, sites: str, record_property: Any
) -> None:
    """Upstream's evaluator is connected to the very tab that ours looks at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = BrowserSettings(
        sites=(trac, sites), arguments=(f"--remote-debugging-port={port}",), start_urls=(trac,)
    )
    helpers = SiteHelpers({"shopping": sites})
    counts: dict[str, Counter[str]] = {}
    with (
        BrowserEnvironment(settings) as env,
        Official(python, f"http://127.0.0.1:{port}", SHOPPING=sites, NO_PROXY="*") as official,
    ):
        for kind, (url, targets) in live_cases(trac, sites).items():
            assert env.act("goto", {"url": url}).error is None
            counts[kind] = Counter()
            for target in targets:
                evaluation = {"program_html": [target]}
                case = {"kind": "program_html", "config": {"eval": evaluation}, "url": url}
                theirs = official.decide(case)
                assert theirs == decided(evaluation, env, helpers), (kind, target)
                outcome = "error" if "error" in theirs else f"score {theirs['score']:g}"
                counts[kind][outcome] += 1
            print(f"{kind}: {counts[kind].total()} {dict(counts[kind])}", flush=True)
    record_property("program_html", {kind: dict(count) for kind, count in counts.items()})
    for kind, count in counts.items():
        opens = "fixed" in kind or "other page" in kind or "url func" in kind
        assert count.total() >= (8 if opens else 20), kind
        assert count["score 0"] >= 2, kind
        assert count["score 1"] >= 2, kind


def decided(
    evaluation: dict[str, Any], env: BrowserEnvironment, helpers: SiteHelpers
) -> dict[str, Any]:
    """Our verdict in upstream's terms; a task that cannot be read is an error there too."""
    try:
        check = PageCheck.parse(evaluation)
    except (ValueError, KeyError):
        return {"error": "ValueError"}
    try:
        return {"score": float(check.decide(env.live_page(wait=0), helpers).passed)}
    except RunError as error:
        return {"error": str(error)}
