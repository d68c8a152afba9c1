"""Images come and go: no registry is reached from a test, so the client is a small program."""

from __future__ import annotations

import os

import pytest

from chimera.environments.engine import Engine
from chimera.eval.kits.repositories import images

#: Keeps its images as files of a directory; can pull all but `absent`, and remove all but `busy`.
CLIENT = """#!/bin/sh
cd "{store}" || exit 9
case "$1 $2" in
"image inspect") test -e "$3" ;;
"image rm") test "$3" != busy && rm "$3" ;;
"pull "*) test "$2" != absent && touch "$2" ;;
"images "*) ls -t ;;
*) exit 8 ;;
esac
"""


@pytest.fixture
def engine(tmp_path, monkeypatch):
    store = tmp_path / "store"
    store.mkdir()
    client = tmp_path / "client"
    client.write_text(CLIENT.format(store=store))
    client.chmod(0o755)
    monkeypatch.setattr(images, "_pulled", [])
    monkeypatch.setattr(images, "KEPT", 2)
    return Engine(str(client)), store


def here(store) -> set[str]:
    return {path.name for path in store.iterdir()}


def test_pulled_images_are_removed_as_they_are_used_up(engine):
    client, store = engine
    (store / "mine").touch()
    for name in ("mine", "busy", "b", "c", "b", "d"):
        assert images.official_image(name, keep=False, engine=client)

    assert here(store) == {"mine", "busy", "b", "d"}
    assert not images.official_image("absent", keep=False, engine=client)


def test_pulled_images_can_be_kept(engine):
    client, store = engine
    for name in "abcd":
        images.official_image(name, keep=True, engine=client)

    assert here(store) == set("abcd")


def test_old_images_of_the_kind_are_removed(engine):
    client, store = engine
    names = ("chimera-instance:a", "chimera-instance:b", "chimera-instance:new", "other:c")
    for age, name in enumerate(names):
        (store / name).touch()
        os.utime(store / name, (1000 - age, 1000 - age))

    images._remove_old(client, images.LABEL, spare="chimera-instance:new")

    assert here(store) == {"chimera-instance:a", "chimera-instance:new", "other:c"}
