"""A repository at its base commit in an environment, and work taken out of it as a diff."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from chimera.environments.base import Environment, EnvironmentSpec, Machine, ResourceLimits, machine
from chimera.environments.identity import interpreter
from chimera.environments.tar_streams import copy_clean
from chimera.errors import EnvironmentFault
from chimera.eval.benchmark import StartEnvironment
from chimera.eval.kits import replies as extract
from chimera.eval.kits.repositories.built import Built
from chimera.eval.kits.repositories.source import BaseTree, Source, base_tree
from chimera.eval.kits.repositories.step_limits import step_limit
from chimera.eval.kits.repositories.swebench_specs import listed_requirements
from chimera.eval.kits.repositories.virtualenvs import (
    TESTBED,
    VirtualEnvironment,
    virtual_environment,
)
from chimera.eval.values import Submission
from chimera.text import log_end
from chimera.types import JSON

LIMITS = ResourceLimits(memory_bytes=6 * 1024**3, processes=1024)
DIFF_BYTES = 32 * 1024**2
_SAFE_GIT = "git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c safe.directory=*"


@dataclass(frozen=True, slots=True)
class PythonSetup:
    """How a Python repository is set up without an official image."""

    source: Source
    python: str
    pins: tuple[str, ...]  # a closed list: nothing that they depend on is added
    interpreters: Mapping[str, str] = field(default_factory=dict)
    requirements: tuple[str, ...] = ()  # installed with what they depend on
    requirement_files: tuple[str, ...] = ()  # the first in the tree lists more of them
    version: str = ""  # the project's; with one it is built where that adds something
    step_seconds: float | None = None  # for each step; None: as long as each usually may take

    def tree(self) -> BaseTree:
        source: Source = self.source
        if self.version:
            source = Built(source, self._packages(), self.version)
        with step_limit(self.step_seconds):
            return base_tree(source)

    def environment(self) -> VirtualEnvironment:
        """The pins, and what the project needs beside them."""
        tree = self.tree()
        listed = listed_requirements(tree.path, self.requirement_files)
        return self._packages(*self.requirements, *listed, *tree.requirements())

    def _packages(self, *requirements: str) -> VirtualEnvironment:
        with step_limit(self.step_seconds):
            return virtual_environment(
                self.python, self.pins, requirements=requirements, interpreters=self.interpreters
            )


def open_virtualenv(
    setup: PythonSetup, start: StartEnvironment, *, mounts: Mapping[str, str] | None = None
) -> Machine:
    """A fresh copy of the tree at TESTBED, with the shared virtual environment beside it."""
    packages = setup.environment()
    shown = {**packages.mounts(), **(mounts or {})}
    return open_tree(setup.tree(), start, variables=packages.variables(), mounts=shown)


def open_tree(
    tree: BaseTree,
    start: StartEnvironment,
    *,
    variables: Mapping[str, str] | None = None,
    mounts: Mapping[str, str] | None = None,
) -> Machine:
    """A fresh copy of a tree at TESTBED, with this machine's own tools."""
    spec = EnvironmentSpec(
        needs=frozenset({"commands"}),
        mounts=dict(mounts or {}),
        workdir=TESTBED,
        variables=dict(variables or {}),
        limits=LIMITS,
    )
    return _prepared_environment(machine(start(spec)), lambda env: _copy_tree(env, tree))


def virtualenv_identity(
    setup: PythonSetup, start: StartEnvironment, *, mounts: Mapping[str, str] | None = None
) -> JSON:
    """What decides in `open_virtualenv` beside the answer: tree, interpreter and packages."""
    packages = setup.environment()
    spec = EnvironmentSpec(mounts={**packages.mounts(), **(mounts or {})})
    return [setup.tree().commit, interpreter(packages.python), start.identity(spec)]


def tree_identity(
    tree: BaseTree, start: StartEnvironment, *, mounts: Mapping[str, str] | None = None
) -> JSON:
    """What decides in `open_tree` beside the answer."""
    return [tree.commit, start.identity(EnvironmentSpec(mounts=dict(mounts or {})))]


def open_image(
    image: str,
    start: StartEnvironment,
    *,
    variables: Mapping[str, str] | None = None,
    mounts: Mapping[str, str] | None = None,
    prepare: Callable[[Machine], object] | None = None,
) -> Machine:
    """A container of an image that has the repository at TESTBED, after `prepare`."""
    spec = EnvironmentSpec(
        needs=frozenset({"commands", "image"}),
        image=image,
        mounts=dict(mounts or {}),
        workdir=TESTBED,
        variables=dict(variables or {}),
        limits=LIMITS,
    )
    env = machine(start(spec))
    return env if prepare is None else _prepared_environment(env, prepare)


def _prepared_environment(env: Machine, prepare: Callable[[Machine], object]) -> Machine:
    try:
        prepare(env)
    except BaseException:
        env.close()
        raise
    return env


def _copy_tree(env: Machine, tree: BaseTree) -> None:
    copy_clean(env, tree.path, TESTBED)
    check = env.run_command(f"{_SAFE_GIT} rev-parse HEAD", cwd=TESTBED)
    if check.stdout.decode().strip() != tree.commit:
        raise EnvironmentFault(f"the repository was not copied whole: {check.output[-200:]}")


def collect_diff(env: Machine, base: str, root: str = TESTBED) -> str:
    """All that differs from commit `base` in the working tree, new files and commits included."""
    command = (
        f"{_SAFE_GIT} add --all && "
        f"{_SAFE_GIT} diff --cached --binary --no-color --no-ext-diff --no-textconv {base}"
    )
    result = env.run_command(command, cwd=root, timeout=300, output_bytes=DIFF_BYTES)
    if result.exit_code != 0 or result.truncated:
        return ""  # the agent broke its own repository: there is nothing to hand in
    return result.stdout.decode("utf-8", "surrogateescape")


def reply_submission(reply: str) -> Submission:
    """The patch in a model's reply."""
    return Submission(text=extract.patch(reply), form="model_patch", raw=reply)


def tree_submission(env: Environment, reply: str) -> Submission:
    """What was changed in the working tree; a patch in the reply where the tree is untouched."""
    diff = collect_diff(machine(env), "$(git rev-list --max-parents=0 HEAD)")
    if diff.strip():
        return Submission(text=diff, form="model_patch", raw=reply)
    return reply_submission(reply)


#: When everything in a levelled tree was last touched, and by whom.
_ALWAYS = "2000-01-01T00:00:00Z"
_AUTHOR = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "chimera"), ("EMAIL", "chimera@localhost"), ("DATE", _ALWAYS))
}


_ONE_COMMIT = (
    "rm -rf .git",
    "git init -q",
    # what is thrown away so soon is not worth packing
    "git -c core.compression=0 add -A --force",
    "git commit -q --no-verify -m base",
    "rm -rf .git/logs",
)
#: `hide_history` as a step of a Dockerfile, so that it is done once for an image.
HIDING_STEP = (
    f"RUN cd {TESTBED} && export {' '.join(f'{name}={value}' for name, value in _AUTHOR.items())}"
    f" && {' && '.join(_ONE_COMMIT)}\n"
)


def hide_history(env: Machine, root: str = TESTBED) -> None:
    """Leave nothing in a repository but one commit of its present state, always of one date."""
    _prepared(env, root, _ONE_COMMIT)


def level_state(env: Machine, root: str = TESTBED) -> None:
    """Make a changed tree look like any other: committed, and all of it equally old."""
    exclude = ".git/info/exclude"
    _prepared(env, root, (f"cp {exclude} /tmp/exclude",))
    hide_history(env, root)
    _prepared(
        env,
        root,
        (
            f"mv /tmp/exclude {exclude}",
            f"find . -path ./.git -prune -o -exec touch -h -d {_ALWAYS} {{}} +",
            "git update-index -q --refresh",
            f"find . -exec touch -h -d {_ALWAYS} {{}} +",
        ),
    )


def _prepared(env: Machine, root: str, steps: Sequence[str]) -> None:
    result = env.run_command(" && ".join(steps), cwd=root, timeout=600, variables=_AUTHOR)
    if result.timed_out:
        raise EnvironmentFault(f"cannot prepare {root}: '{steps[0]} …' did not end within 600 s")
    if result.exit_code != 0:
        raise EnvironmentFault(f"cannot prepare {root}: {log_end(result.output)}")
