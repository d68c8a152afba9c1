"""Twins of tests: the same file with other expected values, which honest code must fail.

Where tests share a process with the code under test, that code can disarm the runner, forge the
report, or hand out objects that equal everything. A pass therefore counts only if the same
submission fails the twin. Both runs are of a rewritten file, made anew each time from random
numbers, so that neither is the published one.
"""
