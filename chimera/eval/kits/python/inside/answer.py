"""Runs the answer, if need be without what the published graders of Python answers take away."""

import builtins
import importlib
import os
import sys

SWITCHED_OFF = (
    "kill system putenv remove removedirs rmdir fchdir setuid fork forkpty killpg rename renames "
    "truncate replace unlink fchmod fchown chmod chown chroot lchflags lchmod lchown getcwd chdir"
)
MODULES = {"shutil": ("rmtree", "move", "chown"), "subprocess": ("Popen",)}
ABSENT = ("ipdb", "joblib", "resource", "psutil", "tkinter")


def run(names: dict[str, object], program: str) -> None:
    exec(compile(program, "<answer>", "exec", dont_inherit=True), names)


def run_guarded(names: dict[str, object], program: str, without: list[str]) -> None:
    guard(names, program, without)
    run(names, program)


def guard(names: dict[str, object], program: str, without: list[str]) -> None:
    """Switch off these built-in functions, and those of modules that `program` could harm with.

    This is no protection (the sandbox is that): it gives honest answers the same verdict.
    """
    for name in without:
        setattr(builtins, name, None)
    for name in SWITCHED_OFF.split():
        if hasattr(os, name):
            setattr(os, name, None)
    for module, functions in MODULES.items():
        if module in program:  # importing what it never names would cost more than most answers
            for name in functions:
                setattr(importlib.import_module(module), name, None)
    for name in ABSENT:
        sys.modules[name] = None  # type: ignore[assignment]
