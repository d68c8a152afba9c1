"""Base images that stand in for others."""

from __future__ import annotations

import secrets

from chimera.environments.engine import Engine
from chimera.eval.benchmarks.harbor import Harbor
from chimera.eval.kits.task_folders.images import (
    base_images,
    named_hosts,
    unknown_host,
    with_base_images,
)
from tests.eval.kits.task_folders.examples import harbor_task, write


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


def test_what_a_build_would_pull_and_ask_for(tmp_path):
    recipe = tmp_path / "Dockerfile"
    recipe.write_text(
        "ARG BASE=debian\nFROM golang:1.22 AS build\n# curl https://commented.test/x\n"
        "RUN curl https://files.test/a && git clone http://code.test/b.git\n"
        "FROM --platform=linux/amd64 ubuntu:24.04\nCOPY --from=build /a /a\n"
        "COPY --from=0 /b /b\nCOPY --from=tools.test/uv:1 /uv /uv\nFROM $BASE\nFROM scratch\n"
    )

    pulled = base_images(recipe.read_text(), {"ubuntu:24.04": "mine/ubuntu"})

    assert pulled == ["golang:1.22", "mine/ubuntu", "tools.test/uv:1"]
    assert named_hosts(recipe) == {"files.test", "code.test"}
    assert not unknown_host("localhost")


def test_a_repository_that_no_clone_stands_in_for_is_said_before_the_start(tmp_path, docker_image):
    folder = harbor_task(tmp_path / "tasks", docker_image)
    recipe = folder / "environment" / "Dockerfile"
    name = secrets.token_hex(8)  # no image of another run holds it
    told = f"RUN : || git clone https://github.com/owner/{name}.git"
    recipe.write_text(f"{recipe.read_text()}{told}\n")
    clones = tmp_path / "clones"
    clones.mkdir()
    benchmark = Harbor(tmp_path / "tasks", repositories=clones)
    tasks = benchmark.tasks()

    (lack,) = benchmark.out_of_reach(tasks, "docker")

    assert lack.what == f"a clone of owner/{name}"
    (clones / "owner" / f"{name}.git").mkdir(parents=True)
    assert benchmark.out_of_reach(tasks, "docker") == []
    (clones / "owner" / f"{name}.git").rmdir()
    Engine.find().build(recipe.parent)
    assert benchmark.out_of_reach(tasks, "docker") == []
