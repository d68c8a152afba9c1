"""What is particular to local: a directory of its own or a given one, and no confinement."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimera.environments import EnvironmentSpec, backend_class, start_environment
from chimera.environments.local import LocalEnvironment
from chimera.errors import UsageError


def test_it_does_not_claim_to_confine() -> None:
    assert "confined" not in backend_class("local").capabilities


def test_a_given_directory_stays_and_an_own_one_goes(tmp_path: Path) -> None:
    with LocalEnvironment(tmp_path) as given, LocalEnvironment() as own:
        given.write_file("made", "1")
        own.write_file("made", "1")
        directory = Path(own.workdir)
        assert directory.is_dir()

    assert (tmp_path / "made").read_text() == "1"
    assert not directory.parent.exists()


def test_homes_are_private(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    with LocalEnvironment() as env:
        told = env.run_command("echo $HOME $TMPDIR [$SOME_API_KEY]").stdout.decode()

    assert str(Path.home()) not in told.split()
    assert "[]" in told


def test_mounts_are_links_in_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("given")
    mounts = {str(tmp_path): "shown", "/usr": "/usr"}
    with start_environment("local", EnvironmentSpec(mounts=mounts)) as env:
        assert env.run_command("cat shown/data").stdout == b"given"

    assert (tmp_path / "data").read_text() == "given"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (EnvironmentSpec(workdir="/no/such/place"), "which this machine does not have"),
        (EnvironmentSpec(mounts={"/usr": "/somewhere/else"}), "without confinement"),
    ],
)
def test_what_only_confinement_could_give_is_refused(spec: EnvironmentSpec, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        start_environment("local", spec)
