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
from chimera.providers.gemini import GeminiProvider
from chimera.providers.http import new_client
from chimera.providers.openai import OpenAIProvider
from chimera.providers.secrets import remember_secret

AZURE_VERSION = "2025-04-01-preview"  # the client has no default of its own
INSTALL = "pip install 'chimera-eval[{}]'"
GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"

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
    place = google_place(values["name"])
    if model.startswith("claude"):
        return VertexProvider(base_url=base_url or f"{place.address}/v1", place=place, **values)
    needs(values["name"], "google.genai", INSTALL.format("google"))
    return VertexGeminiProvider(base_url=base_url or place.address, place=place, **values)


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
        _require_aws_credentials(self.name)
        return _kept(
            self,
            lambda: anthropic.AnthropicBedrock(
                aws_region=_region(),
                base_url=own,
                max_retries=0,
                http_client=new_client(anthropic.DefaultHttpxClient),
            ),
        )


@dataclass(frozen=True, slots=True)
class GooglePlace:
    """A project of Google Cloud, and where its models run."""

    project: str
    location: str

    @property
    def address(self) -> str:
        if self.location == "global":
            return "https://aiplatform.googleapis.com"
        if self.location in ("us", "eu"):
            return f"https://aiplatform.{self.location}.rep.googleapis.com"
        return f"https://{self.location}-aiplatform.googleapis.com"


@dataclass(frozen=True, kw_only=True)
class VertexProvider(AnthropicProvider):
    """Claude on Vertex AI, with the credentials that Google's own tools find."""

    place: GooglePlace

    def _client(self) -> Any:
        import anthropic

        return _kept(
            self,
            lambda: anthropic.AnthropicVertex(
                region=self.place.location,
                project_id=self.place.project,
                credentials=google_credentials(self.name),
                base_url=self.base_url,
                max_retries=0,
                http_client=new_client(anthropic.DefaultHttpxClient),
            ),
        )


@dataclass(frozen=True, kw_only=True)
class VertexGeminiProvider(GeminiProvider):
    """Gemini on Vertex AI, with the credentials that Google's own tools find."""

    protocols = ("gemini",)
    place: GooglePlace

    def _access(self) -> dict[str, Any]:
        return {
            "vertexai": True,
            "project": self.place.project,
            "location": self.place.location,
            "credentials": google_credentials(self.name),
        }


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


def _require_aws_credentials(name: str) -> None:
    """A `UsageError` where the SDK would find none at its first call."""
    import boto3

    if not os.environ.get("AWS_BEARER_TOKEN_BEDROCK") and boto3.Session().get_credentials() is None:
        raise UsageError(
            f"'{name}' needs credentials of AWS\n"
            "  Run `aws configure` or `aws sso login`, or set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_BEARER_TOKEN_BEDROCK."
        )


def google_place(name: str) -> GooglePlace:
    """The project and the place that the usual variables name."""
    return GooglePlace(
        _variable(name, "ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT"),
        _variable(name, "CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION"),
    )


def _variable(name: str, *variables: str) -> str:
    value = next((os.environ[each] for each in variables if os.environ.get(each)), None)
    if value is None:
        raise UsageError(f"'{name}' needs {' or '.join(variables)} to be set")
    return value


def google_credentials(name: str) -> Any:
    """What Google's own tools would use; a `UsageError` says what to do where there is nothing."""
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    try:
        credentials, _ = google.auth.default(scopes=[GOOGLE_SCOPE])
    except DefaultCredentialsError as error:
        reason = str(error).partition(". ")[0]
        raise UsageError(
            f"'{name}' needs credentials of Google Cloud: {reason}\n"
            "  Run `gcloud auth application-default login`, or let GOOGLE_APPLICATION_CREDENTIALS "
            "name a key's file."
        ) from None
    return credentials


def _kept(provider: AnthropicProvider | OpenAIProvider, make: Callable[[], Any]) -> Any:
    """The one SDK client of an endpoint in this process."""
    key = (os.getpid(), type(provider).__name__, provider.base_url, provider.api_key)
    with _lock:
        if key not in _clients:
            _clients[key] = make()
        return _clients[key]
