"""Source distributions from a Python package index, fetched without running their code."""

from __future__ import annotations

import base64
import hashlib
import html
import http.client
import os
import re
import ssl
import subprocess
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from functools import cache, lru_cache
from html.parser import HTMLParser
from pathlib import Path

from chimera.cache import cache_dir, write_atomically
from chimera.environments.tar_streams import extract
from chimera.errors import EnvironmentFault, UsageError
from chimera.programs import python_with_pip

#: What is read of a page, and of a distribution, at most.
PAGE_BYTES = 64 * 1024**2
ARCHIVE_BYTES = 2 * 1024**3
#: What no tag of an index's page is longer than.
TAG = 16 * 1024


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
        done = subprocess.run(
            [python, "-I", *asked], capture_output=True, text=True, check=False, cwd="/"
        )
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
    if found := _offered(project).get(_file_of(requirement)):
        href, file = found
        return urllib.parse.urljoin(project, href), file
    raise EnvironmentFault(f"{shown(index_url())} has no source distribution of {requirement}")


def _project(requirement: str) -> str:
    """The index's page of the project."""
    name, _, _ = requirement.partition("==")
    return f"{index_url()}/{_normal(name)}/"


@lru_cache(maxsize=64)
def _offered(project: str) -> dict[str, tuple[str, str]]:
    """What a project's page offers, by its normal spelling: the link and the file's name.

    Fetched and read once: hundreds of tasks ask for releases of a few projects.
    """
    found: dict[str, tuple[str, str]] = {}
    for href, text in _links(_get(project, PAGE_BYTES).decode("utf-8", "replace")):
        if "/" not in text:
            found.setdefault(_normal_file(text), (href, text))
    return found


class _Tag(HTMLParser):
    """The attributes of a single tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.attributes: dict[str, str | None] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes = dict(attrs)


def _links(page: str) -> Iterator[tuple[str, str]]:
    """Where the links of a page lead, with what they show.

    Nothing is looked at twice: the parser has each tag alone, and none that is too long.
    """
    end = 0
    while (start := page.find("<", end)) >= 0 and (end := page.find(">", start)) >= 0:
        if page[start : start + 2].lower() != "<a" or end - start > TAG:
            continue
        if target := _Tag(page[start : end + 1]).attributes.get("href"):
            text, mark, _ = page[end + 1 : end + TAG].partition("<")
            if mark:
                yield target, html.unescape(text).strip()


@cache
def _why_silent(address: str) -> str:
    """Why an index does not answer, asked once: a task that needs it asks again."""
    try:
        _offered(address)
    except EnvironmentFault as fault:
        return str(fault)
    return ""


def _download(address: str, target: Path) -> Path:
    address, _, fragment = address.partition("#")
    content = _get(address, ARCHIVE_BYTES)
    algorithm, _, expected = fragment.partition("=")
    if algorithm != "sha256":
        raise EnvironmentFault(f"{shown(address)}: the index gives no sha256 for it")
    if hashlib.sha256(content).hexdigest() != expected:
        raise EnvironmentFault(
            f"{shown(address)}: the digest differs from the index's", retryable=True
        )
    write_atomically(target, content)
    return target


def _get(address: str, most: int) -> bytes:
    """What is at an address; user and password in it are sent as pip sends them, never shown."""
    parts = urllib.parse.urlsplit(address)
    if parts.scheme not in ("http", "https"):
        raise EnvironmentFault(f"{shown(address)}: only http and https are fetched from")
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT"))
    plain = shown(address)
    request = urllib.request.Request(plain, headers={"Accept": "text/html, */*"})
    if parts.username is not None:
        pair = urllib.parse.unquote(f"{parts.username}:{parts.password or ''}")
        coded = base64.b64encode(pair.encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {coded}")
    try:
        with urllib.request.urlopen(request, timeout=120, context=context) as response:
            content: bytes = response.read(most + 1)
    except (urllib.error.URLError, http.client.HTTPException, ValueError, OSError) as error:
        raise EnvironmentFault(f"{plain}: {error}", retryable=True) from None
    if len(content) > most:
        raise EnvironmentFault(f"{plain}: it is longer than {most} bytes")
    return content


def shown(address: str) -> str:
    """An address without the user and the password that it may have."""
    parts = urllib.parse.urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


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
