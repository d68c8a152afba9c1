"""Asking a model that judges: outside of the agent's limits, inside the run's budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from chimera.errors import GraderError
from chimera.providers import create_provider
from chimera.providers.meter import Meter, current_meter, metered
from chimera.types import JSON, Message


@dataclass(frozen=True, slots=True)
class Judge:
    """A model by its name, and what it was asked for one verdict.

    Without a model, or with one that does not answer in the form asked for, there is no verdict.
    """

    model: str | None
    #: What the option is called that names the model.
    option: str = "judge_model"
    #: Each question with its instructions and the reply.
    asked: list[JSON] = field(default_factory=list)

    def ask(self, instructions: str, question: str, *, max_tokens: int | None = None) -> str:
        """The reply at temperature 0, whatever the agent has used up of its time and tokens."""
        if self.model is None:
            raise GraderError(
                f"this needs a judge model: give one with --option {self.option}=SERVICE/MODEL"
            )
        messages = [Message.system(instructions), Message.user(question)]
        with _own_limits():
            reply = create_provider(self.model).complete(
                messages, temperature=0.0, max_tokens=max_tokens
            )
        self.asked.append(
            {"instructions": instructions, "question": question, "reply": reply.content}
        )
        return reply.content

    def evidence(self) -> dict[str, JSON]:
        """For the verdict: what was asked and answered; nothing when the judge was not needed."""
        return {"judge": {"model": self.model, "asked": list(self.asked)}} if self.asked else {}


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
