"""Asking a model that judges: outside of the agent's limits, inside the run's budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from chimera.providers.base import Provider
from chimera.providers.meter import Meter, current_meter, metered
from chimera.types import Message


def ask(provider: Provider, instructions: str, question: str) -> str:
    """The judge's reply at temperature 0, whatever the agent has used up of its time and tokens."""
    with _own_limits():
        messages = [Message.system(instructions), Message.user(question)]
        return provider.complete(messages, temperature=0.0).content


@contextmanager
def _own_limits() -> Iterator[None]:
    """A meter without limits whose calls are still entered in the trial's account."""
    outer = current_meter()
    inner = Meter() if outer is None else Meter(budget=outer.budget, sample=outer.sample)
    try:
        with metered(inner):
            yield
    finally:
        if outer is not None:
            for call in inner.calls:
                outer.record(call)
