"""Tar streams between host and environment, and glob patterns over names."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from chimera.errors import EnvironmentFault


def pack(source: Path, stream: IO[bytes]) -> None:
    """Write the content of the directory `source`; owners are left out, links stay links."""

    def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(fileobj=stream, mode="w|") as archive:
        archive.add(source, arcname=".", filter=anonymous)


def unpack(
    stream: IO[bytes], target: Path, *, missing: str = "", top: str | None = "content"
) -> None:
    """Put the one file or directory of a hostile archive at `target`.

    Only regular files and directories are taken, and links that stay within `target`; everything
    is made in a fresh directory first, so that nothing already there can be written through.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".chimera-") as fresh:
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                archive.extractall(fresh, filter=only_content)
        except tarfile.ReadError as error:
            if not any(Path(fresh).iterdir()):
                raise FileNotFoundError(
                    f"nothing to copy at {missing} in the environment"
                ) from error
            raise EnvironmentFault(f"the archive of {missing} broke off: {error}") from error
        entries = sorted(Path(fresh).iterdir())
        if not entries:
            raise FileNotFoundError(f"nothing to copy at {missing} in the environment")
        merge(entries[0], target)


def only_content(member: tarfile.TarInfo, target: str) -> tarfile.TarInfo | None:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None
    try:
        return tarfile.data_filter(member, target)
    except tarfile.FilterError:
        return None


def merge(source: Path, target: Path) -> None:
    """Move `source` to `target`; into a directory that is there, entry by entry."""
    if source.is_dir() and not source.is_symlink() and target.is_dir():
        for entry in source.iterdir():
            merge(entry, target / entry.name)
    else:
        if target.is_symlink() or target.is_file():
            target.unlink()
        shutil.move(source, target)


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a relative path matches: `*` within a part, `**` over parts."""
    expression = ""
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]*\]|[^*?\[]+|\[", pattern):
        if token == "**/":
            expression += "(?:.*/)?"
        elif token == "**":
            expression += ".*"
        elif token == "*":
            expression += "[^/]*"
        elif token == "?":
            expression += "[^/]"
        elif token.startswith("[") and len(token) > 2:
            expression += token.replace("[!", "[^", 1)
        else:
            expression += re.escape(token)
    compiled = re.compile(expression, re.DOTALL)
    return lambda name: compiled.fullmatch(name) is not None


def remove_tree(path: Path) -> None:
    """Remove a directory even where its owner took away his own rights to it."""

    def open_up(function: Callable[..., object], name: str, _: object) -> None:
        parent = Path(name).parent
        for directory in (parent, Path(name)):
            if directory.is_dir() and not directory.is_symlink():
                directory.chmod(stat.S_IRWXU)
        try:
            function(name)
        except FileNotFoundError:
            return

    if path.is_symlink():
        path.unlink()
    elif path.exists():
        if not os.access(path, os.W_OK | os.X_OK):
            path.chmod(stat.S_IRWXU)
        shutil.rmtree(path, onerror=open_up)
