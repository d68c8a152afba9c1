"""`CHIMERA_*` variables that nobody reads: a misspelt limit must not be no limit."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable

from chimera.cli.options import VARIABLES
from chimera.errors import UsageError
from chimera.text import did_you_mean

PREFIX = "CHIMERA_"
#: Read elsewhere than by the options of commands.
OTHERS = (
    "CACHE_DIR",
    "CHROMIUM",
    "CONFIG",
    "DATASETS_DIR",
    "DOCKER",
    "DOCKER_IMAGE",
    "DOCKER_IMAGE_MAP",
    "LOCAL_THREADS",
    "RUNS_DIR",
)


def refuse_misspelt(modules: Iterable[str]) -> None:
    """Raise `UsageError` for a set variable that is near to one of ours and is none.

    `modules` are those of the commands, which are imported only where a variable is in doubt.
    """
    doubtful = [name for name in os.environ if name.startswith(PREFIX) and not _known(name)]
    if not doubtful:
        return
    for module in modules:
        importlib.import_module(module)
    for name in doubtful:
        if not _known(name) and (near := _near(name)):
            raise UsageError(f"the variable {name} is not read by anything{near}")


def _known(name: str) -> bool:
    return name in VARIABLES or name.removeprefix(PREFIX) in OTHERS


def _near(name: str) -> str:
    """What it may have been meant for, compared without what all names have."""
    short = name.removeprefix(PREFIX)
    if not short.endswith("_PATH"):
        known = [each.removeprefix(PREFIX) for each in VARIABLES] + list(OTHERS)
        return did_you_mean(short, known, shown=PREFIX + "{}")
    from chimera.eval.registry import adapters

    slugs = [slug.upper().replace("-", "_") for slug in adapters()]
    slug = short.removesuffix("_PATH")
    return "" if slug in slugs else did_you_mean(slug, slugs, shown=PREFIX + "{}_PATH", near=0.9)
