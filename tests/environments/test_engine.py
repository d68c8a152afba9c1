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


#: A client whose registry at far.test has no address; another one lacks one image.
CLIENT = """#!/bin/sh
echo "$*" >> "$0.asked"
case "$*" in
images*) printf 'debian:bookworm\nmine:latest\n' ;;
*" far.test/"*) echo "lookup far.test: no such host" >&2; exit 1 ;;
"manifest inspect "*/absent*) echo "no such manifest: absent" >&2; exit 1 ;;
esac
"""


@pytest.mark.parametrize(
    ("image", "registry", "listed"),
    [
        ("debian", "docker.io", "debian:latest"),
        ("docker.io/library/debian:12", "docker.io", "debian:12"),
        ("owner/name", "docker.io", "owner/name:latest"),
        ("ghcr.io/owner/name:1", "ghcr.io", "ghcr.io/owner/name:1"),
        ("localhost:5000/name", "localhost:5000", "localhost:5000/name:latest"),
        ("name@sha256:ab", "docker.io", "name@sha256:ab"),
    ],
)
def test_an_images_name_says_its_registry(image: str, registry: str, listed: str):
    assert (engine.registry_of(image), engine.tagged(image)) == (registry, listed)


def test_what_cannot_be_pulled_is_known_without_asking_for_each(tmp_path: Path):
    client = tmp_path / "client"
    client.write_text(CLIENT)
    client.chmod(0o755)
    found = engine.Engine(str(client))

    said = {
        image: found.unobtainable(image)
        for image in ("mine", "far.test/a", "far.test/b", "near.test/absent", "near.test/c")
    }

    assert said == {
        "mine": None,
        "far.test/a": "lookup far.test: no such host",
        "far.test/b": "lookup far.test: no such host",
        "near.test/absent": "no such manifest: absent",
        "near.test/c": None,
    }
    asked = (tmp_path / "client.asked").read_text().splitlines()
    assert [line for line in asked if line.startswith(("manifest", "pull"))] == [
        "manifest inspect far.test/a",
        "pull far.test/a",
        "manifest inspect near.test/absent",
        "manifest inspect near.test/c",
    ]
