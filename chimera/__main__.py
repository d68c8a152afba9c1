"""`python -m chimera` is the `chimera` command."""

from chimera.cli.main import main

main()
