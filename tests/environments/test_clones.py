"""Clones that stand in for a code host, for Dockerfiles and for solutions."""

from __future__ import annotations

import os
import subprocess

import pytest

from chimera.environments.base import EnvironmentSpec
from chimera.environments.clones import INSIDE, VARIABLES, brought, cloned, served, with_clones
from chimera.environments.docker import DockerEnvironment


@pytest.fixture
def clones(tmp_path):
    place = tmp_path / "clones/owner/name"
    place.mkdir(parents=True)
    (place / "file").write_text("kept\n")
    author = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(place), *command], check=True)
    return tmp_path / "clones"


def test_every_stage_knows_the_variables_and_no_image_keeps_them():
    recipe = with_clones("FROM a AS b\nRUN x\nfrom c\nCOPY --from=b / /\n")

    assert recipe.count("ARG GIT_CONFIG_COUNT\n") == 2
    assert "ENV" not in recipe


def test_what_a_recipe_clones():
    recipe = (
        "FROM a\n# git clone https://github.com/no/comment\n"
        "RUN git clone --depth 1 https://github.com/one/a.git . && git checkout main\n"
        "RUN cd /b; git  clone https://github.com/two/b b && curl https://github.com/no/c/x.tar\n"
        "RUN git clone https://elsewhere.test/no/d\n"
    )

    assert cloned(recipe) == {"one/a", "two/b"}


@pytest.mark.parametrize("name", ["owner/name", "owner/name.git"])
def test_git_clones_from_the_directory_what_it_is_told_to_clone_from_the_host(
    clones, tmp_path, name
):
    with served(clones) as variables:
        assert tuple(variables) == VARIABLES
        subprocess.run(
            ["git", "clone", "-q", f"https://github.com/{name}", str(tmp_path / "copy")],
            check=True,
            env={**os.environ, **variables},
        )

    assert (tmp_path / "copy/file").read_text() == "kept\n"


def test_a_dockerfile_that_clones_is_built_from_clones(docker_image, clones, tmp_path):
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text(
        f"FROM {docker_image}\n"
        "RUN git clone https://github.com/owner/name /copy && rm -rf /copy/.git\n"
        f"RUN echo {tmp_path.name} > /made\n"
    )

    with DockerEnvironment.start(EnvironmentSpec(build_context=context, clones=clones)) as env:
        assert env.read_text("/copy/file") == "kept\n"
        assert "GIT_CONFIG" not in env.run_command("env").output


@pytest.mark.parametrize("address", ["owner/name", "owner/name.git"])
def test_a_script_has_what_it_names_for_as_long_as_it_runs(docker_image, clones, address):
    (clones / "owner/other").mkdir()
    commit = subprocess.run(
        ["git", "-C", str(clones / "owner/name"), "rev-parse", "HEAD"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    script = (
        "set -e; git init -q /copy; cd /copy\n"
        f"git remote add origin https://github.com/{address}\n"
        f"git fetch -q origin {commit} --depth=1; git checkout -qf {commit}; ls {INSIDE}/owner\n"
    )

    with DockerEnvironment.start(EnvironmentSpec(image=docker_image)) as env:
        with brought(env, clones, script) as variables:
            done = env.run_command(script, variables=variables)

        assert (done.exit_code, done.output) == (0, "name.git\n")
        assert env.read_text("/copy/file") == "kept\n"
        assert not env.run_command(["ls", INSIDE]).success


def test_a_code_host_is_still_asked_for_what_no_clone_stands_in_for(docker_image, clones):
    with (
        DockerEnvironment.start(EnvironmentSpec(image=docker_image)) as env,
        brought(env, clones, "git clone https://github.com/owner/another") as variables,
    ):
        assert variables == {}
