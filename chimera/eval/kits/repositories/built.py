"""What an editable install adds to a commit: metadata, generated files, extension modules.

The project's own build runs in a sandbox without a network; what it says it needs for that is
installed beforehand, beside the environment that its tests have. Its modules are compiled on the
way, so that not every run of its tests has to.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chimera.cache import digest, made_once
from chimera.environments import EnvironmentSpec, ResourceLimits, machine, start_environment
from chimera.environments.tar_streams import copy_clean
from chimera.errors import EnvironmentFault
from chimera.eval.kits.repositories.installing import installer, named_packages
from chimera.eval.kits.repositories.source import BYTECODE, METADATA, Source
from chimera.eval.kits.repositories.virtualenvs import (
    TESTBED,
    VirtualEnvironment,
)
from chimera.foreign_trees import read_inside, write_inside
from chimera.text import log_end

RECIPE = 2
TOOLS_RECIPE = 1
TIMEOUT = 1100.0
LIMITS = ResourceLimits(memory_bytes=8 * 1024**3, processes=1024)
LEGACY = "setuptools.build_meta:__legacy__"
EXTENSIONS = (".pyx", ".c", ".cpp", ".cc")
#: Why a build failed, in the tree beside the metadata.
FAILURE = f"{METADATA}/build-failed.txt"
#: When the files of a built tree were changed: bytecode of old Pythons goes by it, and nothing that
#: is changed later is as old.
AGE = 946_771_200.0
#: Inside, what the build made or changed.
MADE = "/tmp/made"
_BUILD = Path(__file__).with_name("programs") / "build_project.py"
#: Build tools of today refuse what older projects say in their setup.py.
BOUNDS = ("setuptools<69", "setuptools_scm<8", "cython<3", "wheel<0.44")


@dataclass(frozen=True, slots=True)
class Built:
    """Another source after its build; one that fails is noted in the tree, and tests decide."""

    source: Source
    environment: VirtualEnvironment
    version: str  # what a project that asks its tags is told

    @property
    def exact(self) -> bool:
        return self.source.exact

    def identity(self) -> str:
        environment = self.environment.path.name
        return digest(RECIPE, "built", self.source.identity(), environment, self.version)

    def write(self, target: Path) -> None:
        self.source.write(target)
        if _needs_build(target):
            for path in target.rglob("*"):
                os.utime(path, (AGE, AGE), follow_symlinks=False)
            self._build(target)

    def _build(self, target: Path) -> None:
        backend, requirements = _build_system(target)
        tools = self._tools(requirements)
        mounts = {**self.environment.mounts(), str(tools): str(tools), str(_BUILD): str(_BUILD)}
        spec = EnvironmentSpec(
            needs=frozenset({"commands"}),
            mounts=mounts,
            workdir=TESTBED,
            variables={
                **self.environment.variables(),
                "PYTHONPATH": str(tools),
                "SETUPTOOLS_SCM_PRETEND_VERSION": f"{self.version}.0",
            },
            limits=LIMITS,
        )
        extended = "yes" if _has_extensions(target) else "no"
        with machine(start_environment("bubblewrap", spec)) as env:
            copy_clean(env, target, TESTBED)
            command = ["python", str(_BUILD), backend, METADATA, extended, MADE]
            result = env.run_command(command, cwd=TESTBED, timeout=TIMEOUT)
            if result.exit_code != 0:
                env.write_file(f"{MADE}/tree/{FAILURE}", log_end(result.output))
            env.copy_out(f"{MADE}/tree", target)
            env.copy_out(f"{MADE}/{BYTECODE}", target.with_name(BYTECODE))

    def _tools(self, requirements: Sequence[str]) -> Path:
        """What the build needs, in a directory of its own."""
        python = str(self.environment.python)
        _, refused = named_packages(requirements)
        if refused:
            raise EnvironmentFault(
                f"the project's build needs what names no package of an index: {', '.join(refused)}"
            )

        def make(folder: Path) -> None:
            if not requirements:
                return
            bounds = folder / "bounds.txt"
            write_inside(folder, bounds.name, "\n".join(BOUNDS))
            arguments = ["--target", str(folder), *requirements]
            with installer(folder, map(Path, self.environment.mounts())) as work:
                for bounded in (["-c", str(bounds), *arguments], arguments):
                    failure = work.install(python, bounded, timeout=600)
                    if not failure:
                        return
            names = ", ".join(requirements)
            raise EnvironmentFault(f"cannot install {names}: {failure}", retryable=True)

        return made_once("build-tools", digest(TOOLS_RECIPE, python, *sorted(requirements)), make)


def build_failure(tree: Path) -> str:
    """Why the build of a tree failed; "" if it did not."""
    return read_inside(tree, FAILURE) or ""


def _needs_build(tree: Path) -> bool:
    """Distributions bring their metadata; extension modules nobody does."""
    known = (tree / "PKG-INFO").exists() or any(tree.glob("*.egg-info"))
    is_project = any((tree / name).exists() for name in ("setup.py", "setup.cfg", "pyproject.toml"))
    return is_project and (not known or _has_extensions(tree))


def _has_extensions(tree: Path) -> bool:
    if not (tree / "setup.py").exists():
        return False
    found = (*tree.glob("*/__init__.py"), *tree.glob("*/*/__init__.py"))
    packages = [path.parent for path in found if path.resolve().is_relative_to(tree.resolve())]
    return any(
        path.suffix in EXTENSIONS for package in packages for path in package.rglob("*")
    ) or ((tree / "src").is_dir() and any(path.suffix in EXTENSIONS for path in tree.glob("src/*")))


def _build_system(tree: Path) -> tuple[str, tuple[str, ...]]:
    """The build's back end, and what is needed for it."""
    try:
        content = tomllib.loads(read_inside(tree, "pyproject.toml") or "")
    except (OSError, ValueError):
        content = {}
    system = content.get("build-system", {})
    return system.get("build-backend", LEGACY), tuple(system.get("requires", ()))
