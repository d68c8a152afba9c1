"""Tasks that are folders: Harbor's form (task.toml) and Terminal-Bench's older one (task.yaml).

A task is an instruction, an image to build, tests that are brought in after the agent has stopped,
and a solution. Read from harbor 0.25.0 and terminal-bench 0.2.18.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from chimera.cache import cache_dir, file_digest
from chimera.environments.base import Environment, EnvironmentSpec, ResourceLimits, machine
from chimera.errors import DatasetError, EnvironmentFault
from chimera.eval.benchmark import StartEnvironment
from chimera.eval.data.archives import archives_in, unpacked
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.data.rows import Row
from chimera.eval.kits.task_folders import attacks as harbor_attacks
from chimera.eval.kits.task_folders import verifier as harbor_verifier
from chimera.eval.values import Submission, Task, Verdict
from chimera.types import JSON

#: How deep below the data set's place task folders are looked for.
SEARCH_DEPTH = 3
#: Where a task does not say: the limits of the two official programs.
HARBOR_VERIFIER_SECONDS = 600.0
YAML_AGENT_SECONDS = 360.0
YAML_VERIFIER_SECONDS = 60.0
DEFAULT_MEMORY_MB = 8192

Form = Literal["toml", "yaml"]


class HarborTask(Task):
    directory: str
    form: Form
    context: str  # directory with the Dockerfile, or ""
    image: str  # an image that exists already, or ""
    agent_seconds: float | None
    verifier_seconds: float
    variables: dict[str, str]
    verifier_variables: dict[str, str]
    solution_variables: dict[str, str]
    network: bool
    cpus: float | None
    memory_mb: int
    services: bool  # the tests talk to servers that the agent is to leave running


def task_directories(root: Path) -> list[Path]:
    """Folders below `root` that hold a complete task, in the order of their names."""
    found: list[Path] = []
    level = [root]
    for _ in range(SEARCH_DEPTH + 1):
        tasks = [place for place in level if _form(place) is not None]
        found += tasks
        level = [
            child
            for place in level
            if place not in tasks
            for child in place.iterdir()
            if child.is_dir() and not child.name.startswith(".") and not child.is_symlink()
        ]
    return sorted(found, key=lambda place: place.name)


def _form(place: Path) -> Form | None:
    if (place / "task.toml").is_file() and (place / "tests/test.sh").is_file():
        return "toml"
    if (place / "task.yaml").is_file() and (place / "run-tests.sh").is_file():
        return "yaml"
    return None


def load_task(place: Path) -> HarborTask:
    """The task in a folder; files it does not know are ignored."""
    form = _form(place)
    if form is None:
        raise DatasetError(
            f"{place}: no task: task.toml with tests/test.sh is needed, or task.yaml with "
            "run-tests.sh"
        )
    return _toml_task(place) if form == "toml" else _yaml_task(place)


def _toml_task(place: Path) -> HarborTask:
    try:
        content = tomllib.loads((place / "task.toml").read_text("utf-8"))
        prompt = (place / "instruction.md").read_text("utf-8")
    except (OSError, ValueError) as error:
        raise DatasetError(f"{place}: {error}") from None
    if content.get("steps"):
        raise DatasetError(f"{place}: tasks of several steps are not supported")
    agent, verifier = content.get("agent", {}), content.get("verifier", {})
    environment = content.get("environment", {})
    network = environment.get("network_mode", "public") != "no-network"
    metadata = content.get("metadata", {})
    return HarborTask(
        id=place.name,
        prompt=prompt,
        directory=str(place),
        form="toml",
        context=str(place / "environment") if (place / "environment/Dockerfile").is_file() else "",
        image=str(environment.get("docker_image") or ""),
        agent_seconds=_number(agent.get("timeout_sec")),
        verifier_seconds=_number(verifier.get("timeout_sec")) or HARBOR_VERIFIER_SECONDS,
        variables=_variables(environment.get("env")),
        verifier_variables=_variables(verifier.get("env")),
        solution_variables=_variables(content.get("solution", {}).get("env")),
        network=bool(environment.get("allow_internet", network)),
        cpus=_number(environment.get("cpus")),
        memory_mb=_memory(environment),
        services=needs_services(place),
        metadata={key: metadata[key] for key in ("difficulty", "category") if key in metadata},
    )


def _yaml_task(place: Path) -> HarborTask:
    import yaml

    try:
        content = yaml.safe_load((place / "task.yaml").read_text("utf-8"))
        prompt = str(content["instruction"])
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise DatasetError(f"{place / 'task.yaml'}: {error!r}") from None
    parser = content.get("parser_name", "pytest")
    if parser != "pytest":
        raise DatasetError(f"{place}: results of the parser {parser!r} are not read here")
    return HarborTask(
        id=place.name,
        prompt=prompt,
        directory=str(place),
        form="yaml",
        context=str(place) if (place / "Dockerfile").is_file() else "",
        image="",
        agent_seconds=_number(content.get("max_agent_timeout_sec")) or YAML_AGENT_SECONDS,
        verifier_seconds=_number(content.get("max_test_timeout_sec")) or YAML_VERIFIER_SECONDS,
        variables={"TEST_DIR": "/tests"},
        verifier_variables={},
        solution_variables={},
        network=True,
        cpus=None,
        memory_mb=DEFAULT_MEMORY_MB,
        services=needs_services(place),
        metadata={key: content[key] for key in ("difficulty", "category") if key in content},
    )


_LOCAL_ADDRESS = re.compile(rb"localhost|127\.0\.0\.1|0\.0\.0\.0")
_CONNECTS = re.compile(
    rb"https?://|requests|urllib|http\.client|socket|grpc|paramiko|smtplib|curl|ssh|telnet"
)


def needs_services(place: Path) -> bool:
    """Whether the tests speak to a server on the machine itself."""
    for test in sorted((place / "tests").rglob("*")):
        if test.is_file() and test.suffix in (".py", ".sh"):
            content = test.read_bytes()
            if _LOCAL_ADDRESS.search(content) and _CONNECTS.search(content):
                return True
    return False


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _variables(value: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in (value or {}).items()}


def _memory(environment: Mapping[str, Any]) -> int:
    if environment.get("memory_mb"):
        return int(environment["memory_mb"])
    legacy = re.fullmatch(r"(\d+)\s*([GM])i?B?", str(environment.get("memory", "")), re.IGNORECASE)
    if legacy is None:
        return DEFAULT_MEMORY_MB
    return int(legacy[1]) * (1024 if legacy[2].upper() == "G" else 1)


_FROM = re.compile(
    r"^(\s*(?:FROM\s+(?:--platform=\S+\s+)?|COPY\s+--from=))(\S+)", re.IGNORECASE | re.MULTILINE
)


def with_base_images(context: Path, mapping: Mapping[str, str]) -> Path:
    """The build context with the base images that `mapping` names replaced; a copy if any is."""
    original = (context / "Dockerfile").read_text("utf-8")

    def replaced(match: re.Match[str]) -> str:
        return match[1] + mapping.get(match[2], match[2])

    changed = _FROM.sub(replaced, original)
    if changed == original:
        return context
    key = file_digest(context)[:16] + digest_of_text(changed)[:8]
    target = cache_dir() / "contexts" / key
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=target.parent, prefix="copying-"))
        shutil.copytree(context, work, symlinks=True, dirs_exist_ok=True)
        (work / "Dockerfile").write_text(changed, "utf-8")
        work.chmod(0o755)
        try:
            work.rename(target)
        except OSError:
            shutil.rmtree(work)
            if not target.is_dir():
                raise
    return target


def digest_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class HarborBenchmark(DatasetBenchmark[HarborTask]):
    """A set of task folders, each run in a container of its own image.

    `base_images` (`NAME=OTHER`, several separated by commas) replaces base images in Dockerfiles
    where the named ones cannot be pulled; such images are rebuilt ones, and results say so.
    `time_factor` multiplies the limits of agents and verifiers, as the official programs allow on
    slow machines. Without `verifier_network` the container is cut off before the tests come in;
    what they would install is then taken from `uv_cache`, a directory of uv's downloads.
    """

    grading = "same"
    environments = ("docker",)

    def __init__(
        self,
        dataset_path: str | Path | None = None,
        limit: int | None = None,
        tasks: Sequence[str] | None = None,
        base_images: Sequence[str] | None = None,
        network: bool | None = None,
        time_factor: float = 1.0,
        verifier_network: bool = True,
        uv_cache: Path | None = None,
    ) -> None:
        super().__init__(dataset_path, limit)
        self.task_ids = tuple(tasks or ())
        self.base_images = dict(_pair(pair) for pair in base_images or ())
        self.network = network
        self.time_factor = time_factor
        self.verifier_network = verifier_network
        self.uv_cache = uv_cache

    def options(self) -> dict[str, JSON]:
        return {
            "tasks": list(self.task_ids),
            "base_images": self.base_images,
            "network": self.network,
            "time_factor": self.time_factor,
            "verifier_network": self.verifier_network,
        }

    def rows(self) -> Iterator[Row]:
        yield from ({"directory": str(place)} for place in self.directories())

    def directories(self) -> list[Path]:
        place = self.place()
        if place.is_file():
            return task_directories(unpacked(place))
        found = task_directories(place)
        if not found:
            found = [task for a in archives_in(place) for task in task_directories(unpacked(a))]
        return found

    def dataset_digest(self) -> str:
        place = self.place()
        archives = [] if place.is_file() else archives_in(place)
        return file_digest(archives[0] if archives and not task_directories(place) else place)

    def task(self, row: Row) -> HarborTask | None:
        place = Path(row["directory"])
        if self.task_ids and place.name not in self.task_ids:
            return None
        return load_task(place)

    def environment(self, task: HarborTask) -> EnvironmentSpec:
        context = self._build_context(task)
        if context is None and not task["image"]:
            raise EnvironmentFault(f"{task['id']}: neither a Dockerfile nor an image")
        return EnvironmentSpec(
            needs=frozenset({"commands", "image", "root"}),
            image=None if context is not None else task["image"],
            build_context=context,
            network=task["network"] if self.network is None else self.network,
            variables=task["variables"],
            mounts={str(self.uv_cache): harbor_verifier.UV_CACHE} if self.uv_cache else {},
            limits=ResourceLimits(
                memory_bytes=task["memory_mb"] * 1024**2,
                cpus=task["cpus"],
                processes=4096,
                file_bytes=None,
            ),
        )

    def _build_context(self, task: HarborTask) -> Path | None:
        """What the image is built from; None for one that exists already."""
        if not task["context"] or (task["image"] and not self.base_images):
            return None
        return with_base_images(Path(task["context"]), self._mapping())

    def _rebuilt(self, task: HarborTask) -> bool:
        """Whether the image is, or starts from, another than the task names."""
        context = self._build_context(task)
        return (
            task["image"] in self._mapping() if context is None else str(context) != task["context"]
        )

    def _mapping(self) -> dict[str, str]:
        from chimera.environments.engine import image_map

        return {**image_map(), **self.base_images}

    def open_environment(self, task: HarborTask, start: StartEnvironment) -> Environment:
        env = machine(start(self.environment(task)))
        return harbor_verifier.ServersKept(env) if task["services"] else env

    def agent_seconds(self, task: HarborTask) -> float | None:
        seconds = task["agent_seconds"]
        return None if seconds is None else seconds * self.time_factor

    def oracle(self, task: HarborTask, env: Environment) -> Submission:
        seconds = self.agent_seconds(task) or 3600.0 * self.time_factor
        return harbor_verifier.run_solution(task, env, seconds)

    def attacks(self, task: HarborTask) -> Iterable[tuple[str, Submission]]:
        return harbor_attacks.attacks()

    def grade(self, task: HarborTask, submission: Submission, env: Environment) -> Verdict:
        env = harbor_verifier.image_machine(env)
        if submission.form == harbor_attacks.COMMANDS:
            env.run_command(submission.text, timeout=task["agent_seconds"] or 3600.0)
            env.stop_processes()
        if not self.verifier_network:
            harbor_verifier.cut_off(env)
        seconds = task["verifier_seconds"] * self.time_factor
        verdict = harbor_verifier.verify(task, env, seconds, offline=not self.verifier_network)
        if self._rebuilt(task):
            metrics = {**verdict.metrics, "image": "rebuilt"}
            return Verdict(verdict.passed, verdict.why, verdict.score, metrics, verdict.evidence)
        return verdict


def _pair(text: str) -> tuple[str, str]:
    name, equals, other = text.partition("=")
    if not (name and equals and other):
        raise DatasetError(f"base_images: expected NAME=OTHER, got {text!r}")
    return name, other


def materialised(row: Row) -> Path:
    """A task given as one JSON object, written out as a folder of Harbor's form.

    Fields: `id`, `instruction` (or `prompt`), `dockerfile` or `docker_image`, `test_command` or
    `tests` (path → content, with test.sh), and optionally `setup` (commands that are added to the
    image), `solution` (a script), `workdir`, `agent_timeout_sec`, `verifier_timeout_sec`.
    """
    name = str(row.get("id") or row["task_id"])
    if not re.fullmatch(r"[\w.-]+", name):
        raise ValueError(f"id {name!r} is not a plain name")
    text = json.dumps(dict(row), sort_keys=True, default=str)
    target = cache_dir() / "harbor-rows" / digest_of_text(text)[:16] / name
    if target.is_dir():
        return target
    work = Path(tempfile.mkdtemp(dir=_made(target.parent), prefix="writing-"))
    for path, content in _row_files(row).items():
        file = work / path
        if not file.resolve().is_relative_to(work.resolve()):
            raise ValueError(f"the file {path!r} is outside the task")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, "utf-8")
    work.rename(target)
    return target


def _made(place: Path) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    return place


def _row_files(row: Row) -> dict[str, str]:
    files = {"instruction.md": str(row.get("instruction") or row["prompt"])}
    tests = dict(row.get("tests") or {})
    if "test.sh" not in tests:
        tests["test.sh"] = _test_script(str(row["test_command"]), str(row.get("workdir") or ""))
    files |= {f"tests/{path}": str(content) for path, content in tests.items()}
    if row.get("solution"):
        files["solution/solve.sh"] = str(row["solution"])
    setup = row.get("setup") or ()
    commands = [setup] if isinstance(setup, str) else list(setup)
    dockerfile = str(row.get("dockerfile") or "")
    if not dockerfile and row.get("docker_image"):
        dockerfile = f"FROM {row['docker_image']}\n"
    if not dockerfile:
        raise KeyError("dockerfile")
    if row.get("workdir"):
        dockerfile += f"\nWORKDIR {row['workdir']}\n"
    dockerfile += "".join(f"\nRUN {json.dumps(['sh', '-c', command])}\n" for command in commands)
    files["environment/Dockerfile"] = dockerfile
    agent = float(row.get("agent_timeout_sec") or 1800.0)
    verifier = float(row.get("verifier_timeout_sec") or HARBOR_VERIFIER_SECONDS)
    files["task.toml"] = (
        f'version = "1.0"\n[agent]\ntimeout_sec = {agent}\n[verifier]\ntimeout_sec = {verifier}\n'
    )
    return files


def _test_script(command: str, workdir: str) -> str:
    move = f"cd '{workdir}' || exit 1\n" if workdir else ""
    return (
        f"#!/bin/bash\n{move}({command})\n"
        "if [ $? -eq 0 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"
    )
