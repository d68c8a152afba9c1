"""Control groups and the processes that own them."""

from __future__ import annotations

import os

from chimera.confinement import cgroups


def test_a_process_is_known_by_its_start() -> None:
    assert cgroups.start_time(os.getpid()) == cgroups.start_time(os.getpid()) != "0"
    assert cgroups.start_time(2**22 + 1) == "0"
