"""Gemini CLI: npm `@google/gemini-cli`, speaks Gemini's own format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from chimera.agents.coding.base import CodingAgent, Launch, last_object
from chimera.agents.coding.layers import Npm, node_command

SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}


class GeminiCLI(CodingAgent):
    name = "gemini-cli"
    recipe = Npm("gemini-cli", "0.61.0", "@google/gemini-cli", on_node=True)

    def command(self, launch: Launch) -> Sequence[str]:
        program = f"{launch.places['gemini-cli']}/node_modules/@google/gemini-cli/bundle/gemini.js"
        return [*node_command(launch.places["node"]), program, "-m", launch.model, "--yolo",
                "--output-format", "json"]  # fmt: skip

    def stdin(self, launch: Launch) -> str:
        return launch.prompt

    def files(self, launch: Launch) -> Mapping[str, str]:
        return {f"{launch.home}/.gemini/settings.json": json.dumps(SETTINGS)}

    def variables(self, launch: Launch) -> Mapping[str, str]:
        return {
            "GEMINI_CLI_HOME": launch.home,
            "GEMINI_API_KEY": launch.token,
            "GOOGLE_GEMINI_BASE_URL": launch.address,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_CLI_NO_RELAUNCH": "true",
        }

    def result(self, stdout: str) -> str | None:
        text = last_object(stdout).get("response")
        return text if isinstance(text, str) else None
