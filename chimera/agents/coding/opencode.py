"""opencode: npm `opencode-ai`, speaks OpenAI's chat completions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from chimera.agents.coding.base import CodingAgent, Launch, json_lines
from chimera.agents.coding.layers import Npm, architecture

LIMITS = {"context": 200_000, "output": 16_384}  # when to summarise, and how much to ask for


class OpenCode(CodingAgent):
    name = "opencode"
    recipe = Npm("opencode", "1.18.33", "opencode-ai")

    def command(self, launch: Launch) -> Sequence[str]:
        baseline = "-baseline" if architecture() == "x64" else ""
        package = f"node_modules/opencode-linux-{architecture()}{baseline}"
        program = f"{launch.places['opencode']}/{package}/bin/opencode"
        return [program, "run", "-m", f"chimera/{launch.model}", "--format", "json"]

    def stdin(self, launch: Launch) -> str:
        return launch.prompt

    def files(self, launch: Launch) -> Mapping[str, str]:
        service = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{launch.address}/v1", "apiKey": launch.token},
            "models": {launch.model: {"limit": LIMITS}},
        }
        settings = {
            "autoupdate": False,
            "share": "disabled",
            "permission": {"*": "allow"},
            "provider": {"chimera": service},
        }
        return {f"{launch.home}/opencode.json": json.dumps(settings)}

    def variables(self, launch: Launch) -> Mapping[str, str]:
        home = launch.home
        return {
            "OPENCODE_CONFIG": f"{home}/opencode.json",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            **{f"XDG_{kind}_HOME": f"{home}/{kind.lower()}"
               for kind in ("CACHE", "CONFIG", "DATA", "STATE")},
        }  # fmt: skip

    def result(self, stdout: str) -> str | None:
        parts = [event["part"] for event in json_lines(stdout) if event.get("type") == "text"]
        texts = [part.get("text") for part in parts if isinstance(part, dict)]
        return next((text for text in reversed(texts) if isinstance(text, str)), None)
