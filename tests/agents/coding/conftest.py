"""The scripted service of the gateway's own tests."""

from tests.gateway.conftest import upstream

__all__ = ["upstream"]
