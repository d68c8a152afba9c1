"""The image that tests of task folders build on."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.conftest import missing


@pytest.fixture(scope="session")
def image(require) -> str:
    """A small image that is on this machine: CHIMERA_TEST_IMAGE or a Debian base."""
    docker = require("docker")
    names = [os.environ.get("CHIMERA_TEST_IMAGE", ""), "chimera-base:bookworm", "debian:bookworm"]
    for name in filter(None, names):
        found = subprocess.run([docker, "image", "inspect", name], capture_output=True, check=False)
        if found.returncode == 0:
            return name
    missing("no container image to test with: set CHIMERA_TEST_IMAGE")
    return ""
