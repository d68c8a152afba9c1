"""Long texts made short for people and models."""

from __future__ import annotations


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters of a text, its start and its end, and how much was left out."""
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[… {left_out} characters left out …]\n{text[len(text) - half :]}"
