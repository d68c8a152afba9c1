"""Environments for agents: real ones, and one that is a person to talk to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chimera.environments import Environment, EnvironmentSpec, available, start_environment
from chimera.environments.none import NoEnvironment
from tests.conftest import missing


@pytest.fixture(params=["local", "bubblewrap"])
def env(request: pytest.FixtureRequest) -> Iterator[Environment]:
    reason = available(request.param)
    if reason is not None:
        missing(f"the environment '{request.param}' cannot be used: {reason}")
    with start_environment(request.param, EnvironmentSpec()) as started:
        yield started


class Person(NoEnvironment):
    """Somebody who answers from a list and then hangs up."""

    system_prompt = "You serve customers."

    def __init__(self, answers: list[str]) -> None:
        super().__init__()
        self.answers = answers
        self.heard: list[str] = []

    def reply(self, text: str) -> str | None:
        self.heard.append(text)
        return self.answers.pop(0) if self.answers else None
