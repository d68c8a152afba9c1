"""What Java projects need of the machine that builds them, told before the first trial."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from chimera.environments import engine
from chimera.eval.benchmark import Lack
from chimera.programs import PATIENCE_SECONDS, clean_variables, why_unusable

_RELEASE = re.compile(r"<(?:java\.version|maven\.compiler\.(?:release|target))>\s*(\d+)")
_CONTAINERS = "<groupId>org.testcontainers</groupId>"


def lacking_in_docker(ids: frozenset[str]) -> Iterator[Lack]:
    """Rows name no image."""
    if ids and engine.default_image() is None:
        yield Lack(
            "an image for their containers",
            f"name one with a JDK, Maven and git: {engine.DEFAULT_IMAGE}=IMAGE",
            ids,
        )


def lacking_here(
    programs: Sequence[str], images: Sequence[str], ids: frozenset[str]
) -> Iterator[Lack]:
    """Outside of Docker: the tools, and the door, which only Docker has."""
    for program in programs if ids else ():
        if why := why_unusable(program):
            yield Lack(f"'{program}'", f"it {why}", ids)
    if ids and images:
        yield Lack("Docker for test_images", "--environment docker", ids)


def lacking_for_projects(projects: Mapping[str, Path], *, here: bool, door: bool) -> Iterator[Lack]:
    """What the build files of tasks' projects ask for: a newer Java than is here, containers."""
    found: dict[tuple[str, str], set[str]] = {}
    for task, project in projects.items():
        file = project / "pom.xml"
        pom = file.read_text("utf-8", "replace") if file.is_file() else ""
        wanted = max(map(int, _RELEASE.findall(pom)), default=0)
        if here and 0 < (release := java_here()) < wanted:
            remedy = f"this machine's is {release}; --environment docker has that of its image"
            found.setdefault((f"JDK {wanted}", remedy), set()).add(task)
        # tests that failsafe keeps apart may be all that start any
        if not door and _CONTAINERS in pom and "maven-failsafe-plugin" not in pom:
            remedy = "--environment docker --option test_images=IMAGE,…"
            found.setdefault(("containers that tests start", remedy), set()).add(task)
    for (what, remedy), tasks in found.items():
        yield Lack(what, remedy, frozenset(tasks))


@cache
def java_here() -> int:
    """The release of Java that Maven runs on here, as it is in a sandbox; 0: it does not say."""
    try:
        asked = subprocess.run(
            ["java", "-version"],
            env=clean_variables(),
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(rb'version "(?:1\.)?(\d+)', asked.stderr + asked.stdout)
    return int(found[1]) if found else 0
