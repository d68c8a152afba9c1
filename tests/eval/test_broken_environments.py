"""One thing of an environment is broken, by chance: verdicts become errors, or they stay."""

from __future__ import annotations

import os
import random
import secrets
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from chimera.cache import cache_dir
from chimera.environments import EnvironmentSpec, start_environment
from chimera.environments.bubblewrap import BubblewrapEnvironment, base_packages, shown_packages
from chimera.eval.benchmark import Benchmark, StartEnvironment
from chimera.eval.benchmarks import AiderPolyglot, CustomBenchmark, TerminalBench
from chimera.eval.controls import Controls
from chimera.eval.kits.repositories import source
from chimera.eval.proof.attack.repositories import FIXTURES, Repository
from chimera.eval.runs.control_store import ControlStore
from chimera.eval.trial import StartBackend, Submitter
from chimera.eval.values import Submission
from tests.eval.benchmarks.test_aider_polyglot import STUB, write_exercise
from tests.eval.controlled import CALC, CODE, Instance, Spoils, tried
from tests.eval.kits.task_folders.examples import commands, pytest_task

#: Say CHIMERA_TEST_SEED to see again what a failure names.
SEED = os.environ.get("CHIMERA_TEST_SEED") or secrets.token_hex(4)
DRAWS = 2


@dataclass(frozen=True)
class Graded:
    """A benchmark of one task, and an answer to it that is wrong."""

    benchmark: Benchmark
    wrong: Submission | Submitter

    def stands(self, start: StartEnvironment, without: object, controls: Controls | None = None):
        """The reference passes and the wrong answer fails, or there is no verdict."""
        for due, record in self.tried(start, controls):
            said = f"CHIMERA_TEST_SEED={SEED}, without {without}: {record.status}, {record.why}"
            assert record.status in (due, "error"), said

    def tried(self, start: StartEnvironment, controls: Controls | None = None):
        for answer, due in ((None, "passed"), (self.wrong, "failed")):
            yield due, tried(self.benchmark, answer, start, controls)


def drawn(pool: Iterable[object], count: int = DRAWS) -> list[str]:
    return random.Random(SEED).sample(sorted(map(str, pool)), count)


@pytest.fixture(scope="module")
def packages(prepared):
    """Where Aider Polyglot's packages are: without them there would be no verdict to turn."""
    prepared(AiderPolyglot(language="python"))
    return cache_dir() / "polyglot"


@pytest.fixture(autouse=True)
def own_cache(packages, tmp_path, monkeypatch):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/polyglot").symlink_to(packages)
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def graded(tmp_path, require):
    def make(kind: str) -> Graded:
        if kind == "custom":
            return Graded(CustomBenchmark(tasks_list=[CALC]), Spoils())
        if kind == "aider-polyglot":
            write_exercise(tmp_path / "set/python/exercises/practice/twice")
            wrong = Submission(files={"twice.py": STUB.replace("pass", "return 3").encode()})
            return Graded(AiderPolyglot(tmp_path / "set"), wrong)
        fixture = FIXTURES[kind]
        require("bwrap", *fixture.programs)
        wrong = Submission(fixture.gold.replace("a + b", "a * b"), "model_patch")
        return Graded(Repository(fixture, tmp_path / kind).benchmark, wrong)

    return make


# --- bubblewrap: an empty file where something was


@dataclass(frozen=True)
class Without(StartEnvironment):
    """Bubblewrap on this machine, with nothing but an empty file where another was."""

    path: str
    empty: Path
    backend = "bubblewrap"

    def __call__(self, spec):
        return start_environment("bubblewrap", self._covered(spec))

    def identity(self, spec):
        return [*BubblewrapEnvironment.identity(self._covered(spec)), self.path]

    def _covered(self, spec: EnvironmentSpec):
        return replace(spec, mounts={**spec.mounts, str(self.empty): self.path})


PROGRAMS = ("bash", "cat", "cp", "env", "find", "git", "ls", "mkdir", "node", "patch", "python3",
            "rm", "sh", "tar", "timeout")  # fmt: skip


def programs() -> list[Path]:
    found = (shutil.which(name) for name in PROGRAMS)
    return [Path(path).resolve() for path in found if path]


def library() -> list[Path]:
    """Modules of the interpreter, and of pytest where environments have it."""
    own = [*Path(sysconfig.get_path("stdlib")).glob("*.py")]
    for name in ("unittest", "json", "importlib", "collections"):
        own += Path(sysconfig.get_path("stdlib"), name).glob("*.py")
    shown = [path for place in shown_packages() if place.is_dir() for path in place.glob("*.py")]
    return own + [Path(base_packages()[0], *path.parts[-2:]) for path in shown]


def dear(*kinds: str) -> list[object]:
    """Twins of exercises and of what Node runs take several seconds of CPU time."""
    slow = {"aider-polyglot", "node"}
    return [pytest.param(kind, marks=[pytest.mark.slow] * (kind in slow)) for kind in kinds]


KINDS = dear("custom", "aider-polyglot", "node", "unittest")


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_machine_gives_both_verdicts(kind, graded, require):
    """Or all that follows would hold because nothing is ever decided."""
    require("bwrap")

    for due, record in graded(kind).tried(StartBackend("bubblewrap")):
        assert record.status == due, record.why


@pytest.mark.parametrize("pool", [programs, library])
@pytest.mark.parametrize("kind", KINDS)
def test_a_machine_without_one_file_turns_no_verdict(kind, pool, graded, tmp_path, require):
    require("bwrap")
    (tmp_path / "nothing").touch()

    for path in drawn(pool(), 1):
        graded(kind).stands(Without(path, tmp_path / "nothing"), path)


# --- local: modules and programs that are found no more


@dataclass(frozen=True)
class Hiding(StartEnvironment):
    """The local backend with variables that hide something."""

    variables: tuple[tuple[str, str], ...]
    backend = "local"

    def __call__(self, spec):
        hidden = {**spec.variables, **dict(self.variables)}
        return start_environment("local", replace(spec, variables=hidden))

    def identity(self, spec):
        return [self.backend, dict(self.variables)]


MODULES = ("pytest", "_pytest", "pluggy", "unittest", "json", "ast", "re", "collections", "inspect")


@pytest.mark.parametrize("kind", dear("custom", "aider-polyglot"))
def test_a_user_without_one_module_gets_no_other_verdict(kind, graded, tmp_path):
    for name in (*drawn(MODULES, 1), "any program"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('gone')\n")
        variables = {"PYTHONPATH": str(tmp_path)} if name in MODULES else {"PATH": "/nowhere"}
        graded(kind).stands(Hiding(tuple(variables.items())), name)
        shutil.rmtree(tmp_path / name)


# --- containers: files that are removed


@pytest.fixture(scope="session")
def in_image(docker_image):
    """Programs and modules of an image."""
    places = "/usr/bin /usr/lib/python3*"
    find = f"find {places} -maxdepth 3 -type f \\( -name '*.py' -o -path '/usr/bin/*' \\)"
    command = ["docker", "run", "--rm", docker_image, "sh", "-c", find]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    return listed.stdout.split()


#: What the checks of these tasks cannot do without.
NEEDED = ("/usr/bin/python3*", "/usr/lib/python3*/*/_pytest", "/usr/lib/python3*/json")


@dataclass(frozen=True)
class Removed(StartEnvironment):
    """Containers of an image that lack one thing."""

    image: str
    path: str
    backend = "docker"

    def __call__(self, spec):
        env = start_environment("docker", replace(spec, image=self.image))
        env.run_command(f"rm -rf {self.path}", cwd="/")
        return env

    def identity(self, spec):
        return [self.image, self.path]


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_a_container_without_one_file_turns_no_verdict(known, docker_image, in_image, graded):
    (path,) = drawn(NEEDED if known else in_image, 1)

    graded("custom").stands(Removed(docker_image, path), path)


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_a_task_folder_without_one_file_turns_no_verdict(known, docker_image, in_image, tmp_path):
    (path,) = drawn(NEEDED if known else in_image, 1)
    place = pytest_task(tmp_path / "set", docker_image)
    with (place / "environment/Dockerfile").open("a") as recipe:
        recipe.write(f"RUN rm -rf {path}\n")
    benchmark = TerminalBench(tmp_path / "set")

    Graded(benchmark, commands("echo 41 > /app/answer.txt")).stands(StartBackend("docker"), path)


# --- a virtual environment that breaks after its controls were made


@pytest.fixture(scope="module")
def instance(tmp_path_factory, require):
    require("bwrap", "git")
    return Instance(tmp_path_factory.mktemp("instance"))


def parts(environment: Path) -> list[Path]:
    """Modules of the pinned packages, and what starts them."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    modules = [path for name in ("_pytest", "pytest", "pluggy", "iniconfig", "packaging")
               for path in (packages / name).rglob("*.py")]  # fmt: skip
    return [*modules, *environment.glob("bin/*"), environment / "pyvenv.cfg"]


def needed(environment: Path) -> list[Path]:
    (packages,) = environment.glob("lib/python3*/site-packages")
    names = ("_pytest", "iniconfig", "pluggy", "pluggy/_hooks.py", "_pytest/config/__init__.py")
    return [environment / "bin" / "python", *(packages / name for name in names)]


@pytest.mark.parametrize("pool", [needed, pytest.param(parts, marks=pytest.mark.slow)])
def test_a_virtual_environment_that_breaks_turns_no_verdict(pool, instance, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(instance.folder / "cache"))
    store = ControlStore(instance.folder / "controls.sqlite")
    graded, start = Graded(instance.benchmark, instance.wrong), StartBackend("bubblewrap")
    assert tried(instance.benchmark, None, start, Controls(store=store)).status == "passed"
    assert tried(instance.benchmark, graded.wrong, start, Controls(store=store)).status == "failed"

    for path in map(Path, drawn(pool(instance.environment))):
        gone = path.with_name(".gone")
        path.rename(gone)
        try:
            graded.stands(start, path, Controls(store=store))
        finally:
            gone.rename(path)


def test_a_kept_tree_that_was_changed_gives_no_verdict(instance, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(instance.folder / "cache"))
    code = instance.tree / "calc.py"
    code.write_text(CODE + "\n\nraise SystemExit\n")
    source._check_unchanged.cache_clear()

    record = tried(instance.benchmark, instance.wrong, StartBackend("bubblewrap"))

    code.write_text(CODE)
    assert "is not what was kept there" in record.why
