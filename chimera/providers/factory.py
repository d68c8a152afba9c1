"""From a model's name to a provider: prefixes, well-known bare names, keys and addresses."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

from chimera.errors import UsageError
from chimera.plugins import is_own_code, load_class
from chimera.providers.base import DEFAULT_ATTEMPTS, Provider
from chimera.providers.prices import FREE, parse_price
from chimera.providers.secrets import remember_secret
from chimera.providers.settings import ModelSettings
from chimera.text import did_you_mean


@dataclass(frozen=True, slots=True)
class Service:
    """Where a prefix leads. The first variable that is set gives the key or the address."""

    protocol: Literal["openai", "anthropic", "google"]
    base_url: str
    key_variables: tuple[str, ...] = ()
    base_url_variables: tuple[str, ...] = ()
    key_required: bool = True
    free: bool = False  # runs on the user's own machine


SERVICES: Mapping[str, Service] = {
    "openai": Service(
        "openai", "https://api.openai.com/v1", ("OPENAI_API_KEY",), ("OPENAI_BASE_URL",)
    ),
    "anthropic": Service(
        "anthropic", "https://api.anthropic.com",
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), ("ANTHROPIC_BASE_URL",),
    ),
    "openrouter": Service(
        "openai", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",), ("OPENROUTER_BASE_URL",)
    ),
    "google": Service(
        "google", "https://generativelanguage.googleapis.com",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"), ("GOOGLE_GEMINI_BASE_URL",),
    ),
    "xai": Service("openai", "https://api.x.ai/v1", ("XAI_API_KEY",)),
    "deepseek": Service("openai", "https://api.deepseek.com", ("DEEPSEEK_API_KEY",)),
    "zai": Service(
        "openai", "https://api.z.ai/api/paas/v4",
        ("ZAI_API_KEY", "ZHIPUAI_API_KEY"), ("ZAI_BASE_URL",),
    ),
    "moonshot": Service("openai", "https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",)),
    "mistral": Service("openai", "https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
    "groq": Service("openai", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "together": Service("openai", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
    "fireworks": Service(
        "openai", "https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",)
    ),
    "cerebras": Service("openai", "https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",)),
    "ollama": Service(
        "openai", "http://localhost:11434/v1", ("OLLAMA_API_KEY",), ("OLLAMA_HOST",),
        key_required=False, free=True,
    ),
    "vllm": Service(
        "openai", "http://localhost:8000/v1", ("VLLM_API_KEY",), ("VLLM_BASE_URL",),
        key_required=False, free=True,
    ),
    "sglang": Service(
        "openai", "http://localhost:30000/v1", ("SGLANG_API_KEY",), ("SGLANG_BASE_URL",),
        key_required=False, free=True,
    ),
}  # fmt: skip
SERVICE_ALIASES: Mapping[str, str] = {"gemini": "google", "z-ai": "zai", "grok": "xai"}
#: Prefixes that are no service with an address and a key of its own.
SPECIAL = ("local", "scripted", "litellm", "azure", "bedrock", "vertex")
GOOGLE_CHAT = "/v1beta/openai"  # where Google speaks chat completions
#: A name at the gateway that is set, whatever service it looks like.
GATEWAY = "gateway:"
ENTRY_POINT_GROUP = "chimera.providers"

#: How well-known models begin, and the service that has them.
KNOWN_MODELS: tuple[tuple[str, str], ...] = (
    ("claude", "anthropic"),
    ("gpt-oss", "ollama"),
    ("gpt", "openai"),
    ("chatgpt", "openai"),
    ("codex", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("gemini", "google"),
    ("grok", "xai"),
    ("deepseek", "deepseek"),
    ("glm", "zai"),
    ("kimi", "moonshot"),
    ("llama", "ollama"),
    ("qwen", "ollama"),
    ("mistral", "ollama"),
    ("gemma", "ollama"),
    ("phi", "ollama"),
)
#: Makers whose models many people use through an Anthropic-compatible endpoint of the maker's own.
ANTHROPIC_COMPATIBLE = ("zai", "moonshot", "deepseek")


def create_provider(
    model: str | None = None,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    attempts: int = DEFAULT_ATTEMPTS,
    timeout: float = 600.0,
    cache: str | Path | None = None,
    price: str | None = None,
    settings: ModelSettings | None = None,
    max_connections: int | None = None,
) -> Provider:
    """The provider of `SERVICE/MODEL`, of a well-known bare name, of `gateway:MODEL`, of one's own
    `file.py:Class`, or of the usual variables.

    `price` states US dollars for a million tokens as INPUT/OUTPUT where the price table does not
    know the model. `cache` is a file in which answers are kept and found again.
    """
    name = model or os.environ.get("ANTHROPIC_MODEL") or os.environ.get("OPENAI_MODEL")
    if not name:
        raise UsageError("no model was named: give one as SERVICE/MODEL, for example local/smollm2")
    if api_key:
        remember_secret(api_key)
    values: dict[str, Any] = {
        "name": name,
        "attempts": attempts,
        "timeout": timeout,
        "cache": None if cache is None else Path(cache).expanduser(),
        "price_override": parse_price(price) if price is not None else None,
        "settings": settings or ModelSettings(),
        "max_connections": max_connections,
    }
    prefix, _, rest = name.partition("/")
    if prefix in SPECIAL and rest:
        return _special(prefix, rest, name, api_key, base_url, values)
    if _is_own(name):
        return _own_provider(name, api_key, base_url, values)
    service_name, served = _resolve(name, base_url)
    return _of_service(service_name, served, name, api_key, base_url, values)


def _special(
    prefix: str,
    rest: str,
    name: str,
    api_key: str | None,
    base_url: str | None,
    values: dict[str, Any],
) -> Provider:
    if prefix in ("azure", "bedrock", "vertex"):
        from chimera.providers.clouds import cloud_provider

        return cloud_provider(prefix, rest, api_key, base_url, values)
    if prefix == "litellm":
        needs(name, "litellm", "pip install litellm")
        from chimera.providers.litellm import LiteLLMProvider

        return LiteLLMProvider(model=rest, **values)
    values["price_override"] = values["price_override"] or FREE
    if prefix == "scripted":
        from chimera.providers.scripted import scripted_provider

        return scripted_provider(model=rest, **values)
    if rest != "smollm2":
        raise UsageError(f"unknown local model '{name}'; there is: local/smollm2")
    from chimera.providers.local import LocalProvider, require_engine

    require_engine()
    return LocalProvider(model=rest, **values)


def needs(name: str, module: str, install: str) -> None:
    """A `UsageError` when the package that a model needs is not installed."""
    try:
        found = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it would be part of
        found = False
    if not found:
        raise UsageError(f"'{name}' needs the package {module}\n  {install}")


def _resolve(name: str, base_url: str | None) -> tuple[str, str]:
    """The service and the model's name there."""
    if name.startswith(GATEWAY):
        return _gateway(name, base_url), name.removeprefix(GATEWAY)
    prefix, slash, rest = name.partition("/")
    prefix = SERVICE_ALIASES.get(prefix, prefix)
    if rest and prefix in SERVICES:
        return prefix, rest
    if slash:
        raise _unknown(name, prefix)
    known = _maker(name)
    anthropic_url = os.environ.get("ANTHROPIC_BASE_URL")
    if known in ANTHROPIC_COMPATIBLE and base_url is None and anthropic_url:
        return "anthropic", name
    return known or _gateway(name, base_url), name


def _maker(name: str) -> str | None:
    """The service of a well-known bare name."""
    return next((service for start, service in KNOWN_MODELS if name.startswith(start)), None)


def _gateway(name: str, base_url: str | None) -> str:
    """The protocol of the endpoint that a flag or the usual variables name."""
    if base_url is not None:
        return "openai"
    if os.environ.get("ANTHROPIC_BASE_URL"):
        return "anthropic"
    if os.environ.get("OPENAI_BASE_URL"):
        return "openai"
    if name.startswith(GATEWAY):
        raise UsageError(
            f"'{name}': no gateway is set\n"
            "  Give --base-url, or set OPENAI_BASE_URL or ANTHROPIC_BASE_URL."
        )
    raise _unknown(name, name)


def _unknown(name: str, prefix: str) -> UsageError:
    """`prefix` is the part that should be a service's name."""
    names = [*SERVICES, *SERVICE_ALIASES, *SPECIAL]
    rest = name.removeprefix(prefix).replace("{", "{{").replace("}", "}}")
    return UsageError(
        f"unknown model '{name}'{did_you_mean(prefix, names, shown='{}' + rest)}\n"
        f"  Write SERVICE/MODEL with one of: {', '.join([*SERVICES, *SPECIAL])}.\n"
        f"  A model of an endpoint of your own: --base-url ADDRESS --model {GATEWAY}{name}"
    )


def _is_own(name: str) -> bool:
    """Whether it names code of one's own: `llama3.2:latest` looks so and is a model of Ollama's."""
    if name.startswith(GATEWAY) or name.partition("/")[0] in (*SERVICES, *SERVICE_ALIASES):
        return False
    own_file = name.endswith(".py") or ".py:" in name
    plugged = name in {entry.name for entry in entry_points(group=ENTRY_POINT_GROUP)}
    return plugged or (is_own_code(name) and (own_file or _maker(name) is None))


def _own_provider(
    name: str,
    api_key: str | None,
    base_url: str | None,
    values: dict[str, Any],
) -> Provider:
    """A provider of one's own; `api_key` and `base_url` are given to a class that has them."""
    kind: Any = Provider  # abstract, which is no matter here
    cls: type[Any] = load_class(
        name, kind, what="model", shipped={}, group=ENTRY_POINT_GROUP, others=SERVICES
    )
    own = {"api_key": api_key, "base_url": base_url}
    defaults = {each.name: each.default for each in fields(cls)}
    values |= {key: own[key] for key in own if own[key] is not None and key in defaults}
    if values["price_override"] is None:
        del values["price_override"]
    if defaults["model"] is MISSING:
        values["model"] = cls.__name__
    try:
        made: Provider = cls(**values)
    except TypeError as error:
        raise UsageError(f"model '{name}' cannot be made: {error}") from None
    return made


def _of_service(
    service_name: str,
    served: str,
    name: str,
    api_key: str | None,
    base_url: str | None,
    values: dict[str, Any],
) -> Provider:
    service = SERVICES[service_name]
    address = base_url or _first(service.base_url_variables) or service.base_url
    if service_name == "ollama":
        address = _ollama_address(address)
    if address and not address.startswith(("http://", "https://")):
        raise UsageError(f"the address '{address}' of '{name}' begins with no http:// or https://")
    key = api_key or _first(service.key_variables) or ""
    if not key and service.key_required and base_url is None:
        names = " or ".join(service.key_variables)
        hint = ""
        if service_name in ANTHROPIC_COMPATIBLE:
            hint = " (or ANTHROPIC_BASE_URL and ANTHROPIC_AUTH_TOKEN for its Anthropic endpoint)"
        raise UsageError(
            f"'{name}' needs a key\n  Set {names}{hint}; --api-key gives that of --model."
        )
    remember_secret(key)
    if service.free:
        values["price_override"] = values["price_override"] or FREE
    values |= {"model": served, "base_url": address, "api_key": key}
    if service.protocol == "anthropic":
        from chimera.providers.anthropic import AnthropicProvider

        bearer = not api_key and not os.environ.get("ANTHROPIC_API_KEY") and bool(key)
        return AnthropicProvider(bearer=bearer, **values)
    if service.protocol == "google" and values["settings"].protocol != "chat":
        return _gemini(name, values)
    from chimera.providers.openai import OpenAIProvider

    if address == SERVICES["google"].base_url:
        values["base_url"] = address + GOOGLE_CHAT
    if not address.startswith("https://api.openai.com"):
        return OpenAIProvider(**values)
    return OpenAIProvider(max_tokens_field="max_completion_tokens", protocol="by_tools", **values)


def _gemini(name: str, values: dict[str, Any]) -> Provider:
    from chimera.providers.gemini import INSTALL, GeminiProvider

    needs(name, "google.genai", f"{INSTALL}\n  Or have it asked by --model-option protocol=chat.")
    return GeminiProvider(**values)


def _first(variables: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in variables if os.environ.get(name)), None)


def _ollama_address(address: str) -> str:
    """OLLAMA_HOST may be `host:port` without a scheme, and is without `/v1`."""
    if "://" not in address:
        address = f"http://{address}"
    address = address.rstrip("/")
    return address if address.endswith("/v1") else f"{address}/v1"
