"""The containers beside a task's own, read from its docker-compose.yaml.

The file is a stranger's: what would reach outside of the task's containers is refused by its name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chimera.environments.base import Service
from chimera.environments.docker import MAIN

HARBORS = {"TEST_DIR": "/tests"}
FILES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
#: What changes nothing here: ports stay inside, and limits are the task's.
WITHOUT_EFFECT = frozenset(
    {"ports", "expose", "networks", "restart", "init", "hostname", "container_name", "platform",
     "labels", "logging", "stop_grace_period", "stop_signal", "deploy", "mem_limit", "cpus",
     "pull_policy", "stdin_open", "tty", "shm_size", "ulimits", "tmpfs", "profiles"}
)  # fmt: skip
READ = frozenset(
    {"image", "build", "command", "entrypoint", "environment", "healthcheck", "depends_on",
     "volumes", "working_dir", "user"}
)  # fmt: skip


class NotSupported(Exception):
    """Something in a compose file that a task cannot have here."""


@dataclass(frozen=True, slots=True)
class Composed:
    """What a compose file adds to a task."""

    services: tuple[Service, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)  # of the task's own container
    volumes: Mapping[str, str] = field(default_factory=dict)
    image: str = ""


def composed(directory: Path) -> Composed:
    """What the compose file of an `environment/` directory says; nothing where there is none."""
    import yaml

    file = next((directory / name for name in FILES if (directory / name).is_file()), None)
    if file is None:
        return Composed()
    try:
        return _composed(yaml.safe_load(file.read_text("utf-8"))["services"], directory)
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise NotSupported(f"a {file.name} that can be read ({error!r})") from None


def _composed(given: Mapping[str, Any], directory: Path) -> Composed:
    services = dict(given)
    main = services.pop(MAIN, None) or {}
    _known_keys(MAIN, main)
    return Composed(
        tuple(_service(name, services, directory) for name in _order(services)),
        _variables(main.get("environment")),
        _volumes(MAIN, main, directory)[0],
        "" if main.get("build") else _resolved(str(main.get("image") or "")),
    )


def _known_keys(name: str, service: Mapping[str, Any]) -> None:
    for key, value in service.items():
        if key not in READ | WITHOUT_EFFECT and value not in (None, False, [], {}):
            raise NotSupported(f"'{key}' for the service '{name}'")


def _order(services: Mapping[str, Any]) -> list[str]:
    """The services, each after those that it depends on."""
    ordered: list[str] = []

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise NotSupported(f"a service '{name}' that depends on itself")
        if name not in services:
            raise NotSupported(f"a service '{name}', which is not there")
        for other in services[name].get("depends_on") or ():
            add(other, (*above, name))
        if name not in ordered:
            ordered.append(name)

    for name in services:
        add(name, ())
    return ordered


def _service(name: str, services: Mapping[str, Any], directory: Path) -> Service:
    service = services[name]
    _known_keys(name, service)
    volumes, mounts = _volumes(name, service, directory)
    context = _context(name, service.get("build"), directory)
    if context is None and not service.get("image"):
        raise NotSupported(f"a service '{name}' without image and build")
    return Service(
        name,
        image=None if context is not None else _resolved(str(service["image"])),
        build_context=context,
        entrypoint=_words(service.get("entrypoint")),
        command=_words(service.get("command")),
        user=_text(service.get("user")),
        workdir=_text(service.get("working_dir")),
        variables=_variables(service.get("environment")),
        mounts=mounts,
        volumes=volumes,
        health=_health(service.get("healthcheck")),
        once=any(_runs_once(name, other) for other in services.values()),
    )


def _runs_once(name: str, other: Mapping[str, Any]) -> bool:
    depends = other.get("depends_on")
    condition = (depends.get(name) or {}) if isinstance(depends, Mapping) else {}
    return bool(condition.get("condition") == "service_completed_successfully")


def _context(name: str, build: Any, directory: Path) -> Path | None:
    if build is None:
        return None
    given = {"context": build} if isinstance(build, str) else dict(build)
    if given.pop("dockerfile", "Dockerfile") != "Dockerfile" or set(given) - {"context"}:
        raise NotSupported(f"more than a Dockerfile for the service '{name}'")
    return _inside(str(given.get("context", ".")), directory)


def _inside(path: str, directory: Path) -> Path:
    place = (directory / path).resolve()
    if not place.is_relative_to(directory.resolve()):
        raise NotSupported(f"{path}, which is outside of the task")
    return place


def _volumes(
    name: str, service: Mapping[str, Any], directory: Path
) -> tuple[dict[str, str], dict[str, str]]:
    """(target → name of a shared volume, path in the task → target)"""
    volumes: dict[str, str] = {}
    mounts: dict[str, str] = {}
    for given in service.get("volumes") or ():
        source, target = _volume(name, given)
        if source.startswith("${HOST_"):  # where Harbor keeps logs, which are read otherwise here
            continue
        if source.startswith((".", "/", "~")):
            mounts[str(_inside(source, directory))] = target
        else:
            volumes[target] = source
    if name == MAIN and mounts:
        raise NotSupported("a path of the host in the task's own container")
    return volumes, mounts


def _volume(name: str, given: Any) -> tuple[str, str]:
    if isinstance(given, str):
        source, colon, rest = given.partition("}:" if given.startswith("${") else ":")
        source = source + "}" if given.startswith("${") else source
        target = rest.partition("}" if rest.startswith("${") else ":")[0]
        if colon and target:
            return source, target
    elif given.get("type") in ("volume", "bind") and given.get("source"):
        return str(given["source"]), str(given["target"])
    raise NotSupported(f"the volume {given!r} for the service '{name}'")


def _health(given: Any) -> tuple[str, ...] | None:
    test = (given or {}).get("test")
    if not test or (given or {}).get("disable") or test == ["NONE"]:
        return None
    if isinstance(test, str):
        return ("sh", "-c", test)
    kind, *words = map(str, test)
    return ("sh", "-c", *words) if kind == "CMD-SHELL" else tuple(words)


def _words(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    words: Iterable[Any] = shlex.split(value) if isinstance(value, str) else value
    return tuple(_resolved(str(word)) for word in words)


def _resolved(text: str) -> str:
    """A text with its variables: Harbor's own, and defaults; none of the host's is handed on."""

    def value(match: re.Match[str]) -> str:
        found = HARBORS.get(match[1], match[2])
        if found is None:
            raise NotSupported(f"a value for the variable {match[1]} of its compose file")
        return found

    return re.sub(r"(?<!\$)\$\{(\w+)(?::?-([^}]*))?\}", value, text).replace("$$", "$")


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _variables(value: Any) -> dict[str, str]:
    pairs = (
        value.items()
        if isinstance(value, Mapping)
        else (str(entry).partition("=")[::2] for entry in value or ())
    )
    return {str(key): _resolved(str(text)) for key, text in pairs}
