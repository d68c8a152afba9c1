"""Chimera runs AI agents against public benchmarks and tells whether they solved each task."""

__version__ = "0.1.0"
