"""Gemini by its own interface and Google's SDK, an extra: `pip install chimera-eval[google]`."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Any, ClassVar

from chimera.providers.base import CallFailed, Provider, Request
from chimera.providers.http import client_settings
from chimera.providers.prices import Price, table_price
from chimera.providers.sdk import decoded, malformed, never_sent, readable, status_failure
from chimera.providers.settings import merge
from chimera.providers.wire import gemini
from chimera.types import JSON, Response

ADDRESS = "https://generativelanguage.googleapis.com"
INSTALL = "pip install 'chimera-eval[google]'"

_clients: dict[tuple[int, str, str | None, str], Any] = {}
_lock = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class GeminiProvider(Provider):
    base_url: str | None = None
    api_key: str = field(default="", repr=False)

    protocols: ClassVar[tuple[str, ...]] = ("gemini", "chat")

    def __post_init__(self) -> None:
        self.check_protocol(*self.protocols)

    def start(self) -> None:
        """Load what the first call would, once and not in every trial's thread at once."""
        _ = self._client(), self.price()

    @property
    def endpoint(self) -> str:
        return f"{self._address()} {self.model}"

    def identity(self) -> dict[str, JSON]:
        return {
            "model": self.name,
            "served_as": self.model,
            "base_url": self._address(),
            **self.settings.identity(),
        }

    def price(self) -> Price | None:
        return self.price_override or table_price(self.model, self._address())

    def _address(self) -> str:
        return self.base_url or ADDRESS

    def _call(self, request: Request) -> Response:
        from google.genai import errors, types

        body = gemini.request_body(request, self.settings)
        merge(body, self.settings.fields())
        # The body is ours, to the letter: what the SDK does not know must go back as it came.
        options = types.HttpOptions(
            extra_body=body,
            headers=dict(self.settings.headers),
            timeout=max(1, int(request.timeout * 1000)),
        )
        config = types.GenerateContentConfig(should_return_http_response=True, http_options=options)
        try:
            answer = self._client().models.generate_content(
                model=self.model, contents=" ", config=config
            )
        except errors.APIError as error:
            headers = getattr(error.response, "headers", None) or {}
            raise status_failure(self.name, error.code, headers, error.details) from None
        except Exception as error:  # noqa: BLE001 - the HTTP library below has errors of its own
            raise self._broken(error) from None
        raw = (answer.sdk_http_response.body or "").encode()
        with readable(self.name):
            return gemini.read_reply(self.name, decoded(self.name, raw), request)

    def _broken(self, error: Exception) -> Exception:
        """A fault below HTTP as one that can pass; anything else as it is."""
        if not_sent := never_sent(self.name, error):
            return not_sent
        kinds = {cls.__module__.partition(".")[0] for cls in type(error).__mro__}
        if isinstance(error, (RecursionError, ValueError)):  # the SDK reads refusals itself
            return malformed(self.name, f"the answer cannot be read: {type(error).__name__}")
        if not kinds & {"httpx", "httpx2", "httpcore", "requests"}:
            return error
        sent = type(error).__name__ not in ("ConnectError", "ConnectTimeout", "PoolTimeout")
        why = f"{self.name}: no answer: {type(error).__name__}: {error}"
        return CallFailed(why, retryable=True, maybe_charged=sent)

    def _client(self) -> Any:
        """The one SDK client of an address and key in this process."""
        with _lock:
            key = (os.getpid(), type(self).__name__, self.base_url, self.api_key)
            if key not in _clients:
                _clients[key] = self._new_client()
            return _clients[key]

    def _new_client(self) -> Any:
        from google import genai
        from google.genai import types

        once = types.HttpOptions(
            base_url=self.base_url,
            retry_options=types.HttpRetryOptions(attempts=1),
            client_args=client_settings(),
        )
        return genai.Client(http_options=once, **self._access())

    def _access(self) -> dict[str, Any]:
        """What opens the service, as the SDK's client takes it."""
        return {"api_key": self.api_key or "none"}
