"""MATH-500: competition mathematics with a single final answer.

There is no one official grader. `passed` follows PRM800K, which published this split; what
hendrycks/math and math-verify say of the same answer is in the metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chimera.environments.base import Environment
from chimera.eval.benchmark import Lack, OfficialGrader
from chimera.eval.benchmarks._math500.grading import PACKAGES, compare_by
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.data.rows import Row
from chimera.eval.data.sources import HubFile, Item
from chimera.eval.kits import mutate
from chimera.eval.kits import replies as extract
from chimera.eval.options import Options, option
from chimera.eval.preflight import lacking_packages
from chimera.eval.values import Submission, Task, Verdict
from chimera.text import one_line
from chimera.types import JSON

Grader = Literal["prm800k", "math-verify", "hendrycks"]
RULES: Mapping[Grader, str] = {
    "prm800k": "openai/prm800k grader",
    "math-verify": "math-verify 0.9.0",
    "hendrycks": "hendrycks/math is_equiv",
}
OFFICIAL = Path(__file__).parent / "_math500/official.py"
PROMPT = (
    "Solve this problem. Reason step by step, then put your final answer, and nothing else, "
    "within \\boxed{{}}.\n\n{problem}"
)


@dataclass(frozen=True, slots=True)
class MathOptions(Options):
    subject: str | None = option(None, "problems of this subject alone, e.g. `Algebra`")
    level: int | None = option(None, "problems of this level alone, 1 to 5")
    grader: Grader = option("prm800k", "the rule that `passed` follows")


class MathTask(Task):
    answer: str


class MATH500Benchmark(DatasetBenchmark[MathTask]):
    slug = "math-500"
    aliases = ("math500",)
    description = "500 competition problems with a single final answer"
    needs = ("chimera-eval[math]",)
    setup = "Or put test.jsonl of MATH-500 there."
    files = ("test.jsonl", "math_500.jsonl", "test.json", "test.parquet", "MATH-test-5000.jsonl.gz")
    sources = (
        Item(
            "test.jsonl",
            HubFile(
                "HuggingFaceH4/MATH-500", "test.jsonl", "ff5b20257d8185524591543f8ff5993951537bb8"
            ),
            size=446_564,
        ),
    )
    licence = "MIT"
    path_parameter = "problems_path"
    grading = "none"
    decided_by_answer = True
    attack_kind = "text"

    option_type = MathOptions
    settings: MathOptions

    def task(self, row: Row) -> MathTask | None:
        subject = str(row.get("subject") or row["type"])
        level = int(str(row["level"]).removeprefix("Level ").replace("?", "0"))
        wanted = self.settings
        if wanted.subject is not None and subject.lower() != wanted.subject.lower():
            return None
        if wanted.level is not None and level != wanted.level:
            return None
        answer = row.get("answer")
        if answer is None:
            answer = (extract.boxed_answers(row["solution"]) or [""])[-1]
        if not str(answer).strip():
            raise ValueError("has no answer")
        return MathTask(
            id=str(row["unique_id"] if "unique_id" in row else row["idx"]),
            prompt=PROMPT.format(problem=row["problem"]),
            answer=str(answer),
            metadata={"subject": subject, "level": level},
        )

    def extract(self, task: MathTask, reply: str) -> Submission:
        return Submission(text=extract.final_answer(reply) or "", raw=reply)

    def grade(self, task: MathTask, submission: Submission, env: Environment) -> Verdict:
        answer = submission.text
        if submission.form != "answer":  # a stored solution: the answer in it, or all of it
            found = extract.final_answer(answer)
            answer = answer.strip() if found is None else found
        if not answer.strip():
            return Verdict(False, "no final answer in the reply", metrics={"corrected": False})
        results = compare_by(answer, task["answer"], tuple(RULES))
        rule = self.settings.grader
        passed = results[rule].equal
        limit = next((result.limit for result in results.values() if result.limit), None)
        why = (
            f"{one_line(answer, 100)!r} {'is' if passed else 'is not'} {task['answer']!r} by {rule}"
        )
        metrics: dict[str, JSON] = {
            name.replace("-", "_"): result.equal for name, result in results.items()
        }
        metrics["corrected"] = passed or results["math-verify"].equal
        metrics |= dict(task.get("metadata", {}))
        if limit:
            metrics["limit"] = limit
        return Verdict(passed, why, metrics=metrics)

    def missing(self, tasks: Sequence[MathTask] | None = None) -> Sequence[Lack]:
        return lacking_packages(PACKAGES, "math", "that compare mathematical answers")

    def graded_as(self) -> str:
        return RULES[self.settings.grader]

    def gold(self, task: MathTask) -> Submission:
        return Submission(text=task["answer"])

    def mutants(self, task: MathTask) -> Iterable[Submission]:
        return (Submission(text=text) for text in mutate.answers(task["answer"]))

    def official_grader(self, tasks: Sequence[MathTask]) -> OfficialGrader:
        settings = {"gold": {task["id"]: task["answer"] for task in tasks}}
        return OfficialGrader("math-verify", OFFICIAL, settings)
