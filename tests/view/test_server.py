"""Who is let in, what a page may do, and that every page is there as data too."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

from chimera.view.library import Library
from chimera.view.server import application
from tests.view.conftest import PORT, TOKEN

HOST = f"127.0.0.1:{PORT}"
PAGES = [
    "/",
    "/run/a/",
    "/run/many/?status=mixed&sort=rate&down=1",
    "/run/a/trial?task=graphs-0&sample=0&status=passed",
    "/run/a/part?task=graphs-0&sample=0&part=evidence:log",
    "/run/a/search?text=order",
    "/compare?run=a&run=b",
    "/compare?run=a&run=b&run=many&list=all",
    "/pair?run=a&run=b&task=graphs-0&sample=0&other=0",
]


@pytest.fixture
def stranger(runs):
    library = Library([runs])
    yield TestClient(application(library, TOKEN, PORT), f"http://{HOST}")
    library.close()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_small_and_loads_nothing_from_elsewhere(get, page):
    answer = get(page)

    assert answer.status_code == 200
    assert len(answer.content) < 200_000
    assert not re.search(r"""(src|href|action)=["'](https?:)?//""", answer.text)
    assert not re.search(r"<[^>]*\s(style|on\w+)=|<script>|<style", answer.text)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_there_as_data(get, page):
    answer = get(f"{page}{'&' if '?' in page else '?'}format=json")

    assert answer.headers["content-type"] == "application/json"
    assert isinstance(answer.json(), dict)


def test_every_answer_says_what_a_page_may_do(get):
    for page in ("/", "/run/none/", "/assets/view.css", "/absent"):
        headers = get(page).headers
        assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_the_token_is_in_the_first_address_and_then_in_a_cookie(stranger):
    assert stranger.get("/").status_code == 403
    welcome = stranger.get(f"/?token={TOKEN}")

    cookie = welcome.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert stranger.get("/").status_code == 200


@pytest.mark.parametrize("token", ["", "wrong", "tokem", "é"])
def test_a_wrong_token_opens_nothing(stranger, token):
    answer = stranger.get("/", params={"token": token})

    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1:1", ""])
def test_another_host_is_refused_even_with_the_token(stranger, host):
    answer = stranger.get(f"/?token={TOKEN}", headers={"host": host})

    assert answer.status_code == 421
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("origin", "code"),
    [(f"http://{HOST}", 303), ("http://evil.example", 403), ("null", 403), (None, 403)],
)
def test_a_note_is_taken_from_our_own_page_alone(stranger, runs, origin, code):
    stranger.get(f"/?token={TOKEN}")
    answer = stranger.post(
        "/run/a/trial?task=graphs-0&sample=0",
        data={"note": "odd", "labels": "flaky"},
        headers={"origin": origin} if origin else {},
        follow_redirects=False,
    )

    assert answer.status_code == code
    assert (runs / "a.chi.notes.json").exists() is (code == 303)


@pytest.mark.parametrize(
    "page", ["/run/none/", "/run/..%2Fa/", "/run/a/trial?task=none", "/compare?run=a", "/absent",
             "/run/a/part?task=graphs-0&part=step:99", "/assets/..%2Fserver.py",
             "/run/a/file?task=graphs-0&kind=evidence&name=none"],
)  # fmt: skip
def test_what_is_not_there_is_said_to_be_so(get, page):
    assert get(page).status_code == 404


def test_a_file_that_is_no_run_is_named_and_hides_no_other(get, runs):
    (runs / "broken.chi").write_bytes(b"nothing")
    page = get("/").text

    assert "broken.chi is not a run" in page
    assert "/run/a/" in page


def test_a_picture_is_shown_and_any_other_file_is_saved(get):
    picture = get("/run/a/file?task=numbers-3&sample=0&kind=evidence&name=screen.png")

    assert picture.headers["content-type"] == "image/png"
    assert "sandbox" in picture.headers["content-security-policy"]
