"""Shared fixtures: real data sets and components, required in CI, skipped elsewhere."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from chimera.environments import Environment, EnvironmentSpec, start_environment
from chimera.programs import usable
from chimera.providers import Provider, create_provider


def pytest_configure() -> None:
    """Let interrupts arrive in what tests start: shells start background jobs without them. And let
    a machine be as busy as it is."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("any load", **patient)
    settings.load_profile("any load")


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
            found = usable(program)
            if found is None:
                missing(f"the program '{program}' is not installed, or does not run")
        return str(found)

    return find


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
