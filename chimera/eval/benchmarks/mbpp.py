"""MBPP (974 tasks, or the 427 sanitized ones) by its asserts, and MBPP+ by EvalPlus's rules."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from chimera.environments.base import Environment
from chimera.eval.data.datasets import Dataset, DatasetBenchmark
from chimera.eval.data.rows import Row
from chimera.eval.data.sources import Item, WebFile
from chimera.eval.kits import mutate
from chimera.eval.kits import replies as extract
from chimera.eval.kits.evalplus.benchmark import RELEASES, EvalPlusBenchmark
from chimera.eval.kits.python.equivalence import same_behaviour
from chimera.eval.kits.python.grading import joined, python_tests
from chimera.eval.options import Options, option
from chimera.eval.values import Submission, Task, Verdict
from chimera.sandbox import Limits

Split = Literal["sanitized", "full"]
Part = Literal["all", "prompt", "test", "validation", "train"]
Prompt = Literal["three-shot", "zero-shot", "one-assert"]

FILES: Mapping[str, tuple[str, ...]] = {
    "sanitized": ("sanitized-mbpp.json", "sanitized-mbpp.jsonl", "sanitized-mbpp.json.gz"),
    "full": ("mbpp.jsonl", "mbpp.json", "mbpp.jsonl.gz"),
}
PUBLISHED = (
    "https://raw.githubusercontent.com/google-research/google-research/"
    "ec7c3d346277b737bc2decffcd1b533d4b7ec105/mbpp"
)
PARTS: Mapping[str, range] = {
    "all": range(1, 975),
    "prompt": range(1, 11),
    "test": range(11, 511),
    "validation": range(511, 601),
    "train": range(601, 975),
}
EXAMPLES = (2, 3, 4)
SHOWN_TESTS = 3
LIMITS = Limits(cpu_seconds=10.0, wall_seconds=200.0)
#: The template of the paper.
QUESTION = (
    "You are an expert Python programmer, and here is your task: {text} "
    "Your code should pass these tests:\n\n{tests}\n"
)
ZERO_SHOT = QUESTION + "{setup}\nAnswer with the whole program in one Python code block."
ONE_ASSERT = '"""\n{text}\n{tests}\n"""\n'


@dataclass(frozen=True, slots=True)
class MBPPOptions(Options):
    split: Split = option("sanitized", "the 427 checked problems, or all 974")
    part: Part = option("all", "the paper's parts; `test` (ids 11 to 510) is what people publish")
    prompt: Prompt = option(
        "three-shot",
        "the paper's with tasks 2, 3 and 4 as examples; all asserts and no example; or a docstring "
        "with the first assert, the others hidden",
    )


class MBPPTask(Task):
    code: str
    entry_point: str | None
    imports: str
    tests: str
    challenge: str


class MBPP(DatasetBenchmark[MBPPTask]):
    slug = "mbpp"
    description = "Short Python functions from a sentence and three asserts"
    setup = "Or put sanitized-mbpp.json (427 problems) or mbpp.jsonl (974) there."
    sources = (
        Item(
            "mbpp.jsonl",
            WebFile(f"{PUBLISHED}/mbpp.jsonl"),
            sha256="ccf64ceae9c5403bf50a044cb6d505bfd2a2963ee58338ba268fd65beab92a9f",
            size=563_743,
        ),
        Item(
            "sanitized-mbpp.json",
            WebFile(f"{PUBLISHED}/sanitized-mbpp.json"),
            sha256="ca95deaa9a01ef0a6f439f88bcf0dd3db3563d22f22aad6cae04ebb9a8d8c8e9",
            size=255_053,
        ),
    )
    licence = "CC-BY-4.0"
    grading = "none"
    decided_by_answer = True
    attack_kind = "python tests"

    option_type = MBPPOptions
    settings: MBPPOptions

    _examples: str | None = None

    def dataset(self) -> Dataset:
        return replace(super().dataset(), files=FILES[self.settings.split])

    def task(self, row: Row) -> MBPPTask | None:
        number = int(row["task_id"])
        if number not in PARTS[self.settings.part]:
            return None
        if self.settings.split == "sanitized" and "prompt" not in row:
            raise ValueError(f"task {number} is of the full split; say --option split=full")
        code = row["code"].replace("\r\n", "\n")
        tests = list(row["test_list"])
        if not tests:
            raise ValueError(f"task {number} has no tests")
        imports = "".join(f"{line}\n" for line in row.get("test_imports") or ())
        setup = (row.get("test_setup_code") or "").replace("\r\n", "\n")
        return MBPPTask(
            id=str(number),
            prompt=self._prompt(row),
            code=code,
            entry_point=_entry_point(code, tests),
            imports=imports,
            tests="\n".join([imports, setup, *tests]),
            challenge="\n".join(
                [imports, setup, *challenge]
                if (challenge := row.get("challenge_test_list"))
                else []
            ),
        )

    def _prompt(self, row: Row) -> str:
        text = row.get("prompt") or row["text"]
        shown = list(row["test_list"])[:SHOWN_TESTS]
        if self.settings.prompt == "one-assert":
            return ONE_ASSERT.format(text=text, tests=shown[0])
        if self.settings.prompt == "zero-shot":
            setup = row.get("test_setup_code") or ""
            setup = f"\nThey are run after:\n{setup}\n" if setup else ""
            return ZERO_SHOT.format(text=text, tests="\n".join(shown), setup=setup)
        if self._examples is None:
            found = {int(row["task_id"]): row for row in self.rows()}
            missing = [number for number in EXAMPLES if number not in found]
            if missing:
                raise ValueError(f"the three-shot prompt needs tasks {missing}, which are not here")
            self._examples = "".join(
                _question(found[number]) + f"[BEGIN]\n{_code(found[number])}\n[DONE]\n"
                for number in EXAMPLES
            )
        return f"{self._examples}{_question(row)}[BEGIN]\n"

    def extract(self, task: MBPPTask, reply: str) -> Submission:
        """Up to `[DONE]`, as the paper has it; then the block that defines the function."""
        text = extract.without_reasoning(reply).partition("[DONE]")[0]
        text = text.rpartition("[BEGIN]")[2]
        if self.settings.prompt == "one-assert" or extract.fenced_blocks(text):
            text = extract.python_program(text, entry_point=task["entry_point"])
        return Submission(text=text, raw=reply)

    def grade(self, task: MBPPTask, submission: Submission, env: Environment) -> Verdict:
        program = submission.text.replace("\r\n", "\n")
        if submission.form == "completion":  # the protocol cuts what a base model goes on with
            program = program.partition("[DONE]")[0]
        if submission.form == "completion" and self.settings.prompt == "one-assert":
            program = task["prompt"] + program
        program = extract.after_future_imports(program, task["imports"])
        names = [task["entry_point"]] if task["entry_point"] else []
        gold = extract.after_future_imports(task["code"], task["imports"])
        check = partial(python_tests, program, limits=LIMITS, names=names, reference=gold)
        verdict = check(task["tests"])
        if not task["challenge"]:
            return verdict
        challenge = check(task["challenge"])
        return Verdict(
            verdict.passed,
            verdict.why,
            metrics={**verdict.metrics, "challenge": challenge.passed},
            evidence=joined(verdict, challenge),
        )

    def graded_as(self) -> str:
        return "google-research/mbpp asserts"

    def gold(self, task: MBPPTask) -> Submission:
        return Submission(text=task["code"])

    def mutants(self, task: MBPPTask) -> Iterable[Submission]:
        return (Submission(text=program) for program in mutate.python(task["code"]))

    def behaves_like_gold(self, task: MBPPTask, submission: Submission) -> bool:
        name = task["entry_point"]
        return name is not None and same_behaviour(
            task["code"], submission.text, name, task["tests"]
        )


def _question(row: Row) -> str:
    tests = "\n".join(list(row["test_list"])[:SHOWN_TESTS])
    return QUESTION.format(text=row.get("prompt") or row["text"], tests=tests)


def _code(row: Row) -> str:
    return str(row["code"]).replace("\r\n", "\n").strip()


def _entry_point(code: str, tests: list[str]) -> str | None:
    """The function of the reference that the tests call."""
    tree = extract.parse_python(code)
    called = extract.parse_python("\n".join(tests))
    if tree is None or called is None:
        return None
    names = {node.id for node in ast.walk(called) if isinstance(node, ast.Name)}
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return next((name for name in reversed(defined) if name in names), None)


class MBPPPlus(EvalPlusBenchmark):
    """MBPP+: 378 of MBPP's tasks with many more inputs."""

    slug = "mbpp-plus"
    aliases = ("mbpp+", "mbppplus")
    description = "378 of MBPP's tasks with many more inputs"
    setup = "Or put MbppPlus.jsonl.gz there."
    files = (
        "MbppPlus.jsonl.gz",
        "MbppPlus.jsonl",
        "MbppPlus-v0.2.0.jsonl",
        "MbppPlus-NoExtreme.jsonl.gz",
    )
    sources = (
        Item(
            "MbppPlus.jsonl.gz",
            WebFile(f"{RELEASES}/mbppplus_release/releases/download/v0.2.0/MbppPlus.jsonl.gz"),
            unpacked_md5="ee43ecabebf20deef4bb776a405ac5b1",
            size=336_032,
        ),
    )
    licence = "Apache-2.0"
    origin = "mbpp"

    def read_inputs(self, task_id: str, inputs: list[Any]) -> list[list[Any]]:
        """JSON has no tuples, sets and complex numbers; EvalPlus says which task had them."""
        number = int(task_id.rpartition("/")[2])
        for read, numbers in INPUT_READERS:
            if number in numbers:
                return [read(arguments) for arguments in inputs]
        return inputs


def _tuples(values: Iterable[Any]) -> list[Any]:
    return [tuple(value) for value in values]


def _all_tuples(value: Any) -> Any:
    return tuple(map(_all_tuples, value)) if isinstance(value, list) else value


def _set_or_dict(value: Any) -> Any:
    return set(value) if isinstance(value, list) and value else {}


Reader = Callable[[list[Any]], list[Any]]
INPUT_READERS: tuple[tuple[Reader, frozenset[int]], ...] = (
    (
        _tuples,
        frozenset(
            {2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424, 429, 470, 560, 579, 596, 616}
            | {630, 726, 740, 744, 809}
        ),
    ),
    (
        lambda inputs: [_tuples(each) for each in inputs],
        frozenset({63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780}),
    ),
    (lambda inputs: [_tuples(inputs[0]), inputs[1]], frozenset({75, 413, 444, 753})),
    (lambda inputs: [inputs[0], tuple(inputs[1])], frozenset({106, 750})),
    (lambda inputs: [list(map(_set_or_dict, inputs[0]))], frozenset({115})),
    (lambda inputs: [float(inputs[0]), complex(inputs[1])], frozenset({124})),
    (
        lambda inputs: [tuple(inputs[0]), inputs[1]],
        frozenset({250, 405, 446, 617, 720, 763, 808}),
    ),
    (lambda inputs: [tuple(_tuples(each)) for each in inputs], frozenset({259, 401, 445})),
    (
        lambda inputs: [
            tuple(tuple(each) if isinstance(each, list) else each for each in inputs[0])
        ],
        frozenset({278}),
    ),
    (lambda inputs: [tuple(inputs[0]), *inputs[1:3]], frozenset({307})),
    (
        lambda inputs: [{key: tuple(value) for key, value in inputs[0].items()}, *inputs[1:]],
        frozenset({722}),
    ),
    (lambda inputs: [complex(inputs[0])], frozenset({252})),
    (lambda inputs: list(map(_all_tuples, inputs)), frozenset({580, 615, 791})),
)
