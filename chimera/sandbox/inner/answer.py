"""The answer's process: runs the program it was given and serves the judge's questions."""

from __future__ import annotations

import os
import sys
from typing import Any

from .link import AnswerEnded, Link, described


def read_all(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def reopen_standard_streams() -> None:
    """New stream objects on descriptors 0 to 2; a byte that is not UTF-8 ends nothing."""
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def serve(descriptor: int, source: bytes) -> None:
    """Load the program, say so, then answer the judge until it is done."""
    link = Link(descriptor, trusting=True)
    names: dict[str, Any] = {}
    problem = None
    try:
        exec(compile(source, "<answer>", "exec", dont_inherit=True), names)
    except AnswerEnded:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, the judge hears of it
        problem = described(error)
    link.names = names
    link.send(["loaded", problem])
    link.serve_forever()


def run_script(source: bytes) -> int:
    """Run the program as `python program.py` would; the exit code it would have."""
    import atexit
    import threading
    import traceback
    import types

    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv = ["program.py"]
    code = 0
    try:
        exec(compile(source, "program.py", "exec", dont_inherit=True), main.__dict__)
    except SystemExit as error:
        code = exit_code(error.code)
    except BaseException:  # noqa: BLE001 - an uncaught error ends a script with code 1
        traceback.print_exc()
        code = 1
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - output that cannot be written: as the interpreter does
        code = code or 120
    return code


def exit_code(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, int):
        return value & 0xFF
    print(value, file=sys.stderr)
    return 1
