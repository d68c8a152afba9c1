"""The answer's process: runs the program it was given and serves the judge's questions."""

from __future__ import annotations

import os
import sys
from typing import Any

from .link import AnswerEnded, Link, described

SEED = 20210707


def read_all(descriptor: int) -> bytes:
    """What a file in memory holds; the descriptor is closed."""
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, size, 0)
    while len(data) < size and (more := os.pread(descriptor, size - len(data), len(data))):
        data += more
    os.close(descriptor)
    return data


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def seed(source: bytes, start: int = SEED) -> None:
    """Chance is the same every time, so that the same answer gets the same verdict."""
    if b"random" in source:
        sys.modules["random"].seed(start)
        if "numpy" in sys.modules:
            __import__("numpy.random").random.seed(start % 2**32)


def serve(link: Link, source: bytes) -> None:
    """Load the program, say so, then answer the judge until it is done."""
    seed(source)
    names: dict[str, Any] = {}
    problem = None
    try:
        exec(compile(source, "<answer>", "exec", dont_inherit=True), names)
    except AnswerEnded:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, the judge hears of it
        problem = described(error)[:2]
    link.names = names
    link.send(["loaded", problem])
    link.serve_forever()


def run_script(source: bytes) -> int:
    """Run the program as `python program.py` would; the exit code it would have."""
    import atexit
    import threading
    import traceback
    import types

    seed(source)
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
