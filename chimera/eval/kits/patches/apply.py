"""Put a submission into a checkout, and the official tests over it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chimera.environments.base import Machine
from chimera.errors import GraderError
from chimera.eval.kits.patches import diffs
from chimera.eval.kits.patches.blobs import Comparison, RebuiltTree, differs
from chimera.eval.kits.patches.steering import steers
from chimera.types import JSON


@dataclass(frozen=True, slots=True)
class Chain:
    """Commands tried in turn on `{file}`; the first that ends with 0 counts."""

    commands: tuple[str, ...]
    reset: str = ""  # between two attempts
    partly: bool = False  # whether what failed attempts left counts when all of it is in
    end_line: bool = True  # whether a last line without its end is given one


#: What swebench 5.0 does. Its reset leaves a tree with conflicts as it is, and so does this one.
SWEBENCH_5 = Chain(
    (
        "git apply --verbose {file}",
        "git apply --verbose --3way {file}",
        "git apply --verbose --reject {file}",
        "patch --batch --forward --fuzz=5 -p1 -i {file}",
    ),
    reset="git checkout -- . ; git clean -fd",
    partly=True,
    end_line=False,
)
#: What swebench 4.1 does.
SWEBENCH_4 = Chain(
    (
        "git apply --verbose {file}",
        "git apply --verbose --reject {file}",
        "patch --batch --fuzz=5 -p1 -i {file}",
    ),
    end_line=False,
)
#: Names that only other systems take for `.git` are names here.
_GIT = (
    "git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.protectNTFS=false"
    " -c core.protectHFS=false"
)
_FUZZ = re.compile(r"with fuzz \d")
_LINK_MODES = ("120000", "160000")


@dataclass(frozen=True, slots=True)
class Change:
    """One path that a submission really changed."""

    path: str
    status: str  # A, M, D, T
    mode: str


@dataclass(frozen=True, slots=True)
class Application:
    """How a submission went in, and what of it was taken out again."""

    command: str  # the attempt that worked; empty: none did
    output: str = ""
    steering: tuple[str, ...] = ()
    overridden: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    compared: Comparison = Comparison()

    @property
    def applied(self) -> bool:
        return bool(self.command)

    def undone(self) -> dict[str, JSON]:
        """For a verdict's metrics: what was taken out again, and files of another kind."""
        found = {"steering_files": self.steering, "overridden_test_files": self.overridden}
        undone: dict[str, JSON] = {name: list(paths) for name, paths in found.items() if paths}
        return {**undone, **self.compared.metrics()}


def apply_submission(
    env: Machine,
    patch: str,
    *,
    root: str,
    test_paths: frozenset[str],
    expected: Sequence[str] = (),
    allowed: frozenset[str] = frozenset(),
    chain: Chain = SWEBENCH_5,
    tree: RebuiltTree | None = None,
) -> Application:
    """Apply a submission, then undo what it did to test files and to files that steer the runner.

    What is undone is read off the working tree and not off the diff's text, so a diff that is
    written in an unusual way hides nothing. `expected` (gold and test patch) tells which steering
    files are part of the task, and `allowed` names further ones. `tree` says that the checkout is
    not the base commit's own: what goes in by guessing alone is then an error.
    """
    if not diffs.parse(patch) or diffs.reaches_into_git(patch):
        return Application("", "not a unified diff of files in the repository")
    file = "/tmp/submission.diff"
    ended = patch.endswith("\n") or not chain.end_line
    env.write_file(file, patch if ended else patch + "\n")
    compared = Comparison() if tree is None else tree.compared(patch, expected)
    if tree is not None:
        tree.refuse_misplaced(patch, compared)
    command, output = _first_that_works(env, file, root, chain)
    if compared.doubtful and (not command or _FUZZ.search(output)):
        raise differs(compared.doubtful[0])
    if not command:
        return Application("", output)
    changes = changed_paths(env, root)
    ordinary = allowed.union(*(diffs.paths(other) for other in expected))
    overridden = [c for c in changes if c.path in test_paths]
    steering = [
        c for c in changes if c.path not in test_paths and _steers(c) and c.path not in ordinary
    ]
    _undo(env, root, [*overridden, *steering])
    undone = {c.path for c in (*overridden, *steering)}
    return Application(
        command,
        output,
        tuple(sorted(c.path for c in steering)),
        tuple(sorted(c.path for c in overridden)),
        tuple(sorted(c.path for c in changes if c.path not in undone)),
        compared,
    )


def put_tests(env: Machine, test_patch: str, *, root: str) -> bool:
    """Make the files that the test patch names exactly what it says; False if that failed."""
    files = diffs.parse(test_patch)
    named = sorted({p for file in files for p in (file.old, file.new) if p})
    existing = sorted({file.old for file in files if file.old})
    env.write_file(
        "/tmp/tests.diff", test_patch if test_patch.endswith("\n") else test_patch + "\n"
    )
    steps = [_each("rm -rf --", named)] if named else []
    if existing:
        steps.append(_each(f"{_GIT} checkout -q HEAD --", existing))
    steps.append(f"{_GIT} apply --whitespace=nowarn /tmp/tests.diff")
    return env.run_command(" && ".join(steps), cwd=root, timeout=120).exit_code == 0


def changed_paths(env: Machine, root: str) -> list[Change]:
    """Everything that differs from the base commit, ignored files too."""
    command = f"{_GIT} add --all --force && {_GIT} diff --cached --raw -z --no-renames HEAD"
    result = env.run_command(f"{command} && {_GIT} reset -q", cwd=root, timeout=300)
    if result.exit_code != 0 or result.truncated:
        raise GraderError(f"git cannot list the changes: {result.output[-300:]}")
    fields = result.stdout.decode("utf-8", "surrogateescape").split("\0")
    changes = []
    for index in range(0, len(fields) - 1, 2):
        words = fields[index].lstrip(":").split()
        changes.append(Change(fields[index + 1], words[4], words[1]))
    return changes


def _steers(change: Change) -> bool:
    return change.mode in _LINK_MODES or steers(change.path, new=change.status == "A")


def _undo(env: Machine, root: str, changes: Iterable[Change]) -> None:
    for change in changes:
        quoted = shlex.quote(change.path)
        command = f"rm -rf -- {quoted}"
        if change.status != "A":
            command += f" && {_GIT} checkout -q HEAD -- {quoted}"
        if env.run_command(command, cwd=root).exit_code != 0:
            raise GraderError(f"cannot put {change.path} back to its base state")


def _first_that_works(env: Machine, file: str, root: str, chain: Chain) -> tuple[str, str]:
    output = ""
    for number, attempt in enumerate(chain.commands):
        if number and chain.reset:
            env.run_command(chain.reset, cwd=root, timeout=300)
        result = env.run_command(attempt.format(file=file), cwd=root, timeout=300)
        output = result.output
        if result.exit_code == 0:
            return attempt.format(file="PATCH"), output
    if chain.partly:
        backwards = f"git apply --check --reverse {file}"
        if env.run_command(backwards, cwd=root).exit_code == 0:
            return "already applied", output
    return "", output


def _each(command: str, names: Sequence[str]) -> str:
    return f"{command} {' '.join(shlex.quote(name) for name in names)}"
