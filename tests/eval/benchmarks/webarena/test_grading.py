"""The rules of string_match, url_match and program_html, against verdicts of the official code."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.environments.web import ScriptError
from chimera.errors import GraderError
from chimera.eval.benchmarks._webarena.grading import (
    Evaluation,
    PageCheck,
    StringCheck,
    Target,
    UrlCheck,
    must_include,
    tokens,
    url_match,
    url_match_strict,
)
from chimera.eval.benchmarks._webarena.site_checks import (
    HelperCall,
    SiteHelpers,
    parse_helper,
    post_url,
)
from chimera.eval.kits.judge import Judge

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parent / "vectors" / "webarena.jsonl").read_text().splitlines()
]
#: Upstream passes everything where a check requires nothing; here such a task cannot be read.
REQUIRES_NOTHING = [
    {"must_include": []},
    {"fuzzy_match": []},
    {"unknown": "x"},
    {},
]


class RecordedPage:
    """A page whose scripts have recorded values; any other script raises, as in a real one."""

    def __init__(self, url: str = "http://x/", html: str = "", values: Any = None) -> None:
        self.url, self._html, self._values = url, html, values or {}
        self.visited: list[str] = []

    def content(self) -> str:
        return self._html

    def evaluate(self, script: str, argument: Any = None) -> Any:
        script = script.removeprefix("() => ")
        if script not in self._values:
            raise ScriptError(script)
        return self._values[script]

    @contextmanager
    def opened(self, url: str) -> Iterator[RecordedPage]:
        self.visited.append(url)
        yield self


def stub_judge(vector: dict[str, Any]) -> Any:
    stub = vector.get("stub", {"fuzzy": 1.0, "ua": 0.0})

    def judge(question: str, read: Any) -> Any:
        if "examination" in question:
            return read("correct" if stub["fuzzy"] else "incorrect")
        return read("same" if stub["ua"] else "different")

    return judge


def ours(vector: dict[str, Any]) -> float:
    match vector["kind"]:
        case "string_match":
            check = StringCheck.parse(vector, "a task")
            return float(check.decide(vector["answer"], stub_judge(vector)).passed)
        case "url_match":
            return float(UrlCheck.parse(vector).decide(vector["url"]).passed)
        case _:
            page = RecordedPage(
                vector.get("url", "http://x/"), vector["page_html"], vector["js_values"]
            )
            check = PageCheck.parse({"program_html": vector["targets"]})
            return float(check.decide(page, SiteHelpers()).passed)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['kind']}-{VECTORS.index(v)}")
def test_official_verdicts(vector: dict[str, Any]) -> None:
    if vector["kind"] == "reddit_get_post_url":
        assert post_url(vector["url"]) == vector["output"]
    elif (
        "error" in vector
        or vector.get("reference_answers") in REQUIRES_NOTHING
        or vector.get("targets") == []
        or vector.get("reference_url") == ""
    ):
        with pytest.raises((ValueError, KeyError)):
            ours(vector)
    else:
        assert ours(vector) == vector["score"]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("5", True),
        ("It is 5.", True),
        ("5%, of course", True),
        ('"5"', True),
        ("x: 5; y: 6", True),
        ("5's", True),
        ("(5)", True),
        ("5...", True),
        ("15", False),
        ("5.0", False),
        ("5,000", False),
        ("5:30", False),
        ("5-6", False),
        ("5/10", False),
        ("$5.00", False),
        ("5. That is it", False),
    ],
)
def test_a_single_character_must_be_a_token(answer: str, found: bool) -> None:
    assert must_include("5", answer, whole_token=True) is found


@given(st.text(alphabet="05.,:;'\"-$%()[] ax\n", max_size=20))
def test_a_token_is_part_of_the_text(text: str) -> None:
    """Tokenising never invents a digit: what is a token is a substring too."""
    assert all(digit in text for digit in "05" if digit in tokens(text))


words = st.text(alphabet="abc05 -,.", min_size=1, max_size=12)


@given(words, words, words)
def test_what_an_answer_holds_is_found(before: str, reference: str, after: str) -> None:
    assert must_include(reference, f"x{before}{reference}{after}x")


@pytest.mark.parametrize(
    ("reference", "url", "official", "strict"),
    [
        ("http://s/a", "http://s/a", True, True),
        ("http://s/a", "http://s/a/", True, True),
        ("http://s/a", "http://s/ab", True, False),
        ("http://s/a", "http://s/a/b", True, False),
        ("http://s/a?x=1", "http://s/a?x=2", False, False),
        ("http://s/a?x=1", "http://s/a?y=2&x=1", True, True),
        ("http://s/a?x=1 |OR| http://s/b?x=2", "http://s/a?x=2", True, False),
        ("http://s/a |OR| http://s/b", "http://s/b", True, True),
        ("http://s/a", "http://t/?u=http://s/a", False, False),
    ],
)
def test_official_and_strict_urls(reference: str, url: str, official: bool, strict: bool) -> None:
    assert url_match(reference, url) is official
    assert url_match_strict(reference, url) is strict


def string_check(**answers: Any) -> StringCheck:
    return StringCheck.parse(
        {"reference_answers": answers, "string_note": "the shop has none"}, "?"
    )


def no_judge(question: str, read: Any) -> Any:
    return Judge(None).decide("", question, read)


def saying(reply: str) -> Any:
    return lambda question, read: read(reply)


def test_without_a_judge_a_fuzzy_answer_has_no_verdict() -> None:
    check = string_check(fuzzy_match=["about a week"])

    with pytest.raises(GraderError, match="judge"):
        check.decide("seven days", no_judge)
    assert not check.decide("", no_judge).passed


def test_an_unachievable_task() -> None:
    check = string_check(fuzzy_match="N/A")

    assert check.decide("N/A", no_judge).passed
    assert check.decide("'n/a'", no_judge).passed
    assert not check.decide("42", saying("different")).passed
    assert check.decide("there is no such product", saying("same")).passed
    with pytest.raises(GraderError):
        check.decide("42", no_judge)


@pytest.mark.parametrize(
    ("reply", "passed"),
    [("The answer is correct.", True), ("Partially correct", False), ("INCORRECT", False)],
)
def test_marks_of_the_judge(reply: str, passed: bool) -> None:
    assert string_check(fuzzy_match=["x"]).decide("y", saying(reply)).passed is passed


def test_a_judge_that_does_not_decide_is_a_fault() -> None:
    with pytest.raises(GraderError, match="no mark"):
        string_check(fuzzy_match=["x"]).decide("y", saying("I cannot say"))


def test_the_judge_is_not_asked_when_the_rest_failed() -> None:
    def judge(question: str, read: Any) -> Any:
        raise AssertionError("asked in vain")

    check = string_check(must_include=["left"], fuzzy_match=["right"])

    assert not check.decide("up", judge).passed


def test_all_declared_evaluators_must_hold() -> None:
    evaluation = Evaluation.parse(
        {
            "eval_types": ["string_match", "url_match", "program_html"],
            "reference_answers": {"exact_match": "yes"},
            "reference_url": "http://x/a",
            "program_html": [
                {"url": "last", "locator": "", "required_contents": {"must_include": ["done"]}}
            ],
        },
        "do it",
    )

    def decide(answer: str, url: str, html: str) -> bool:
        page = RecordedPage(url, html)
        found = evaluation.decide(answer, url, page, helpers=SiteHelpers(), judge=no_judge)
        return all(outcome.passed for outcome in found.values()) and len(found) == 3

    assert decide("Yes", "http://x/a", "<p>Done")
    assert not decide("no", "http://x/a", "<p>done")
    assert not decide("yes", "http://x/b", "<p>done")
    assert not decide("yes", "http://x/a", "<p>open")


def target(url: str = "last", locator: str = "", **required: Any) -> Target:
    return Target.parse({"url": url, "locator": locator, "required_contents": required})


def test_a_page_left_at_an_error_fails_instead_of_being_opened() -> None:
    check = PageCheck((target("func:reddit_get_post_url('__last_url__')", exact_match="x"),))
    page = RecordedPage("chrome-error://chromewebdata/")

    assert not check.decide(page, SiteHelpers()).passed
    assert page.visited == []


def test_a_url_with_code_in_it_stays_a_url() -> None:
    hostile = "http://x/f/a'+__import__('os').abort()+'/7/more"
    check = PageCheck((target("func:reddit_get_post_url('__last_url__')", must_include=["x"]),))
    page = RecordedPage(hostile)

    check.decide(page, SiteHelpers())

    assert page.visited == ["http://x/f/a'+__import__('os').abort()+'/7/"]


@pytest.mark.parametrize(
    "text",
    [
        "func:__import__('os').system('x')",
        "func:reddit_get_post_url(open('/etc/passwd').read())",
        "func:reddit_get_post_url()",
        "func:print('x')",
        "func:reddit_get_post_url('a') + 'b'",
        "func:",
    ],
)
def test_only_known_helpers_are_read(text: str) -> None:
    with pytest.raises(ValueError, match="helper"):
        parse_helper(text)


class Shop(BaseHTTPRequestHandler):
    """The part of the shop's REST interface that the helpers use."""

    reviews: ClassVar[Any] = [
        {"nickname": "First", "ratings": [{"rating_name": "Rating", "percent": 20}]},
        {"nickname": "Emma", "ratings": [{"rating_name": "Rating", "percent": 80}]},
    ]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = body == {"username": "admin", "password": "admin1234"}
        self._answer(200 if known else 401, "token" if known else {"message": "no"})

    def do_GET(self) -> None:
        if self.headers["Authorization"] != "Bearer token":
            self._answer(401, {})
        elif self.path.startswith("/rest/V1/orders?") and "pageSize" in self.path:
            self._answer(200, {"items": [{"increment_id": "000000189"}]})
        elif self.path == "/rest/V1/products/B0%2F1/reviews":
            self._answer(200, self.reviews)
        elif self.path == "/rest/V1/products/NONE/reviews":
            self._answer(200, [])
        else:
            self._answer(404, {})

    def _answer(self, status: int, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def shop() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Shop) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_helpers_ask_the_shop(shop: str) -> None:
    helpers, page = SiteHelpers({"shopping": shop}), RecordedPage()

    def content(name: str, sku: str) -> str:
        return helpers.content(HelperCall(name, (sku,)), page)

    assert content("shopping_get_sku_latest_review_author", "B0/1") == "Emma"
    assert content("shopping_get_sku_latest_review_rating", "B0/1") == "80"
    assert content("shopping_get_sku_latest_review_author", "NONE") == ""
    assert helpers.url(HelperCall("shopping_get_latest_order_url"), "") == (
        f"{shop}/sales/order/view/order_id/189/"
    )


def test_a_shop_that_does_not_answer_gives_no_verdict(shop: str) -> None:
    call = HelperCall("shopping_get_sku_latest_review_author", ("UNKNOWN",))

    with pytest.raises(GraderError, match="does not answer"):
        SiteHelpers({"shopping": shop}).content(call, RecordedPage())
    with pytest.raises(GraderError, match="does not answer"):
        SiteHelpers({"shopping": shop}, shop_admin=("admin", "wrong")).content(call, RecordedPage())
    with pytest.raises(GraderError, match="no URL"):
        SiteHelpers().content(call, RecordedPage())
