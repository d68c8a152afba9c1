"""A row's own Dockerfile: what an image is built from, and the same steps where there is none."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chimera.cache import digest, made_once
from chimera.environments.base import EnvironmentSpec, Machine, machine
from chimera.environments.bubblewrap import HOME, search_path
from chimera.errors import EnvironmentFault
from chimera.eval.benchmark import StartEnvironment
from chimera.eval.benchmarks._swe_polybench.nodes import NVM, nvm_directory, versions_in
from chimera.eval.kits.repositories import checkout
from chimera.eval.kits.repositories.source import BaseTree, committed
from chimera.eval.kits.repositories.virtualenvs import TESTBED
from chimera.foreign_trees import write_inside
from chimera.text import log_end

STEP_SECONDS = 1800.0
#: The machine's own authorities, which Node.js and pip do not ask by themselves.
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
TRUSTING = ("NODE_EXTRA_CA_CERTS", "PIP_CERT")
#: What package managers leave in the home: Maven, Gradle, and pip where the system is not theirs.
LEFT_IN_HOME = (".m2", ".gradle", ".local")
PIP = {"PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_NO_CACHE_DIR": "1"}
STORAGE = 12 * 1024**3  # bytes, an eighth of it for the home
#: Settings that name places of an image.
_PLACES = ("JAVA_HOME", "PATH")
#: What an image brings along and what needs none of it.
_IDLE = ("FROM", "WORKDIR", "COPY", "CMD", "ENTRYPOINT", "EXPOSE", "LABEL", "SHELL", "USER")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A tree after the steps of its Dockerfile, and what they left outside of it, by where it is
    found again."""

    tree: BaseTree
    mounts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a row's environment is made from its repository at the base commit."""

    dockerfile: str
    test_command: str = ""
    nodes: Callable[[Sequence[str]], Path] = nvm_directory

    def mounts(self) -> dict[str, str]:
        """What the steps and the tests find outside of the repository: Node.js, as nvm has it."""
        versions = versions_in(self.dockerfile, self.test_command)
        return {str(self.nodes(versions)): NVM} if versions else {}

    def variables(self) -> dict[str, str]:
        own = {name: value for name, value in _pairs(self.dockerfile) if name not in _PLACES}
        if self.mounts():
            return {**own, "NVM_DIR": NVM}
        return {**own, "PATH": search_path(f"{HOME}/.local/bin")}

    def prepared(self, tree: BaseTree, start: StartEnvironment) -> Prepared:
        """The tree after the Dockerfile's commands, which were run once, with a network."""
        commands = [step for kind, step in _steps(self.dockerfile) if kind == "RUN"]
        if not commands:
            return Prepared(tree, self.mounts())
        variables = {**self.variables(), **PIP, **_trust()}
        mounts = sorted(self.mounts().items())
        named = digest("recipe", 4, tree.commit, commands, variables, mounts)
        place = made_once("recipes", named, lambda place: self._build(tree, commands, start, place))
        built = BaseTree(place / "tree", (place / "commit").read_text().strip(), tree.exact)
        left = {str(kept): f"{HOME}/{kept.name}" for kept in sorted((place / "home").iterdir())}
        return Prepared(built, {**self.mounts(), **left})

    def _build(
        self, tree: BaseTree, commands: list[str], start: StartEnvironment, place: Path
    ) -> None:
        spec = EnvironmentSpec(
            needs=frozenset({"commands", "network"}),
            workdir=TESTBED,
            mounts=self.mounts(),
            variables={**self.variables(), **PIP, **_trust()},
            network=True,
            limits=replace(checkout.LIMITS, disk_bytes=STORAGE),
        )
        with machine(start(spec)) as env:
            env.copy_in(tree.path, TESTBED)
            if any("pip" in command for command in commands):
                env.run_command("python3 -m ensurepip --user", timeout=STEP_SECONDS)
            for command in commands:
                done = env.run_command(["sh", "-c", command], cwd=TESTBED, timeout=STEP_SECONDS)
                if not done.success:
                    raise EnvironmentFault(
                        f"a step of the Dockerfile failed: {command[:200]}\n{log_end(done.output)}"
                    )
            env.copy_out(TESTBED, place / "tree")
            _take_home(env, place / "home")
        # what was installed is part of the base, so that a submission's changes are told from it
        (place / "commit").write_text(committed(place / "tree"))

    def context(self, tree: BaseTree) -> Path:
        """The directory that Docker builds the row's image from, its history hidden at the end."""
        dockerfile = f"{self.dockerfile.rstrip()}\n{checkout.HIDING_STEP}"
        named = digest("polybench-context", 2, tree.commit, dockerfile)

        def make(place: Path) -> None:
            ignore = shutil.ignore_patterns(".dockerignore")
            shutil.copytree(tree.path, place, symlinks=True, dirs_exist_ok=True, ignore=ignore)
            write_inside(place, "Dockerfile", dockerfile)

        return made_once("contexts", named, make)


def _trust() -> dict[str, str]:
    return dict.fromkeys(TRUSTING, CERTIFICATES) if Path(CERTIFICATES).exists() else {}


def _take_home(env: Machine, place: Path) -> None:
    place.mkdir()
    there = env.run_command(["ls", "-A", HOME]).stdout.decode().split("\n")
    for name in LEFT_IN_HOME:
        if name in there:
            try:
                env.copy_out(f"{HOME}/{name}", place / name)
            except FileNotFoundError as error:  # a link that leads out of the home
                raise EnvironmentFault(f"what the Dockerfile's steps left: {error}") from None


def _steps(dockerfile: str) -> Iterator[tuple[str, str]]:
    """(instruction, what follows), lines put together, comments left out."""
    joined = re.sub(r"\\\s*\n", " ", re.sub(r"(?m)^\s*#.*\n?", "", dockerfile))
    for line in filter(None, map(str.strip, joined.splitlines())):
        kind, _, rest = line.partition(" ")
        if kind.upper() not in (*_IDLE, "RUN", "ENV", "ARG"):
            raise EnvironmentFault(f"only Docker can do this step of the Dockerfile: {line[:200]}")
        yield kind.upper(), rest.strip()


def _pairs(dockerfile: str) -> Iterator[tuple[str, str]]:
    for kind, rest in _steps(dockerfile):
        if kind in ("ENV", "ARG") and "=" in rest:
            name, _, value = rest.partition("=")
            yield name, value.strip("\"'")
