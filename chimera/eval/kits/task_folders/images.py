"""Base images of a Dockerfile, replaced where the named ones cannot be pulled."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from chimera.cache import digest, file_digest, made_once

_FROM = re.compile(
    r"^(\s*(?:FROM\s+(?:--platform=\S+\s+)?|COPY\s+--from=))(\S+)", re.IGNORECASE | re.MULTILINE
)


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
