"""Where a repository's code at its base commit comes from; every kind gives a tree with one commit.

A tree holds no history but a single commit of the base state, so that nothing later can be looked
up in it. It is made once and copied for each trial.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Protocol

from chimera.cache import cache_dir, digest, file_digest, made_once
from chimera.errors import EnvironmentFault
from chimera.eval.kits.patches.blobs import RebuiltTree
from chimera.eval.kits.repositories import package_index
from chimera.eval.kits.repositories.row_fields import is_commit, is_plain
from chimera.eval.kits.repositories.step_limits import seconds_for_step
from chimera.foreign_trees import read_inside, write_inside
from chimera.git import NO_REPOSITORY, remove_repositories, repository_of, run_git

#: Raised when trees are prepared in another way, so that old ones are not used.
RECIPE = 3
METADATA = ".chimera-metadata"
#: Beside a tree: the files that it lacks because the clone does.
ABSENT = "absent.txt"
#: Beside a tree: its modules compiled, for runs that nobody's changes have touched yet.
BYTECODE = "bytecode.tar"
_SYMPY_RUNNER = Path(__file__).with_name("programs") / "sympy_test.py"


class Source(Protocol):
    """Something that can write a repository's files at its base commit into a directory."""

    @property
    def exact(self) -> bool:
        """Whether what it writes is the base commit."""

    def identity(self) -> str: ...

    def write(self, target: Path) -> None: ...


@dataclass(frozen=True, slots=True)
class SourceDistribution:
    """The release that first shipped a fix, with the fix and its tests taken off again."""

    requirement: str
    reversed_patches: tuple[str, ...] = ()

    exact = False

    def identity(self) -> str:
        return digest(RECIPE, "sdist", self.requirement, self.reversed_patches)

    def write(self, target: Path) -> None:
        package_index.unpack(package_index.source_distribution(self.requirement), target)
        for patch in self.reversed_patches:
            if patch.strip():
                _apply(target, patch, "-R")


@dataclass(frozen=True, slots=True)
class GitRepository:
    """One commit of a repository: a URL, or the path of a local clone or mirror."""

    location: str
    commit: str  # its whole id: a branch would be another commit another day

    exact = True

    def __post_init__(self) -> None:
        if not is_commit(self.commit):
            raise EnvironmentFault(f"{self.location}: {self.commit!r} is not the id of a commit")

    def identity(self) -> str:
        return digest(RECIPE, "git", self.location, self.commit)

    def write(self, target: Path) -> None:
        repository = self._repository()
        if not self._is_in(repository):
            raise EnvironmentFault(f"{self.location} has no commit {self.commit}")
        absent = self._absent(repository)
        index = target.with_name("index")
        excluded = [f":(exclude,top,literal){path}" for path in absent]
        # not an archive, which leaves out what the project does not release
        _git(
            target, "-c", "core.bare=false", "checkout", self.commit, "--", ".", *excluded,
            repository=repository,
            variables={"GIT_WORK_TREE": str(target.absolute()), "GIT_INDEX_FILE": str(index)},
        )  # fmt: skip
        index.unlink()
        target.with_name(ABSENT).write_text("\n".join(absent), encoding="utf-8")

    def _absent(self, repository: Path) -> list[str]:
        """Files of the commit whose content a partial clone lacks."""
        listed = _listed(repository, self.commit)
        blobs = [entry.split(maxsplit=3) for entry in listed if " blob " in entry]
        ids = "\n".join(facts[2] for facts in blobs)
        checked = _git(repository, "cat-file", "--batch-check", repository=repository, stdin=ids)
        pairs = zip(blobs, checked.split("\n"), strict=False)
        return [facts[3] for facts, said in pairs if said.endswith(" missing")]

    def _is_in(self, repository: Path) -> bool:
        asked = ("cat-file", "-e", "--end-of-options", f"{self.commit}^{{commit}}")
        return run_git(repository, *asked, repository=repository).returncode == 0

    def is_here(self) -> bool:
        """Whether nothing has to be fetched."""
        local = Path(self.location).expanduser()
        place = repository_of(local) if local.exists() else self._kept_mirror()
        return place.exists() and self._is_in(place)

    def _kept_mirror(self) -> Path:
        return cache_dir() / "mirrors" / digest(self.location)

    def _repository(self) -> Path:
        local = Path(self.location).expanduser()
        if local.exists():
            return repository_of(local)
        mirror = self._kept_mirror()
        if not (mirror / "HEAD").exists():
            mirror.mkdir(parents=True, exist_ok=True)
            _git(mirror, "init", "--quiet", "--bare", repository=mirror)
        if not self._is_in(mirror):
            fetch = ("fetch", "--quiet", "--depth=1", "--end-of-options")
            _git(mirror, *fetch, self.location, self.commit, repository=mirror, timeout=1800)
        return mirror


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory as it is, which whoever gave it takes for the base commit."""

    path: Path

    exact = True

    def identity(self) -> str:
        return digest(RECIPE, "directory", file_digest(self.path))

    def write(self, target: Path) -> None:
        shutil.copytree(self.path, target, dirs_exist_ok=True, symlinks=True)


@dataclass(frozen=True, slots=True)
class Patched:
    """Another source with patches put on."""

    source: Source
    patches: tuple[str, ...]

    @property
    def exact(self) -> bool:
        return self.source.exact

    def identity(self) -> str:
        return digest(RECIPE, "patched", self.source.identity(), self.patches)

    def write(self, target: Path) -> None:
        self.source.write(target)
        for patch in self.patches:
            _apply(target, patch)


@dataclass(frozen=True, slots=True)
class FirstToBeHad:
    """The exact commit where its repository can be reached, else a tree like it."""

    commit: GitRepository
    otherwise: Source

    @property
    def exact(self) -> bool:
        return self._chosen().exact

    def identity(self) -> str:
        return self._chosen().identity()

    def write(self, target: Path) -> None:
        self._chosen().write(target)

    def _chosen(self) -> Source:
        return self.otherwise if out_of_reach(self.commit) else self.commit


@cache
def reached(location: str) -> bool:
    """Whether a repository answers; asked once."""
    command = ("ls-remote", "--exit-code", "--end-of-options", location, "HEAD")
    try:
        asked = run_git(Path("/"), *command, repository=NO_REPOSITORY, timeout=30)
        return asked.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """Code that cannot be had: from where, and why not."""

    place: str
    why: str


def out_of_reach(source: Source) -> OutOfReach | None:
    """Where a source would be taken from and why it cannot be; None where it can, or is here."""
    if isinstance(source, Patched):
        return out_of_reach(source.source)
    if isinstance(source, FirstToBeHad):
        code = out_of_reach(source.commit)
        released = code and out_of_reach(source.otherwise)
        if code is None or released is None:
            return None
        return OutOfReach(code.place, f"{code.why}, nor can a release be had ({released.why})")
    if isinstance(source, SourceDistribution):
        why = package_index.why_not_to_be_had(source.requirement)
        return OutOfReach(f"the release {source.requirement}", why) if why else None
    if not isinstance(source, GitRepository) or source.is_here():
        return None
    if Path(source.location).expanduser().exists():
        return OutOfReach(source.location, "this clone has not their base commits")
    return None if reached(source.location) else OutOfReach(source.location, "it does not answer")


def clone_or_copy(repositories: str, names: Sequence[str], commit: str) -> Source:
    """The first of `names` below a directory: a clone at its commit, or a copy as it is."""
    for name in names:
        if not is_plain(name):  # a path that a row made up leads anywhere
            raise EnvironmentFault(f"{name!r} does not name a repository: OWNER/NAME is expected")
        place = Path(repositories).expanduser() / name
        if (place / ".git").exists() or (place / "HEAD").exists():
            return GitRepository(str(place), commit)
        if place.is_dir():
            return Directory(place)
    raise EnvironmentFault(f"{repositories} has no clone or copy of {names[0]}")


@dataclass(frozen=True, slots=True)
class BaseTree:
    """A prepared tree and the id of its only commit."""

    path: Path
    commit: str
    exact: bool = True  # whether it is the base commit's own

    def absent(self) -> tuple[str, ...]:
        """Files of the base commit that are not there, because the clone lacks them."""
        listed = self.path.with_name(ABSENT)
        return tuple(listed.read_text(encoding="utf-8").split("\n")) if _filled(listed) else ()

    def bytecode(self) -> Path | None:
        """An archive of the modules of the base commit, compiled."""
        archive = self.path.with_name(BYTECODE)
        return archive if archive.exists() else None

    def rebuilt(self) -> RebuiltTree | None:
        """What patches are to be checked against, unless they meet what they were made from."""
        return None if self.exact else RebuiltTree(self.path, _blobs(self.path, self.commit))

    def requirements(self) -> tuple[str, ...]:
        """What the package says it needs, extras left out."""
        places = ("*.egg-info", "src/*.egg-info", f"{METADATA}/*.egg-info")
        for listed in (found for place in places for found in sorted(self.path.glob(place))):
            text = read_inside(self.path, f"{listed.relative_to(self.path)}/requires.txt")
            if text is not None:
                return _egg_requirements(text)
        stated = [self.path / "PKG-INFO", *self.path.glob(f"{METADATA}/*.dist-info/METADATA")]
        for information in stated:
            text = read_inside(self.path, str(information.relative_to(self.path)))
            if text is None:
                continue
            found = re.findall(r"(?m)^Requires-Dist: (.+)$", text)
            return tuple(line.strip() for line in found if "extra ==" not in line)
        return ()


def _filled(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def base_tree(source: Source) -> BaseTree:
    """The prepared tree of a source: one commit, package metadata where the source lacks it."""
    place = made_once("trees", source.identity(), lambda path: _prepare(source, path))
    tree = BaseTree(place / "tree", (place / "commit").read_text().strip(), source.exact)
    _check_unchanged(tree.path, tree.commit)
    return tree


@lru_cache(maxsize=64)
def _check_unchanged(tree: Path, commit: str) -> None:
    """Raise where the files of a kept tree are no longer those of its commit; looked at once."""
    repository = tree / ".git"
    tracked = run_git(tree, "diff", "--quiet", "--no-ext-diff", commit, repository=repository)
    untracked = ("ls-files", "--others", "--exclude-standard", "--error-unmatch", ".")
    if tracked.returncode != 0 or run_git(tree, *untracked, repository=repository).returncode == 0:
        raise EnvironmentFault(f"{tree} is not what was kept there; remove {tree.parent}.done")


@lru_cache(maxsize=64)
def _blobs(tree: Path, commit: str) -> dict[str, str]:
    """Path → blob of every file of a commit."""
    pairs = (line.partition("\t") for line in _listed(tree / ".git", commit) if line)
    return {path: facts.split()[2] for facts, _, path in pairs}


def _egg_requirements(text: str) -> tuple[str, ...]:
    """`requires.txt`: plain lines first, then sections by marker (kept) or by extra (left out)."""
    found: list[str] = []
    marker: str | None = ""
    for line in (raw.strip() for raw in text.split("\n")):
        if line.startswith("["):
            extra, _, condition = line.strip("[]").partition(":")
            marker = None if extra else condition
        elif line and marker is not None:
            found.append(f"{line} ; {marker}" if marker else line)
    return tuple(found)


def _prepare(source: Source, place: Path) -> None:
    tree = place / "tree"
    tree.mkdir()
    source.write(tree)
    _add_sympy_runner(tree)
    _add_metadata(tree)
    (place / "commit").write_text(committed(tree))


def committed(tree: Path) -> str:
    """Make the files of a directory, whoever wrote them, the only commit of a new repository.

    No `.git` that is there is used: its configuration could name programs.
    """
    remove_repositories(tree)
    repository = tree / ".git"
    for command in (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "--all", "--force"),
        ("commit", "--quiet", "--no-verify", "--message=base"),
        # one file instead of thousands; what could be won by comparing takes longer than it saves
        ("-c", "pack.window=0", "repack", "-a", "-d", "--quiet"),
    ):
        _git(tree, *command, repository=repository)
    exclude = "\n".join(["__pycache__", "*.pyc", ".pytest_cache", ".hypothesis", "node_modules"])
    (repository / "info" / "exclude").write_text(exclude + "\n")
    return _git(tree, "rev-parse", "HEAD", repository=repository).strip()


def _add_metadata(tree: Path) -> None:
    """Distributions built by flit or hatch carry PKG-INFO but no egg-info that Python finds."""
    text = read_inside(tree, "PKG-INFO")
    if text is None or any(tree.glob("*.egg-info")) or any(tree.glob("src/*.egg-info")):
        return
    name = re.search(r"(?m)^Name: (.+)$", text)
    version = re.search(r"(?m)^Version: (.+)$", text)
    if name and version:
        stem = re.sub(r"[-.]+", "_", name[1].strip())
        folder = f"{stem}-{version[1].strip()}.dist-info"
        if not re.fullmatch(r"[\w.+!-]+", folder):
            raise EnvironmentFault(f"PKG-INFO names no package: {name[0]}, {version[0]}")
        _write(tree, f"{METADATA}/{folder}/METADATA", text)


def _add_sympy_runner(tree: Path) -> None:
    """sympy's distributions leave out the script that its official test command calls."""
    if (tree / "sympy").is_dir() and not os.path.lexists(tree / "bin" / "test"):
        _write(tree, "bin/test", _SYMPY_RUNNER.read_text(), mode=0o755)


def _write(tree: Path, path: str, content: str, *, mode: int = 0o644) -> None:
    try:
        write_inside(tree, path, content, mode=mode)
    except OSError as error:
        raise EnvironmentFault(f"{path} cannot be written in {tree}: {error.strerror}") from None


def _apply(target: Path, patch: str, *options: str) -> None:
    command = ("apply", *options, "--whitespace=nowarn", "-")
    _git(target, *command, repository=NO_REPOSITORY, stdin=patch)


def _listed(repository: Path, commit: str) -> list[str]:
    """The files of a commit, as `git ls-tree` has them."""
    command = ("ls-tree", "-r", "-z", "--end-of-options", commit)
    return _git(repository, *command, repository=repository).split("\0")


def _git(
    folder: Path,
    *arguments: str,
    repository: Path,
    stdin: str = "",
    timeout: float = 600,
    variables: Mapping[str, str] | None = None,
) -> str:
    """What git said; it must not fail."""
    done = run_git(
        folder,
        *arguments,
        repository=repository,
        stdin=stdin.encode("utf-8", "surrogateescape"),
        timeout=seconds_for_step(timeout),
        variables=variables,
    )
    if done.returncode != 0:
        reason = done.stderr.decode("utf-8", "replace").strip()[-500:]
        raise EnvironmentFault(f"git {' '.join(arguments[:2])} in {folder}: {reason}")
    return done.stdout.decode("utf-8", "surrogateescape")
