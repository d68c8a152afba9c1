"""The Python session inside an environment: runs cells that come as JSON lines on stdin.

Sent in as text and run by whatever Python 3.6 or newer is there, so it needs nothing but the
standard library; IPython runs the cells where it is installed. After each cell it writes the
random mark that came with it and a JSON line to the stream that carries the cell's output.
"""

# ruff: noqa: UP035
import ast
import json
import linecache
import os
import signal
import sys
import traceback
from typing import Callable


def plain_runner() -> Callable[[str], bool]:
    """Cells by the standard library alone: the value of a last expression is shown."""
    import types

    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    scope = module.__dict__
    count = [0]

    def run(code: str) -> bool:
        count[0] += 1
        name = f"<cell {count[0]}>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        try:
            tree = ast.parse(code, name)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, name, "exec"), scope)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), name, "eval"), scope)
                if value is not None:
                    scope["_"] = value
                    print(repr(value))
        except SystemExit as error:
            print(f"SystemExit: {error.code} (the session goes on)")
            return error.code in (None, 0)
        except BaseException:  # noqa: BLE001 (whatever a cell raises is the cell's)
            kind, error_value, trace = sys.exc_info()
            while trace is not None and trace.tb_frame.f_code.co_filename == RUNNER:
                trace = trace.tb_next
            if isinstance(error_value, SyntaxError):
                trace = None
            sys.stdout.flush()
            traceback.print_exception(kind, error_value, trace)
            return False
        return True

    return run


def ipython_runner() -> Callable[[str], bool]:
    from IPython.core.interactiveshell import InteractiveShell  # type: ignore[import-not-found]
    from traitlets.config import Config  # type: ignore[import-not-found]

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    shell = InteractiveShell.instance(config=config)

    def run(code: str) -> bool:
        return bool(shell.run_cell(code, store_history=False).success)

    return run


RUNNER = plain_runner.__code__.co_filename


def main() -> None:
    orders = os.fdopen(os.dup(0), "rb")
    output = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(1, 2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run = ipython_runner()
    except Exception:  # noqa: BLE001 (absent, or broken by the task's own packages)
        run = plain_runner()
    for line in iter(orders.readline, b""):
        order = json.loads(line.decode("ascii"))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        good = False
        try:
            good = run(order["code"])
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        except KeyboardInterrupt:
            print("KeyboardInterrupt")
        except Exception:  # noqa: BLE001 (a stream that the cell closed or replaced)
            good = False
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        end = order["mark"] + json.dumps({"ok": good}) + "\n"
        os.write(output, end.encode("ascii"))


main()
