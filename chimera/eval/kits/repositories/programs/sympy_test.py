#!/usr/bin/env python
"""Runs the tests named on the command line, as the repository's own bin/test does."""

import os
import sys

arguments = sys.argv[1:]
if "-C" in arguments:
    os.environ["SYMPY_USE_CACHE"] = "no"
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import sympy

names = [name for name in arguments if not name.startswith("-")]
sys.exit(0 if sympy.test(*names, verbose="--verbose" in arguments) else 1)
