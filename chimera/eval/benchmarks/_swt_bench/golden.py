"""Known answers of SWT-Bench: a script made of the golden tests, and tests that must not count."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator

from chimera.eval.kits.patches import diffs
from chimera.eval.kits.replies import parse_python
from chimera.eval.kits.repositories.swe_instance import SWEBenchInstance, directives
from chimera.eval.kits.repositories.virtualenvs import TESTBED

_SCRIPT = """\
import subprocess
import sys

PATCH = {patch!r}
COMMAND = {command!r}

git = subprocess.Popen(["git", "apply", "-"], stdin=subprocess.PIPE, cwd={root!r})
git.communicate(PATCH.encode("utf-8"))
sys.exit(git.returncode or subprocess.call(["bash", "-c", COMMAND], cwd={root!r}))
"""
_DJANGO_TEST = re.compile(r"(\w+) \(([\w.]+)\)$")
_TURNED = {
    "assertEqual(": "assertNotEqual(",
    "assertTrue(": "assertFalse(",
    "assertFalse(": "assertTrue(",
    "assertIn(": "assertNotIn(",
    "assertNotIn(": "assertIn(",
    "assertIs(": "assertIsNot(",
    "assertIsNone(": "assertIsNotNone(",
    "assertContains(": "assertNotContains(",
    "assertQuerysetEqual(": "assertNotEqual(",
    "assertSequenceEqual(": "assertNotEqual(",
    "assertHTMLEqual(": "assertHTMLNotEqual(",
}


def golden_script(instance: SWEBenchInstance, command: str) -> str:
    """A script that brings in the golden tests and ends as those do that the fix turns."""
    focused = focused_command(instance, command)
    return _SCRIPT.format(patch=instance.test_patch, command=focused, root=TESTBED)


def focused_command(instance: SWEBenchInstance, command: str) -> str:
    """The test command for FAIL_TO_PASS alone, or for their files where ids do not name tests."""
    names = _named_tests(instance)
    return " ".join([undirected(command, instance), *names]) if names else command


def undirected(command: str, instance: SWEBenchInstance) -> str:
    """The test command without the files that it is for."""
    for name in directives(instance.test_patch, instance.repo):
        command = command.replace(f" {name}", "")
    return command


def turned_tests(test_patch: str) -> Iterator[str]:
    """The golden tests with one of their new expectations turned round, which cannot hold."""
    for file in diffs.parse(test_patch):
        for hunk in file.hunks if file.path.endswith(".py") else ():
            for number, line in enumerate(hunk.lines):
                turned = _turned(line[1:]) if line.startswith("+") else None
                if turned is not None:
                    lines = [*hunk.lines[:number], f"+{turned}", *hunk.lines[number + 1 :]]
                    yield test_patch.replace(hunk.text, hunk.with_lines(lines).text, 1)


def _turned(line: str) -> str | None:
    indent, text = line[: len(line) - len(line.lstrip())], line.strip()
    tree = parse_python(f"{text}\n") if text.startswith("assert ") else None
    if tree is not None and isinstance(statement := tree.body[0], ast.Assert):
        return f"{indent}assert not ({ast.unparse(statement.test)})"
    for name, other in _TURNED.items():
        if text.startswith(f"self.{name}"):
            return line.replace(name, other, 1)
    return None


def _named_tests(instance: SWEBenchInstance) -> list[str]:
    if all("::" in name for name in instance.fail_to_pass):
        functions = dict.fromkeys(name.partition("[")[0] for name in instance.fail_to_pass)
        return [shlex.quote(name) for name in functions]
    found = [_DJANGO_TEST.match(name) for name in instance.fail_to_pass]
    if instance.repo == "django/django" and all(found):
        return [f"{match[2]}.{match[1]}" for match in found if match]
    return []
