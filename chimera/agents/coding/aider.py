"""aider: PyPI `aider-chat`, speaks OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chimera.agents.coding.base import Launch, PythonAgent
from chimera.agents.coding.layers import Pip

#: It works with the repository that is there, and makes none.
WITHOUT_NEW_REPOSITORY = (
    'git rev-parse --git-dir >/dev/null 2>&1 || set -- "$@" --no-git; exec "$@"'
)


class Aider(PythonAgent):
    name = "aider"
    recipe = Pip("aider", "0.86.2", "aider-chat", newest_python=(3, 12))

    def command(self, launch: Launch) -> Sequence[str]:
        home = launch.home
        return [
            "sh", "-c", WITHOUT_NEW_REPOSITORY, "aider",
            *self.recipe.command(launch.places, launch.home, "aider"),
            "--model", f"openai/{launch.model}",
            "--message-file", f"{home}/prompt.txt",
            "--yes-always", "--no-auto-commits", "--no-dirty-commits", "--no-gitignore",
            "--no-check-update", "--no-show-model-warnings", "--no-show-release-notes",
            "--no-analytics", "--no-stream", "--no-pretty", "--no-fancy-input",
            "--no-suggest-shell-commands", "--no-detect-urls", "--map-tokens", "0",
            "--input-history-file", f"{home}/input", "--chat-history-file", f"{home}/chat",
            "--llm-history-file", f"{home}/llm",
        ]  # fmt: skip

    def files(self, launch: Launch) -> Mapping[str, str]:
        return {**super().files(launch), f"{launch.home}/prompt.txt": launch.prompt}

    def variables(self, launch: Launch) -> Mapping[str, str]:
        return {
            "OPENAI_API_BASE": f"{launch.address}/v1",
            "OPENAI_API_KEY": launch.token,
            "AIDER_ANALYTICS": "false",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
