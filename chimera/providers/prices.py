"""What a call costs, by the table of genai-prices; a price that is not known is None, never 0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from chimera.errors import UsageError
from chimera.types import Usage

MILLION = 1_000_000


class Price(Protocol):
    """The price list of one model."""

    def cost(self, usage: Usage) -> float: ...


@dataclass(frozen=True, slots=True)
class FlatPrice:
    """US dollars for a million tokens in and out, as the user states them.

    Tokens read from a cache or written into one cost as others do where no price is stated.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def cost(self, usage: Usage) -> float:
        read, written = usage.cached_tokens, usage.cache_write_tokens
        parts = (
            (usage.input_tokens - read - written, self.input),
            (read, self.input if self.cache_read is None else self.cache_read),
            (written, self.input if self.cache_write is None else self.cache_write),
            (usage.output_tokens, self.output),
        )
        return sum(tokens * price for tokens, price in parts) / MILLION


FREE = FlatPrice(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class TablePrice:
    """A model that the price table knows."""

    model: str
    api_url: str

    def cost(self, usage: Usage) -> float:
        from genai_prices import Usage as TableUsage
        from genai_prices import calc_price

        tokens = TableUsage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            output_reasoning_tokens=usage.reasoning_tokens,
        )
        return float(calc_price(tokens, self.model, provider_api_url=self.api_url).total_price)


@dataclass(frozen=True, slots=True)
class BatchPrice:
    """What OpenAI and Anthropic ask for calls in a batch: half of the usual."""

    usual: Price

    def cost(self, usage: Usage) -> float:
        return self.usual.cost(usage) / 2


@lru_cache(maxsize=256)
def table_price(model: str, api_url: str) -> TablePrice | None:
    """The table's price of a model at an address, or None when the table has no such address
    (a gateway, a server of one's own) or no such model there."""
    price = TablePrice(model, api_url)
    try:
        price.cost(Usage(1, 1))
    except LookupError:
        return None
    return price


def parse_price(text: str) -> FlatPrice:
    """`"0.15/0.6"`: US dollars for a million input and output tokens; two more parts may state
    those of tokens read from a cache and written into one."""
    try:
        prices = [float(part) for part in text.split("/")]
    except ValueError:
        prices = []
    if len(prices) not in (2, 4):
        raise UsageError(
            f"price '{text}' is not INPUT/OUTPUT in US dollars for a million tokens, as 0.15/0.6, "
            "or INPUT/OUTPUT/CACHE-READ/CACHE-WRITE"
        )
    if not all(0 <= price < math.inf for price in prices):
        raise UsageError(f"price '{text}' is not made of numbers from 0")
    return FlatPrice(*prices)
