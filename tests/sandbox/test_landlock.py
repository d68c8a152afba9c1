"""Without namespaces an answer reads what it needs and changes its scratch alone."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chimera.errors import EnvironmentFault
from chimera.sandbox import launch
from chimera.sandbox.inner import landlock

pytestmark = pytest.mark.skipif(
    landlock.version(ctypes.CDLL(None)) == 0, reason="this kernel has no Landlock"
)
ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
from chimera.sandbox import run_program
place = sys.argv[1]
for program in (
    f"open({place!r} + '/secret').read()",
    f"open({place!r} + '/new', 'w')",
    f"import os; os.remove({place!r} + '/secret')",
    f"import os; os.listdir({place!r})",
    f"import os; os.rename({place!r} + '/secret', 'mine')",
    "import os; os.mount if hasattr(os, 'mount') else os.setuid(12345)",
    "import json, decimal, os; open('mine', 'w').write('x'); os.mkdir('d'); print('fine')",
    "import os\\nfor _ in range(1500):\\n    os.mkdir('d')\\n    os.chdir('d')\\nprint('deep')",
    "print('next')",
):
    result = run_program(program)
    print(result.isolation, (result.stdout or result.stderr.splitlines()[-1])[:15].decode().strip())
"""


def test_files_out_of_reach(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("told")

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env={**os.environ, "CHIMERA_SANDBOX": "process", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )

    refused = ["process PermissionError"] * 6
    assert done.stdout.splitlines() == [*refused, "process fine", "process deep", "process next"], (
        done.stderr
    )
    assert sorted(each.name for each in tmp_path.iterdir()) == ["secret"]


PACKAGES = """
import sys
from chimera.errors import EnvironmentFault
from chimera.sandbox import run_program
for program in (
    "import numpy.linalg; print(numpy.arange(3).sum())",
    "import numpy.polynomial; print('later')",
    "import pytest",
):
    result = run_program(program, packages=("numpy",))
    print((result.stdout or result.stderr.splitlines()[-1])[:19].decode().strip())
try:
    run_program("", packages=("numpy", "no_such_package"))
except EnvironmentFault:
    print("fault")
"""


def test_packages_that_were_asked_for_can_be_imported_and_no_others(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PACKAGES],
        env={
            **os.environ,
            "CHIMERA_SANDBOX": "process",
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )

    assert done.stdout.splitlines() == ["3", "later", "ModuleNotFoundError", "fault"], done.stderr
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_confines_answers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHIMERA_SANDBOX", raising=False)
    monkeypatch.setattr(launch, "namespaces_refused", lambda: "bwrap is not installed")

    assert launch.isolation() == "process"
    monkeypatch.setattr(launch, "landlock_available", lambda: False)
    with pytest.raises(EnvironmentFault, match="install bubblewrap"):
        launch.isolation()
    monkeypatch.setenv("CHIMERA_SANDBOX", "process")
    assert launch.isolation() == "process"
