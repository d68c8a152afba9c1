"""Environments on another machine."""
