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

from chimera.errors import DatasetError
from chimera.eval.data.archives import archives_in, unpacked
from chimera.eval.values import Task

#: How deep below the data set's place task folders are looked for.
SEARCH_DEPTH = 3
#: Where a task does not say: the limits of the two official programs.
HARBOR_VERIFIER_SECONDS = 600.0
YAML_AGENT_SECONDS = 360.0
YAML_VERIFIER_SECONDS = 60.0
DEFAULT_MEMORY_MB = 8192

Form = Literal["toml", "yaml"]


class Artifact(TypedDict):
    """What a task hands from the agent's container to a verifier of its own."""

    source: str
    exclude: list[str]


class VerifierEnvironment(TypedDict):
    """An environment of the verifier's own: an image, or the directory to build one from."""

    image: str
    context: str
    network: bool
    variables: dict[str, str]
    cpus: float | None
    memory_mb: int


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
    separate: VerifierEnvironment | None
    artifacts: list[Artifact]
    services: bool  # the tests talk to servers that the agent is to leave running


def folders_source(place: Path) -> Path | None:
    """What to read at a place: itself, or the one archive in it when it holds no task folder."""
    if place.is_file() or task_directories(place):
        return place
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
        network=_network(environment),
        cpus=_number(environment.get("cpus")),
        memory_mb=_memory(environment),
        separate=_separate(place, verifier, environment),
        artifacts=_artifacts(content),
        services=needs_services(place),
        metadata={key: metadata[key] for key in ("difficulty", "category") if key in metadata},
    )


def _separate(
    place: Path, verifier: Mapping[str, Any], environment: Mapping[str, Any]
) -> VerifierEnvironment | None:
    """The verifier's own environment, by Harbor's rules; None where it shares the agent's."""
    own = verifier.get("environment")
    if verifier.get("environment_mode", "separate" if own else "shared") != "separate":
        return None
    if verifier.get("collect"):
        raise DatasetError(f"{place}: commands that collect for a verifier are not supported")
    settings = environment if own is None else own
    image = str(settings.get("docker_image") or "")
    if not image and not (place / "tests/Dockerfile").is_file():
        raise DatasetError(f"{place}: the verifier has neither an image nor tests/Dockerfile")
    return VerifierEnvironment(
        image=image,
        context=str(place / "tests"),
        network=_network(settings),
        variables=_variables(settings.get("env")),
        cpus=_number(settings.get("cpus")),
        memory_mb=_memory(settings),
    )


def _artifacts(content: Mapping[str, Any]) -> list[Artifact]:
    found = [Artifact(source="/logs/artifacts", exclude=[])]
    for given in content.get("artifacts") or ():
        artifact = {"source": given} if isinstance(given, str) else given
        source = "/" + str(artifact["source"]).strip("/")
        found.append(Artifact(source=source, exclude=list(artifact.get("exclude") or ())))
    return found


def _network(environment: Mapping[str, Any]) -> bool:
    default = environment.get("network_mode", "public") != "no-network"
    return bool(environment.get("allow_internet", default))


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
        separate=None,
        artifacts=[],
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
