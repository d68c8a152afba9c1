"""What a call costs, by the table of genai-prices; a price that is not known is None, never 0."""

from __future__ import annotations

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
    """US dollars for a million tokens in and out, as the user states them."""

    input: float
    output: float

    def cost(self, usage: Usage) -> float:
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / MILLION


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
        )
        return float(calc_price(tokens, self.model, provider_api_url=self.api_url).total_price)


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
    """`"0.15/0.6"`: US dollars for a million input and output tokens."""
    try:
        input_price, output_price = (float(part) for part in text.split("/"))
    except ValueError:
        raise UsageError(
            f"price '{text}' is not INPUT/OUTPUT in US dollars for a million tokens, as 0.15/0.6"
        ) from None
    if input_price < 0 or output_price < 0:
        raise UsageError(f"price '{text}' is negative")
    return FlatPrice(input_price, output_price)
