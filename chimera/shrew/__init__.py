"""Shrew: the preset for small models."""
