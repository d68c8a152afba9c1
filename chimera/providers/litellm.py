"""Services beyond those Chimera speaks to by itself, by way of litellm (an optional extra)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from chimera.providers.base import CallFailed, Provider, Request
from chimera.providers.openai import chat_messages, chat_tools, read_completion
from chimera.providers.sdk import status_failure
from chimera.types import Response


@dataclass(frozen=True, kw_only=True)
class LiteLLMProvider(Provider):
    """Prices come from the `price` option alone: litellm's services bill in ways of their own."""

    def _call(self, request: Request) -> Response:
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no download on import
        import litellm

        litellm.suppress_debug_info = True  # advertisement on standard output
        try:
            completion = litellm.completion(**self._arguments(request))
        except (litellm.exceptions.Timeout, litellm.exceptions.APIConnectionError) as error:
            raise CallFailed(f"{self.name}: {error}", retryable=True, maybe_charged=True) from None
        except Exception as error:
            status = getattr(error, "status_code", None)
            if not isinstance(status, int):
                raise  # not litellm's word for an answer of the service
            headers = getattr(getattr(error, "response", None), "headers", None) or {}
            failure = status_failure(self.name, status, headers, str(error))
            failure.maybe_charged |= status >= 500  # a cut connection looks like any other 500
            raise failure from None
        return read_completion(self.name, completion.model_dump(), request)

    def _arguments(self, request: Request) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self.model,
            "messages": chat_messages(request.messages),
            "timeout": request.timeout,
            "num_retries": 0,
        }
        if request.tools:
            arguments["tools"] = chat_tools(request.tools)
        for key in ("temperature", "max_tokens", "seed"):
            value = getattr(request, key)
            if value is not None:
                arguments[key] = value
        if request.stop:
            arguments["stop"] = list(request.stop)
        return arguments
