"""A row's own Dockerfile: what an image is built from, and the same steps where there is none."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from chimera.cache import digest, made_once
from chimera.environments.base import EnvironmentSpec, machine
from chimera.errors import EnvironmentFault
from chimera.eval.benchmark import StartEnvironment
from chimera.eval.benchmarks._swe_polybench.nodes import NVM, nvm_directory, versions_in
from chimera.eval.kits.repositories import checkout
from chimera.eval.kits.repositories.source import BaseTree
from chimera.eval.kits.repositories.virtualenvs import TESTBED
from chimera.text import log_end

STEP_SECONDS = 1800.0
#: The machine's own authorities, which Node.js does not ask by itself.
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
#: What an image brings along and what needs none of it.
_IDLE = ("FROM", "WORKDIR", "COPY", "CMD", "ENTRYPOINT", "EXPOSE", "LABEL", "SHELL", "USER")


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
        return {**dict(_pairs(self.dockerfile)), "NVM_DIR": NVM} if self.mounts() else {}

    def built(self, tree: BaseTree, start: StartEnvironment) -> BaseTree:
        """The tree after the Dockerfile's commands, which were run once, with a network.

        Those of other languages write outside of the tree, where only an image keeps it.
        """
        commands = [step for kind, step in _steps(self.dockerfile) if kind == "RUN"]
        if not commands or not self.mounts():
            return tree
        named = digest("recipe", 2, tree.commit, commands, sorted(self.mounts()))
        place = made_once("recipes", named, lambda place: self._build(tree, commands, start, place))
        return BaseTree(place / "tree", (place / "commit").read_text().strip(), tree.exact)

    def _build(
        self, tree: BaseTree, commands: list[str], start: StartEnvironment, place: Path
    ) -> None:
        spec = EnvironmentSpec(
            needs=frozenset({"commands", "network"}),
            workdir=TESTBED,
            mounts=self.mounts(),
            variables={**self.variables(), "NODE_EXTRA_CA_CERTS": CERTIFICATES},
            network=True,
            limits=checkout.LIMITS,
        )
        with machine(start(spec)) as env:
            env.copy_in(tree.path, TESTBED)
            for command in commands:
                done = env.run_command(["sh", "-c", command], cwd=TESTBED, timeout=STEP_SECONDS)
                if not done.success:
                    raise EnvironmentFault(
                        f"a step of the Dockerfile failed: {command[:200]}\n{log_end(done.output)}"
                    )
            env.copy_out(TESTBED, place / "tree")
        (place / "commit").write_text(_committed(place / "tree"))

    def context(self, tree: BaseTree) -> Path:
        """The directory that Docker builds the row's image from, its history hidden at the end."""
        dockerfile = f"{self.dockerfile.rstrip()}\n{checkout.HIDING_STEP}"
        named = digest("polybench-context", 2, tree.commit, dockerfile)

        def make(place: Path) -> None:
            ignore = shutil.ignore_patterns(".dockerignore")
            shutil.copytree(tree.path, place, symlinks=True, dirs_exist_ok=True, ignore=ignore)
            (place / "Dockerfile").write_text(dockerfile, "utf-8")

        return made_once("contexts", named, make)


def _committed(tree: Path) -> str:
    """The id of the only commit, which now has what the steps changed."""
    author = ("-c", "user.name=chimera", "-c", "user.email=chimera@localhost", "-c", "gc.auto=0")
    # what was installed is part of the base, so that a submission's changes are told from it
    for command in (
        ("add", "--all", "--force"),
        ("commit", "-q", "--amend", "--no-verify", "--no-edit"),
    ):
        subprocess.run(["git", "-C", str(tree), *author, *command], check=True, timeout=600)
    shown = subprocess.run(
        ["git", "-C", str(tree), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    )
    return shown.stdout.strip()


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
