"""The scripted service of the gateway's own tests, and the image of the environments'."""

from tests.environments.conftest import docker_image
from tests.gateway.conftest import upstream

__all__ = ["docker_image", "upstream"]
