"""The attacks by kind of grader."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping

from chimera.eval.proof.attack.actions import ACTIONS, EXITS, FORGERIES
from chimera.eval.proof.attack.texts import TEXTS
from chimera.eval.proof.attack.values import VALUES

Attack = tuple[str, str]  # its name, and the text that is handed in


def functions(name: str) -> Iterator[Attack]:
    """Programs that define a function of this name, for graders that call it."""
    for title, statements in ACTIONS.items():
        yield title, f"{statements}\n\n\ndef {name}(*given, **named):\n    return None\n"
    for title, statements in {**EXITS, **FORGERIES}.items():
        body = textwrap.indent(statements, "    ")
        yield f"{title}-when-called", f"def {name}(*given, **named):\n{body}\n    return None\n"
    for title, program in VALUES.items():
        yield title, program.replace("NAME", name)


def scripts(name: str = "") -> Iterator[Attack]:
    """Programs that read standard input, for graders that compare what is written."""
    for title, statements in ACTIONS.items():
        yield title, f"{statements}\nprint('no')\n"
    for title in ("sys-exit", "os-exit", "exit-in-excepthook"):
        yield f"{title}-after-output", f"print('no', flush=True)\n{ACTIONS[title]}\n"
    yield "echo", "import sys\nsys.stdout.write(sys.stdin.read())\n"
    yield "nothing", "pass\n"
    yield "syntax-error", "def (:\n"
    yield "null-byte", "print('no')\x00\n"
    yield "not-text", "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 100)\n"
    yield "write-to-input", "import os\nos.write(0, b'no')\n"
    yield "endless-output", "while True:\n    print('yes')\n"
    yield "main-only", "if __name__ != '__main__':\n    print('graded')\n"


def texts(name: str = "") -> Iterator[Attack]:
    yield from TEXTS.items()


#: kind of grader → its attacks, given the name of the function to write (where there is one)
KINDS: Mapping[str, Callable[[str], Iterator[Attack]]] = {
    "python tests": functions,
    "python calls": functions,
    "python scripts": scripts,
    "text": texts,
}


def attacks(kind: str, name: str = "") -> Iterator[Attack]:
    return KINDS[kind](name)
