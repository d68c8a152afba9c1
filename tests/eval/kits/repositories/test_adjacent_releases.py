"""Patches made from one release, put on the next: never into another function than their own."""

from __future__ import annotations

import ast
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from chimera.environments import EnvironmentSpec, start_environment
from chimera.errors import EnvironmentFault
from chimera.eval.kits.patches.apply import apply_submission
from chimera.eval.kits.repositories.source import SourceDistribution, base_tree

MARK = "chimera_marker = 1"
SAMPLE = 80
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
