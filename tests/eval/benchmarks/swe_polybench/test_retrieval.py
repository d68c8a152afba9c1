"""Recall and precision over files and syntax nodes, as SWE-PolyBench defines them."""

from __future__ import annotations

import pytest

from chimera.eval.benchmarks._swe_polybench.retrieval import (
    changed_files,
    changed_nodes,
    node_of_line,
    retrieval,
)
from chimera.eval.kits.patches.diffs import new_file


def test_files():
    found = retrieval({"x", "y"}, {"x"})
    assert (found.recall, found.precision, round(found.f1, 3)) == (0.5, 1.0, 0.667)
    assert retrieval(set(), set()).f1 == 0.0
    renamed = "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n"
    assert changed_files(renamed + new_file("c", "x\n")) == {"a", "c"}


PYTHON = (
    b"import x\n\n@decorated\nclass Foo:\n    y = 1\n\n"
    b"    def bar(self):\n        return 1\n\nz = 2\n"
)
SCRIPT = b"const f = () => {\n  return 1;\n};\nconst o = {\n  q() {\n    return 2;\n  },\n};\n"
JAVA = b"class A {\n  interface I {\n    void h();\n  }\n  A() {\n    int x = 1;\n  }\n}\n"
TYPESCRIPT = (
    b"export class T {\n  run(): number {\n    return 1;\n  }\n}\nexport const f = () => 1;\n"
)


@pytest.mark.parametrize(
    ("source", "suffix", "line", "node"),
    [
        (PYTHON, ".py", 8, "module->class_definition:Foo->function_definition:bar"),
        (PYTHON, ".py", 5, "module->class_definition:Foo"),
        (PYTHON, ".py", 6, "module->class_definition:Foo"),
        (PYTHON, ".py", 3, None),
        (PYTHON, ".py", 10, None),
        (PYTHON, ".py", 99, None),
        (SCRIPT, ".js", 2, None),
        (SCRIPT, ".js", 6, "program->method_definition:q"),
        (JAVA, ".java", 3, "program->class_declaration:A->method_declaration:h"),
        (JAVA, ".java", 6, "program->class_declaration:A->constructor_declaration:A"),
        (TYPESCRIPT, ".ts", 3, "program->class_declaration:T->method_definition:run"),
        (TYPESCRIPT, ".ts", 6, None),
        (PYTHON, ".tsx", 1, None),
        (b"class A { int f() { return 1; } }\n", ".java", 1,
         "program->class_declaration:A->method_declaration:f"),
    ],
)  # fmt: skip
def test_the_node_around_a_line(source, suffix, line, node):
    pytest.importorskip("tree_sitter")

    assert node_of_line(source, suffix, line) == node


def test_nodes_of_a_patch():
    pytest.importorskip("tree_sitter")
    patch = (
        "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -7,2 +7,2 @@\n     def bar(self):\n"
        "-        return 1\n+        return 2\n"
    )
    after = {"a.py": PYTHON.replace(b"return 1", b"return 2")}

    nodes = changed_nodes(patch + new_file("b.py", "x\n"), {"a.py": PYTHON}, after)

    assert nodes == {"a.py->module->class_definition:Foo->function_definition:bar"}
