"""Which of an agent's changes a verifier must not meet."""

from __future__ import annotations

import pytest

from chimera.eval.kits.task_folders.integrity import Excepted, Image, told

IMAGE = Image("id", frozenset({"/opt/conda/bin"}), frozenset({"/app"}), volumes=False)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/app/answer.txt", "free"),
        ("/app/src/types.py", "free"),
        ("/var/www/index.html", "free"),
        ("/etc/nginx/nginx.conf", "free"),
        ("/app/venv/lib/python3.11/site-packages/numpy/core.py", "free"),
        ("/usr/lib/gcc/x.h", "library"),
        ("/usr/bin/gcc", "library"),
        ("/opt/conda/bin/tool", "library"),
        ("/opt/conda/lib/python3.12/json/__init__.py", "library"),
        ("/srv/node_modules/chai/index.js", "library"),
        ("/root/.bashrc", "library"),
        ("/home/user/.local/bin/x", "library"),
        ("/root/go/pkg/mod/x", "never"),
        ("/root/.cache/uv/archive-v0/x/y.py", "never"),
        ("/opt/py/bin/python3.12", "decisive"),
        ("/app/venv/bin/python3.12", "free"),
        ("/app/.git/hooks/post-commit", "library"),
        ("/app/.git/config", "library"),
        ("/app/conftest.py", "library"),
        ("/app/json.py", "library"),
        ("/app/packaging/__init__.py", "library"),
        ("/app/pyproject.toml", "library"),
        ("/app/sub/pyproject.toml", "free"),
        ("/app/uv.toml", "library"),
        ("/etc/profile.d/x.sh", "library"),
        ("/etc/ssl/certs/x.pem", "library"),
        ("/usr/bin/bash", "decisive"),
        ("/bin/sh", "decisive"),
        ("/usr/local/bin/uv", "decisive"),
        ("/opt/conda/bin/python3.12", "decisive"),
        ("/usr/lib/python3/dist-packages/x.pth", "decisive"),
        ("/usr/lib/python3/dist-packages/sitecustomize.py", "decisive"),
        ("/app/venv/lib/python3.11/site-packages/x-1.dist-info/entry_points.txt", "decisive"),
        ("/app/venv/lib/python3.11/site-packages/_pytest/main.py", "decisive"),
        ("/app/pytest.py", "decisive"),
        ("/etc/ld.so.preload", "decisive"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "decisive"),
        ("/tests/conftest.py", "never"),
        ("/logs/verifier/reward.txt", "never"),
        ("/var/lib/dpkg/status", "never"),
    ],
)
def test_what_a_path_is_to_a_verifier(path, kind):
    added = ("/app/packaging", "/app/venv/bin", "/app/venv/lib/python3.11")
    changed = dict.fromkeys((path, *added, f"{added[-1]}/site-packages"), "A")

    assert IMAGE.kind(path, changed) == kind


def test_a_reference_excepts_other_versions_and_what_is_in_its_folders():
    known = Excepted(
        libraries={"/usr/lib/numpy-#dist-info", "/usr/lib/numpy"}, folders={"/usr/lib/numpy"}
    )

    assert known.holds("/usr/lib/numpy-1.26.dist-info")
    assert known.holds("/usr/lib/numpy/linalg/new.py")
    assert not known.holds("/usr/lib/json.py")
    assert Excepted.load(known.dump()).holds("/usr/lib/numpy/x.py")


def test_the_topmost_changes_are_told():
    changed = {
        "/usr": "C",
        "/usr/lib/x": "A",
        "/usr/lib/x/y": "A",
        "/usr/bin/sh": "C",
        "/root/.cache/uv": "A",
        "/usr/lib/python3/__pycache__/a.pyc": "A",
        "/tests/a": "A",
    }

    assert told(changed, changed) == ["/usr/bin/sh", "/usr/lib/x"]
