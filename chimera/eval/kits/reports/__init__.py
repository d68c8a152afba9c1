"""Test reports of every runner as one value: which test ended how. One module a runner family."""

from chimera.eval.kits.reports.types import Report, Status

__all__ = ["Report", "Status"]
