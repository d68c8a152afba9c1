"""What the door to an engine understands, and what it shows of what the engine says.

A request is read by these tables and built anew: no path, query, header or body of a client's goes
on as it came. What is not in them is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

from chimera.environments.engine_wire import Request


class Refused(Exception):
    """A request that the door does not let through."""


# --- paths and queries

_SWITCH, _NUMBER = r"true|false|0|1", r"-?[0-9]{1,9}"
_TIME = r"-?[0-9]{1,20}(\.[0-9]{1,9})?"
_SIGNAL = r"[A-Z0-9+]{1,16}"
_PATH = r"[^\x00]{1,4096}"
_NAME = r"/?[a-zA-Z0-9][a-zA-Z0-9_.-]{0,255}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that can be asked for; a query's values have to match its patterns as a whole."""

    action: str
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)


_CONTAINER = r"/containers/(?P<id>[0-9a-f]{12,64})"
_EXEC = r"/exec/(?P<exec>[0-9a-f]{12,64})"
_STREAMS = dict.fromkeys(("stdout", "stderr"), _SWITCH)
RULES = (
    Rule("ping", "GET", "/_ping"),
    Rule("ping", "HEAD", "/_ping"),
    Rule("version", "GET", "/version"),
    Rule("info", "GET", "/info"),
    # the named images are asked for one by one, and there are no networks but the one
    Rule("none", "GET", "/images/json", {"all": _SWITCH, "filter": _PATH, "filters": _PATH}),
    Rule("none", "GET", "/networks", {"filters": _PATH}),
    Rule("prune", "POST", "/(?:networks|volumes|images)/prune", {"filters": _PATH}),
    Rule("image", "GET", r"/images/(?P<image>[a-z0-9][\w.:/@-]{0,255})/json"),
    Rule("list", "GET", "/containers/json",
         {"all": _SWITCH, "size": _SWITCH, "limit": _NUMBER, "filters": _PATH}),
    Rule("create", "POST", "/containers/create", {"name": _NAME, "platform": r"[\w./-]{0,64}"}),
    Rule("inspect", "GET", f"{_CONTAINER}/json", {"size": _SWITCH}),
    Rule("start", "POST", f"{_CONTAINER}/start"),
    Rule("stop", "POST", f"{_CONTAINER}/stop", {"t": _NUMBER, "signal": _SIGNAL}),
    Rule("kill", "POST", f"{_CONTAINER}/kill", {"signal": _SIGNAL}),
    Rule("resize", "POST", f"{_CONTAINER}/resize", {"h": _NUMBER, "w": _NUMBER}),
    Rule("wait", "POST", f"{_CONTAINER}/wait", {"condition": "not-running|next-exit|removed"}),
    Rule("remove", "DELETE", _CONTAINER, {"v": _SWITCH, "force": _SWITCH}),
    Rule("logs", "GET", f"{_CONTAINER}/logs",
         {**_STREAMS, "follow": _SWITCH, "timestamps": _SWITCH, "since": _TIME, "until": _TIME,
          "tail": rf"all|{_NUMBER}"}),
    Rule("attach", "POST", f"{_CONTAINER}/attach",
         {**_STREAMS, "stdin": _SWITCH, "stream": _SWITCH, "logs": _SWITCH}),
    Rule("fetch", "GET", f"{_CONTAINER}/archive", {"path": _PATH}),
    Rule("put", "PUT", f"{_CONTAINER}/archive",
         {"path": _PATH, "noOverwriteDirNonDir": _SWITCH, "copyUIDGID": _SWITCH}),
    Rule("execute", "POST", f"{_CONTAINER}/exec"),
    Rule("begin", "POST", f"{_EXEC}/start"),
    Rule("resize", "POST", f"{_EXEC}/resize", {"h": _NUMBER, "w": _NUMBER}),
    Rule("result", "GET", f"{_EXEC}/json"),
)  # fmt: skip
_VERSION = re.compile(r"/v[0-9]{1,3}\.[0-9]{1,3}(?=/)")


@dataclass(frozen=True, slots=True)
class Understood:
    """A request by its meaning."""

    action: str
    method: str
    named: Mapping[str, str]  # the parts of the path that are names
    query: Mapping[str, str]

    def query_text(self, **more: str) -> str:
        text = urlencode({**self.query, **more})
        return f"?{text}" if text else ""


def understood(request: Request) -> Understood:
    """What a request asks for; the version of the API that it names is of no account."""
    path, _, query = request.target.partition("?")
    try:
        plain = unquote(_VERSION.sub("", path, count=1), errors="strict")
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query),
                          errors="strict", max_num_fields=16)  # fmt: skip
    except ValueError:
        raise Refused(f"{request.method} {path}: it cannot be read") from None
    for rule in RULES:
        found = re.fullmatch(rule.path, plain, re.ASCII)
        if found is None or rule.method != request.method:
            continue
        for key, value in pairs:
            if key not in rule.query or not re.fullmatch(rule.query[key], value, re.ASCII):
                raise Refused(f"{request.method} {plain} with {key}={value}")
        if len(dict(pairs)) < len(pairs):
            raise Refused(f"{request.method} {plain} with a key twice")
        return Understood(rule.action, rule.method, found.groupdict(), dict(pairs))
    raise Refused(f"{request.method} {plain}")


# --- bodies

Check = Callable[[Any], bool]


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _command(value: Any) -> bool:
    return isinstance(value, str) or _texts(value)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _switch(value: Any) -> bool:
    return isinstance(value, bool)


def _labels(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _ports(value: Any) -> bool:
    return isinstance(value, dict) and all(
        re.fullmatch(r"[0-9]{1,5}/(tcp|udp|sctp)", port, re.ASCII) for port in value
    )


_HEALTHCHECK: Mapping[str, Check] = {
    "Test": _texts, "Interval": _count, "Timeout": _count, "Retries": _count,
    "StartPeriod": _count, "StartInterval": _count,
}  # fmt: skip


def _healthcheck(value: Any) -> bool:
    return isinstance(value, dict) and all(
        key in _HEALTHCHECK and _HEALTHCHECK[key](item) for key, item in value.items()
    )


_RUN: Mapping[str, Check] = {
    "Cmd": _command, "Env": _texts, "WorkingDir": _text, "User": _text, "Tty": _switch,
    "AttachStdin": _switch, "AttachStdout": _switch, "AttachStderr": _switch,
}  # fmt: skip
#: What a new container may say for itself; what else it says is left out.
CREATE: Mapping[str, Check] = {
    **_RUN, "Image": _text, "Entrypoint": _command, "Labels": _labels, "ExposedPorts": _ports,
    "Healthcheck": _healthcheck, "OpenStdin": _switch, "StdinOnce": _switch, "StopSignal": _text,
}  # fmt: skip
#: What a command in one may, and how it may begin.
EXECUTE, BEGIN = _RUN, {"Detach": _switch, "Tty": _switch}


def read_body(request: Request, schema: Mapping[str, Check]) -> dict[str, Any]:
    """The keys of the schema, each of the kind it must be; nothing else of a body is taken over."""
    said = request.json()
    if said is None:
        said = {}
    if not isinstance(said, dict):
        raise Refused("a body that is no object")
    kept = {key: said[key] for key in schema if said.get(key) is not None}
    for key, value in kept.items():
        if not schema[key](value):
            raise Refused(f"{key} of this kind")
    return kept


def no_body(request: Request) -> None:
    """Old versions of the API take a container's settings at its start."""
    if request.json() not in (None, {}):
        raise Refused("a body where there is none")


_FILTERS = ("label", "status", "name", "id", "ancestor", "health")


def filters(text: str, label: str) -> str:
    """The filters of a list, narrowed to what carries a label."""
    try:
        said = json.loads(text or "{}")
    except (ValueError, RecursionError):
        raise Refused("filters that are no JSON") from None
    if not isinstance(said, dict) or not set(said) <= set(_FILTERS):
        raise Refused("filters of this kind")
    chosen: dict[str, list[str]] = {}
    for key, values in said.items():
        listed = [name for name, on in values.items() if on] if isinstance(values, dict) else values
        if not _texts(listed):
            raise Refused("filters of this kind")
        chosen[key] = listed
    return json.dumps({**chosen, "label": [*chosen.get("label", ()), label]})


# --- what is shown

#: What Testcontainers asks about the engine; the rest (names, proxies, directories) is the host's.
INFO = ("ServerVersion", "OperatingSystem", "OSType", "Architecture", "MemTotal", "NCPU")
VERSION = ("Version", "Os", "Arch")
_LISTED = ("Id", "Names", "Image", "ImageID", "Command", "Created", "State", "Status")
_IMAGE = ("Id", "Created", "Size", "Architecture", "Os", "Config")
_SEEN = ("Id", "Created", "Path", "Args", "Image", "Name", "RestartCount", "Platform")
_STATE = ("Status", "Running", "Paused", "Restarting", "OOMKilled", "Dead", "ExitCode", "Error",
          "StartedAt", "FinishedAt", "Health")  # fmt: skip
_RESULT = ("ID", "Running", "ExitCode", "ContainerID", "OpenStdin", "OpenStdout", "OpenStderr",
           "ProcessConfig")  # fmt: skip
OWN_LABELS = "chimera."


def only(keys: Sequence[str], said: Any) -> dict[str, Any]:
    return {key: said[key] for key in keys if isinstance(said, dict) and key in said}


def shown_image(said: Any, name: str) -> dict[str, Any]:
    tags = [] if name.startswith("sha256:") else [name]
    return {**only(_IMAGE, said), "RepoTags": tags, "RepoDigests": []}


def shown_result(said: Any) -> dict[str, Any]:
    return only(_RESULT, said)


def foreign_labels(said: Any) -> dict[str, str]:
    labels = said if isinstance(said, dict) else {}
    return {key: text for key, text in labels.items() if not key.startswith(OWN_LABELS)}


def shown_row(said: Mapping[str, Any]) -> dict[str, Any]:
    return {**only(_LISTED, said), "Labels": foreign_labels(said.get("Labels")), "Ports": []}


def shown_container(said: Any, ports: Sequence[str]) -> dict[str, Any]:
    """A container whose ports are published to the machine that the tests run on."""
    config = said.get("Config") or {}
    address = {"IPAddress": "127.0.0.1", "Gateway": "127.0.0.1"}
    return {
        **only(_SEEN, said),
        "State": only(_STATE, said.get("State")),
        "Config": {
            **config,
            "Labels": foreign_labels(config.get("Labels")),
            "ExposedPorts": {port: {} for port in ports},
            "Hostname": "localhost",
        },
        "HostConfig": {"NetworkMode": "bridge"},
        "Mounts": [],
        "NetworkSettings": {
            **address,
            "Ports": {
                port: [{"HostIp": "127.0.0.1", "HostPort": port.partition("/")[0]}]
                for port in ports
            },
            "Networks": {"bridge": address},
        },
    }
