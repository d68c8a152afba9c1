"""`command`: any agent with a command line, run inside the task's environment."""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chimera.agents.attended import run_attended
from chimera.agents.base import BaseAgent
from chimera.agents.coding.layers import PYTHON
from chimera.agents.gatewayed import forwarder_python, outcome, put_file, remove_path
from chimera.environments.base import Environment, Machine, machine
from chimera.errors import AgentError, UsageError
from chimera.gateway.door import opened_door
from chimera.gateway.session import OtherModels
from chimera.providers.base import Provider
from chimera.providers.meter import current_meter
from chimera.providers.secrets import redact, remember_secret
from chimera.types import JSON, AgentResult, Message, Step

MOST_OUTPUT_BYTES = 1024**2
SHOWN_CHARACTERS = 2000
PLACEHOLDERS = ("prompt", "prompt_file", "model")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandAgent(BaseAgent):
    """A shell command with `{prompt}`, `{prompt_file}` and `{model}` filled in and quoted.

    Without `{prompt}` and `{prompt_file}` the prompt comes on standard input. What the command
    prints is its answer; files it changed are collected by the benchmark. Where a model is named,
    the command reaches it through the gateway, whose address and token the usual variables name
    (OPENAI_BASE_URL, ANTHROPIC_BASE_URL, …): it needs no network and no key, and what it spends is
    known. Without one, or with `gateway=false`, it keeps its own account; variables named in
    `pass_env` (API keys, say) are handed on, no others.
    """

    template: str
    model: str | None = None
    provider: Provider | None = None
    gateway: bool = True
    other_models: OtherModels = "rewrite"
    pass_env: tuple[str, ...] = ()
    timeout: float = 3600.0
    free: bool = False  # the command spends no money, so that a budget need not watch it

    name = "command"
    needs_environment = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "pass_env", tuple(self.pass_env))
        if not self.template.strip():
            raise UsageError("agent 'command' needs a command, as in 'command:claude -p {prompt}'")
        if "{model}" in self.template and not self.model:
            raise UsageError(f"the command '{self.template}' wants a model, and none was named")

    def identity(self) -> dict[str, JSON]:
        """Everything of this agent that can change an outcome; values of variables are not kept."""
        return {
            "agent": self.name,
            "template": self.template,
            "model": self.model,
            "pass_env": sorted(self.pass_env),
            "timeout": self.timeout,
            **({} if self.provider is None else {"provider": self.provider.identity()}),
        }

    def providers(self) -> Sequence[Provider]:
        return () if self.provider is None else (self.provider,)

    def mounts(self) -> Mapping[str, str]:
        if self.provider is None:
            return {}
        layer = PYTHON.layer()  # for the forwarder, in images without an interpreter
        return {str(layer.path): layer.target}

    def run(self, prompt: str, env: Environment) -> AgentResult:
        inside = machine(env)
        prompt_file = (
            self._write_prompt(prompt, inside) if "{prompt_file}" in self.template else None
        )
        try:
            if self.provider is None:
                return self._unwatched(prompt, prompt_file, inside)
            return self._through_gateway(self.provider, prompt, prompt_file, inside)
        finally:
            if prompt_file is not None:
                remove_path(inside, prompt_file)

    def _through_gateway(
        self, provider: Provider, prompt: str, prompt_file: str | None, env: Machine
    ) -> AgentResult:
        python = forwarder_python(env)
        with opened_door(provider, env, python=python, other_models=self.other_models) as door:
            result = run_attended(
                env,
                self._command(prompt, prompt_file),
                timeout=self.timeout,
                output_bytes=MOST_OUTPUT_BYTES,
                variables={**self._variables(), **door.variables},
                stdin=prompt.encode() if self._by_stdin() else b"",
                stopped=door.session.stopped,
            )
        said = result.stdout.decode("utf-8", "replace")
        return outcome(f"'{self.template}'", door.session, result, said)

    def _unwatched(self, prompt: str, prompt_file: str | None, inside: Machine) -> AgentResult:
        meter = current_meter()
        if (
            meter is not None
            and not self.free
            and (meter.budget_bounded or meter.limits.max_cost is not None)
        ):
            raise UsageError(
                "what an outside command spends is not known, so a limit on money cannot be kept\n"
                "  Name its model, so that it asks through the gateway; run without the limit; or "
                "state that it costs nothing: --agent-option free=true."
            )
        result = inside.run_command(
            self._command(prompt, prompt_file),
            timeout=self.timeout,
            variables=self._variables(),
            stdin=prompt.encode() if self._by_stdin() else None,
            output_bytes=MOST_OUTPUT_BYTES,
        )
        output = redact(result.stdout.decode("utf-8", "replace"))
        if result.exit_code != 0 and not result.timed_out:
            said = redact(result.output)[-SHOWN_CHARACTERS:]
            raise AgentError(f"'{self.template}' ended with exit code {result.exit_code}: {said}")
        steps = (Step(Message.user(prompt)), Step(Message.assistant(output)))
        return AgentResult(
            output,
            cost=0.0 if self.free else None,
            steps=1,
            trajectory=steps,
            stop_reason="limit:time" if result.timed_out else "done",
            metadata={"truncated": result.truncated},
        )

    def _by_stdin(self) -> bool:
        return "{prompt}" not in self.template and "{prompt_file}" not in self.template

    def _variables(self) -> dict[str, str]:
        missing = [name for name in self.pass_env if name not in os.environ]
        if missing:
            raise UsageError(f"pass_env names variables that are not set: {', '.join(missing)}")
        variables = {name: os.environ[name] for name in self.pass_env}
        for value in variables.values():
            remember_secret(value)
        return variables

    def _command(self, prompt: str, prompt_file: str | None) -> str:
        command = self.template
        values = {"prompt": prompt, "prompt_file": prompt_file or "", "model": self.model or ""}
        # One pass over the template, so that braces in a prompt are never filled in.
        parts = command.split("{")
        filled = parts[0]
        for part in parts[1:]:
            name, closed, rest = part.partition("}")
            known = closed and name in PLACEHOLDERS
            filled += shlex.quote(values[name]) + rest if known else "{" + part
        return filled

    def _write_prompt(self, prompt: str, env: Machine) -> str:
        """Outside the working directory, where it is no part of what is handed in."""
        path = f"/tmp/chimera-prompt-{secrets.token_hex(8)}.txt"
        put_file(env, path, prompt)
        return path
