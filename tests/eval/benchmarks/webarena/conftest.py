"""A real web application for browser tests: Trac (wiki and tickets), installed and started here."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

TRAC = ("Trac==1.6", "setuptools<80")


def cached_environment(name: str, *packages: str) -> Path:
    """The bin directory of a virtual environment with `packages`, made once and kept."""
    root = Path(os.environ.get("CHIMERA_CACHE_DIR") or Path.home() / ".cache" / "chimera")
    folder = root / "test-environments" / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "done"
        if not done.exists():
            shutil.rmtree(folder / "venv", ignore_errors=True)
            venv.create(folder / "venv", with_pip=True)
            pip = [folder / "venv" / "bin" / "python", "-m", "pip", "install", "-q", *packages]
            subprocess.run(pip, check=True, timeout=600, capture_output=True)
            done.touch()
    return folder / "venv" / "bin"


@pytest.fixture(scope="session")
def installed() -> Callable[..., Path]:
    return cached_environment


@pytest.fixture(scope="session")
def trac(tmp_path_factory: pytest.TempPathFactory, require: Callable[..., str]) -> Iterator[str]:
    """The URL of a running Trac with an empty ticket list in which anybody may do anything."""
    if not os.environ.get("CHIMERA_CHROMIUM"):
        require("chromium")
    programs = cached_environment("trac", *TRAC)
    project = tmp_path_factory.mktemp("trac") / "project"

    def admin(*arguments: str) -> None:
        command = [programs / "trac-admin", project, *arguments]
        subprocess.run(command, check=True, timeout=300, capture_output=True)

    admin("initenv", "Garden", "sqlite:db/trac.db")
    admin("permission", "add", "anonymous", "TRAC_ADMIN")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [programs / "tracd", "-s", "--hostname", "127.0.0.1", "--port", str(port), project]
    with (project.parent / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url, process)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(300):
        assert process.poll() is None, f"the server at {url} ended"
        try:
            opener.open(url, timeout=30).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError(f"nothing answers at {url} (Python {sys.version})")
