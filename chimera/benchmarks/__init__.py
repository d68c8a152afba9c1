"""Chimera as an agent inside other programs' harnesses."""
