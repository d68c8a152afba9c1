"""What a tool is: a name and a schema for the model, and a function over the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from chimera.types import JSON, ToolResult

if TYPE_CHECKING:
    from chimera.environments.base import Environment


@runtime_checkable
class Tool(Protocol):
    name: str
    description: str
    parameters: Mapping[str, JSON]  # JSON schema of the arguments

    def execute(self, arguments: Mapping[str, JSON], env: Environment) -> ToolResult: ...
