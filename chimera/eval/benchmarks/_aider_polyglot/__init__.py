"""Test suites in six languages, run offline from caches that were filled once."""
