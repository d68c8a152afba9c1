"""Build the project in the working directory: build_project.py BACKEND METADATA EXTENDED MADE.

Runs under every CPython that a repository may want, in a sandbox. What the build made or changed is
copied below MADE/tree; MADE/bytecode.tar has the project's modules compiled.
"""

import importlib
import os
import shutil
import subprocess
import sys
import tarfile

backend, metadata, extended, made = sys.argv[1:]
#: Modules that a run of some tests does not import.
UNUSED = r"(^|/)(tests|docs?|examples)/"


def state():
    """Path -> what tells whether a file was changed."""
    found = {}
    for folder, _, names in os.walk("."):
        for name in names:
            path = os.path.join(folder, name)
            facts = os.lstat(path)
            found[path] = facts.st_mtime, facts.st_size, facts.st_ino
    return found


def build():
    setup = [sys.executable, "setup.py", "--quiet"]
    if not os.path.exists("setup.py"):
        setup[1:2] = ["-c", "from setuptools import setup; setup()"]
    if not os.path.isdir(metadata):
        os.mkdir(metadata)
    if extended == "yes":
        code = subprocess.call(setup + ["build_ext", "--inplace"])  # noqa: RUF005 - for Python 2
        shutil.rmtree("build", ignore_errors=True)
        if code != 0:
            return code
    if backend.startswith("setuptools."):
        command = setup + ["egg_info", "--egg-base", metadata]  # noqa: RUF005 - for Python 2
        return subprocess.call(command)
    sys.path.insert(0, os.getcwd())
    importlib.import_module(backend).prepare_metadata_for_build_wheel(metadata)
    return 0


def compile_modules():
    """Bytecode that goes by the content of its source; before Python 3.7, by the time of it."""
    checked = ["--invalidation-mode", "checked-hash"] if sys.version_info >= (3, 7) else []
    command = [sys.executable, "-m", "compileall", "-q", "-x", UNUSED]
    with open(os.devnull, "w") as nothing:  # modules for another Python do not compile
        subprocess.call(command + checked + ["."], stdout=nothing, stderr=nothing)
    with tarfile.open(os.path.join(made, "bytecode.tar"), "w") as archive:
        for folder, _, _ in os.walk("."):
            if os.path.basename(folder) == "__pycache__":
                archive.add(folder)


os.makedirs(os.path.join(made, "tree"))
before = state()
try:
    code = build()
finally:
    for path, facts in state().items():
        if before.get(path) != facts:
            place = os.path.join(made, "tree", path)
            if not os.path.isdir(os.path.dirname(place)):
                os.makedirs(os.path.dirname(place))
            if os.path.islink(path):
                os.symlink(os.readlink(path), place)
            else:
                shutil.copy2(path, place)
    compile_modules()
sys.exit(code)
