"""Keys never leave the process in a message, a log or a stored record."""

from __future__ import annotations

import json
import os
import re
import time

PLACEHOLDER = "[redacted]"
MINIMUM_LENGTH = 12  # shorter values are ordinary words more often than secrets
RESCAN_SECONDS = 1.0

_NAMES = re.compile(
    r"(API_?KEY|AUTH_TOKEN|ACCESS_TOKEN|ACCESS_KEY|SECRET_KEY|CLIENT_SECRET|_PAT|HF_TOKEN|"
    r"GH_TOKEN|GITHUB_TOKEN|PASSWORD)$",
    re.IGNORECASE,
)
#: How keys of well-known services begin (looked for first, being fast) and look.
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (start, re.compile(rf"\b{start}{rest}"))
    for start, rest in (
        (
            "sk-",
            r"(?=[A-Za-z_-]{0,100}[0-9])[A-Za-z0-9_-]{20,}",
        ),  # OpenAI, Anthropic, OpenRouter, …
        ("xai-", r"[A-Za-z0-9]{20,}"),
        ("gsk_", r"[A-Za-z0-9]{20,}"),
        ("AIza", r"[A-Za-z0-9_-]{35}"),
        ("hf_", r"[A-Za-z0-9]{30,}"),
        ("ghp_", r"[A-Za-z0-9]{30,}"),
        ("gho_", r"[A-Za-z0-9]{30,}"),
        ("ghs_", r"[A-Za-z0-9]{30,}"),
        ("github_pat_", r"[A-Za-z0-9_]{30,}"),
        ("AKIA", r"[A-Z0-9]{16}\b"),
    )
)

_remembered: set[str] = set()
_scanned: tuple[float, int, tuple[str, ...]] = (float("-inf"), 0, ())


def remember_secret(value: str) -> None:
    """Redact this value from now on (a key given by hand rather than by the environment)."""
    if len(value) >= MINIMUM_LENGTH:
        _remembered.add(value)


def without_keys(text: str) -> str:
    """`text` without the values of key variables and remembered keys."""
    for value in (*_remembered, *_environment_secrets()):
        if value in text:
            text = text.replace(value, PLACEHOLDER)
    return text


def redact(text: str) -> str:
    """`text` without keys, and without anything shaped like one."""
    if not text:
        return text
    text = without_keys(text)
    for start, shape in _SHAPES:
        if start in text:
            text = shape.sub(PLACEHOLDER, text)
    return text


def may_hold_secrets(encoded: str) -> bool:
    """False when no text within this JSON text can change by `redact`: one look for all of them.

    JSON escapes each character by itself, so what is in a text is in its escaped form too.
    """
    for start, _ in _SHAPES:
        if start in encoded:
            return True
    return any(
        json.dumps(value, ensure_ascii=False)[1:-1] in encoded
        for value in (*_remembered, *_environment_secrets())
    )


def _environment_secrets() -> tuple[str, ...]:
    """Values of key variables, longest first; read again when variables came, went or got old."""
    global _scanned
    now, (when, count, values) = time.monotonic(), _scanned
    if now - when > RESCAN_SECONDS or count != len(os.environ):
        found = {
            value
            for name, value in os.environ.items()
            if len(value) >= MINIMUM_LENGTH and _NAMES.search(name)
        }
        values = tuple(sorted(found, key=len, reverse=True))
        _scanned = (now, len(os.environ), values)
    return values
