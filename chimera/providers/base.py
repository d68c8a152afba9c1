"""The way of one model call: limits, cache, turn, budget, retries, account; subclasses talk."""

from __future__ import annotations

import json
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from chimera.activity import doing
from chimera.errors import LimitReached, ProviderError, UsageError
from chimera.providers.limiter import AdaptiveLimiter, limiter_for, tell_refusal
from chimera.providers.meter import CallRecord, Meter, current_meter
from chimera.providers.prices import FREE, Price
from chimera.providers.secrets import redact
from chimera.providers.settings import ModelSettings
from chimera.tools.base import Tool
from chimera.types import JSON, Message, Response, ToolCall, Usage

DEFAULT_MAX_TOKENS = 8192  # where an answer must be bounded and nobody said how
DEFAULT_ATTEMPTS = 6
FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 60.0
#: A server that wants a longer pause than this is not waited for.
LONGEST_WAIT_SECONDS = 300.0
#: When the trial's time runs out, a call that took this long (or half the trial's time), had to be
#: repeated or never got its turn is a fault of the provider: it must not become a verdict.
PATIENCE_SECONDS = 60.0
#: More tokens than any service counts for a picture.
MOST_IMAGE_TOKENS = 10_000


@dataclass(frozen=True, slots=True)
class Request:
    """One call as a subclass gets it. `timeout` bounds the whole call, headers to last byte."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    timeout: float = 600.0

    def parameters(self) -> dict[str, JSON]:
        """All but the messages and the time-out: what else decides the answer."""
        return {
            "tools": [[tool.name, tool.description, tool.parameters] for tool in self.tools],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "stop": self.stop,
            "seed": self.seed,
        }


class CallFailed(ProviderError):
    """One attempt failed. `maybe_charged`: the provider may have worked for it, and may bill it;
    `refused`: it does not take what was asked, whoever asks it, and however often."""

    def __init__(
        self,
        message: str,
        *,
        retryable: bool,
        retry_after: float | None = None,
        rate_limited: bool = False,
        maybe_charged: bool = False,
        everywhere: bool = False,
        refused: bool = False,
    ) -> None:
        super().__init__(redact(message), retryable=retryable, retry_after=retry_after)
        self.rate_limited = rate_limited
        self.maybe_charged = maybe_charged
        self.everywhere = everywhere
        self.refused = refused


class ContextOverflow(CallFailed):
    """The conversation is longer than the model can read; a shorter one can pass."""


class Unanswered(CallFailed):
    """There was no answer by the end of the trial's time."""

    def __init__(self, name: str, seconds: float, attempts: int = 1) -> None:
        super().__init__(
            f"{name} had not answered after {seconds:.0f} s (attempt {attempts}), when the "
            "trial's time ran out",
            retryable=False,
        )
        self.attempts = attempts


def patience(total: float | None) -> float:
    """How long a call of a trial of so many seconds may take that its end cuts off."""
    return min(PATIENCE_SECONDS, (total or 0.0) / 2)


@dataclass(frozen=True, kw_only=True)
class Provider(ABC):
    """A model behind some interface; a value that can be pickled and shared between threads.

    `complete` keeps the trial's limits and the run's budget, retries what can pass, and tells the
    trial's meter. Subclasses implement `_call`, one attempt without retries.
    """

    name: str  # as the user wrote it, e.g. "openai/gpt-4o"
    model: str  # as the endpoint knows it
    attempts: int = DEFAULT_ATTEMPTS
    timeout: float = 600.0
    cache: Path | None = None
    price_override: Price | None = None
    settings: ModelSettings = ModelSettings()
    max_connections: int | None = None  # None: as many as the endpoint bears

    #: Whether the model calls tools; where not, they are offered as text (see `text_protocol`).
    calls_tools: ClassVar[bool] = True

    @abstractmethod
    def _call(self, request: Request) -> Response:
        """Make one call; raise `CallFailed` for any failure. The caller works out the cost."""

    def start(self) -> None:  # noqa: B027 - most have nothing to start
        """Make ready what takes its time, before any trial's begins."""

    def price(self) -> Price | None:
        """The price list, or None when it is not known."""
        return self.price_override

    def reserved_before(self, request: Request) -> bool:
        """Whether money was set aside for this very call by a process that was cut off."""
        return False

    def required_price(self) -> Price:
        """The price list, for a run whose money is limited; a `UsageError` when it is not known."""
        price = self.price()
        if price is None:
            raise UsageError(
                f"the price of '{self.name}' is not known, so a limit on money cannot be kept\n"
                "  State it (US dollars for a million input/output tokens) with "
                "--agent-option price=0.15/0.6, or run without the limit."
            )
        return price

    def identity(self) -> dict[str, JSON]:
        """What of this provider can change an answer; keys are no part of it."""
        return {"model": self.name, **self.settings.identity()}

    def check_protocol(self, *known: str) -> None:
        """A `UsageError` when the user asks for a protocol that is none of these."""
        if self.settings.protocol not in (None, *known):
            raise UsageError(
                f"'{self.name}' has no protocol '{self.settings.protocol}'; it has: "
                + ", ".join(known)
            )

    @property
    def endpoint(self) -> str:
        """Calls to one endpoint share a limit on how many run at once."""
        return self.name

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        temperature: float | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        seed: int | None = None,
    ) -> Response:
        """The model's answer, or `ProviderError`, `LimitReached`, `BudgetExceeded`.

        Sample n of a task uses `seed + n`, so that samples differ and each can be repeated.
        """
        meter = current_meter() or Meter()
        meter.check()
        limited = meter.budget_bounded or meter.limits.max_cost is not None
        price = self.required_price() if limited else self.price()
        if max_tokens is None and meter.budget_bounded and price != FREE:
            max_tokens = DEFAULT_MAX_TOKENS
        request = Request(
            messages=tuple(messages),
            tools=tuple(tools),
            temperature=temperature,
            max_tokens=max_tokens,
            stop=tuple(stop),
            seed=None if seed is None else seed + meter.sample,
            timeout=self.timeout,
        )
        call = _Call(self, request, meter, price)
        if meter.limits.max_cost is None and meter.limits.max_tokens is None:
            return call.run()
        with meter.call_under_way(call.most_tokens(), call.worst_case()):
            return call.run()


@dataclass(slots=True)
class _Call:
    """The state of one `complete`: what it has waited, tried and spent."""

    provider: Provider
    request: Request
    meter: Meter
    price: Price | None
    attempts: int = 0
    spent: float = 0.0
    spent_unknown: bool = False
    started: float = field(default_factory=time.time)
    clock: float = field(default_factory=time.monotonic)

    def run(self) -> Response:
        if self.provider.cache is None:
            return self._paid()
        from chimera.providers.stored_calls import CallStore, call_key

        store = CallStore.at(self.provider.cache)
        request = self.request
        try:
            key = call_key(
                self.provider.identity(), request.messages, request.parameters(), self.meter.sample
            )
        except RecursionError:  # so deep are the arguments that the model gave to a tool
            return self._paid()
        found = store.load(key)
        if found is not None:
            self._record(found.usage, cached=True)
            return replace(found, cost=0.0)
        response = self._paid()
        store.save(key, response)
        return response

    def _paid(self) -> Response:
        try:
            response = self._attempt_until_answered()
        except BaseException as error:
            self._record(Usage(), error=redact(str(error) or type(error).__name__))
            raise
        self._record(response.usage)
        return replace(response, cost=self._cost())

    def _attempt_until_answered(self) -> Response:
        limiter = limiter_for(self.provider.endpoint, self.provider.max_connections)
        while True:
            self.attempts += 1
            try:
                return self._attempt(limiter)
            except CallFailed as error:
                left = self.meter.remaining_seconds()
                if left == 0.0:
                    raise self._out_of_time() from error
                if (error.retry_after or 0.0) > LONGEST_WAIT_SECONDS or self._nobody(
                    error, limiter
                ):
                    error.retryable = False
                if not error.retryable or self.attempts >= self.provider.attempts:
                    raise
                wait = _backoff(self.attempts, error.retry_after)
                if left is not None and wait >= left:
                    raise
                with doing(f"waiting {wait:.0f} s after {error}", seconds=wait):
                    time.sleep(wait)

    def _nobody(self, error: CallFailed, limiter: AdaptiveLimiter) -> bool:
        """Whether there was never anybody at the address, so that waiting will not help."""
        return error.everywhere and not limiter.answered and self.attempts > 1

    def _attempt(self, limiter: AdaptiveLimiter) -> Response:
        """One attempt with its turn and its reservation, both given back whatever happens."""
        with doing(f"waiting for a turn at {self.provider.name}"):
            began = limiter.acquire(self.meter.remaining_seconds(), id(self.meter))
        if began is None:
            raise self._unanswered()
        try:
            response = self._reserved_call()
        except CallFailed as error:
            if error.rate_limited:
                pause = min(error.retry_after or 0.0, LONGEST_WAIT_SECONDS)
                if limiter.refused(began, pause):
                    tell_refusal(self.provider.endpoint, pause)
            raise
        else:
            limiter.succeeded()
            return response
        finally:
            limiter.release(id(self.meter))

    def _reserved_call(self) -> Response:
        """Make the call against a reservation, settled once: at its price, at nothing, or, when the
        provider may have worked for an answer that never arrived, at the worst case."""
        worst_case = self.worst_case()
        budget = None if self.provider.reserved_before(self.request) else self.meter.budget
        if budget is not None:
            if self.meter.answered and budget.never_fits(worst_case):
                why = f"the next call may cost ${worst_case:.4f}, more than the run's whole budget"
                raise LimitReached("cost", why)
            budget.reserve(worst_case, self.meter.remaining_seconds())
        charge: float | None = None if self.price is None else worst_case
        try:
            left = self.meter.remaining_seconds()
            timeout = self.request.timeout if left is None else min(left, self.request.timeout)
            request = self.request
            if timeout != request.timeout:
                request = replace(request, timeout=timeout)
            response = self.provider._call(request)
            charge = None if self.price is None else self.price.cost(response.usage)
            return response
        except CallFailed as error:
            if not error.maybe_charged:
                charge = 0.0
            raise
        finally:
            if charge is None:
                self.spent_unknown = True
            else:
                self.spent += charge
            if budget is not None:
                budget.settle(worst_case, charge or 0.0)

    def _out_of_time(self) -> CallFailed | LimitReached:
        """What it means that the trial's time ran out during an attempt."""
        total = self.meter.limits.seconds or 0.0
        if self.attempts > 1 or time.monotonic() - self.clock >= patience(total):
            return self._unanswered()
        return LimitReached("time", f"the trial's {total:g} s are used up")

    def _unanswered(self) -> Unanswered:
        return Unanswered(self.provider.name, time.monotonic() - self.clock, self.attempts)

    def most_tokens(self) -> int:
        return most_input_tokens(self.request) + self._most_output()

    def _most_output(self) -> int:
        output = self.request.max_tokens or DEFAULT_MAX_TOKENS
        return output + (self.provider.settings.thinking_tokens or 0)

    def worst_case(self) -> float:
        if self.price is None or self.price == FREE:
            return 0.0
        output, read = self._most_output(), most_input_tokens(self.request)
        written = Usage(read, output, cache_write_tokens=read)  # dearer, where it is priced
        return max(self.price.cost(Usage(read, output)), self.price.cost(written))

    def _cost(self) -> float | None:
        return None if self.spent_unknown else self.spent

    def _record(self, usage: Usage, *, cached: bool = False, error: str | None = None) -> None:
        self.meter.record(
            CallRecord(
                model=self.provider.name,
                usage=usage,
                cost=self._cost(),
                started=self.started,
                seconds=time.monotonic() - self.clock,
                attempts=max(1, self.attempts),
                cached=cached,
                error=error,
            )
        )


def most_input_tokens(request: Request) -> int:
    """More tokens than the request can have: no tokenizer makes more tokens than bytes."""
    size = 64 + 1024 * bool(request.tools)  # the provider's own words around tools
    for message in request.messages:
        size += 16 + _size(message.content)
        size += MOST_IMAGE_TOKENS * len(message.images)
        if message.native is not None:
            size += len(json.dumps(message.native.content))
        for call in message.tool_calls:
            size += 32 + len(call.name) + len(call.id) + 2 * _size(_arguments(call))
    for tool in request.tools:
        text = json.dumps([tool.name, tool.description, tool.parameters], ensure_ascii=False)
        size += 64 + 2 * _size(text)
    return size


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _arguments(call: ToolCall) -> str:
    if call.raw_arguments or call.arguments is None:
        return call.raw_arguments
    return json.dumps(call.arguments, ensure_ascii=False)


def _backoff(attempt: int, retry_after: float | None) -> float:
    """Seconds before the next attempt: exponential with jitter, never before the server allows."""
    ceiling = min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2**attempt)
    wait = random.uniform(ceiling / 2, ceiling)
    return wait if retry_after is None else retry_after + min(wait, 1.0) * random.random()
