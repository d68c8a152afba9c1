"""Java projects built offline: a warmed local repository, the tests, and the tools' own reports."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

from chimera.cache import digest, made_once
from chimera.environments.base import EnvironmentSpec, Machine, machine
from chimera.errors import EnvironmentFault, GraderError
from chimera.eval.benchmark import StartEnvironment
from chimera.eval.kits.reports import junit
from chimera.eval.kits.reports.report import Report
from chimera.eval.kits.repositories import checkout
from chimera.eval.kits.repositories.source import BaseTree
from chimera.eval.kits.repositories.virtualenvs import TESTBED
from chimera.types import CommandResult

#: Where an environment sees the warmed repository.
REPOSITORY = "/opt/maven-repository"
JACOCO = "org.jacoco:jacoco-maven-plugin:0.8.12"
PMD = "org.apache.maven.plugins:maven-pmd-plugin:3.26.0"
DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
#: A formatter that belongs to a project's build decides on no test.
NO_FORMATTER = "-Dspotless.check.skip=true"
_WARM = "/tmp/maven-repository"
_REPORTS = (
    "**/target/surefire-reports/TEST-*.xml",
    "**/target/failsafe-reports/TEST-*.xml",
    "**/build/test-results/test/*.xml",
)


@dataclass(frozen=True, slots=True)
class Build:
    """One run of the build tool, with the report it left."""

    result: CommandResult
    report: Report

    @property
    def sound(self) -> bool:
        """Whether exit code and report tell one story; a build that broke has none to tell."""
        if self.result.timed_out or not self.report.complete or not self.report.statuses:
            return False
        return (self.result.exit_code == 0) == (not any(self.report.failed()))


def command(goals: Sequence[str], *, arguments: str = "", repository: str = REPOSITORY) -> str:
    parts = ["mvn", "-B", "-o", "-ntp", f"-Dmaven.repo.local={repository}", NO_FORMATTER, *goals]
    if arguments:
        parts += shlex.split(arguments)
    return shlex.join(parts)


def warmed_repository(
    trees: Sequence[BaseTree], goals: Sequence[str], start: StartEnvironment
) -> Path:
    """A local repository with all that these goals need for these trees, filled once, online.

    What a build that broke has fetched is not kept: it lacks what the goals after it need.
    """
    identity = digest("maven", 3, [tree.commit for tree in trees], list(goals))

    def fill(place: Path) -> None:
        spec = EnvironmentSpec(
            needs=frozenset({"commands", "network"}),
            workdir=TESTBED,
            network=True,
            limits=checkout.LIMITS,
        )
        # a failing test must not keep the goals after it from fetching what they need
        lenient = [*goals, "-Dmaven.test.failure.ignore=true"]
        online = command(lenient, repository=_WARM).replace(" -o ", " ")
        with machine(start(spec)) as env:
            for number, tree in enumerate(trees):
                folder = f"{TESTBED}/{number}"
                env.copy_in(tree.path, folder)
                result = env.run_command(online, cwd=folder, timeout=1800)
                if result.exit_code != 0:
                    raise EnvironmentFault(f"Maven cannot build here: {_said(result.output)}")
            env.copy_out(_WARM, place / "repository")

    return made_once("maven", identity, fill) / "repository"


def _said(output: str) -> str:
    """Which goal failed and why, of what Maven printed."""
    found = re.search(r"(?:Failed to execute goal|\[FATAL\]) .*", output)
    return found[0] if found else output[-400:]


def run_build(env: Machine, test_command: str, *, timeout: float) -> Build:
    """Run the tests and read JUnit reports that were not there before."""
    clear = "find . -type d ( -path '*/target' -o -path '*/build/test-results' ) -prune"
    env.run_command(
        clear.replace("(", r"\(").replace(")", r"\)") + " -exec rm -rf {} +", cwd=TESTBED
    )
    result = env.run_command(test_command, cwd=TESTBED, timeout=timeout, output_bytes=32 * 1024**2)
    if result.exit_code == 127:
        raise GraderError(f"the build tool is not installed: {result.output[-200:]}")
    names = sorted({name for pattern in _REPORTS for name in env.list_files(pattern)})
    return Build(result, junit.read_all([env.read_file(name) for name in names]))


def line_coverage(env: Machine) -> dict[str, tuple[int, int]]:
    """Class → (lines covered, lines in all), from JaCoCo's XML reports."""
    found: dict[str, tuple[int, int]] = {}
    for name in env.list_files("**/target/site/jacoco/jacoco.xml"):
        for package in _xml(env, name).iter("package"):
            for unit in package.iter("class"):
                for counter in unit.findall("counter"):
                    if counter.get("type") == "LINE":
                        covered = int(counter.get("covered", "0"))
                        total = covered + int(counter.get("missed", "0"))
                        found[unit.get("name", "").replace("/", ".")] = (covered, total)
    return found


def violations(env: Machine) -> dict[tuple[str, str], int]:
    """(file, rule) → how often, from PMD's XML reports."""
    found: dict[tuple[str, str], int] = {}
    names = env.list_files("**/target/pmd.xml")
    if not names:
        raise GraderError("PMD left no report")
    for name in names:
        for file in _xml(env, name).iter():
            if not file.tag.endswith("file"):
                continue
            path = file.get("name", "").removeprefix(f"{TESTBED}/")
            for violation in file:
                if violation.tag.endswith("violation"):
                    key = (path, violation.get("rule", ""))
                    found[key] = found.get(key, 0) + 1
    return found


def dependency_versions(env: Machine, place: str = "target/dependencies.txt") -> dict[str, str]:
    """`group:artifact` → version, from the dependency plugin's list."""
    versions: dict[str, str] = {}
    for line in env.read_text(f"{TESTBED}/{place}").splitlines():
        words = line.split()
        parts = words[0].split(":") if words else []
        if len(parts) >= 4:
            versions[f"{parts[0]}:{parts[1]}"] = parts[3]
    return versions


def _xml(env: Machine, path: str) -> ElementTree.Element:
    content = env.read_file(str(PurePosixPath(TESTBED) / path))
    # JaCoCo names a DTD that is never fetched; entities of the document's own are refused
    if b"<!ENTITY" in content:
        raise GraderError(f"{path} declares entities")
    try:
        return ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise GraderError(f"{path} is damaged: {error}") from None
