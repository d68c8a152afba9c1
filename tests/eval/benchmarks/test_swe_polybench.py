"""SWE-PolyBench: the real record, and a small repository in each language with its real tools."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from chimera.errors import DatasetError, UsageError
from chimera.eval.benchmarks.swe_polybench import SWEPolyBench, localization_accuracy
from chimera.eval.repositories import patches
from chimera.eval.repositories.hostile import new_file
from chimera.eval.trial import StartBackend
from chimera.eval.types import Submission


def change(path: str, before: str, after: str, rest: str = "") -> str:
    """A patch of a file's first line."""
    context = "".join(f" {line}\n" for line in rest.split("\n")[:-1])
    count = 1 + context.count("\n")
    return (
        f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
        f"@@ -1,{count} +1,{count} @@\n-{before}\n+{after}\n{context}"
    )


def row(language: str, repo: str, gold: str, tests: str, command: str, f2p, p2p, nodes=()):
    return {
        "instance_id": f"{repo.replace('/', '__')}-1",
        "repo": repo,
        "language": language,
        "base_commit": "",
        "patch": gold,
        "test_patch": tests,
        "problem_statement": "add() subtracts.",
        "Dockerfile": "",
        "F2P": repr(list(f2p)),
        "P2P": repr(list(p2p)),
        "test_command": command,
        "task_category": "Bug Fix",
        "modified_nodes": json.dumps(list(nodes)),
    }


def python_repository(root: Path) -> dict:
    (root / "tests").mkdir(parents=True)
    (root / "tests" / "__init__.py").write_text("")
    code = "def add(a, b): return a - b\n\n\ndef same(a): return a\n"
    (root / "calc.py").write_text(code)
    tests = (
        "import unittest\nimport calc\n\n\nclass CalcTest(unittest.TestCase):\n"
        "    def test_add(self): self.assertEqual(calc.add(1, 2), 3)\n"
        "    def test_same(self): self.assertEqual(calc.same(1), 1)\n"
    )
    gold = change("calc.py", code.split("\n")[0], "def add(a, b): return a + b", "\n\n")
    return row(
        "Python", "fixture/py", gold, new_file("tests/test_calc.py", tests),
        "python3 -m unittest -v tests.test_calc",
        ["tests.test_calc.CalcTest.test_add:test_add:"],
        ["tests.test_calc.CalcTest.test_same:test_same:"],
        ["calc.py->module->function_definition:add"],
    )  # fmt: skip


def javascript_repository(root: Path) -> dict:
    root.mkdir(parents=True)
    code = "exports.add = (a, b) => a - b;\nexports.same = (a) => a;\n"
    (root / "calc.js").write_text(code)
    tests = (
        "const test = require('node:test');\nconst assert = require('node:assert');\n"
        "const calc = require('./calc.js');\n"
        "test('adds', () => assert.strictEqual(calc.add(1, 2), 3));\n"
        "test('keeps', () => assert.strictEqual(calc.same(1), 1));\n"
    )
    command = "node --test --test-reporter=tap calc.test.js"
    (root / "package.json").write_text(json.dumps({"scripts": {"test": command}}))
    gold = change("calc.js", code.split("\n")[0], "exports.add = (a, b) => a + b;",
                  "exports.same = (a) => a;\n")  # fmt: skip
    return row(
        "JavaScript", "fixture/js", gold, new_file("calc.test.js", tests), "npm test --silent",
        ["1 - adds"], ["2 - keeps"],
    )  # fmt: skip


def typescript_repository(root: Path) -> dict:
    root.mkdir(parents=True)
    code = "export const add = (a: number, b: number): number => a - b;\n"
    (root / "calc.ts").write_text(code + "export const same = (a: number): number => a;\n")
    package = {
        "name": "fixture",
        "private": True,
        "scripts": {"test": "tsc && mocha --reporter json"},
    }
    package["devDependencies"] = {"typescript": "5.6.3", "mocha": "10.8.2"}
    (root / "package.json").write_text(json.dumps(package))
    options = {"module": "commonjs", "target": "es2020", "outDir": "test", "types": []}
    (root / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": options, "include": ["*.ts"]})
    )
    subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--silent"], cwd=root, check=True, timeout=600
    )
    tests = (
        "import { add, same } from './calc';\n"
        "declare const it: (name: string, body: () => void) => void;\n"
        "const equal = (a: number, b: number) => {\n"
        "  if (a !== b) throw new Error(`${a} != ${b}`);\n};\n"
        "it('adds', () => equal(add(1, 2), 3));\nit('keeps', () => equal(same(1), 1));\n"
    )
    gold = change("calc.ts", code[:-1], code[:-1].replace("a - b", "a + b"),
                  "export const same = (a: number): number => a;\n")  # fmt: skip
    return row(
        "TypeScript", "fixture/ts", gold, new_file("calc.test.ts", tests), "npm test",
        ["adds"], ["keeps"],
    )  # fmt: skip


POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>fixture</groupId><artifactId>calc</artifactId><version>1</version>
<properties><maven.compiler.source>17</maven.compiler.source>
<maven.compiler.target>17</maven.compiler.target>
<project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
<dependencies><dependency><groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId>
<version>5.10.3</version><scope>test</scope></dependency></dependencies>
<build><plugins><plugin><artifactId>maven-surefire-plugin</artifactId><version>3.2.5</version></plugin>
</plugins></build></project>
"""


def java_repository(root: Path) -> dict:
    main, test = root / "src" / "main" / "java", root / "src" / "test" / "java"
    main.mkdir(parents=True)
    test.mkdir(parents=True)
    code = "class Calc { static int add(int a, int b) { return a - b; }\n"
    rest = "static int same(int a) { return a; } }\n"
    (main / "Calc.java").write_text(code + rest)
    (root / "pom.xml").write_text(POM)
    tests = (
        "import static org.junit.jupiter.api.Assertions.assertEquals;\n"
        "import org.junit.jupiter.api.Test;\nclass CalcTest {\n"
        "@Test void adds() { assertEquals(3, Calc.add(1, 2)); }\n"
        "@Test void keeps() { assertEquals(1, Calc.same(1)); }\n}\n"
    )
    (test / "CalcTest.java").write_text(tests)
    warm = ["mvn", "-B", "-q", "-Dmaven.repo.local=.m2", "-Dmaven.test.failure.ignore", "test"]
    subprocess.run(warm, cwd=root, check=True, timeout=900, capture_output=True)
    (test / "CalcTest.java").unlink()
    subprocess.run(["rm", "-rf", "target"], cwd=root, check=True)
    gold = change("src/main/java/Calc.java", code[:-1], code[:-1].replace("a - b", "a + b"), rest)
    command = "mvn -B -o -q -Dmaven.repo.local=.m2 test; cat target/surefire-reports/TEST-*.xml"
    return row(
        "Java", "fixture/java", gold, new_file("src/test/java/CalcTest.java", tests), command,
        ["CalcTest.adds"], ["CalcTest.keeps"],
        ["src/main/java/Calc.java->program->class_declaration:Calc->method_declaration:add"],
    )  # fmt: skip


def check(tmp_path, monkeypatch, make) -> None:
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    repositories = tmp_path / "repositories"
    known = make(tmp_path / "made")
    repositories.mkdir()
    (tmp_path / "made").rename(repositories / known["repo"].replace("/", "__"))
    (tmp_path / "pb500.jsonl").write_text(json.dumps(known))
    benchmark = SWEPolyBench(tmp_path, repositories=str(repositories), test_timeout=300)
    (task,) = benchmark.tasks()

    def graded(submission):
        with benchmark.open_grading_environment(task, StartBackend("bubblewrap")) as env:
            return benchmark.grade(task, submission, env)

    gold = graded(benchmark.gold(task))

    assert gold.passed, (gold.why, gold.evidence.get("log", "")[-2000:])
    assert gold.metrics["file_f1"] == 1.0
    assert gold.metrics["cst_node_recall"] == (1.0 if task["modified_nodes"] else None)
    assert gold.metrics["p2p_absent"] == 0
    wrong = Submission(task["patch"].replace("a + b", "a * b"), "model_patch")
    verdict = graded(wrong)
    assert not verdict.passed
    assert "not passed" in verdict.why
    for mutant in benchmark.mutants(task):
        assert not graded(mutant).passed
    (test_file,) = patches.paths(task["test_patch"])
    edited = new_file(test_file, "nothing\n")
    verdict = graded(Submission(edited + new_file("NOTES", "x\n"), "model_patch"))
    assert not verdict.passed
    assert verdict.metrics["overridden_test_files"]


@pytest.mark.parametrize("make", [python_repository, javascript_repository])
def test_interpreted_languages(tmp_path, monkeypatch, require, make):
    require("bwrap", "node")
    check(tmp_path, monkeypatch, make)


def test_a_submission_does_not_choose_the_test_command(tmp_path, monkeypatch, require):
    require("bwrap", "npm")
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    known = javascript_repository(tmp_path / "repositories" / "fixture__js")
    (tmp_path / "pb500.jsonl").write_text(json.dumps(known))
    benchmark = SWEPolyBench(tmp_path, repositories=str(tmp_path / "repositories"))
    (task,) = benchmark.tasks()
    honest = (tmp_path / "repositories" / "fixture__js" / "package.json").read_text()
    forged = json.dumps({"scripts": {"test": "echo ok 1 - adds; echo ok 2 - keeps"}})
    patch = (
        "diff --git a/package.json b/package.json\n--- a/package.json\n+++ b/package.json\n"
        f"@@ -1 +1 @@\n-{honest}\n\\ No newline at end of file\n+{forged}\n"
    )

    with benchmark.open_grading_environment(task, StartBackend("bubblewrap")) as env:
        verdict = benchmark.grade(task, Submission(patch, "model_patch"), env)

    assert not verdict.passed
    assert verdict.metrics["restored_scripts"] == ["scripts"]


@pytest.mark.full
@pytest.mark.parametrize("make", [typescript_repository, java_repository])
def test_compiled_languages(tmp_path, monkeypatch, require, make):
    require("bwrap", "npm", "mvn", "javac")
    check(tmp_path, monkeypatch, make)


def test_the_real_record(dataset):
    place = dataset("swe-polybench/polybench_full_record.sveltejs__svelte-536.json")
    (task,) = SWEPolyBench(place, split="full").tasks()

    assert (len(task["fail_to_pass"]), len(task["pass_to_pass"])) == (3, 616)
    assert task["modified_nodes"] == [
        "src/parse/read/expression.js->program->function_declaration:readExpression"
    ]
    assert localization_accuracy(task["patch"], task["patch"])["file_f1"] == 1.0
    assert localization_accuracy(task["patch"], new_file("x", "y\n"))["file_recall"] == 0.0


def test_options_are_checked(tmp_path):
    with pytest.raises(UsageError):
        SWEPolyBench(split="other")
    with pytest.raises(UsageError):
        SWEPolyBench(language="cobol")
    known = python_repository(tmp_path / "r")
    (tmp_path / "pb500.jsonl").write_text(json.dumps({**known, "language": "Cobol"}))
    with pytest.raises(DatasetError, match="Cobol"):
        SWEPolyBench(tmp_path).tasks()
    (tmp_path / "pb500.jsonl").write_text(json.dumps(known))
    with pytest.raises(DatasetError):
        SWEPolyBench(tmp_path, language="java").tasks()
