"""Keys never leave the process in a message, a log or a stored record."""

from __future__ import annotations

import os
import re
from functools import lru_cache

PLACEHOLDER = "[redacted]"
MINIMUM_LENGTH = 12  # shorter values are ordinary words more often than secrets

_NAMES = re.compile(
    r"(API_?KEY|AUTH_TOKEN|ACCESS_TOKEN|ACCESS_KEY|SECRET_KEY|CLIENT_SECRET|_PAT|HF_TOKEN|"
    r"GH_TOKEN|GITHUB_TOKEN|PASSWORD)$",
    re.IGNORECASE,
)
_SHAPES = (
    r"\bsk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,}",  # OpenAI, Anthropic, OpenRouter, DeepSeek
    r"\bxai-[A-Za-z0-9]{20,}",
    r"\bgsk_[A-Za-z0-9]{20,}",
    r"\bAIza[A-Za-z0-9_-]{35}",
    r"\bhf_[A-Za-z0-9]{30,}",
    r"\bgh[pousr]_[A-Za-z0-9]{30,}",
    r"\bgithub_pat_[A-Za-z0-9_]{30,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
)

_remembered: set[str] = set()


def remember_secret(value: str) -> None:
    """Redact this value from now on (a key given by hand rather than by the environment)."""
    if len(value) >= MINIMUM_LENGTH:
        _remembered.add(value)


def redact(text: str) -> str:
    """`text` without the values of key variables, remembered keys and anything shaped like one."""
    values = {
        value
        for name, value in os.environ.items()
        if len(value) >= MINIMUM_LENGTH and _NAMES.search(name)
    }
    return _pattern(frozenset(values | _remembered)).sub(PLACEHOLDER, text)


@lru_cache(maxsize=16)
def _pattern(values: frozenset[str]) -> re.Pattern[str]:
    literal = sorted(values, key=lambda value: (-len(value), value))
    return re.compile("|".join([*map(re.escape, literal), *_SHAPES]))
