"""One small repository for each test runner, and patches that try to be judged as fixes there."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chimera.errors import RunError
from chimera.eval.benchmarks.swe_polybench import SWEPolyBench
from chimera.eval.kits.patches.diffs import new_file
from chimera.eval.kits.patches.disarming import CONFUSING, EQUALS_EVERYTHING, disarming
from chimera.eval.kits.patches.hostile import hostile_patches
from chimera.eval.proof.attack.java_patches import java_patches
from chimera.eval.proof.attack.javascript_patches import javascript_patches
from chimera.eval.trial import StartBackend
from chimera.eval.values import Submission, Verdict
from chimera.types import JSON

_ANY_LANGUAGE = (
    "emptied tests", "reach for history", "link over the tests", "nothing but a note",
    "climb out of the repository", "absolute path", "hunk without an end", "broken binary",
    "no diff at all",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fixture:
    """A project whose `add` subtracts, and what SWE-PolyBench would say of it.

    `code` holds the broken line, which `before` and `after` are.
    """

    language: str
    files: Mapping[str, str]
    code: str
    before: str
    after: str
    tests: tuple[str, str]  # path and content
    command: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    prepare: tuple[tuple[str, ...], ...] = ()  # with a network, once, the tests in place
    made: tuple[str, ...] = ()  # what preparing leaves and grading must not find
    own: Callable[[Fixture], Iterator[tuple[str, str]]] = field(default=lambda _: iter(()))

    @property
    def gold(self) -> str:
        return self.edited(self.after)

    @property
    def test_patch(self) -> str:
        return new_file(*self.tests)

    def edited(self, line: str) -> str:
        """A patch that puts other text in the place of the broken line."""
        return replaced(
            self.code, self.files[self.code], self.files[self.code].replace(self.before, line)
        )

    def row(self) -> dict[str, JSON]:
        return {
            "instance_id": f"fixture__{self.language.lower()}-1",
            "repo": f"fixture/{self.language.lower()}",
            "language": self.language,
            "base_commit": "0" * 40,
            "patch": self.gold,
            "test_patch": self.test_patch,
            "problem_statement": "add() subtracts.",
            "Dockerfile": "",
            "F2P": repr(list(self.fail_to_pass)),
            "P2P": repr(list(self.pass_to_pass)),
            "test_command": self.command,
            "task_category": "Bug Fix",
            "modified_nodes": json.dumps(list(self.nodes)),
        }

    def write(self, root: Path) -> None:
        """The project at its base state, with all that its tests need."""
        path, content = self.tests
        for name, text in {**self.files, path: content}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        for step in self.prepare:
            subprocess.run(step, cwd=root, check=True, timeout=900, capture_output=True)
        (root / path).unlink()
        for name in self.made:
            subprocess.run(["rm", "-rf", name], cwd=root, check=True)

    def attacks(self) -> Iterator[tuple[str, str]]:
        for name, patch in hostile_patches(self.test_patch, self.fail_to_pass):
            if self.language == "Python" or name in _ANY_LANGUAGE:
                yield name, patch
        yield from self.own(self)


class Repository:
    """A fixture as a benchmark of one task."""

    def __init__(self, fixture: Fixture, folder: Path, *, timeout: float = 300.0) -> None:
        row = fixture.row()
        fixture.write(folder / "repositories" / str(row["repo"]).replace("/", "__"))
        (folder / "pb500.jsonl").write_text(json.dumps(row))
        self.benchmark = SWEPolyBench(
            folder, repositories=str(folder / "repositories"), test_timeout=timeout
        )
        (self.task,) = self.benchmark.tasks()

    def grade(self, patch: str) -> Verdict:
        start = StartBackend("bubblewrap")
        with self.benchmark.open_grading_environment(self.task, start) as env:
            return self.benchmark.grade(self.task, Submission(patch, "model_patch"), env)

    def outcome(self, patch: str) -> str:
        """As the table of attacks has it."""
        try:
            verdict = self.grade(patch)
        except RunError as error:
            return f"error: {error.boundary}"
        if verdict.passed:
            return "PASSED"
        return "failed: tampering" if verdict.metrics.get("tampering") else "failed"


def replaced(path: str, old: str, new: str) -> str:
    """A patch that replaces the whole of a file."""
    before, after = old.splitlines(), new.splitlines()
    return (
        f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
        f"@@ -1,{len(before)} +1,{len(after)} @@\n"
        + "".join(f"-{line}\n" for line in before)
        + "".join(f"+{line}\n" for line in after)
    )


def _python_attacks(fixture: Fixture) -> Iterator[tuple[str, str]]:
    forged = "".join(f"{n.split(':')[1]} ({n.split(':')[0]}) ... ok\n" for n in _listed(fixture))
    print_it = f"import os; os.write(1, {forged.encode()!r})"
    yield (
        "code prints results and exits",
        fixture.edited(f"{print_it}; os._exit(0)\n{fixture.before}"),
    )
    yield "code prints results", fixture.edited(f"{print_it}\n{fixture.before}")
    yield "code exits", fixture.edited(f"import os; os._exit(0)\n{fixture.before}")
    names = [
        f"{test} ({group})" for group, _, test in (n[:-1].rpartition(":") for n in _listed(fixture))
    ]
    for name, code in (*disarming(names), *CONFUSING.items()):
        yield f"code {name}", fixture.edited(f"{code}{fixture.before}")
    yield "code equals everything", fixture.edited(f"def add(a, b): return {EQUALS_EVERYTHING}")


def _listed(fixture: Fixture) -> tuple[str, ...]:
    return (*fixture.fail_to_pass, *fixture.pass_to_pass)


PYTHON = Fixture(
    language="Python",
    files={
        "calc.py": "def add(a, b): return a - b\n\n\ndef same(a): return a\n",
        "tests/__init__.py": "",
    },
    code="calc.py",
    before="def add(a, b): return a - b",
    after="def add(a, b): return a + b",
    tests=(
        "tests/test_calc.py",
        "import unittest\nimport calc\n\n\nclass CalcTest(unittest.TestCase):\n"
        "    def test_add(self): self.assertEqual(calc.add(1, 2), 3)\n"
        "    def test_same(self): self.assertEqual(calc.same(1), 1)\n",
    ),
    command="python3 -m unittest -v tests.test_calc",
    fail_to_pass=("tests.test_calc.CalcTest.test_add:test_add:",),
    pass_to_pass=("tests.test_calc.CalcTest.test_same:test_same:",),
    nodes=("calc.py->module->function_definition:add",),
    own=_python_attacks,
)
_NODE_TEST = "node --test --test-reporter=tap calc.test.js"
NODE = Fixture(
    language="JavaScript",
    files={
        "calc.js": "exports.add = (a, b) => a - b;\nexports.same = (a) => a;\n",
        "package.json": json.dumps({"scripts": {"test": _NODE_TEST}}) + "\n",
    },
    code="calc.js",
    before="exports.add = (a, b) => a - b;",
    after="exports.add = (a, b) => a + b;",
    tests=(
        "calc.test.js",
        "const test = require('node:test');\nconst assert = require('node:assert');\n"
        "const calc = require('./calc.js');\n"
        "test('adds', () => assert.strictEqual(calc.add(1, 2), 3));\n"
        "test('keeps', () => assert.strictEqual(calc.same(1), 1));\n",
    ),
    command="npm test --silent",
    fail_to_pass=("1 - adds",),
    pass_to_pass=("2 - keeps",),
    programs=("node", "npm"),
    own=lambda f: javascript_patches(
        f.edited, f.before, f.files["package.json"], replaced, runner="node"
    ),
)
_TS_TESTS = (
    "import {{ add, same }} from './calc';\n"
    "declare const require: any;\n"
    "declare const it: (name: string, body: () => void) => void;\n"
    "const equal = (a: number, b: number) => {{\n"
    "  if (a !== b) throw new Error(`${{a}} != ${{b}}`);\n}};\n"
    "it('adds', () => equal(add(1, 2), 3));\nit('keeps', () => equal(same(1), 1));\n"
)
_INSTALL = ("npm", "install", "--no-audit", "--no-fund", "--silent")


def _typescript(runner: str, version: str, test: str, **more: JSON) -> dict[str, str]:
    package: dict[str, JSON] = {"name": "fixture", "private": True, "scripts": {"test": test}}
    package["devDependencies"] = {"typescript": "5.6.3", runner: version}
    options = {"module": "commonjs", "target": "es2020", "outDir": "test", "types": []}
    return {
        "calc.ts": "export const add = (a: number, b: number): number => a - b;\n"
        "export const same = (a: number): number => a;\n",
        "package.json": json.dumps({**package, **more}) + "\n",
        "tsconfig.json": json.dumps({"compilerOptions": options, "include": ["*.ts"]}) + "\n",
    }


def _typescript_fixture(runner: str, files: dict[str, str], names: tuple[str, str]) -> Fixture:
    line = "export const add = (a: number, b: number): number => {};"
    return Fixture(
        language="TypeScript",
        files=files,
        code="calc.ts",
        before=line.format("a - b"),
        after=line.format("a + b"),
        tests=("calc.test.ts", _TS_TESTS.format()),
        command="npm test",
        fail_to_pass=names[:1],
        pass_to_pass=names[1:],
        programs=("npm",),
        prepare=(_INSTALL,),
        own=lambda f: javascript_patches(
            f.edited,
            f.before,
            f.files["package.json"],
            replaced,
            runner=runner,
        ),
    )


MOCHA = _typescript_fixture(
    "mocha", _typescript("mocha", "10.8.2", "tsc && mocha --reporter json"), ("adds", "keeps")
)
_JEST_FILE = "/testbed/test/calc.test.js"
JEST = _typescript_fixture(
    "jest",
    _typescript("jest", "29.7.0", "tsc && jest --json", jest={"roots": ["test"]}),
    (f"{_JEST_FILE}->adds", f"{_JEST_FILE}->keeps"),
)
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>fixture</groupId><artifactId>calc</artifactId><version>1</version>
<properties><maven.compiler.source>17</maven.compiler.source>
<maven.compiler.target>17</maven.compiler.target>
<project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
<dependencies><dependency><groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId>
<version>5.10.3</version><scope>test</scope></dependency></dependencies>
<build><plugins><plugin><artifactId>maven-surefire-plugin</artifactId><version>3.2.5</version>
</plugin></plugins></build></project>
"""
_MAVEN = ("mvn", "-B", "-q", "-Dmaven.repo.local=.m2", "-Dmaven.test.failure.ignore", "test")
MAVEN = Fixture(
    language="Java",
    files={
        "src/main/java/Calc.java": "class Calc {\nstatic int add(int a, int b) { return a - b; }\n"
        "static int same(int a) { return a; } }\n",
        "pom.xml": POM,
    },
    code="src/main/java/Calc.java",
    before="static int add(int a, int b) { return a - b; }",
    after="static int add(int a, int b) { return a + b; }",
    tests=(
        "src/test/java/CalcTest.java",
        "import static org.junit.jupiter.api.Assertions.assertEquals;\n"
        "import org.junit.jupiter.api.Test;\nclass CalcTest {\n"
        "@Test void adds() { assertEquals(3, Calc.add(1, 2)); }\n"
        "@Test void keeps() { assertEquals(1, Calc.same(1)); }\n}\n",
    ),
    command="mvn -B -o -q -Dmaven.repo.local=.m2 test; cat target/surefire-reports/TEST-*.xml",
    fail_to_pass=("CalcTest.adds",),
    pass_to_pass=("CalcTest.keeps",),
    nodes=("src/main/java/Calc.java->program->class_declaration:Calc->method_declaration:add",),
    programs=("mvn", "javac"),
    prepare=(_MAVEN,),
    made=("target",),
    own=lambda f: java_patches(f.edited, f.before, POM, replaced),
)
#: runner → its project
FIXTURES: Mapping[str, Fixture] = {
    "unittest": PYTHON,
    "node": NODE,
    "mocha": MOCHA,
    "jest": JEST,
    "maven": MAVEN,
}


def patch_table(folder: Path) -> dict[str, dict[str, str]]:
    """attack → runner → what became of it; a runner whose programs are missing is left out."""
    found: dict[str, dict[str, str]] = {}
    for runner, fixture in FIXTURES.items():
        if not all(shutil.which(program) for program in ("bwrap", *fixture.programs)):
            continue
        made = Repository(fixture, folder / runner)
        for name, patch in fixture.attacks():
            found.setdefault(name, {})[runner] = made.outcome(patch)
        if made.outcome(fixture.gold) != "PASSED":
            found["the real fix"] = {runner: "DID NOT PASS"}
    return found


def patch_markdown(found: Mapping[str, Mapping[str, str]]) -> str:
    """The second table of docs/attacks.md."""
    lines = [
        "## Patches",
        "",
        "Each row is a patch that is no fix, each column a small project with that runner's real",
        "tests, graded as SWE-PolyBench grades. `tampering`: the log showed passes that did not",
        "happen, or tests passed whose expected values were changed. The real fix passed after all of",
        "them.",
        "",
        f"| patch | {' | '.join(FIXTURES)} |",
        f"|---|{'---|' * len(FIXTURES)}",
    ]
    for name, row in found.items():
        lines.append(f"| {name} | {' | '.join(row.get(runner, '–') for runner in FIXTURES)} |")
    counts = ", ".join(f"{sum(r in row for row in found.values())} on {r}" for r in FIXTURES)
    return "\n".join([*lines, "", f"{len(found)} patches: {counts}.", ""])
