"""Programs: one that is there and does not run is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chimera.programs import (
    clean_variables,
    python_behind,
    python_with_pip,
    usable,
    why_unusable,
)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("#!/bin/sh\nexit 0\n", ""),
        (
            "#!/bin/sh\necho 'no default toolchain is configured' >&2\nexit 1\n",
            "exits with code 1 when asked --version: no default toolchain is configured",
        ),
        ("no program at all", "does not start: Exec format error"),
        ("#!/bin/sh\nexec sleep 60\n", "does not answer to --version in 1 s"),
    ],
)
def test_a_program_counts_when_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, why: str
):
    monkeypatch.setattr("chimera.programs.PATIENCE_SECONDS", 1.0 if "sleep" in content else 60.0)
    program = tmp_path / tmp_path.name  # answers are remembered by name
    program.write_text(content)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    assert why_unusable(program.name) == why
    assert usable(program.name) == (None if why else str(program))


def test_what_is_not_there():
    assert why_unusable("no-such-program-at-all") == "is not installed"
    assert usable("no-such-program-at-all") is None


def test_pip_is_found_beside_an_environment_without_any(tmp_path: Path):
    """As uv makes them: what is installed for tasks still comes by a pip of this machine."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    root = Path(__file__).parents[1]
    asked = "import sys; sys.path.append(sys.argv[1]); from chimera.programs import python_with_pip"
    command = [tmp_path / "venv/bin/python", "-c", f"{asked}; print(python_with_pip())", root]

    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert found != str(command[0])
    assert subprocess.run([found, "-m", "pip", "--version"], check=False).returncode == 0


def test_pip_is_not_taken_from_the_working_directory(tmp_path, monkeypatch):
    mark = tmp_path / "mark"
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip/__init__.py").touch()
    (tmp_path / "pip/__main__.py").write_text(f"open({str(mark)!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    python_with_pip.cache_clear()

    found = python_with_pip()

    python_with_pip.cache_clear()
    assert found is None or Path(found).exists()
    assert not mark.exists()


def test_keys_are_not_handed_on(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    monkeypatch.setenv("https_proxy", "http://proxy")
    monkeypatch.setenv("OWN", "x")

    assert "OPENAI_API_KEY" not in clean_variables()
    assert {"https_proxy", "OWN", "PATH"} <= clean_variables("OWN").keys()


def test_the_python_behind_a_script_is_named(tmp_path: Path):
    """As pyenv's are: the script's place is in no sandbox, the interpreter's is."""
    version = "{}.{}".format(*sys.version_info[:2])
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexit 1\n")
    silent.chmod(0o755)

    assert python_behind(script) == (version, Path(sys.executable).resolve())
    assert python_behind(silent) is None
    assert python_behind(tmp_path / "absent") is None
