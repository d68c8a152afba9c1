"""Asking a model that judges: outside of the agent's limits, inside the run's budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from chimera.errors import JudgeFault
from chimera.providers import create_provider
from chimera.providers.meter import Meter, current_meter, metered
from chimera.types import JSON, Message

DecisionT = TypeVar("DecisionT", bound=Hashable)
#: How many of a judge's samples must agree; with fewer it is split, which is no verdict.
NEEDED = 2 / 3
#: What the options of adapters say of `judge_samples`.
SAMPLES_TEXT = (
    "how often the judge is asked; two thirds must agree, else there is no verdict (one sample is "
    "taken at temperature 0, several at 1)"
)


@dataclass(frozen=True, slots=True)
class Opinion(Generic[DecisionT]):
    """What one reply of a judge decides, and why."""

    decision: DecisionT
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Judge:
    """A model by its name, and what it was asked for one verdict.

    Without a model, or with one that does not answer in the form asked for, there is no verdict.
    """

    model: str | None
    #: What the option is called that names the model.
    option: str = "judge_model"
    samples: int = 1
    #: Each question with its instructions and the reply.
    asked: list[JSON] = field(default_factory=list)
    #: The share of samples behind each decision.
    agreements: list[float] = field(default_factory=list)

    def decide(
        self,
        instructions: str,
        question: str,
        read: Callable[[str], Opinion[DecisionT]],
        *,
        max_tokens: int | None = None,
    ) -> Opinion[DecisionT]:
        """What enough of the samples decide. `read` finds the opinion in a reply, or raises
        `JudgeFault`; so does a judge that is split."""
        opinions: list[Opinion[DecisionT]] = []
        faults: list[JudgeFault] = []
        for sample in range(self.samples):
            reply = self.ask(instructions, question, max_tokens=max_tokens, sample=sample)
            try:
                opinions.append(read(reply))
            except JudgeFault as fault:
                faults.append(fault)
        if not opinions:
            raise faults[0]
        counts = Counter(opinion.decision for opinion in opinions).most_common()
        decision, agreeing = counts[0]
        if agreeing < NEEDED * self.samples:
            told = ", ".join(f"{count} × {other}" for other, count in counts)
            unread = f", {len(faults)} × no answer" if faults else ""
            raise JudgeFault(f"the judge is split: {told}{unread}")
        self.agreements.append(agreeing / self.samples)
        return next(opinion for opinion in opinions if opinion.decision == decision)

    def ask(
        self, instructions: str, question: str, *, max_tokens: int | None = None, sample: int = 0
    ) -> str:
        """One reply, whatever the agent has used up of its time and tokens."""
        if self.model is None:
            raise JudgeFault(
                f"this needs a judge model: give one with --option {self.option}=SERVICE/MODEL"
            )
        messages = [Message.system(instructions), Message.user(question)]
        with _own_limits(sample, self.samples):
            reply = create_provider(self.model).complete(
                messages, temperature=0.0 if self.samples == 1 else 1.0, max_tokens=max_tokens
            )
        self.asked.append(
            {"instructions": instructions, "question": question, "reply": reply.content}
        )
        return reply.content

    def metrics(self) -> dict[str, JSON]:
        """For the verdict: how far several samples agreed where they agreed least."""
        if self.samples == 1 or not self.agreements:
            return {}
        return {"judge_samples": self.samples, "judge_agreement": min(self.agreements)}

    def evidence(self) -> dict[str, JSON]:
        """For the verdict: what was asked and answered; nothing when the judge was not needed."""
        return {"judge": {"model": self.model, "asked": list(self.asked)}} if self.asked else {}


@contextmanager
def _own_limits(sample: int, samples: int) -> Iterator[None]:
    """A meter without limits whose calls are still entered in the trial's account; the samples of
    a judge are samples of their own to a cache."""
    outer = current_meter()
    if outer is None:
        inner = Meter(sample=sample)
    else:
        inner = Meter(budget=outer.budget, sample=outer.sample * samples + sample)
    try:
        with metered(inner):
            yield
    finally:
        if outer is not None:
            for call in inner.calls:
                outer.record(call)
