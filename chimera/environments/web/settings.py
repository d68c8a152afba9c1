"""How a browser session starts, where its bounds are, and which browser it is."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from chimera.errors import UsageError

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@dataclass(frozen=True, slots=True)
class LogIn:
    """A form to fill before the task begins."""

    url: str
    user: str
    password: str


@dataclass(frozen=True, slots=True)
class BrowserSettings:
    """How a session starts and where its bounds are. Times are in seconds."""

    sites: tuple[str, ...]  # URLs whose hosts may be reached, and no others
    start_urls: tuple[str, ...] = ()
    storage_state: Path | None = None  # cookies and local storage of a log-in
    log_ins: tuple[LogIn, ...] = ()
    viewport: tuple[int, int] = (1280, 720)
    viewport_only: bool = True  # observe what is on the screen, as the official runs did
    max_tabs: int = 20
    max_observation: int = 40_000  # characters
    max_screenshots: int = 30
    navigation_timeout: float = 30.0
    action_timeout: float = 10.0
    settle: float = 0.3  # after an action, for scripts that react to it
    record_network: bool = False  # keep an HTTP archive
    arguments: tuple[str, ...] = ()  # more for Chromium's command line


def chromium() -> str:
    """The system's Chromium: CHIMERA_CHROMIUM, or the first known name on the path."""
    if configured := os.environ.get("CHIMERA_CHROMIUM"):
        return configured
    for program in PROGRAMS:
        if found := shutil.which(program):
            return found
    raise UsageError(
        "no Chromium was found\n  Install your system's package 'chromium', or name the program "
        "in CHIMERA_CHROMIUM."
    )
