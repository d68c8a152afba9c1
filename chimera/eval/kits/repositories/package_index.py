"""Source distributions from a Python package index, fetched without running their code."""

from __future__ import annotations

import hashlib
import html
import os
import re
import ssl
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from chimera.cache import cache_dir, write_atomically
from chimera.environments.tar_streams import extract
from chimera.errors import EnvironmentFault, UsageError

_LINK = re.compile(r"<a\s[^>]*?href=\"([^\"]+)\"[^>]*>([^<]+)</a>", re.IGNORECASE)


def index_url() -> str:
    """The index in use: PIP_INDEX_URL, or the one pip uses by itself."""
    configured = os.environ.get("PIP_INDEX_URL")
    if not configured:
        try:
            from pip._internal.models.index import PyPI
        except ImportError:
            raise UsageError("set PIP_INDEX_URL: this Python has no pip to ask") from None
        configured = str(PyPI.simple_url)
    return configured.rstrip("/")


def source_distribution(requirement: str) -> Path:
    """The `.tar.gz` of `name==version`, downloaded once and checked against the index's digest."""
    name, separator, version = requirement.partition("==")
    if not separator:
        raise UsageError(f"a source distribution is named as name==version, not {requirement!r}")
    wanted = {f"{_normal(name)}-{version}.tar.gz"}
    folder = cache_dir() / "sdists"
    for file in sorted(folder.glob("*.tar.gz")) if folder.exists() else []:
        if _normal_file(file.name) in wanted:
            return file
    page_url = f"{index_url()}/{_normal(name)}/"
    page = _get(page_url).decode("utf-8", "replace")
    for href, text in _LINK.findall(page):
        if _normal_file(text.strip()) in wanted:
            address = urllib.parse.urljoin(page_url, html.unescape(href))
            return _download(address, folder / text.strip())
    raise EnvironmentFault(f"{index_url()} has no source distribution of {requirement}")


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


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _normal_file(file: str) -> str:
    """`Django-3.0.tar.gz` and `flask_login-1.0.tar.gz` in the spelling requirements have."""
    stem = file.removesuffix(".tar.gz")
    if stem == file or "-" not in stem:
        return file
    name, _, version = stem.rpartition("-")
    return f"{_normal(name)}-{version}.tar.gz"
