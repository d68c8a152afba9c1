"""Base images of a Dockerfile, replaced where the named ones cannot be pulled."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.request import getproxies

from chimera.cache import digest, file_digest, made_once

_FROM = re.compile(
    r"^(\s*(?:FROM\s+(?:--platform=\S+\s+)?|COPY\s+--from=))(\S+)", re.IGNORECASE | re.MULTILINE
)
_STAGE = re.compile(r"^\s*FROM\s+.*\sAS\s+(\S+)", re.IGNORECASE | re.MULTILINE)
#: No name of an image: a variable, or the number of a stage.
_PART = re.compile(r"\$|^\d+$")


def base_images(dockerfile: str, mapping: Mapping[str, str]) -> list[str]:
    """The images that a build would pull, replaced where `mapping` names others."""
    stages = set(_STAGE.findall(dockerfile))
    named = [mapping.get(name, name) for _, name in _FROM.findall(dockerfile)]
    unnamed = {"scratch", *stages}
    return sorted({name for name in named if name not in unnamed and not _PART.search(name)})


def named_hosts(dockerfile: Path) -> set[str]:
    """The hosts of the addresses in a Dockerfile, comments aside."""
    lines = dockerfile.read_text("utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    return set(re.findall(r"https?://([\w.-]+)", text))


@cache
def unknown_host(host: str) -> bool:
    """Whether this machine does not know a host's address and no proxy could."""
    if getproxies():
        return False
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return True
    return False


def with_base_images(context: Path, mapping: Mapping[str, str]) -> Path:
    """The build context with the base images that `mapping` names replaced; a copy if any is."""
    original = (context / "Dockerfile").read_text("utf-8")

    def replaced(match: re.Match[str]) -> str:
        return match[1] + mapping.get(match[2], match[2])

    changed = _FROM.sub(replaced, original)
    if changed == original:
        return context

    def copied(place: Path) -> None:
        shutil.copytree(context, place, symlinks=True, dirs_exist_ok=True)
        (place / "Dockerfile").write_text(changed, "utf-8")

    return made_once("contexts", digest(file_digest(context), changed), copied)
