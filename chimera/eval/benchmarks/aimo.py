"""AIMO (Kaggle's AI Mathematical Olympiad), AIME and AMC: one whole number a problem.

The range of an answer and the modulus belong to the edition a problem is from, never to a constant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chimera.environments.base import Environment
from chimera.errors import DatasetError
from chimera.eval.benchmarks._aimo.text import whole_number
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.data.rows import SUFFIXES, Row, rows
from chimera.eval.data.sources import HubFile, Item
from chimera.eval.kits import mutate
from chimera.eval.kits import replies as extract
from chimera.eval.options import Options, option
from chimera.eval.values import Submission, Task, Verdict
from chimera.types import JSON

Edition = Literal["auto", "aimo1", "aimo2", "aimo3", "aime", "amc"]


@dataclass(frozen=True, slots=True)
class Rule:
    """What an edition's answers may be; `modulus` is the one its rules take answers by."""

    largest: int | None
    modulus: int | None = None
    smallest: int | None = 0

    def allows(self, number: int) -> bool:
        low = self.smallest is None or number >= self.smallest
        return low and (self.largest is None or number <= self.largest)


EDITIONS: Mapping[str, Rule] = {
    "aimo1": Rule(999, 1000),
    "aimo2": Rule(999, 1000),
    "aimo3": Rule(99_999),
    "aime": Rule(999),
    "amc": Rule(None, smallest=None),
}
PROMPT = (
    "Solve this problem. The answer is a whole number{bounds}. Reason step by step, then end with "
    "a line of the form\nANSWER: <number>\n\n{problem}"
)


@dataclass(frozen=True, slots=True)
class AIMOOptions(Options):
    edition: Edition = option("auto", "whose range and modulus count; read off each file's name")
    trailing_integer: bool = option(False, "take the last integer of the last line, if need be")
    modulus: bool = option(True, "a larger answer to AIMO 1 and 2 counts by its remainder")


class NumberTask(Task):
    answer: int
    edition: str


class AIMOBenchmark(DatasetBenchmark[NumberTask]):
    slug = "aimo"
    aliases = ("aime",)
    description = "Olympiad problems with one whole number as the answer: AIMO, AIME, AMC"
    setup = "Or put a problem file there: aimo3_reference.csv (Kaggle), aime2025.jsonl, …"
    sources = (
        Item(
            "aime2024.parquet",
            HubFile(
                "HuggingFaceH4/aime_2024",
                "data/train-00000-of-00001.parquet",
                "2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
            ),
        ),
    )
    licence = "Apache-2.0"
    path_parameter = "problems_path"
    grading = "none"
    decided_by_answer = True
    attack_kind = "text"

    option_type = AIMOOptions
    settings: AIMOOptions

    def rows(self) -> Iterator[Row]:
        source, stated = self.dataset().source(), self.settings.edition
        files = [source]
        if source.is_dir():
            files = sorted(p for p in source.iterdir() if p.name.lower().endswith(SUFFIXES))
            if not files:
                raise self.dataset().missing(source)
        for file in files:
            edition = edition_of(file) if stated == "auto" else stated
            name = file.name.partition(".")[0]
            known = {"set": name, "prefix": f"{name}/" if source.is_dir() else ""}
            for row in rows(file):
                yield {**row, **known, "edition": row.get("edition") or edition}

    def task(self, row: Row) -> NumberTask:
        edition = str(row["edition"])
        if edition not in EDITIONS:
            raise ValueError(f"no edition '{edition}'; there are: {', '.join(EDITIONS)}")
        rule = EDITIONS[edition]
        problem = row.get("problem") or row.get("question") or row["Problem"]
        stated = row["answer"] if "answer" in row else row["Answer"]
        answer = whole_number(str(stated))
        if answer is None or not rule.allows(answer):
            raise ValueError(f"answer {stated!r} is not a whole number of edition {edition}")
        identifier = str(row["id"] if "id" in row else row["ID"])
        bounds = f" from 0 to {rule.largest}" if rule.largest is not None else ""
        if rule.modulus:
            bounds += f" (give the remainder modulo {rule.modulus} if it is larger)"
        return NumberTask(
            id=row["prefix"] + identifier,
            prompt=PROMPT.format(bounds=bounds, problem=problem),
            answer=answer,
            edition=edition,
            metadata={"edition": edition, "set": row["set"]},
        )

    def extract(self, task: NumberTask, reply: str) -> Submission:
        return Submission(text=self._stated(task, reply) or "", raw=reply)

    def _stated(self, task: NumberTask, reply: str) -> str | None:
        """The first of these that is a whole number: the last `ANSWER:` line, the last such box.

        The last integer of the last line counts only where `trailing_integer` is switched on.
        """
        text = extract.without_reasoning(reply)
        candidates = [
            (extract.boxed_answers(line) or [line])[-1] for line in extract.answer_lines(text)[-1:]
        ]
        candidates += reversed(extract.boxed_answers(text))
        if self.settings.trailing_integer and text.strip():
            last_line = text.strip().splitlines()[-1]
            candidates += re.findall(r"(?<![\w.,])-?\d+(?![\w,]|\.\d)", last_line)[-1:]
        whole = (each for each in candidates if whole_number(each, task["prompt"]) is not None)
        return next(whole, candidates[0] if candidates else None)

    def grade(self, task: NumberTask, submission: Submission, env: Environment) -> Verdict:
        text = submission.text
        if submission.form != "answer":
            text = self._stated(task, text) or text
        number = whole_number(text, task["prompt"])
        metrics: dict[str, JSON] = dict(task.get("metadata", {}))
        if number is None:
            return Verdict(False, f"no whole number in {text[:80]!r}", metrics=metrics)
        rule = EDITIONS[task["edition"]]
        if self.settings.modulus and rule.modulus and number >= rule.modulus:
            metrics["modded"] = True
            number %= rule.modulus
        if not rule.allows(number):
            bounds = f"{rule.smallest} to {rule.largest}"
            return Verdict(False, f"{number} is not from {bounds}", metrics=metrics)
        passed = number == task["answer"]
        return Verdict(passed, f"{number} against {task['answer']}", metrics=metrics)

    def graded_as(self) -> str:
        return "exact integer of the competition; AIME as in lm-evaluation-harness"

    def gold(self, task: NumberTask) -> Submission:
        return Submission(text=str(task["answer"]))

    def mutants(self, task: NumberTask) -> Iterable[Submission]:
        return (Submission(text=text) for text in mutate.numbers(task["answer"]))


def edition_of(file: Path) -> str:
    """The edition a file's name tells."""
    name = file.name.lower().replace("-", "_")
    if "aime" in name:
        return "aime"
    if "amc" in name:
        return "amc"
    if found := re.search(r"(?:aimo|prize|progress)_?([123])", name):
        return f"aimo{found[1]}"
    if name.startswith("reference"):
        return "aimo3"
    raise DatasetError(
        f"{file}: its name does not tell the edition; say --option edition=aimo1, aimo2, aimo3, "
        "aime or amc"
    )
