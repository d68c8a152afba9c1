"""What the published graders of Python answers take away from them."""

from __future__ import annotations

from collections.abc import Sequence

_OS = """
    kill system putenv remove removedirs rmdir fchdir setuid fork forkpty killpg rename renames
    truncate replace unlink fchmod fchown chmod chown chroot lchflags lchmod lchown getcwd chdir
"""
_GUARD = """
def _guard():
    import builtins, os, shutil, subprocess, sys
    for name in {builtins!r}:
        setattr(builtins, name, None)
    for name in {os!r}.split():
        if hasattr(os, name):
            setattr(os, name, None)
    for name in ("rmtree", "move", "chown"):
        setattr(shutil, name, None)
    subprocess.Popen = None
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
    return _GUARD.format(builtins=builtins, os=_OS, source=program)
