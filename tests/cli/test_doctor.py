"""`chimera doctor`: what is missing is asked of those who need it."""

from __future__ import annotations

from chimera.cli import doctor
from chimera.eval.benchmark import Benchmark, Lack


class Needy(Benchmark):
    found: tuple[Lack, ...] = ()

    def name(self):
        return "needy"

    def tasks(self):
        return []

    def missing(self, tasks=None):
        return self.found


class Heir(Needy):
    """Needs the same, which is said once."""


def findings(monkeypatch):
    monkeypatch.setattr(doctor, "adapters", lambda: {"heir": Heir, "needy": Needy})
    return [each for each in doctor.examine() if each.topic.startswith("Needs of")]


def test_what_an_adapter_lacks_is_told_with_its_remedy(monkeypatch):
    monkeypatch.setattr(Needy, "found", (Lack("a compiler", "apt-get install it"),))
    (finding,) = findings(monkeypatch)

    assert (finding.topic, finding.name, finding.good, finding.detail) == (
        "Needs of needy",
        "a compiler",
        False,
        "apt-get install it",
    )


def test_an_adapter_that_has_all_is_told_too(monkeypatch):
    (finding,) = findings(monkeypatch)

    assert (finding.name, finding.good) == ("all", True)


def test_an_environment_elsewhere_can_be_looked_at():
    told = {each.name: each for each in doctor.examine("ssh://nobody@127.0.0.1:1")}

    found = told["ssh://nobody@127.0.0.1:1"]
    assert not found.good
    assert "Connection refused" in found.detail
