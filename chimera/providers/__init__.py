"""Models: `create_provider("SERVICE/MODEL").complete(messages)`."""

from chimera.providers.base import CallFailed, ContextOverflow, Provider, Request
from chimera.providers.factory import create_provider
from chimera.providers.secrets import redact

__all__ = ["CallFailed", "ContextOverflow", "Provider", "Request", "create_provider", "redact"]
