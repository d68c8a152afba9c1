"""What runs in the answer's process and in the judge's; see `chimera.eval.kits.python.inside`."""
