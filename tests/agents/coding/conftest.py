"""The scripted service of the gateway's own tests, and the image of the environments'."""

from tests.gateway.conftest import upstream

__all__ = ["upstream"]
