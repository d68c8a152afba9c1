"""Names of models: prefixes, well-known bare names, keys and addresses from the usual places."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from chimera.agents.toolbox import SubmitTool
from chimera.errors import UsageError
from chimera.providers import Request, create_provider, redact
from chimera.providers.factory import KNOWN_MODELS, SERVICES
from chimera.providers.settings import ModelSettings
from chimera.types import Message, Usage

KEY = "a-key-that-nobody-must-see"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for service in SERVICES.values():
        for name in (*service.key_variables, *service.base_url_variables):
            monkeypatch.delenv(name, raising=False)
    clouds = ("AZURE_OPENAI_ENDPOINT", "CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION")
    for name in ("ANTHROPIC_MODEL", "OPENAI_MODEL", *clouds):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("model", "variables", "kind", "served", "base_url"),
    [
        ("openai/gpt-4o", {"OPENAI_API_KEY": KEY}, "OpenAIProvider", "gpt-4o", "api.openai.com"),
        ("gpt-4o-mini", {"OPENAI_API_KEY": KEY}, "OpenAIProvider", "gpt-4o-mini", "api.openai.com"),
        ("o3", {"OPENAI_API_KEY": KEY}, "OpenAIProvider", "o3", "api.openai.com"),
        (
            "claude-sonnet-4-5",
            {"ANTHROPIC_API_KEY": KEY},
            "AnthropicProvider",
            "claude-sonnet-4-5",
            "api.anthropic.com",
        ),
        (
            "openrouter/meta/llama-3",
            {"OPENROUTER_API_KEY": KEY},
            "OpenAIProvider",
            "meta/llama-3",
            "openrouter.ai",
        ),
        ("gemini-2.5-pro", {"GOOGLE_API_KEY": KEY}, "GeminiProvider", "gemini-2.5-pro", "google"),
        ("gemini/g", {"GEMINI_API_KEY": KEY}, "GeminiProvider", "g", "googleapis.com"),
        ("azure/mine", {"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": "https://a"},
         "AzureProvider", "mine", "https://a"),
        ("bedrock/anthropic.claude-x", {"AWS_REGION": "eu-west-1"},
         "BedrockProvider", "anthropic.claude-x", "bedrock-runtime.eu-west-1"),
        ("vertex/claude-x", {"CLOUD_ML_REGION": "europe", "GOOGLE_CLOUD_PROJECT": "p"},
         "VertexProvider", "claude-x", "europe-aiplatform"),
        ("grok-4", {"XAI_API_KEY": KEY}, "OpenAIProvider", "grok-4", "api.x.ai"),
        ("glm-5", {"ZAI_API_KEY": KEY}, "OpenAIProvider", "glm-5", "api.z.ai/api/paas"),
        (
            "glm-5",
            {
                "ANTHROPIC_BASE_URL": "https://api.z.ai/api/anthropic",
                "ANTHROPIC_AUTH_TOKEN": KEY,
            },
            "AnthropicProvider",
            "glm-5",
            "api.z.ai/api/anthropic",
        ),
        ("ollama/llama3.2:1b", {}, "OpenAIProvider", "llama3.2:1b", "http://localhost:11434/v1"),
        ("qwen3:8b", {"OLLAMA_HOST": "box:99"}, "OpenAIProvider", "qwen3:8b", "http://box:99/v1"),
        ("vllm/a/b", {"VLLM_BASE_URL": "http://gpu/v1"}, "OpenAIProvider", "a/b", "http://gpu/v1"),
        ("sglang/x", {}, "OpenAIProvider", "x", "localhost:30000"),
        ("mine", {"OPENAI_BASE_URL": "http://here/v1", "OPENAI_API_KEY": KEY},
         "OpenAIProvider", "mine", "http://here/v1"),
    ],
)  # fmt: skip
def test_a_name_leads_to_its_service(
    monkeypatch: pytest.MonkeyPatch,
    model: str, variables: dict[str, str], kind: str, served: str, base_url: str,
):  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    provider: Any = create_provider(model)

    assert type(provider).__name__ == kind
    assert provider.model == served
    assert provider.name == model
    assert base_url in provider.base_url
    assert KEY not in repr(provider)
    assert KEY not in str(provider.identity())


def test_a_key_of_an_anthropic_compatible_service_goes_as_a_bearer_token(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)
    provider: Any = create_provider("anthropic/claude-x")

    assert provider.bearer is True
    assert create_provider("anthropic/claude-x", api_key=KEY).bearer is False  # type: ignore[attr-defined]


@pytest.mark.parametrize("service", [n for n, s in SERVICES.items() if s.key_required])
def test_a_missing_key_names_its_variable(service: str):
    with pytest.raises(UsageError, match=SERVICES[service].key_variables[0]):
        create_provider(f"{service}/model")


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ("", "no model was named"),
        ("never-heard-of", "unknown model"),
        ("local/gpt-5", "there is: local/smollm2"),
        ("somewhere/model", "unknown model"),
    ],
)
def test_what_is_no_model_is_said(model: str, complaint: str):
    with pytest.raises(UsageError, match=complaint):
        create_provider(model)


@pytest.mark.parametrize(
    ("settings", "variables"),
    [
        ({"base_url": "http://127.0.0.1:9/v1"}, {}),
        ({}, {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}),
        ({}, {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}),
    ],
)
def test_a_prefix_that_is_no_service_is_refused_even_with_a_gateway(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], variables: dict[str, str]
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(UsageError, match=r"did you mean 'openai/x'\?(.|\n)*gateway:opnai/x"):
        create_provider("opnai/x", api_key=KEY, **settings)
    provider: Any = create_provider("gateway:opnai/x", api_key=KEY, **settings)
    assert (provider.model, provider.name) == ("opnai/x", "gateway:opnai/x")
    assert "127.0.0.1:9" in provider.base_url


def test_a_gateway_must_be_set():
    with pytest.raises(UsageError, match="no gateway is set"):
        create_provider("gateway:mine")


def test_a_provider_of_ones_own(tmp_path: Path):
    file = tmp_path / "model_of_mine.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from chimera.providers import Provider\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Mine(Provider):\n"
        "    base_url: str = ''\n"
        "    def _call(self, request): ...\n"
    )

    provider: Any = create_provider(str(file), base_url="http://here", price="1/2")

    assert (provider.name, provider.model) == (str(file), "Mine")
    assert provider.base_url == "http://here"
    assert provider.price().cost(Usage(1_000_000, 0)) == 1.0
    assert type(create_provider(f"{file}:Mine")) is type(provider)


@pytest.mark.skipif(importlib.util.find_spec("litellm") is not None, reason="litellm is installed")
def test_litellm_is_asked_for_when_it_is_absent():
    with pytest.raises(UsageError, match="pip install litellm"):
        create_provider("litellm/bedrock/model")


def test_the_usual_variables_name_the_model(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANTHROPIC_MODEL", "scripted/echo")

    assert create_provider().name == "scripted/echo"


def test_every_well_known_name_leads_somewhere():
    assert {service for _, service in KNOWN_MODELS} <= SERVICES.keys()


def test_prices_are_looked_up_by_address_stated_or_unknown():
    usage = Usage(1_000_000, 1_000_000)

    def cost(model: str, **settings: Any) -> float | None:
        price = create_provider(model, api_key=KEY, **settings).price()
        return None if price is None else price.cost(usage)

    assert cost("openai/gpt-4o-mini") == pytest.approx(0.15 + 0.60)
    assert (cost("claude-sonnet-4-5") or 0) > 1
    assert cost("openai/never-heard-of") is None
    assert cost("openai/gpt-4o-mini", base_url="http://gateway.example/v1") is None
    assert cost("openai/gpt-4o-mini", base_url="http://g/v1", price="1/2") == pytest.approx(3.0)
    assert cost("vllm/anything") == 0.0


@pytest.mark.parametrize("price", ["1", "a/b", "1/2/3", "-1/2", ""])
def test_a_price_that_is_none_is_refused(price: str):
    with pytest.raises(UsageError, match="price"):
        create_provider("scripted/echo", price=price)


def test_cached_tokens_cost_less():
    price = create_provider("openai/gpt-4o-mini", api_key=KEY).price()
    assert price is not None

    assert price.cost(Usage(1000, 0, 900)) < price.cost(Usage(1000, 0, 0))


def test_keys_are_redacted_wherever_they_come_from(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_API_KEY", "from-the-environment-1")
    create_provider("openai/gpt-4o", api_key="given-by-hand-42")
    shaped = "-".join(["sk", "ant", "api03", "a1B2c3D4" * 4])
    text = f"a from-the-environment-1 b given-by-hand-42 c {shaped} d sk-learn-is-a-library"

    assert redact(text) == "a [redacted] b [redacted] c [redacted] d sk-learn-is-a-library"


def test_short_values_and_ordinary_words_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTHER_API_KEY", "none")

    assert redact("there is none; hf_transfer, task-0123456789012345678901") == (
        "there is none; hf_transfer, task-0123456789012345678901"
    )


@pytest.mark.parametrize(
    ("price", "usage", "cost"),
    [
        ("1/2", Usage(100, 10, 40, 30, 5), 120.0),
        ("1/2/0.1/1.25", Usage(100, 10, 40, 30, 5), 30 + 4 + 37.5 + 20),
    ],
)
def test_tokens_of_a_cache_have_prices_of_their_own(price: str, usage: Usage, cost: float):
    stated = create_provider("scripted/echo", price=price).price()

    assert stated is not None
    assert stated.cost(usage) * 1_000_000 == pytest.approx(cost)


def test_the_table_prices_what_is_written_into_a_cache():
    price = create_provider("claude-sonnet-4-5", api_key=KEY).price()

    assert price is not None
    plain, written = price.cost(Usage(1000)), price.cost(Usage(1000, 0, 0, 1000))
    assert written == pytest.approx(plain * 1.25)
    assert price.cost(Usage(1000, 0, 1000)) == pytest.approx(plain / 10)


@pytest.mark.parametrize(
    ("model", "settings", "complaint"),
    [
        ("openai/gpt-5", ModelSettings(protocol="gemini"), "it has: chat, responses"),
        ("openai/gpt-5", ModelSettings(thinking_tokens=5), "--thinking-tokens"),
        ("claude-x", ModelSettings(protocol="chat"), "it has: messages"),
        ("azure/x", ModelSettings(), "AZURE_OPENAI_ENDPOINT"),
        ("vertex/claude-x", ModelSettings(), "GOOGLE_CLOUD_PROJECT"),
        ("vertex/gemini-x", ModelSettings(protocol="chat"), "GOOGLE_CLOUD_PROJECT"),
    ],
)
def test_what_a_service_does_not_have_is_said(model: str, settings: ModelSettings, complaint: str):
    with pytest.raises(UsageError, match=complaint):
        create_provider(model, api_key=KEY, settings=settings)


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ("vertex/claude-x", "gcloud auth application-default login"),
        ("vertex/gemini-x", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("bedrock/anthropic.claude-x", "AWS_ACCESS_KEY_ID"),
    ],
)
def test_a_cloud_without_credentials_is_told_before_anything_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: str, complaint: str
):
    for name, value in {
        "HOME": str(tmp_path),
        "NO_GCE_CHECK": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
        "GOOGLE_CLOUD_PROJECT": "p",
        "CLOUD_ML_REGION": "eu",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(UsageError, match=complaint):
        create_provider(model).start()


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("europe-west1", "https://europe-west1-aiplatform.googleapis.com"),
        ("global", "https://aiplatform.googleapis.com"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com"),
    ],
)
def test_googles_places_have_addresses_of_their_own(
    monkeypatch: pytest.MonkeyPatch, location: str, address: str
):
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", location)

    for model in ("vertex/claude-x", "vertex/gemini-x"):
        assert str(create_provider(model).identity()["base_url"]).startswith(address)


@pytest.mark.parametrize(
    ("model", "base_url", "tools", "protocol"),
    [
        ("openai/gpt-5.4", None, True, "responses"),
        ("openai/gpt-5.4", None, False, "chat"),
        ("openai/gpt-5.4", "http://gateway/v1", True, "chat"),
        ("groq/llama", None, True, "chat"),
    ],
)
def test_openais_own_models_are_given_tools_by_the_responses_interface(
    model: str, base_url: str | None, tools: bool, protocol: str
):
    provider: Any = create_provider(model, api_key=KEY, base_url=base_url)
    request = Request((Message.user("hello"),), tools=(SubmitTool(),) if tools else ())

    assert protocol == provider.wire(request).PROTOCOL
