"""MATH-500: competition mathematics with a single final answer.

There is no one official grader. `passed` follows PRM800K, which published this split; what
hendrycks/math and math-verify say of the same answer is in the metrics.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, get_args

from chimera.environments.base import Environment
from chimera.errors import DatasetError
from chimera.eval.benchmarks._math500.grading import compare
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.data.rows import Row
from chimera.eval.kits import mutate
from chimera.eval.kits import replies as extract
from chimera.eval.values import Submission, Task, Verdict
from chimera.types import JSON

Grader = Literal["prm800k", "math-verify", "hendrycks"]
RULES: tuple[Grader, ...] = get_args(Grader)
PROMPT = (
    "Solve this problem. Reason step by step, then put your final answer, and nothing else, "
    "within \\boxed{{}}.\n\n{problem}"
)


class MathTask(Task):
    answer: str


class MATH500Benchmark(DatasetBenchmark[MathTask]):
    slug = "math-500"
    setup = "Get it with `chimera datasets pull math-500`, or put test.jsonl of MATH-500 there."
    files = ("test.jsonl", "math_500.jsonl", "test.json", "test.parquet", "MATH-test-5000.jsonl.gz")
    grading = "none"

    def __init__(
        self,
        problems_path: str | Path | None = None,
        limit: int | None = None,
        subject: str | None = None,
        level: int | None = None,
        grader: Grader = "prm800k",
    ) -> None:
        super().__init__(problems_path, limit)
        if grader not in RULES:
            raise DatasetError(f"math-500: no grader '{grader}'; there are: {', '.join(RULES)}")
        self.subject, self.level, self.grader = subject, level, grader

    def task(self, row: Row) -> MathTask | None:
        subject = str(row.get("subject") or row["type"])
        level = int(str(row["level"]).removeprefix("Level ").replace("?", "0"))
        if self.subject is not None and subject.lower() != self.subject.lower():
            return None
        if self.level is not None and level != self.level:
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
        results = {rule: compare(answer, task["answer"], rule=rule) for rule in RULES}
        passed = results[self.grader].equal
        limit = next((result.limit for result in results.values() if result.limit), None)
        why = f"{answer[:80]!r} {'is' if passed else 'is not'} {task['answer']!r} by {self.grader}"
        metrics: dict[str, JSON] = {
            rule.replace("-", "_"): result.equal for rule, result in results.items()
        }
        metrics["corrected"] = passed or results["math-verify"].equal
        metrics |= dict(task.get("metadata", {}))
        if limit:
            metrics["limit"] = limit
        return Verdict(passed, why, metrics=metrics)

    def gold(self, task: MathTask) -> Submission:
        return Submission(text=task["answer"])

    def mutants(self, task: MathTask) -> Iterable[Submission]:
        return (Submission(text=text) for text in mutate.answers(task["answer"]))

    def options(self) -> dict[str, JSON]:
        return {"subject": self.subject, "level": self.level, "grader": self.grader}
