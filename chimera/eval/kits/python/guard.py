"""What the published graders of Python answers take away from them."""

from __future__ import annotations

from collections.abc import Sequence

_OS = """
    kill system putenv remove removedirs rmdir fchdir setuid fork forkpty killpg rename renames
    truncate replace unlink fchmod fchown chmod chown chroot lchflags lchmod lchown getcwd chdir
"""
_MODULES = {"shutil": ("rmtree", "move", "chown"), "subprocess": ("Popen",)}
_GUARD = """
def _guard():
    import builtins, importlib, os, sys
    for name in {builtins!r}:
        setattr(builtins, name, None)
    for name in {os!r}.split():
        if hasattr(os, name):
            setattr(os, name, None)
    for module, names in {modules!r}:
        for name in names:
            setattr(importlib.import_module(module), name, None)
    for name in ("ipdb", "joblib", "resource", "psutil", "tkinter"):
        sys.modules[name] = None
_guard()
del _guard
exec(compile({source!r}, "<answer>", "exec", dont_inherit=True), globals())
"""


def guarded(program: str, *, without: Sequence[str] = (), keeping: Sequence[str] = ()) -> str:
    """A program that runs `program` without the functions the reference graders switch off.

    This is no protection (the sandbox is that): it gives honest answers the same verdict.
    """
    builtins = [name for name in ("exit", "quit", "help", *without) if name not in keeping]
    # importing what a program never names would cost more than most answers take
    modules = [(module, names) for module, names in _MODULES.items() if module in program]
    return _GUARD.format(builtins=builtins, os=_OS, modules=modules, source=program)
