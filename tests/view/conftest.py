"""Runs, and a client that has the viewer's token; Chromium where pages are looked at."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.view.made_runs import make_run

pytest.importorskip("starlette")
TOKEN = "token"
PORT = 4321


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Indexes of these tests alone."""
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs over the same tasks, and one of more samples."""
    folder = tmp_path / "runs"
    folder.mkdir()
    make_run(folder / "a.chi", tasks=30)
    make_run(folder / "b.chi", model="maker/model-small", skill=0.5, tasks=30, seed=1)
    make_run(folder / "many.chi", tasks=12, samples=4, seed=2, planned=60)
    return folder


@pytest.fixture
def get(runs: Path) -> Iterator[Callable[..., Any]]:
    """`get("/run/a/")`: the answer to somebody who has the cookie."""
    from starlette.testclient import TestClient

    from chimera.view.library import Library
    from chimera.view.server import application

    library = Library([runs])
    cookies = {f"chimera-view-{PORT}": TOKEN}
    app = application(library, TOKEN, PORT)
    yield TestClient(app, f"http://127.0.0.1:{PORT}", cookies=cookies).get
    library.close()


@pytest.fixture
def serving() -> Iterator[Callable[[Path], str]]:
    """`serving(folder)`: the first address of a viewer that runs, over real HTTP."""
    import uvicorn

    from chimera.view.library import Library
    from chimera.view.server import _bound, application

    started: list[tuple[Any, threading.Thread, Any, Any]] = []

    def start(folder: Path) -> str:
        listening = _bound(0)
        port = listening.getsockname()[1]
        library = Library([folder])
        config = uvicorn.Config(application(library, TOKEN, port), log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        started.append((server, thread, listening, library))
        return f"http://127.0.0.1:{port}/?token={TOKEN}"

    yield start
    for server, thread, listening, library in started:
        server.should_exit = True
        thread.join()
        listening.close()
        library.close()
