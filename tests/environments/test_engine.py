"""The container engine's client: images by another name, build contexts by content."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimera.environments import engine
from chimera.errors import UsageError


def test_images_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "map.json"
    file.write_text('{"python:3.11": "chimera-base:bookworm"}')
    for value in (file.read_text(), str(file)):
        monkeypatch.setenv(engine.IMAGE_MAP, value)
        assert engine.image_map() == {"python:3.11": "chimera-base:bookworm"}
    for wrong in ("nowhere.json", "{", '{"a": 1}'):
        monkeypatch.setenv(engine.IMAGE_MAP, wrong)
        with pytest.raises(UsageError, match=engine.IMAGE_MAP):
            engine.image_map()


def test_a_build_context_is_known_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    first = engine.context_digest(tmp_path)
    (tmp_path / "run.sh").write_text("")
    second = engine.context_digest(tmp_path)
    (tmp_path / "run.sh").chmod(0o755)

    assert len({first, second, engine.context_digest(tmp_path)}) == 3
