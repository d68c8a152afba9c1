"""Build the project in the working directory: build_project.py BACKEND METADATA EXTENDED MADE.

Runs under every CPython that a repository may want, in a sandbox. What the build made or changed is
copied below MADE.
"""

import importlib
import os
import shutil
import subprocess
import sys

backend, metadata, extended, made = sys.argv[1:]


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


before = state()
try:
    code = build()
finally:
    for path, facts in state().items():
        if before.get(path) != facts:
            place = os.path.join(made, path)
            if not os.path.isdir(os.path.dirname(place)):
                os.makedirs(os.path.dirname(place))
            shutil.copy2(path, place)
sys.exit(code)
