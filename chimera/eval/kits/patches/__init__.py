"""Patches: diffs as values, putting them into a checkout, and what must not be taken from them."""
