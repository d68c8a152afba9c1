"""The sandbox's servers end with the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chimera.sandbox import close_all


@pytest.fixture(scope="module", autouse=True)
def servers_end() -> Iterator[None]:
    yield
    close_all()
