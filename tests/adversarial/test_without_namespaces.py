"""The catalogue where answers have no namespaces of their own.

It runs in a cage of bubblewrap's: should confinement fail, this machine is still unharmed.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chimera.confinement.namespaces import namespaces_refused
from chimera.sandbox.inner import landlock

ROOT = Path(__file__).parents[2]
CAGE = (
    *("bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-net", "--die-with-parent"),
    *("--ro-bind", "/", "/", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp"),
    *("--dev", "/dev", "--proc", "/proc", "--chdir", "/tmp"),
    # what the tests themselves are made of, should it lie in one of those
    *(
        word
        for place in (ROOT, sys.prefix, sys.base_prefix)
        for word in ("--ro-bind", place, place)
    ),
)
SCRIPT = """
import json, sys
from chimera.eval.proof.attack.catalogue import attacks
from chimera.eval.proof.attack.host import HostWatch
from chimera.eval.proof.attack.run import outcome
from chimera.eval.proof.attack.targets import TARGETS
from chimera.sandbox import close_all
wanted = json.loads(sys.argv[1])
watch, found = HostWatch(), {}
for kind, target in TARGETS.items():
    for name, program in attacks(kind, target.name):
        if wanted is None or name in wanted:
            found[f"{kind}: {name}"] = outcome(target, program)
close_all()
print(json.dumps([found, watch.traces()]))
"""
#: One or two of each sort that only the file rules, the filter or dropped privileges stop.
SOME = [
    "kill-everybody", "kill-parent", "daemon", "trace-parent", "read-other-memory", "become-root",
    "many-files", "write-outside", "climb-out", "link-out", "remove-system", "poison-scratch",
    "patch-library", "tell-environment", "tell-files", "network", "host-socket", "raw-disk",
    "forge-messages", "equal-object",
]  # fmt: skip


def tried(names: list[str] | None) -> dict[str, str]:
    """What became of each attack."""
    done = subprocess.run(
        [*map(str, CAGE), sys.executable, "-B", "-c", SCRIPT, json.dumps(names)],
        env={**os.environ, "CHIMERA_SANDBOX": "process", "PYTHONPATH": str(ROOT), "HOME": "/tmp"},
        capture_output=True,
        text=True,
        check=False,
        timeout=2400,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found, traces = json.loads(done.stdout.splitlines()[-1])
    assert traces == []
    outcomes: dict[str, str] = found
    return outcomes


pytestmark = pytest.mark.skipif(
    namespaces_refused() is not None or landlock.version(ctypes.CDLL(None)) == 0,
    reason="needs bubblewrap for the cage and Landlock for the answers",
)


def test_the_worst_of_them_come_to_nothing() -> None:
    found = tried(SOME)

    assert len(found) > len(SOME)
    assert {name: said for name, said in found.items() if not said.startswith("failed")} == {}


@pytest.mark.full
def test_none_of_them_comes_to_anything() -> None:
    found = tried(None)

    assert len(found) > 300
    assert {name: said for name, said in found.items() if not said.startswith("failed")} == {}
