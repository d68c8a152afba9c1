"""Shared fixtures: real data sets and components, required in CI, skipped elsewhere."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadGroupScheduling

from chimera.environments import Environment, EnvironmentSpec, available, start_environment
from chimera.errors import EnvironmentFault
from chimera.eval.benchmark import Benchmark
from chimera.programs import why_unusable
from chimera.providers import Provider, create_provider

BASE_IMAGE = "chimera-base:bookworm"
SCRIPT = Path(__file__).parents[1] / "scripts" / "docker-base.sh"


def pytest_configure() -> None:
    """Let interrupts arrive in what tests start: shells start background jobs without them. And let
    a machine be as busy as it is."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("any load", **patient)
    settings.load_profile("any load")


class Grouped(LoadGroupScheduling):
    """Files with a group go to one worker as a whole. (xdist 3.8 writes a group's name where pytest
    9.2 no longer reads it, and each worker had a browser and a server of its own.)"""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        tests = Path(__file__).parent
        files = (
            path for path in tests.rglob("test_*.py") if "mark.xdist_group" in path.read_text()
        )
        self._files = {path.relative_to(tests.parent).as_posix() for path in files}

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return path if path in self._files else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Grouped:
    return Grouped(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need Docker's base image come past the middle: it is made meanwhile."""
    images = [item for item in items if _needs_image(item)]
    others = [item for item in items if not _needs_image(item)]
    middle = len(others) * 6 // 10
    items[:] = [*others[:middle], *images, *others[middle:]]


def _needs_image(item: pytest.Item) -> bool:
    names = getattr(item, "fixturenames", ())
    return "docker_image" in names or "docker" in item.name.split("[")[-1]


def missing(reason: str) -> None:
    """Skip with a reason; under CHIMERA_REQUIRE_ALL=1 a missing component is a failure."""
    if os.environ.get("CHIMERA_REQUIRE_ALL") == "1":
        pytest.fail(f"required, but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def dataset() -> Callable[[str], Path]:
    """`dataset("mbpp/mbpp.jsonl")`: a real data file below CHIMERA_DATASETS_DIR."""

    def find(relative: str) -> Path:
        root = os.environ.get("CHIMERA_DATASETS_DIR")
        if not root:
            missing("CHIMERA_DATASETS_DIR is not set: the real data sets are needed")
        path = Path(str(root)) / relative
        if not path.exists():
            missing(f"{path} is absent")
        return path

    return find


@pytest.fixture(scope="session")
def require() -> Callable[..., str]:
    """`require("bwrap")`: the path of a program that runs, or a skip (a failure in CI)."""

    def find(*programs: str) -> str:
        for program in programs:
            if why := why_unusable(program):
                missing(f"the program '{program}' {why}")
        return str(shutil.which(programs[-1]))

    return find


@pytest.fixture(scope="session")
def prepared() -> Callable[..., None]:
    """`prepared(benchmark)`: what its tests need is there, fetched as its first run would, or a
    skip (a failure in CI). Nobody counts on what another test or an earlier session fetched.

    With tasks, all that whole trials of theirs would need beside it is not asked for.
    """

    def fetch(benchmark: Benchmark[Any], tasks: Sequence[Any] | None = None) -> None:
        for lack in benchmark.missing() if tasks is None else ():
            missing(f"{benchmark.name()} needs {lack.what}: {lack.remedy}")
        for each in benchmark.preparations(tasks):
            try:
                each.make()
            except EnvironmentFault as error:
                missing(f"{each.what} cannot be fetched: {error}")

    return fetch


def start_daemon() -> None:
    """Start dockerd when nobody answers and this is root's machine; it outlives the tests."""
    if available("docker") is None or os.geteuid() != 0 or shutil.which("dockerd") is None:
        return
    subprocess.Popen(
        ["dockerd"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    ).returncode = 0  # fmt: skip
    for _ in range(120):
        if available("docker") is None:
            return
        time.sleep(0.5)


@pytest.fixture(scope="session")
def docker_image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """CHIMERA_TEST_IMAGE, or the base image; made once, by whichever worker comes first."""
    lock = Path(tmp_path_factory.getbasetemp().parent, "docker.lock")
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        start_daemon()
        reason = available("docker")
        if reason is not None:
            missing(reason)
        if name := os.environ.get("CHIMERA_TEST_IMAGE"):
            return name
        made = subprocess.run([SCRIPT, BASE_IMAGE], capture_output=True, text=True, check=False)
        if made.returncode:
            missing(f"the image {BASE_IMAGE} cannot be made: {made.stdout}{made.stderr}")
    return BASE_IMAGE


@pytest.fixture
def local_env() -> Iterator[Environment]:
    with start_environment("local", EnvironmentSpec()) as started:
        yield started


@pytest.fixture
def script(tmp_path: Path) -> Callable[[list[Any]], Provider]:
    """`script([reply, …])`: a provider that says these in order."""

    def write(replies: list[Any]) -> Provider:
        path = tmp_path / "script.json"
        path.write_text(json.dumps(replies))
        return create_provider(f"scripted/{path}")

    return write
