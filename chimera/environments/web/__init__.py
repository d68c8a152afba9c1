"""What the browser environment is made of: the proxy, the accessibility tree, the session."""

from __future__ import annotations


class ScriptError(Exception):
    """A script that the page refused or that raised; the browser itself is well."""
