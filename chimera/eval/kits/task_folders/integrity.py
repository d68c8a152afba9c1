"""The programs a verifier relies on, put back as the image has them.

The tests of a task folder run in the agent's own container. An agent that was root there may have
replaced the shell, the downloader or the interpreter that runs them. The engine knows from outside
which files differ from the image; those a verifier relies on are restored before it runs.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from chimera.environments.base import Environment
from chimera.environments.docker import DockerEnvironment
from chimera.environments.engine import Engine
from chimera.environments.wrapped import unwrapped
from chimera.errors import EnvironmentFault

#: Directories that a shell finds programs in.
PROGRAM_DIRECTORIES = frozenset(
    {"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}
    | {"/root/.local/bin", "/root/.cargo/bin"}
)
PROGRAMS = frozenset(
    {"apt", "apt-get", "awk", "bash", "basename", "cat", "chmod", "cp", "curl", "cut", "dash"}
    | {"dirname", "dpkg", "echo", "env", "find", "grep", "head", "ln", "ls", "mkdir", "mv"}
    | {"printf", "rm", "sed", "sh", "sleep", "sort", "tail", "tar", "tee", "test", "timeout"}
    | {"touch", "tr", "true", "uv", "uvx", "wget", "xargs"}
)
#: Programs that an image without them may rightly gain in the agent's work.
INSTALLABLE = frozenset({"curl", "wget", "timeout", "apt", "awk", "find", "xargs", "dpkg"})
INTERPRETER = re.compile(r"python3?(?:\.\d+)?")
#: Files that change what an interpreter, a linker or an installer does without being called.
HOOKS = re.compile(
    r"/(?:sitecustomize|usercustomize)\.py$|^/etc/ld\.so\.preload$|/uv/uv\.toml$"
    r"|^/(?:pytest\.ini|tox\.ini|setup\.cfg|conftest\.py)$|/_?pytest/[\w/]+\.py$"
)


def restore_tools(env: Environment) -> list[str]:
    """Undo an agent's changes to what the verifier runs with; the paths that were undone."""
    env = unwrapped(env)
    if not isinstance(env, DockerEnvironment):
        return []
    engine, container = Engine.find(), env.container
    changes = _changes(engine, container)
    back = [path for kind, path in changes if kind in "CD" and _relied_on(path)]
    away = [path for kind, path in changes if kind == "A" and _planted(path)]
    if away:
        engine.must("exec", "--user", "0", container, "rm", "-rf", "--", *away)
    if back:
        _restore(engine, env.image, container, back)
    return sorted(back + away)


def _changes(engine: Engine, container: str) -> list[tuple[str, str]]:
    lines = engine.must("diff", container, timeout=300).decode("utf-8", "replace").splitlines()
    return [(kind, path) for kind, _, path in (line.partition(" ") for line in lines)]


def _relied_on(path: str) -> bool:
    name, parent = PurePosixPath(path).name, str(PurePosixPath(path).parent)
    if HOOKS.search(path) or path == "/root/.local/bin/env":
        return True
    if parent not in PROGRAM_DIRECTORIES:
        return False
    return name in PROGRAMS or INTERPRETER.fullmatch(name) is not None


def _planted(path: str) -> bool:
    """Added files that shadow a program, or hook into one. A pytest that was installed may stay."""
    name, parent = PurePosixPath(path).name, str(PurePosixPath(path).parent)
    if "/_pytest/" in path or "/pytest/" in path:
        return False
    if HOOKS.search(path):
        return True
    return parent in PROGRAM_DIRECTORIES and name in PROGRAMS - INSTALLABLE


def _restore(engine: Engine, image: str, container: str, paths: list[str]) -> None:
    pristine = engine.must("create", image, "true").decode().strip()
    try:
        for path in paths:
            original = engine.call("cp", f"{pristine}:{path}", "-")
            if original.returncode:
                raise EnvironmentFault(f"{path} cannot be read from the image {image}")
            parent = str(PurePosixPath(path).parent)
            engine.must("cp", "-", f"{container}:{parent}", data=original.stdout)
    finally:
        engine.remove(pristine)
