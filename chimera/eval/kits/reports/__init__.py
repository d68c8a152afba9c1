"""Test reports of every runner as one value: which test ended how. One module a runner family."""
