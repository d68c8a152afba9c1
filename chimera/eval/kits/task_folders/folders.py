"""Tasks that are folders: Harbor's form (task.toml) and Terminal-Bench's older one (task.yaml).

A task is an instruction, an image to build, tests that are brought in after the agent has stopped,
and a solution. Read from harbor 0.25.0 and terminal-bench 0.2.18.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from chimera.environments.docker import MAIN
from chimera.errors import DatasetError
from chimera.eval.data.archives import archives_in, unpacked
from chimera.eval.kits.task_folders.compose import Composed, NotSupported, composed
from chimera.eval.values import Task

#: How deep below the data set's place task folders are looked for.
SEARCH_DEPTH = 3
REGISTRY = "registry.json"
#: Where a task does not say: the limits of the two official programs.
HARBOR_VERIFIER_SECONDS = 600.0
YAML_AGENT_SECONDS = 360.0
YAML_VERIFIER_SECONDS = 60.0
YAML_SOLUTIONS = ("solution.sh", "solution.yaml")
COLLECT_SECONDS = 60.0
DEFAULT_MEMORY_MB = 8192

Form = Literal["toml", "yaml"]


class Artifact(TypedDict):
    """What a task hands from a container to a verifier of its own."""

    source: str
    exclude: list[str]
    service: str  # "" for the agent's container


class Command(TypedDict):
    """Something to run in a container of the task: "" is the agent's."""

    command: str
    service: str
    seconds: float


class Healthcheck(TypedDict):
    """A command that must succeed before the agent begins."""

    command: str
    interval: float
    seconds: float
    grace: float
    retries: int


class VerifierEnvironment(TypedDict):
    """An environment of the verifier's own: an image, or the directory to build one from."""

    image: str
    context: str
    has_tests: bool  # the image brings them
    network: bool
    variables: dict[str, str]
    cpus: float | None
    memory_mb: int


class HarborTask(Task):
    """A task, or one step of a task: a step has what is its own, and the rest of its task."""

    directory: str
    form: Form
    tests: list[str]  # directories, the later ones over the earlier
    solution: str  # directory or file, or ""
    context: str  # directory with the Dockerfile, or ""
    compose: str  # directory that may have a compose file, or ""
    image: str  # an image that exists already, or ""
    agent_seconds: float | None
    verifier_seconds: float
    variables: dict[str, str]
    verifier_variables: dict[str, str]
    solution_variables: dict[str, str]
    network: bool
    cpus: float | None
    memory_mb: int
    separate: VerifierEnvironment | None
    artifacts: list[Artifact]
    collect: list[Command]  # run once the agent has stopped, before artifacts are taken
    health: Healthcheck | None
    workdir: str  # "": the image's
    workfiles: str  # directory that a step puts into the working directory, or ""
    services: bool  # the tests talk to servers that the agent is to leave running
    steps: list[HarborTask]  # of a task of several steps
    least: dict[str, float]  # rewards below which no further step is begun
    strategy: Literal["mean", "final"]  # how the rewards of steps become the task's
    refused: str  # why it cannot be run here


def folders_source(place: Path) -> Path | None:
    """What to read at a place: itself, or the registry or the one archive in it when it holds no
    task folder."""
    if place.is_file() or task_directories(place):
        return place
    if (place / REGISTRY).is_file():
        return place / REGISTRY
    archives = archives_in(place)
    return archives[0] if len(archives) == 1 else None


def folders_in(source: Path) -> list[Path]:
    """The task folders of a directory or of an archive (unpacked once)."""
    if source.is_file():
        return task_directories(unpacked(source))
    found = task_directories(source)
    return found or [task for each in archives_in(source) for task in folders_in(each)]


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
    if (place / "task.toml").is_file() and any((place / n).is_dir() for n in ("tests", "steps")):
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
        steps = [_step_folder(place, step) for step in content.get("steps") or ()]
        prompt = ((*steps, place)[0] / "instruction.md").read_text("utf-8")
    except (OSError, ValueError) as error:
        raise DatasetError(f"{place}: {error}") from None
    agent, environment = content.get("agent", {}), content.get("environment", {})
    metadata = content.get("metadata", {})
    refused, beside = _refused(place, content), Composed()
    try:
        beside = composed(place / "environment")
    except NotSupported as reason:
        refused = refused or str(reason)
    task = HarborTask(
        id=place.name,
        prompt=prompt,
        directory=str(place),
        form="toml",
        tests=[str(place / "tests")] if (place / "tests").is_dir() else [],
        solution=_directory(place / "solution"),
        context=str(place / "environment") if (place / "environment/Dockerfile").is_file() else "",
        compose=_directory(place / "environment"),
        image=str(environment.get("docker_image") or beside.image),
        agent_seconds=_number(agent.get("timeout_sec")),
        variables={**beside.variables, **_variables(environment.get("env"))},
        solution_variables=_variables(content.get("solution", {}).get("env")),
        network=_network(environment),
        cpus=_number(environment.get("cpus")),
        memory_mb=_memory(environment),
        health=_health(environment.get("healthcheck")),
        workdir=str(environment.get("workdir") or ""),
        workfiles="",
        services=needs_services(place),
        steps=[],
        least={},
        strategy="final" if content.get("multi_step_reward_strategy") == "final" else "mean",
        refused=refused,
        metadata={key: metadata[key] for key in ("difficulty", "category") if key in metadata},
        **_verified(place, content, {}),
    )
    task["steps"] = [_step(task, place, content, step) for step in content.get("steps") or ()]
    return task


def _step(
    task: HarborTask, place: Path, content: Mapping[str, Any], step: Mapping[str, Any]
) -> HarborTask:
    """A task's step: its own instruction, tests, solution and limits over the task's."""
    own, agent = _step_folder(place, step), step.get("agent", {})
    try:
        prompt = (own / "instruction.md").read_text("utf-8")
    except OSError as error:
        raise DatasetError(f"{place}: {error}") from None
    least = step.get("min_reward")
    seconds = _number(agent.get("timeout_sec"))
    return {
        **task,
        "prompt": prompt,
        "directory": str(own),
        "tests": [*task["tests"], *([str(own / "tests")] if (own / "tests").is_dir() else [])],
        "solution": _directory(own / "solution") or task["solution"],
        "agent_seconds": task["agent_seconds"] if seconds is None else seconds,
        "health": _health(step.get("healthcheck")),
        "workfiles": _directory(own / "workdir"),
        "least": {"reward": float(least)} if isinstance(least, int | float) else dict(least or {}),
        "services": needs_services(own),
        "steps": [],
        **_verified(place, content, step),
    }


def _step_folder(place: Path, step: Mapping[str, Any]) -> Path:
    name = str(step.get("name"))
    if not re.fullmatch(r"[\w.-]+", name) or name in (".", ".."):
        raise DatasetError(f"{place}: the step {name!r} has no plain name")
    return place / "steps" / name


class Verified(TypedDict):
    """What a task or a step says of its verifier."""

    verifier_seconds: float
    verifier_variables: dict[str, str]
    separate: VerifierEnvironment | None
    artifacts: list[Artifact]
    collect: list[Command]


def _verified(place: Path, content: Mapping[str, Any], step: Mapping[str, Any]) -> Verified:
    whole, own = content.get("verifier", {}), step.get("verifier", {})
    seconds = _number(own.get("timeout_sec")) or _number(whole.get("timeout_sec"))
    return Verified(
        verifier_seconds=seconds or HARBOR_VERIFIER_SECONDS,
        verifier_variables=_variables({**(whole.get("env") or {}), **(own.get("env") or {})}),
        separate=_separate(place, content, step),
        artifacts=_artifacts([*(content.get("artifacts") or ()), *(step.get("artifacts") or ())]),
        collect=[
            Command(
                command=str(each["command"]),
                service=_service(each),
                seconds=_number(each.get("timeout_sec")) or COLLECT_SECONDS,
            )
            for each in [*(whole.get("collect") or ()), *(own.get("collect") or ())]
        ],
    )


def _refused(place: Path, content: Mapping[str, Any]) -> str:
    """What the task asks for and cannot have here."""
    environment, verifier = content.get("environment", {}), content.get("verifier", {})
    parts = [content.get("agent", {}), verifier]
    for step in content.get("steps") or ():
        parts += [step.get("agent", {}), step.get("verifier", {})]
    reasons = {
        "containers of Windows": str(environment.get("os", "linux")).lower() != "linux",
        "graphics processors": bool(environment.get("gpus") or environment.get("tpu")),
        "MCP servers for the agent": bool(environment.get("mcp_servers")),
        "a user of its own for agent or verifier": any(
            part.get("user") not in (None, "root", 0) for part in parts
        ),
        "a list of hosts that may be reached": any(
            part.get("network_mode") == "allowlist" for part in [environment, *parts]
        ),
    }
    return next((what for what, asked in reasons.items() if asked), "")


def _separate(
    place: Path, content: Mapping[str, Any], step: Mapping[str, Any]
) -> VerifierEnvironment | None:
    """The verifier's own environment, by Harbor's rules; None where it shares the agent's.

    The first image or Dockerfile counts: the step's, the task's verifier's, the agent's own.
    """
    environment = content.get("environment", {})
    verifiers = [step.get("verifier", {}), content.get("verifier", {})]
    modes = [
        part.get("environment_mode") or ("separate" if part.get("environment") else None)
        for part in verifiers
    ]
    if next(filter(None, modes), "shared") != "separate":
        return None
    settings = next((own for part in verifiers if (own := part.get("environment"))), environment)
    image, context, has_tests = str(environment.get("docker_image") or ""), "environment", False
    for part, folder in zip(verifiers, (f"steps/{step.get('name')}/tests", "tests"), strict=True):
        named = str((part.get("environment") or {}).get("docker_image") or "")
        if named or (place / folder / "Dockerfile").is_file():
            image, context, has_tests = named, folder, True
            break
    return VerifierEnvironment(
        image=image,
        context=str(place / context),
        has_tests=has_tests,
        network=_network(settings),
        variables=_variables(settings.get("env")),
        cpus=_number(settings.get("cpus")),
        memory_mb=_memory(settings),
    )


def _artifacts(listed: list[Any]) -> list[Artifact]:
    found = [Artifact(source="/logs/artifacts", exclude=[], service="")]
    for given in listed:
        artifact = {"source": given} if isinstance(given, str) else given
        found.append(
            Artifact(
                source="/" + str(artifact["source"]).strip("/"),
                exclude=list(artifact.get("exclude") or ()),
                service=_service(artifact),
            )
        )
    return found


def _service(given: Mapping[str, Any]) -> str:
    name = str(given.get("service") or MAIN)
    return "" if name == MAIN else name


def _health(given: Mapping[str, Any] | None) -> Healthcheck | None:
    if not given:
        return None
    return Healthcheck(
        command=str(given["command"]),
        interval=float(given.get("interval_sec", 5.0)),
        seconds=float(given.get("timeout_sec", 30.0)),
        grace=float(given.get("start_period_sec", 0.0)),
        retries=int(given.get("retries", 3)),
    )


def _directory(place: Path) -> str:
    return str(place) if place.is_dir() else ""


def _network(environment: Mapping[str, Any]) -> bool:
    if "network_mode" in environment:
        return bool(environment["network_mode"] == "public")
    return bool(environment.get("allow_internet", True))


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
        tests=[str(place / "tests")] if (place / "tests").is_dir() else [],
        solution=next(
            (str(place / name) for name in YAML_SOLUTIONS if (place / name).is_file()), ""
        ),
        context=str(place) if (place / "Dockerfile").is_file() else "",
        compose="",
        image="",
        agent_seconds=_number(content.get("max_agent_timeout_sec")) or YAML_AGENT_SECONDS,
        verifier_seconds=_number(content.get("max_test_timeout_sec")) or YAML_VERIFIER_SECONDS,
        variables={"TEST_DIR": "/tests"},
        verifier_variables={},
        solution_variables={},
        network=True,
        cpus=None,
        memory_mb=DEFAULT_MEMORY_MB,
        separate=None,
        artifacts=[],
        collect=[],
        health=None,
        workdir="",
        workfiles="",
        services=needs_services(place),
        steps=[],
        least={},
        strategy="mean",
        refused="",
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
