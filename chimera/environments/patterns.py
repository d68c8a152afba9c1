"""Glob patterns over the names of files inside."""

from __future__ import annotations

import re
from collections.abc import Callable


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
