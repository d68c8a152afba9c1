"""A row's own Dockerfile outside of Docker, and Node.js as nvm lays it out."""

from __future__ import annotations

import os
import subprocess

import pytest

from chimera.environments.base import EnvironmentSpec
from chimera.environments.docker import DockerEnvironment
from chimera.environments.engine import Engine
from chimera.errors import EnvironmentFault
from chimera.eval.benchmarks._swe_polybench.nodes import SCRIPT, versions_in
from chimera.eval.benchmarks._swe_polybench.recipe import Recipe
from chimera.eval.kits.repositories.checkout import open_tree
from chimera.eval.kits.repositories.source import Directory, base_tree
from chimera.eval.kits.repositories.virtualenvs import TESTBED
from chimera.eval.trial import StartBackend


@pytest.fixture
def nvm(tmp_path):
    for version in ("16.20.2", "16.9.0", "18.1.0"):
        place = tmp_path / "nvm/versions/node" / f"v{version}/bin"
        place.mkdir(parents=True)
        (place / "node").write_text(f"#!/bin/sh\necho v{version}\n")
        (place / "node").chmod(0o755)
    (tmp_path / "nvm/nvm.sh").write_text(SCRIPT.read_text())
    return tmp_path / "nvm"


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("nvm use 16.20.2 && node", "Now using node v16.20.2\nv16.20.2\n"),
        ("nvm use 16 && node", "Now using node v16.20.2\nv16.20.2\n"),
        ("nvm alias default 18.1.0 && nvm use default > /dev/null && node", "v18.1.0\n"),
        (
            "nvm use 18.1.0 && nvm use 16.9.0 > /dev/null && node",
            "Now using node v18.1.0\nv16.9.0\n",
        ),
        ("nvm use 20.0.0 || echo none", "none\n"),
    ],
)
def test_a_version_is_selected(nvm, shell, command, printed):
    script = f". {nvm}/nvm.sh && {command}"
    done = subprocess.run(
        [shell, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"NVM_DIR": str(nvm), "PATH": os.environ["PATH"]},
    )

    assert done.stdout == printed


def test_the_versions_are_those_that_commands_select():
    texts = ("nvm install 18.17.1 && nvm use v16.20.2", ". nvm.sh && nvm use 16.20.2 && npm test")

    assert versions_in(*texts) == ["16.20.2", "18.17.1"]


def test_the_steps_are_run_once_on_the_tree_and_are_its_base(tmp_path, nvm, monkeypatch, require):
    require("bwrap")
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "code").mkdir()
    (tmp_path / "code/file").write_text("first\n")
    tree = base_tree(Directory(tmp_path / "code"))
    steps = Recipe(
        "FROM polybench_javascript_base\nWORKDIR /testbed\nCOPY . .\nENV WORD=second\n"
        "RUN . /usr/local/nvm/nvm.sh && nvm use 16.20.2 \\\n  && node > file\n"
        "RUN echo $WORD >> file\n",
        nodes=lambda versions: nvm,
    )

    made = steps.prepared(tree, StartBackend("bubblewrap"))

    assert (made.tree.path / "file").read_text() == "v16.20.2\nsecond\n"
    assert made.tree.commit != tree.commit
    assert made.mounts == {str(nvm): "/usr/local/nvm"}
    assert steps.prepared(tree, StartBackend("bubblewrap")) == made


@pytest.mark.slow
def test_what_package_managers_leave_in_the_home_is_found_there_again(
    tmp_path, monkeypatch, require
):
    require("bwrap")
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "code").mkdir()
    (tmp_path / "code/file").write_text("first\n")
    tree = base_tree(Directory(tmp_path / "code"))
    steps = Recipe(
        "FROM x\nENV JAVA_HOME=/opt/none\nENV WORD=kept\nRUN pip --version\n"
        "RUN mkdir ~/.m2 && echo $WORD > ~/.m2/part\n"
        "RUN printf '#!/bin/sh\\necho tool' > ~/.local/bin/tool && chmod +x ~/.local/bin/tool\n"
    )
    start = StartBackend("bubblewrap")

    made = steps.prepared(tree, start)

    assert "JAVA_HOME" not in steps.variables()
    with open_tree(made.tree, start, variables=steps.variables(), mounts=made.mounts) as env:
        shown = env.run_command("cat ~/.m2/part; tool; echo $WORD; touch ~/.m2/part")
    assert shown.output.startswith("kept\ntool\nkept\n")
    assert not shown.success


def test_a_built_image_has_one_commit_of_what_its_steps_made(tmp_path, monkeypatch, docker_image):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "code").mkdir()
    (tmp_path / "code/file").write_text("first\n")
    recipe = Recipe(f"FROM {docker_image}\nWORKDIR /testbed\nCOPY . .\nRUN echo second >> file\n")

    image = Engine.find().build(recipe.context(base_tree(Directory(tmp_path / "code"))))

    with DockerEnvironment.start(EnvironmentSpec(image=image, workdir=TESTBED)) as env:
        shown = env.run_command("git rev-list --all --count; git status --short; cat file")
    assert shown.output == "1\nfirst\nsecond\n"


def test_what_only_docker_can_do_is_named(tmp_path):
    text = "FROM x\nHEALTHCHECK CMD true\nRUN nvm use 1.2.3\n"
    steps = Recipe(text, nodes=lambda versions: tmp_path)

    with pytest.raises(EnvironmentFault, match=r"only Docker .*: HEALTHCHECK"):
        steps.variables()


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A function that makes a tree of files, with a cache of its own and a key to be stolen."""
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "above/cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-stolen")
    (tmp_path / "code").mkdir()

    def made(**files: str):
        for name, text in files.items():
            (tmp_path / "code" / name).write_text(text)
        return base_tree(Directory(tmp_path / "code"))

    return made


HOOK = "printf '#!/bin/sh\\nenv > {mark}\\n' > {hook} && chmod +x {hook}"


@pytest.mark.parametrize(
    "step",
    [
        HOOK.format(mark="{mark}", hook=".git/hooks/post-commit"),
        HOOK.format(mark="{mark}", hook=".git/hooks/pre-commit"),
        "git config core.fsmonitor 'env > {mark}; false'",
        "git config filter.x.clean 'env > {mark}; cat' && echo '* filter=x' > .gitattributes",
        "git init -q sub && echo '* filter=x' > sub/.gitattributes && "
        "git -C sub config filter.x.clean 'env > {mark}; cat'",
        "rm -rf .git && git init -q --bare . && git config core.fsmonitor 'env > {mark}; false'",
    ],
)
def test_a_step_leaves_nothing_that_runs_on_this_machine(tmp_path, code, require, step):
    require("bwrap", "git")
    mark = tmp_path / "mark"
    recipe = Recipe(f"FROM x\nRUN {step.format(mark=mark)}\nRUN echo b > file")

    made = recipe.prepared(code(file="a\n"), StartBackend("bubblewrap"))

    assert (made.tree.path / "file").read_text() == "b\n"
    assert not mark.exists()
    assert [path.parent for path in made.tree.path.rglob(".git")] == [made.tree.path]
    with open_tree(made.tree, StartBackend("bubblewrap")) as env:
        assert env.run_command("git status --porcelain", cwd=TESTBED).output == ""


def test_a_repository_around_the_cache_is_left_alone(tmp_path, code, require):
    require("bwrap", "git")
    around = tmp_path / "above"
    around.mkdir()
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "mine"]):
        subprocess.run(
            ["git", "-c", "user.name=me", "-c", "user.email=me@x", *words], cwd=around, check=True
        )

    made = Recipe("FROM x\nRUN rm -rf .git\n").prepared(
        code(file="a\n"), StartBackend("bubblewrap")
    )

    log = ["git", "log", "--format=%s", "--name-only"]
    assert subprocess.check_output(log, cwd=around, text=True) == "mine\n"
    assert subprocess.check_output(log, cwd=made.tree.path, text=True).split() == ["base", "file"]


@pytest.mark.parametrize("kind", ["ENV", "ARG"])
def test_rows_that_differ_in_variables_share_no_tree(code, require, kind):
    require("bwrap", "git")
    tree = code(file="a\n")
    found = []
    for word in ("one", "two"):
        recipe = Recipe(f"FROM x\n{kind} WORD={word}\nRUN echo $WORD > file\n")
        made = recipe.prepared(tree, StartBackend("bubblewrap"))
        found.append((made.tree.path / "file").read_text())

    assert found == ["one\n", "two\n"]


def test_an_images_recipe_is_not_written_through_a_link(tmp_path, code):
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    (tmp_path / "code/Dockerfile").symlink_to(victim)

    place = Recipe("FROM x\nRUN true\n").context(code(file="a\n"))

    assert victim.read_text() == "mine\n"
    assert (place / "Dockerfile").read_text().startswith("FROM x\n")


def test_a_home_that_leads_to_this_machine_is_not_mounted(tmp_path, code, require):
    require("bwrap", "git")
    recipe = Recipe(f"FROM x\nRUN ln -s {tmp_path} ~/.m2\n")

    with pytest.raises(EnvironmentFault, match=r"\.m2 is not there, or is neither"):
        recipe.prepared(code(file="a\n"), StartBackend("bubblewrap"))
