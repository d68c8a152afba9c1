"""A stored run in formats that other programs read, one module each."""
