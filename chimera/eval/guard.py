"""What the published graders of Python answers take away from them, and what they have installed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.util import find_spec

from chimera.errors import GraderError

#: Packages that the official environments have, so that an honest answer may use them.
PACKAGES = ("numpy",)
_OS = (
    "kill system putenv remove removedirs rmdir fchdir setuid fork forkpty killpg rename renames "
    "truncate replace unlink fchmod fchown chmod chown chroot lchflags lchmod lchown getcwd chdir"
).split()
_GUARD = """
def _guard():
    import builtins, os, shutil, subprocess, sys
    for name in {builtins!r}:
        setattr(builtins, name, None)
    for name in {os!r}:
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


def packages_of(program: str) -> tuple[str, ...]:
    """The packages a program may import in the sandbox; an error when a needed one is missing."""
    used = [name for name in PACKAGES if re.search(rf"\b{name}\b", program)]
    for name in used:
        if find_spec(name) is None:
            raise GraderError(
                f"an answer uses {name}, which is not here: pip install 'chimera[code]'"
            )
    return tuple(used)
