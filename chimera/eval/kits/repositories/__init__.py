"""Repositories as tasks: where their code comes from, how they are set up, what a patch does."""
