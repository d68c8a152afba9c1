"""Services beyond those Chimera speaks to by itself, by way of litellm (an optional extra)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from chimera.providers.base import CallFailed, Provider, Request
from chimera.providers.sdk import readable, status_failure
from chimera.providers.settings import merge
from chimera.providers.wire import chat
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
        with readable(self.name):
            return chat.read_reply(self.name, completion.model_dump(), request)

    def _arguments(self, request: Request) -> dict[str, Any]:
        arguments = chat.request_body(self.model, request, self.settings)
        merge(arguments, self.settings.fields())
        if self.settings.thinking_tokens is not None:
            budget = self.settings.thinking_tokens
            arguments["thinking"] = {"type": "enabled", "budget_tokens": budget}
        if self.settings.headers:
            arguments["extra_headers"] = dict(self.settings.headers)
        return {**arguments, "timeout": request.timeout, "num_retries": 0}
