"""Coding agents with a command line, by name: each runs in the task's environment, on no network,
and reaches its model through the gateway alone."""

from __future__ import annotations

from collections.abc import Mapping

#: name → (`module:Class`, what it is)
CODING_AGENTS: Mapping[str, tuple[str, str]] = {
    "claude-code": ("chimera.agents.coding.claude_code:ClaudeCode", "Anthropic's Claude Code"),
    "codex": ("chimera.agents.coding.codex:Codex", "OpenAI's Codex CLI"),
    "gemini-cli": ("chimera.agents.coding.gemini_cli:GeminiCLI", "Google's Gemini CLI"),
    "opencode": ("chimera.agents.coding.opencode:OpenCode", "opencode"),
    "aider": ("chimera.agents.coding.aider:Aider", "aider"),
    "mini-swe-agent": ("chimera.agents.coding.mini_swe_agent:MiniSWEAgent", "mini-swe-agent"),
    "openhands": ("chimera.agents.coding.openhands:OpenHands", "OpenHands"),
}
