"""What coding agents with a command line have in common: installed once, run with a gateway."""

from __future__ import annotations

import re
import secrets
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from chimera.agents.attended import run_attended
from chimera.agents.base import BaseAgent
from chimera.agents.coding.layers import LAUNCHER, PYTHON, Layer, Pip, Recipe
from chimera.agents.gatewayed import forwarder_python, outcome, put_file, remove_path
from chimera.environments.base import Environment, Machine, machine
from chimera.errors import UsageError
from chimera.gateway.door import opened_door
from chimera.gateway.session import OtherModels
from chimera.providers.base import Provider
from chimera.providers.sdk import parsed
from chimera.types import JSON, AgentResult

MOST_OUTPUT_BYTES = 16 * 1024**2


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of a program: what it is asked, and where it finds what it needs."""

    prompt: str
    model: str  # by which name it may ask for its model
    address: str  # of the gateway, inside
    token: str
    places: Mapping[str, str]  # the layers, by name
    home: str  # a directory of its own, for settings and logs; it is removed at the end


@dataclass(frozen=True, kw_only=True)
class CodingAgent(BaseAgent):
    """A program that works in the task's directory until it thinks that it is done.

    `arguments` are put behind its own; `version` replaces the one that it was tried with.
    `other_models`: what becomes of its calls to models that it was not given.
    """

    provider: Provider
    version: str | None = None
    arguments: tuple[str, ...] = ()
    other_models: OtherModels = "rewrite"
    timeout: float = 7200.0

    name: ClassVar[str]
    recipe: ClassVar[Recipe]
    needs_environment = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", tuple(self.arguments))

    # --- what is particular to each

    @abstractmethod
    def command(self, launch: Launch) -> Sequence[str]: ...

    @abstractmethod
    def variables(self, launch: Launch) -> Mapping[str, str]: ...

    def files(self, launch: Launch) -> Mapping[str, str]:
        """Settings and scripts to be written before it starts: path → text."""
        return {}

    def stdin(self, launch: Launch) -> str:
        return ""

    def result(self, stdout: str) -> str | None:
        """Its last words, as far as it prints them; None: those of the conversation."""
        return None

    # --- what is not

    def identity(self) -> dict[str, JSON]:
        return {
            "agent": self.name,
            "packages": [*self.recipes(self.version)[0].packages],
            "provider": self.provider.identity(),
            "arguments": list(self.arguments),
            "other_models": self.other_models,
            "timeout": self.timeout,
        }

    def providers(self) -> Sequence[Provider]:
        return (self.provider,)

    @classmethod
    def recipes(cls, version: str | None = None) -> list[Recipe]:
        """Everything that must be installed: the program, and what it and the gateway run on."""
        own = cls.recipe if version is None else replace(cls.recipe, version=version)
        return list(dict.fromkeys([own, *own.runtimes(), PYTHON]))

    def layers(self) -> list[Layer]:
        return [each.layer() for each in self.recipes(self.version)]

    def mounts(self) -> dict[str, str]:
        return {str(layer.path): layer.target for layer in self.layers()}

    def run(self, prompt: str, env: Environment) -> AgentResult:
        inside = machine(env)
        places = self._places(inside)
        model = client_name(self.provider.model)
        home = f"/tmp/chimera-{secrets.token_hex(8)}"
        python = forwarder_python(inside)
        with opened_door(
            self.provider, inside, python=python, other_models=self.other_models, names=(model,)
        ) as door:
            launch = Launch(prompt, model, door.address, door.token, places, home)
            try:
                for path, text in self.files(launch).items():
                    put_file(inside, path, text)
                result = run_attended(
                    inside,
                    [*self.command(launch), *self.arguments],
                    timeout=self.timeout,
                    output_bytes=MOST_OUTPUT_BYTES,
                    variables=self.variables(launch),
                    stdin=self.stdin(launch).encode(),
                    stopped=door.session.stopped,
                )
            finally:
                remove_path(inside, home)
        stdout = result.stdout.decode("utf-8", "replace")
        return outcome(self.name, door.session, result, self.result(stdout))

    def _places(self, env: Machine) -> dict[str, str]:
        """Where the layers are inside."""
        places = {}
        for layer in self.layers():
            candidates = (layer.target, str(layer.path))
            found = [each for each in candidates if env.run_command(["test", "-d", each]).success]
            if not found:
                raise UsageError(
                    f"{layer.target} is not in the environment '{env.name}': "
                    "start it with the agent's mounts()"
                )
            places[layer.target.rpartition("/")[2]] = found[0]
        return places


class PythonAgent(CodingAgent):
    """One that is made of packages of PyPI."""

    recipe: ClassVar[Pip]

    def files(self, launch: Launch) -> Mapping[str, str]:
        return {f"{launch.home}/{LAUNCHER}": self.recipe.launcher(launch.places)}


def client_name(model: str) -> str:
    """A model's name that any program takes for one."""
    return re.sub(r"[^\w.:@-]+", "-", model).strip("-")[-80:] or "model"


def last_object(stdout: str) -> dict[str, Any]:
    """The last line, or the whole, that is a JSON object; empty when there is none."""
    for text in (stdout, *reversed(stdout.split("\n"))):
        try:
            value = parsed(text)
        except ValueError:
            continue
        if isinstance(value, dict):
            return value
    return {}


def json_lines(stdout: str) -> list[dict[str, Any]]:
    """The lines that are JSON objects."""
    found = []
    for line in stdout.split("\n"):
        try:
            value = parsed(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found
