"""Build the project in the working directory in place: build_project.py BACKEND METADATA EXTENDED.

Runs under every CPython that a repository may want, in a sandbox.
"""

import importlib
import os
import shutil
import subprocess
import sys

backend, metadata, extended = sys.argv[1:]
setup = [sys.executable, "setup.py", "--quiet"]
if not os.path.exists("setup.py"):
    setup[1:2] = ["-c", "from setuptools import setup; setup()"]
if not os.path.isdir(metadata):
    os.mkdir(metadata)
if extended == "yes":
    code = subprocess.call([*setup, "build_ext", "--inplace"])
    shutil.rmtree("build", ignore_errors=True)
    if code != 0:
        sys.exit(code)
if backend.startswith("setuptools."):
    sys.exit(subprocess.call([*setup, "egg_info", "--egg-base", metadata]))
sys.path.insert(0, os.getcwd())
importlib.import_module(backend).prepare_metadata_for_build_wheel(metadata)
