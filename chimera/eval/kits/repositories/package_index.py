"""Source distributions from a Python package index, fetched without running their code."""

from __future__ import annotations

import hashlib
import html
import os
import re
import ssl
import subprocess
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from functools import cache, lru_cache
from pathlib import Path

from chimera.cache import cache_dir, write_atomically
from chimera.environments.tar_streams import extract
from chimera.errors import EnvironmentFault, UsageError
from chimera.programs import python_with_pip

_LINK = re.compile(r"<a\s[^>]*?href=\"([^\"]+)\"[^>]*>([^<]+)</a>", re.IGNORECASE)


@cache
def _index_of_pip() -> str:
    """The index that pip is set to, or else has by itself."""
    python = python_with_pip()
    if python is None:
        raise UsageError(
            "the package index is not known, no Python here has pip: set PIP_INDEX_URL"
        )
    own = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    for asked in (["-m", "pip", "config", "get", "global.index-url"], ["-c", own]):
        done = subprocess.run([python, *asked], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
    raise UsageError(f"{python} has a pip that names no package index: set PIP_INDEX_URL")


def index_url() -> str:
    """The index in use: PIP_INDEX_URL, or the one that pip uses."""
    return (os.environ.get("PIP_INDEX_URL") or _index_of_pip()).rstrip("/")


def why_not_to_be_had(requirement: str) -> str:
    """Why a source distribution that is not here yet cannot be fetched; "" where it can."""
    try:
        if _kept(requirement):
            return ""
        if silent := _why_silent(_project(requirement)):
            return silent
        _address(requirement)
    except (UsageError, EnvironmentFault) as error:
        return str(error)
    return ""


def source_distribution(requirement: str) -> Path:
    """The `.tar.gz` of `name==version`, downloaded once and checked against the index's digest."""
    if "==" not in requirement:
        raise UsageError(f"a source distribution is named as name==version, not {requirement!r}")
    if kept := _kept(requirement):
        return kept
    address, file = _address(requirement)
    return _download(address, cache_dir() / "sdists" / file)


def unpack(archive: Path, target: Path) -> None:
    """Unpack a source distribution so that `target` is its top directory."""
    scratch = target / ".unpacking"
    try:
        with tarfile.open(archive) as tar:
            extract(tar, scratch, strict=True)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise EnvironmentFault(f"{archive}: {error}") from None
    inner = list(scratch.iterdir())
    if len(inner) != 1 or not inner[0].is_dir():
        raise EnvironmentFault(f"{archive}: expected one directory at the top, found {len(inner)}")
    for entry in inner[0].iterdir():
        entry.rename(target / entry.name)
    inner[0].rmdir()
    scratch.rmdir()


def _kept(requirement: str) -> Path | None:
    """The distribution, where it was downloaded before."""
    wanted = _file_of(requirement)
    files = sorted((cache_dir() / "sdists").glob("*.tar.gz"))
    return next((file for file in files if _normal_file(file.name) == wanted), None)


def _address(requirement: str) -> tuple[str, str]:
    """Where the index has the distribution, and the name of its file."""
    project = _project(requirement)
    for href, text in _LINK.findall(_page(project)):
        if _normal_file(text.strip()) == _file_of(requirement):
            return urllib.parse.urljoin(project, html.unescape(href)), text.strip()
    raise EnvironmentFault(f"{index_url()} has no source distribution of {requirement}")


def _project(requirement: str) -> str:
    """The index's page of the project."""
    name, _, _ = requirement.partition("==")
    return f"{index_url()}/{_normal(name)}/"


@lru_cache(maxsize=64)
def _page(address: str) -> str:
    return _get(address).decode("utf-8", "replace")


@cache
def _why_silent(address: str) -> str:
    """Why an index does not answer, asked once: a task that needs it asks again."""
    try:
        _page(address)
    except EnvironmentFault as fault:
        return str(fault)
    return ""


def _download(address: str, target: Path) -> Path:
    address, _, fragment = address.partition("#")
    content = _get(address)
    algorithm, _, expected = fragment.partition("=")
    if algorithm != "sha256":
        raise EnvironmentFault(f"{address}: the index gives no sha256 for it")
    if hashlib.sha256(content).hexdigest() != expected:
        raise EnvironmentFault(f"{address}: the digest differs from the index's", retryable=True)
    write_atomically(target, content)
    return target


def _get(address: str) -> bytes:
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT"))
    request = urllib.request.Request(address, headers={"Accept": "text/html, */*"})
    try:
        with urllib.request.urlopen(request, timeout=120, context=context) as response:
            content: bytes = response.read()
            return content
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        raise EnvironmentFault(f"{address}: {error}", retryable=True) from None


def _file_of(requirement: str) -> str:
    name, _, version = requirement.partition("==")
    return f"{_normal(name)}-{version}.tar.gz"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _normal_file(file: str) -> str:
    """`Django-3.0.tar.gz` and `flask_login-1.0.tar.gz` in the spelling requirements have."""
    stem = file.removesuffix(".tar.gz")
    if stem == file or "-" not in stem:
        return file
    name, _, version = stem.rpartition("-")
    return f"{_normal(name)}-{version}.tar.gz"
