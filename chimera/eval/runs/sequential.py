"""An answer as soon as there is one: a paired test that may be looked at after every task.

Two runs are compared task by task, and wealth is bet on the difference. If there is none, no way of
betting makes the wealth grow: the chance that it ever reaches 1/α, however often one looks, is at
most α (Ville's inequality). So it may be stopped at once when it does.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Decision = Literal["better", "worse", "equivalent"]

#: The shares of the wealth that are bet, each with an equal part of it: nobody knows the best one.
BETS = tuple(n / 20 for n in range(1, 20))


@dataclass(slots=True)
class _Wealth:
    """What bets have made of 1, had each of them an equal part of it."""

    bets: tuple[float, ...]
    logs: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.logs = [0.0] * len(self.bets)

    def add(self, least: float, most: float) -> None:
        """A gain between two numbers; every bet has what is worst for it."""
        self.logs = [
            log + math.log1p(bet * (least if bet > 0 else most))
            for log, bet in zip(self.logs, self.bets, strict=True)
        ]

    @property
    def log(self) -> float:
        most = max(self.logs)
        total = math.fsum(math.exp(log - most) for log in self.logs)
        return most + math.log(total / len(self.logs))


class SequentialTest:
    """Takes the differences of tasks in the order of the run and says when they have decided.

    `better` or `worse` is claimed with a chance of at most `alpha` when the runs are equally
    good, and `equivalent` when they differ by `margin` or more; however often it is asked, and
    whatever the trials without a verdict were.
    """

    def __init__(self, *, alpha: float = 0.05, margin: float | None = None) -> None:
        self.alpha, self.margin = alpha, margin
        self.tasks, self.least, self.most = 0, 0.0, 0.0
        self.decision: Decision | None = None
        # Both directions share one wealth: a mean of 0 in the whole list of tasks then draws it
        # back also when what was seen of the list by chance lies on one side.
        self._differ = _Wealth((*BETS, *(-bet for bet in BETS)))
        largest = 1 / (1 - margin) if margin is not None else 0.0
        self._within = tuple(_Wealth(tuple(bet * largest for bet in BETS)) for _ in range(2))

    def add(self, least: float, most: float | None = None) -> Decision | None:
        """A further task's rate less that of the run it is compared with.

        Where trials have no verdict that is not known: it lies from `least` to `most`.
        """
        most = least if most is None else most
        if not -1 <= least <= most <= 1:
            raise ValueError(f"a difference of rates lies between -1 and 1, got {least}, {most}")
        if self.decision is not None:
            return self.decision
        self.tasks, self.least, self.most = self.tasks + 1, self.least + least, self.most + most
        self._differ.add(least, most)
        if self.margin is not None:
            below, above = self._within
            below.add(self.margin - most, self.margin - least)
            above.add(self.margin + least, self.margin + most)
        self.decision = self._decide()
        return self.decision

    def _decide(self) -> Decision | None:
        enough = -math.log(self.alpha)
        if self._differ.log >= enough and (self.least > 0 or self.most < 0):
            return "better" if self.least > 0 else "worse"
        if self.margin is not None and all(side.log >= enough for side in self._within):
            return "equivalent"
        return None

    @property
    def evidence(self) -> float:
        """What was made of 1 by betting on a difference; 1/α decides."""
        return math.exp(min(700.0, self._differ.log))

    @property
    def guarantee(self) -> str:
        """What the rule promises, in a sentence."""
        promise = (
            f"if both are equally good, a difference is claimed with a chance of at most "
            f"{self.alpha:.3g}, however often one looks"
        )
        if self.margin is None:
            return promise
        return (
            f"{promise}; if they differ by {self.margin:.1%} or more, the absence of that is "
            f"claimed with a chance of at most {self.alpha:.3g}"
        )

    def __str__(self) -> str:
        least, most = (total / max(1, self.tasks) for total in (self.least, self.most))
        mean = f"{least:+.1%}" + (f" to {most:+.1%}" if most > least else "")
        state = f"{mean} over {self.tasks} tasks, evidence {self.evidence:.3g} : 1"
        words = {
            "better": "decided: better",
            "worse": "decided: worse",
            "equivalent": f"decided: no difference of {self.margin or 0:.1%} or more",
            None: f"undecided (needs {1 / self.alpha:.3g} : 1)",
        }
        return f"{words[self.decision]} ({state})"


def lot(task_id: str, seed: int) -> bytes:
    """A task's place in the order that the seed alone decides, whatever other tasks there are."""
    return hashlib.sha256(f"{seed}:{task_id}".encode(errors="surrogatepass")).digest()


class UntilDecided:
    """Runs `test` while a run goes on, against the rates of an earlier one, least and most.

    What ends early is easy, or fails at once: taken as it comes, the first tasks would not be a
    random choice of all. So a task waits for those before it in `order`, and for its samples.
    """

    def __init__(
        self,
        test: SequentialTest,
        against: Mapping[str, tuple[float, float]],
        order: Iterable[str],
        *,
        samples: int = 1,
    ) -> None:
        self.test = test
        self._against = against
        self._order = iter([task for task in order if task in against])
        self._samples = samples
        self._waiting: dict[str, dict[int, bool | None]] = {}
        self._next = next(self._order, None)

    def add(self, task_id: str, sample: int, *, passed: bool | None) -> str | None:
        """A trial has ended, without a verdict if None; why no more are needed, once that is so."""
        self._waiting.setdefault(task_id, {})[sample] = passed
        while self._next is not None and len(self._waiting.get(self._next, ())) >= self._samples:
            outcomes = list(self._waiting.pop(self._next).values())
            least, most = self._against[self._next]
            passes, unknown = outcomes.count(True), outcomes.count(None)
            self.test.add(passes / len(outcomes) - most, (passes + unknown) / len(outcomes) - least)
            self._next = next(self._order, None)
        return self.reason

    @property
    def reason(self) -> str | None:
        return None if self.test.decision is None else str(self.test)
