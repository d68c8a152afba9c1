"""The image that tests of task folders build on."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def image(docker_image: str) -> str:
    return docker_image
