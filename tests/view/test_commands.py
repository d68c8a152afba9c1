"""`chimera view` and `chimera report`, as a shell calls them; and what a large run takes."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from chimera.cli.main import main

ROOT = Path(__file__).parents[2]


def test_view_prints_its_address_and_ends_by_ctrl_c(runs, cache):
    command = [sys.executable, "-m", "chimera", "view", str(runs / "a.chi"), "--no-browser"]
    settings = {**os.environ, "CHIMERA_CACHE_DIR": str(cache), "PYTHONUNBUFFERED": "1"}
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=settings
    ) as process:
        address = re.search(r"http://\S+", process.stdout.readline())[0]
        with browser.open(address) as answer:
            welcome = answer.read().decode()
        with browser.open(address.partition("?")[0]) as answer:
            page = answer.read().decode()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()

    assert process.returncode == 0
    assert "Traceback" not in errors
    assert "url=/run/a/" in welcome
    assert "maker/model-large" in page


@pytest.mark.parametrize(
    ("arguments", "why"),
    [(["view", "none"], "no run 'none'"), (["report", "none"], "no run 'none'"),
     (["view", "--port", "1"], "there are no runs at")],
)  # fmt: skip
def test_what_is_not_there_is_said(tmp_path, monkeypatch, capsys, arguments, why):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(arguments)

    assert stopped.value.code == 2
    assert why in capsys.readouterr().err


def test_report_writes_the_kind_that_the_name_says(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, start in (("r.html", "<!doctype html>"), ("r.md", "## "), ("r.tex", "% ")):
        with pytest.raises(SystemExit) as stopped:
            main(["report", str(runs / "a.chi"), "-o", name])
        assert stopped.value.code == 0
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)


@pytest.mark.full
def test_pages_of_a_hundred_thousand_trials_take_little(get, runs):
    found = importlib.util.spec_from_file_location("bench_view", ROOT / "benchmarks" / "view.py")
    bench = importlib.util.module_from_spec(found)
    found.loader.exec_module(bench)
    for seed, name in enumerate(("first", "second")):
        bench.make_run(runs / f"{name}.chi", 100_000, 10, seed)
        while not get(f"/run/{name}/?format=json").json()["complete"]:
            time.sleep(0.5)

    for page, most in (
        ("/", 0.2), ("/run/first/", 0.2), ("/run/first/?status=failed&sort=cost&down=1", 0.2),
        ("/run/first/trial?task=task-0000007&sample=3&status=failed", 0.2),
        ("/compare?run=first&run=second", 0.2), ("/run/first/trial?task=long&sample=0", 0.5),
    ):  # fmt: skip
        before = time.process_time()
        assert len(get(page).content) < 200_000, page
        assert time.process_time() - before < most, page
