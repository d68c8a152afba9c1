"""Claude Code: npm `@anthropic-ai/claude-code`, speaks Anthropic's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chimera.agents.coding.base import CodingAgent, Launch, last_object
from chimera.agents.coding.layers import Npm, architecture


class ClaudeCode(CodingAgent):
    name = "claude-code"
    recipe = Npm("claude-code", "2.1.197", "@anthropic-ai/claude-code")

    def command(self, launch: Launch) -> Sequence[str]:
        package = f"node_modules/@anthropic-ai/claude-code-linux-{architecture()}"
        program = f"{launch.places['claude-code']}/{package}/claude"
        return [program, "-p", "--model", launch.model, "--dangerously-skip-permissions",
                "--output-format", "json"]  # fmt: skip

    def stdin(self, launch: Launch) -> str:
        return launch.prompt

    def variables(self, launch: Launch) -> Mapping[str, str]:
        return {
            "ANTHROPIC_BASE_URL": launch.address,
            "ANTHROPIC_API_KEY": launch.token,
            "CLAUDE_CONFIG_DIR": launch.home,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",  # as root it takes the sandbox's word that nobody need be asked
        }

    def result(self, stdout: str) -> str | None:
        text = last_object(stdout).get("result")
        return text if isinstance(text, str) else None
