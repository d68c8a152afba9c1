"""mini-swe-agent: PyPI `mini-swe-agent`, speaks OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chimera.agents.coding.base import Launch, PythonAgent
from chimera.agents.coding.layers import Pip


class MiniSWEAgent(PythonAgent):
    name = "mini-swe-agent"
    recipe = Pip("mini-swe-agent", "2.4.6", "mini-swe-agent", also=("mcp",))

    def command(self, launch: Launch) -> Sequence[str]:
        return [
            *self.recipe.command(launch.places, launch.home, "minisweagent.run.mini"),
            "-m", f"openai/{launch.model}", "-t", launch.prompt, "-y", "--exit-immediately",
            "-o", f"{launch.home}/trajectory.json",
        ]  # fmt: skip

    def variables(self, launch: Launch) -> Mapping[str, str]:
        return {
            "OPENAI_API_BASE": f"{launch.address}/v1",
            "OPENAI_API_KEY": launch.token,
            "MSWEA_CONFIGURED": "true",
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_GLOBAL_CONFIG_DIR": launch.home,
            "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "2",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
