"""Patches made from one release, put on the next: never into another function than their own,
and never to a verdict that they would not have had on the release that they were made from."""

from __future__ import annotations

import ast
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from chimera.environments import EnvironmentSpec, start_environment
from chimera.environments.base import machine
from chimera.environments.reopened import ReopenedMachine
from chimera.errors import EnvironmentFault
from chimera.eval.benchmark import Benchmark
from chimera.eval.controls import Controls
from chimera.eval.kits.patches.apply import apply_submission
from chimera.eval.kits.patches.diffs import new_file
from chimera.eval.kits.repositories.checkout import open_tree, tree_identity
from chimera.eval.kits.repositories.patch_tests import TestPlan, grade_patch
from chimera.eval.kits.repositories.source import BaseTree, SourceDistribution, base_tree
from chimera.eval.submitters import Stored
from chimera.eval.trial import StartBackend, TrialSpec
from chimera.eval.values import Submission, Task

MARK = "chimera_marker = 1"
SAMPLE = 80
GRADED = 6
PAIRS = [
    ("Flask==2.3.1", "Flask==2.3.2", "src/flask"),
    ("requests==2.30.0", "requests==2.31.0", "requests"),
    ("sympy==1.5.1", "sympy==1.6", "sympy/core"),
]


def functions(source):
    """Qualified name → the line its body begins at."""
    found: dict[str, int] = {}

    def walk(node, prefix):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}.{child.name}"
                if not isinstance(child, ast.ClassDef):
                    found[name] = child.body[-1].lineno
                walk(child, name)

    walk(ast.parse(source), "")
    return found


def holders(source):
    """Functions that the mark stands in."""
    tree = ast.parse(source)
    lines = [n for n, line in enumerate(source.split("\n"), 1) if line.strip() == MARK]
    spans = dict.fromkeys(functions(source))

    def walk(node, prefix):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}.{child.name}"
                if name in spans:
                    spans[name] = (child.lineno, child.end_lineno)
                walk(child, name)

    walk(tree, "")
    inside = [
        (end - start, name)
        for name, (start, end) in spans.items()
        if any(start <= line <= end for line in lines)
    ]
    return min(inside)[1] if inside else None


def marked(source, line):
    """The source with the mark before a line, as deep as it."""
    lines = source.split("\n")
    indent = lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip())]
    return "\n".join([*lines[: line - 1], f"{indent}{MARK}", *lines[line - 1 :]])


def diff(before: Path, name: str, after: str) -> str:
    blob = subprocess.run(
        ["git", "-C", str(before), "hash-object", "-w", "--stdin"],
        input=after, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    made = subprocess.run(
        ["git", "-C", str(before), "diff", f"HEAD:{name}", blob], capture_output=True, text=True
    )
    lines = made.stdout.split("\n")
    lines[0] = f"diff --git a/{name} b/{name}"
    return "\n".join(
        f"{line[:4]}{line[4]}/{name}" if line.startswith(("--- ", "+++ ")) else line
        for line in lines
    )


def predictions(base, rebuilt, package):
    for path in sorted((base.path / package).glob("*.py")):
        name = path.relative_to(base.path).as_posix()
        source = path.read_text("utf-8")
        if not (rebuilt.path / name).exists() or (rebuilt.path / name).read_text() == source:
            continue
        for function, line in functions(source).items():
            yield name, function, diff(base.path, name, marked(source, line))


def outcome(env, root, rebuilt, name, function, patch):
    env.run_command("git checkout -q -f HEAD -- . && git clean -qfdx", cwd=root)
    try:
        application = apply_submission(
            env, patch, root=root, test_paths=frozenset(), tree=rebuilt.rebuilt()
        )
    except EnvironmentFault:
        return "error"
    if not application.applied:
        return "not applied"
    held = holders(env.read_text(f"{root}/{name}"))
    kind = "marked" if application.compared.doubtful else "unmarked"
    return kind if held == function else f"wrong: {function} in {held}"


@pytest.mark.full
@pytest.mark.parametrize(("before", "after", "package"), PAIRS)
def test_a_patch_never_lands_in_another_function(before, after, package, tmp_path, capsys):
    base = base_tree(SourceDistribution(before))
    rebuilt = base_tree(SourceDistribution(after))
    made = list(predictions(base, rebuilt, package))
    chosen = made[:: max(1, len(made) // SAMPLE)]
    assert len(chosen) >= 5

    counts: Counter[str] = Counter()
    root = "/testbed"
    with start_environment("bubblewrap", EnvironmentSpec(workdir=root)) as env:
        env.copy_in(rebuilt.path, root)
        for name, function, patch in chosen:
            counts[outcome(env, root, rebuilt, name, function, patch)] += 1
    with capsys.disabled():
        print(f"\n{before} on {after}: {dict(counts)}")

    assert {kind for kind in counts if kind not in ("error", "marked")} == set()


# --- verdicts


CHECK = '''\
import ast
from pathlib import Path

MARK = "chimera_marker"


def holders(node, prefix=""):
    """Functions and classes that the mark stands in, outermost first."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Assign) and getattr(child.targets[0], "id", "") == MARK:
            yield prefix
        name = getattr(child, "name", "") if isinstance(child, ast.stmt) else ""
        yield from holders(child, f"{prefix}.{name}" if name else prefix)


def test_mark():
    tree = ast.parse(Path("FILE").read_text("utf-8"))

    assert list(holders(tree)) == ["FUNCTION"]
'''
TEST = "tests/test_chimera_mark.py"


class MarkTask(Task):
    file: str
    function: str
    patch: str


@dataclass
class Marks(Benchmark[MarkTask]):
    """Put a mark into a function; graded as an instance of SWE-bench is."""

    tree: BaseTree
    rows: list[MarkTask]

    grading = "fresh"

    def name(self):
        return "marks"

    def tasks(self):
        return self.rows

    def open_environment(self, task, start):
        return open_tree(self.tree, start)

    def open_grading_environment(self, task, start):
        return ReopenedMachine(lambda: machine(self.open_environment(task, start)))

    def graded_in(self, task, start):
        return tree_identity(self.tree, start)

    def gold(self, task):
        return Submission(task["patch"], "model_patch")

    def untouched(self, task, env):
        return Submission(new_file("nothing.txt", "nothing\n"), "model_patch")

    def grade(self, task, submission, env):
        check = CHECK.replace("FILE", task["file"]).replace("FUNCTION", task["function"])
        plan = TestPlan(
            command=f"python3 -m pytest -rA --no-header {TEST}",
            log_parser="pytest",
            test_patch=new_file(TEST, check),
            fail_to_pass=(f"{TEST}::test_mark",),
            pass_to_pass=(),
            gold_patch=task["patch"],
            tree=self.tree.rebuilt(),
        )
        return grade_patch(plan, submission.text, env)


def part(tree: BaseTree, package: str, place: Path, *, exact: bool) -> BaseTree:
    """One package of a tree, in a repository of its own: copied in a moment."""
    copied = place / package
    shutil.copytree(tree.path / package, copied, ignore=lambda folder, _: _folders(folder))
    for command in (
        "git init -q",
        "git add .",
        "git -c user.name=n -c user.email=e@x commit -qm base",
    ):
        subprocess.run(command.split(), cwd=place, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=place, capture_output=True, text=True)
    return BaseTree(place, head.stdout.strip(), exact)


def _folders(folder: str) -> list[str]:
    return [entry.name for entry in Path(folder).iterdir() if entry.is_dir()]


def graded(benchmark: Marks, controls: Controls, task: MarkTask, patch: str) -> str:
    answer = Stored(Submission(patch, "model_patch"))
    spec = TrialSpec(benchmark, task, 0, answer, StartBackend("bubblewrap"), attempts=1)
    return controls.run(spec).status


@pytest.mark.full
@pytest.mark.parametrize(("before", "after", "package"), PAIRS)
def test_a_prediction_never_gets_another_verdict(before, after, package, tmp_path, capsys):
    """Right ones, and those whose mark is in another function of the same file."""
    trees = [base_tree(SourceDistribution(requirement)) for requirement in (before, after)]
    made = list(predictions(*trees, package))
    several = {name for name, count in Counter(name for name, *_ in made).items() if count > 1}
    fitting = [each for each in made if each[0] in several]
    chosen = fitting[:: max(1, len(fitting) // GRADED)][:GRADED]
    exact = part(trees[0], package, tmp_path / "exact", exact=True)
    rebuilt = part(trees[1], package, tmp_path / "rebuilt", exact=False)

    found: Counter[tuple[str, str, str]] = Counter()
    for number, (name, function, patch) in enumerate(chosen):
        task = MarkTask(id=str(number), prompt="", file=name, function=function, patch=patch)
        elsewhere = next(p for n, f, p in made if n == name and f != function)
        for due, answer in (("passed", patch), ("failed", elsewhere)):
            places = [exact, rebuilt] if number == 0 else [rebuilt]
            for tree in places:
                verdict = graded(Marks(tree, [task]), Controls(), task, answer)
                found["exact" if tree is exact else "rebuilt", due, verdict] += 1
    with capsys.disabled():
        print(f"\n{before} graded on {after}: {dict(found)}")

    assert all(
        verdict == due or (where == "rebuilt" and verdict == "error")
        for where, due, verdict in found
    )
    assert {due for where, due, verdict in found if where == "rebuilt" and verdict == due}
