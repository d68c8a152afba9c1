"""Which of an agent's changes are undone before a verifier runs in its container."""

from __future__ import annotations

import pytest

from chimera.eval.kits.task_folders.integrity import _planted, _relied_on


@pytest.mark.parametrize(
    ("path", "relied_on", "planted"),
    [
        ("/usr/bin/bash", True, True),
        ("/usr/local/bin/uv", True, True),
        ("/usr/bin/python3.13", True, False),
        ("/usr/lib/python3/dist-packages/sitecustomize.py", True, True),
        ("/usr/bin/curl", True, False),
        ("/usr/bin/gcc", False, False),
        ("/app/bash", False, False),
        ("/etc/ld.so.preload", True, True),
        ("/usr/local/lib/python3.13/site-packages/_pytest/main.py", True, False),
    ],
)
def test_what_a_verifier_relies_on(path, relied_on, planted):
    assert _relied_on(path) is relied_on
    assert _planted(path) is planted
