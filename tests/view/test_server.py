"""Who is let in, what a page may do, and that every page is there as data too."""

from __future__ import annotations

import html
import os
import re
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from starlette.testclient import TestClient

from chimera.eval.runs.store import RunStore
from chimera.eval.values import (
    Control,
    Submission,
    TrialControls,
    TrialError,
    TrialRecord,
    Verdict,
)
from chimera.view.grid import TrialKey
from chimera.view.library import Library
from chimera.view.notes import read_notes, write_note
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
    "/run/a/rests",
    "/run/a/rests?list=all",
    "/run/a/?rests=held-passed",
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
             "/run/a/part?task=graphs-0&part=step:99",
             "/run/a/part?task=graphs-0&part=step:²", "/run/a/part?task=graphs-0&part=call:3:²",
             "/assets/..%2Fserver.py",
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


def test_no_address_leads_to_another_host(stranger):
    welcome = stranger.get(f"http://{HOST}//evil.example/?token={TOKEN}")

    assert "url=/evil.example/" in welcome.text
    assert "//evil.example" not in stranger.get(f"http://{HOST}//evil.example/").text


def test_a_task_of_a_very_long_name_is_led_to_from_everywhere(get, runs):
    names = ["x" * 5000 + end for end in ("first", "second")]
    for run in ("long", "long2"):
        with RunStore(runs / f"{run}.chi", create=True) as store:
            for number, name in enumerate(names):
                passed = (run == "long") is bool(number)
                said = Submission(f"searched {name[-6:]}")
                store.write(TrialRecord(name, 0, "d", said, Verdict(passed)))
    pages = ("/run/long/", "/compare?run=long&run=long2", "/run/long/search?text=searched")
    for page in pages:
        text = get(page).text
        links = re.findall(r'href="((?:/run/long/)?trial\?[^"]+|/pair\?[^"]+)"', text)
        assert links
        for link in map(html.unescape, links):
            assert get(link if link[0] == "/" else f"/run/long/{link}").status_code == 200
        assert "first" in text
        assert "second" in text


def test_notes_that_are_written_at_once_are_all_kept(runs):
    keys = [TrialKey(f"t{number}", 0) for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda key: write_note(runs / "a.chi", key, "odd", ""), keys))

    assert read_notes(runs / "a.chi").keys() == set(keys)


def test_notes_that_have_no_end_are_not_read(get, runs):
    (runs / "a.chi.notes.json").symlink_to("/dev/zero")
    os.mkfifo(runs / "b.chi.notes.json")

    assert [get(f"/run/{run}/").status_code for run in "ab"] == [404, 404]


def test_words_of_a_run_that_was_replaced_are_not_found(get, runs):
    assert "hits" in get("/run/a/search?text=normalise").text
    inode = (runs / "a.chi").stat().st_ino
    with RunStore(runs / "new.chi", create=True) as store:
        store.write(TrialRecord("only", 0, "d", Submission("some other words"), Verdict(True)))
    content = (runs / "new.chi").read_bytes()
    (runs / "a.chi").write_bytes(content)  # in the same place on the disk
    assert (runs / "a.chi").stat().st_ino == inode
    page = get("/run/a/search?text=normalise")

    assert page.status_code == 200
    assert "No text has these words" in page.text
    for _ in range(200):  # it is counted anew in the background
        if "only" in (found := get("/run/a/search?text=other").text):
            break
        time.sleep(0.05)
    assert "only" in found


def test_controls_that_did_not_hold_come_first(get, runs):
    with RunStore(runs / "a.chi", write=True) as store:
        bad = Control("here", "reference", "b", "graphs-0", "failed", "it broke", "<b>log</b>")
        store.add_control(bad)
        error = TrialError("environment", "no verdict: the reference answer does not pass")
        found = TrialControls("failed", identity="here")
        store.write(TrialRecord("graphs-0", 7, "d", error=error, control=found))
    for _ in range(600):  # it is counted in the background
        if get("/run/a/?format=json").json()["complete"]:
            break
        time.sleep(0.05)
    page = get("/run/a/rests").text
    data = get("/run/a/rests?format=json").json()

    assert "&lt;b&gt;log&lt;/b&gt;" in page
    assert [made["why"] for made in data["controls"]] == ["it broke"]
    assert data["controls"][0]["resting"] == {"error": 1}
    assert data["rests"]["withheld"] == 1
    assert len(get("/run/a/rests?list=all&format=json").json()["controls"]) == 3
    assert get("/run/a/?rests=withheld&format=json").json()["grid"]["found"] == 1


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE trials SET steps = 4611686018427387904, input_tokens = 4611686018427387904",
        "UPDATE trials SET cost = 1e300, started = 1e11, duration = 1e11",
        "UPDATE trials SET task_id = task_id || hex(zeroblob(500000))",
        "INSERT OR REPLACE INTO manifest VALUES ('planned', '\"x\"')",
        "INSERT OR REPLACE INTO manifest VALUES ('started', '-1e18')",
    ],
)
def test_whatever_a_run_holds_every_page_is_answered(get, runs, change):
    with closing(sqlite3.connect(runs / "a.chi")) as connection, connection:
        connection.execute(change)
    for page in PAGES:
        answer = get(page)
        assert answer.status_code in (200, 404)
        assert len(answer.content) < 200_000
    assert "many" in get("/").text
