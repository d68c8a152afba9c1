"""OpenHands: PyPI `openhands`, speaks OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chimera.agents.coding.base import Launch, PythonAgent
from chimera.agents.coding.layers import Pip


class OpenHands(PythonAgent):
    name = "openhands"
    recipe = Pip(
        "openhands",
        "1.16.0",
        "openhands",
        oldest_python=(3, 12),
        newest_python=(3, 12),
        from_source=("func-timeout",),  # there are no wheels of it
    )

    def command(self, launch: Launch) -> Sequence[str]:
        return [
            *self.recipe.command(launch.places, launch.home, "openhands_cli.entrypoint"),
            "--headless", "--json", "--override-with-envs", f"--task={launch.prompt}",
        ]  # fmt: skip

    def variables(self, launch: Launch) -> Mapping[str, str]:
        return {
            "LLM_MODEL": f"openai/{launch.model}",
            "LLM_BASE_URL": f"{launch.address}/v1",
            "LLM_API_KEY": launch.token,
            "OPENHANDS_PERSISTENCE_DIR": launch.home,
            "PERSISTENCE_DIR": launch.home,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
