"""The shell as a tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chimera.environments.base import Environment, machine
from chimera.types import JSON, ToolResult

OUTPUT_BYTES = 60_000
MAX_TIMEOUT = 3600.0


def _parameters() -> Mapping[str, JSON]:
    return {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command line, run by bash"},
            "timeout": {"type": "number", "description": "Seconds it may take (default 120)"},
        },
        "required": ["command"],
    }


@dataclass(frozen=True, slots=True)
class BashTool:
    """Runs a command line in the environment's working directory."""

    name: str = "bash"
    description: str = (
        "Run a bash command. Every call is a new shell in the working directory; files and "
        "background processes (started with &) stay. Output is stdout and stderr as they came."
    )
    parameters: Mapping[str, JSON] = field(default_factory=_parameters)
    timeout: float = 120.0

    def execute(self, arguments: Mapping[str, JSON], env: Environment) -> ToolResult:
        command = str(arguments["command"])
        timeout = min(float(arguments.get("timeout") or self.timeout), MAX_TIMEOUT)
        result = machine(env).run_command(
            f"exec 2>&1\n{command}", timeout=timeout, output_bytes=OUTPUT_BYTES
        )
        metadata = {"exit_code": result.exit_code, "truncated": result.truncated}
        if result.timed_out:
            ended = f"after {result.duration:.0f} s it was ended with all it had started"
            return ToolResult(result.output, f"the command did not finish: {ended}", metadata)
        text = result.output
        if result.exit_code:
            text = f"{text.rstrip()}\n[exit code {result.exit_code}]".lstrip()
        return ToolResult(text, None, metadata)
