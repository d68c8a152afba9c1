"""Build the project in the working directory in place: build_project.py BACKEND METADATA EXTENDED.

Runs under every CPython that a repository may want, in a sandbox.
"""

import importlib
import os
import shutil
import subprocess
import sys

backend, metadata, extended = sys.argv[1:]
sys.path.insert(0, os.getcwd())
sys.argv[1:] = []
if extended == "yes":
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    code = subprocess.call(command)
    shutil.rmtree("build", ignore_errors=True)
    if code != 0:
        sys.exit(code)
module, _, attribute = backend.partition(":")
hooks = importlib.import_module(module)
if attribute:
    hooks = getattr(hooks, attribute)
if not os.path.isdir(metadata):
    os.mkdir(metadata)
hooks.prepare_metadata_for_build_wheel(metadata)
for name in os.listdir(metadata):
    if name.endswith(".egg-info"):  # from which the other was made
        shutil.rmtree(os.path.join(metadata, name))
