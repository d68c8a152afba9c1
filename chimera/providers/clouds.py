"""Models that a cloud resells, each by the client that the official SDKs have for it.

`azure/DEPLOYMENT` is OpenAI's SDK for Azure, `bedrock/MODEL` Anthropic's for Amazon Bedrock,
`vertex/claude-…` Anthropic's and `vertex/gemini-…` Google's for Vertex AI. Keys, regions and
projects come from the variables that these SDKs read.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chimera.errors import UsageError
from chimera.providers.anthropic import AnthropicProvider
from chimera.providers.base import Provider
from chimera.providers.http import new_client
from chimera.providers.openai import OpenAIProvider
from chimera.providers.secrets import remember_secret

AZURE_VERSION = "2025-04-01-preview"  # the client has no default of its own
INSTALL = "pip install 'chimera-eval[{}]'"

_clients: dict[tuple[int, str, str, str], Any] = {}
_lock = threading.Lock()


def cloud_provider(
    cloud: str, model: str, api_key: str | None, base_url: str | None, values: dict[str, Any]
) -> Provider:
    """The provider of a model that a cloud resells; a `UsageError` says what is missing."""
    from chimera.providers.factory import needs

    values = {**values, "model": model}
    if cloud == "azure":
        return _azure(api_key, base_url, values)
    if cloud == "bedrock":
        needs(values["name"], "boto3", INSTALL.format("bedrock"))
        return BedrockProvider(base_url=base_url or _bedrock_address(), **values)
    needs(values["name"], "google.auth", INSTALL.format("google"))
    if model.startswith("claude"):
        return VertexProvider(base_url=base_url or _vertex_address(), **values)
    from chimera.providers.gemini import GeminiProvider

    needs(values["name"], "google.genai", INSTALL.format("google"))
    return GeminiProvider(vertex=True, base_url=base_url, **values)


@dataclass(frozen=True, kw_only=True)
class AzureProvider(OpenAIProvider):
    """A deployment of one of OpenAI's models; its price must be stated."""

    def _client(self) -> Any:
        import openai

        return _kept(
            self,
            lambda: openai.AzureOpenAI(
                azure_endpoint=self.base_url,
                api_version=os.environ.get("OPENAI_API_VERSION", AZURE_VERSION),
                api_key=self.api_key or None,
                max_retries=0,
                http_client=new_client(openai.DefaultHttpxClient),
            ),
        )


@dataclass(frozen=True, kw_only=True)
class BedrockProvider(AnthropicProvider):
    """Claude on Amazon Bedrock, with the credentials that AWS's own tools find."""

    def _client(self) -> Any:
        import anthropic

        own = None if self.base_url == _bedrock_address() else self.base_url
        return _kept(
            self,
            lambda: anthropic.AnthropicBedrock(
                aws_region=_region(),
                base_url=own,
                max_retries=0,
                http_client=new_client(anthropic.DefaultHttpxClient),
            ),
        )


@dataclass(frozen=True, kw_only=True)
class VertexProvider(AnthropicProvider):
    """Claude on Vertex AI, with the credentials that Google's own tools find."""

    def _client(self) -> Any:
        import anthropic

        own = None if self.base_url == _vertex_address() else self.base_url
        project = _variable("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT")
        return _kept(
            self,
            lambda: anthropic.AnthropicVertex(
                region=_location(),
                project_id=project,
                base_url=own,
                max_retries=0,
                http_client=new_client(anthropic.DefaultHttpxClient),
            ),
        )


def _azure(api_key: str | None, base_url: str | None, values: dict[str, Any]) -> Provider:
    address = base_url or os.environ.get("AZURE_OPENAI_ENDPOINT")
    if not address:
        raise UsageError(
            f"'{values['name']}' needs the address of your resource\n"
            "  Set AZURE_OPENAI_ENDPOINT=https://NAME.openai.azure.com."
        )
    key = api_key or os.environ.get("AZURE_OPENAI_API_KEY", "")
    token = os.environ.get("AZURE_OPENAI_AD_TOKEN", "")
    if not key and not token:
        raise UsageError(
            f"'{values['name']}' needs a key\n"
            "  Set AZURE_OPENAI_API_KEY or AZURE_OPENAI_AD_TOKEN; --api-key gives that of --model."
        )
    remember_secret(key)
    remember_secret(token)
    return AzureProvider(
        base_url=address,
        api_key=key,
        max_tokens_field="max_completion_tokens",
        protocol="by_tools",
        **values,
    )


def _bedrock_address() -> str:
    for name in ("AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"):
        remember_secret(os.environ.get(name, ""))
    return f"https://bedrock-runtime.{_region()}.amazonaws.com"


def _region() -> str:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"


def _vertex_address() -> str:
    return f"https://{_location()}-aiplatform.googleapis.com"


def _location() -> str:
    return _variable("CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION")


def _variable(*names: str) -> str:
    value = next((os.environ[name] for name in names if os.environ.get(name)), None)
    if value is None:
        raise UsageError(f"Vertex AI needs {' or '.join(names)}")
    return value


def _kept(provider: AnthropicProvider | OpenAIProvider, make: Callable[[], Any]) -> Any:
    """The one SDK client of an endpoint in this process."""
    key = (os.getpid(), type(provider).__name__, provider.base_url, provider.api_key)
    with _lock:
        if key not in _clients:
            _clients[key] = make()
        return _clients[key]
