"""Base images that stand in for others."""

from __future__ import annotations

from chimera.eval.kits.task_folders.images import with_base_images
from tests.eval.kits.task_folders.examples import write


def test_base_images_are_replaced_in_a_copy(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    context = write(
        tmp_path / "context",
        {"Dockerfile": "FROM a:1 AS b\nFROM --platform=x c\nCOPY --from=a:1 /x /\n"},
    )

    same = with_base_images(context, {"other": "x"})
    changed = with_base_images(context, {"a:1": "mine", "c": "yours"})

    assert same == context
    assert (changed / "Dockerfile").read_text() == (
        "FROM mine AS b\nFROM --platform=x yours\nCOPY --from=mine /x /\n"
    )
    assert (context / "Dockerfile").read_text().startswith("FROM a:1")
