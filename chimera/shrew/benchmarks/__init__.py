"""Benchmarks with defaults that fit small models."""
