"""Codex: npm `@openai/codex`, speaks OpenAI's Responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chimera.agents.coding.base import CodingAgent, Launch, json_lines
from chimera.agents.coding.layers import Npm, architecture

TRIPLES = {"x64": "x86_64-unknown-linux-musl", "arm64": "aarch64-unknown-linux-musl"}
SETTINGS = """\
model_provider = "chimera"

[model_providers.chimera]
name = "chimera"
base_url = "{address}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
stream_idle_timeout_ms = 3600000
"""


class Codex(CodingAgent):
    name = "codex"
    recipe = Npm("codex", "0.166.0", "@openai/codex")

    def command(self, launch: Launch) -> Sequence[str]:
        machine = architecture()
        package = f"node_modules/@openai/codex-linux-{machine}/vendor/{TRIPLES[machine]}"
        program = f"{launch.places['codex']}/{package}/bin/codex"
        return [program, "exec", "--skip-git-repo-check",
                "--dangerously-bypass-approvals-and-sandbox", "--json", "-m", launch.model,
                "-"]  # fmt: skip

    def stdin(self, launch: Launch) -> str:
        return launch.prompt

    def files(self, launch: Launch) -> Mapping[str, str]:
        return {f"{launch.home}/config.toml": SETTINGS.format(address=launch.address)}

    def variables(self, launch: Launch) -> Mapping[str, str]:
        return {"OPENAI_API_KEY": launch.token, "CODEX_HOME": launch.home}

    def result(self, stdout: str) -> str | None:
        said = None
        for event in json_lines(stdout):
            item = event.get("item")
            if isinstance(item, dict) and item.get("type") == "agent_message":
                said = item.get("text")
        return said if isinstance(said, str) else None
