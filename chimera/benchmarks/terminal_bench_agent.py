"""The door for other harnesses: `ChimeraAgent` for terminal-bench, `HarborChimeraAgent` for Harbor.

tb run --agent-import-path chimera.benchmarks.terminal_bench_agent:ChimeraAgent -m MODEL …
harbor run -a chimera.benchmarks.terminal_bench_agent:HarborChimeraAgent -m MODEL …
"""

from chimera.agents.terminal.agent import ChimeraAgent, HarborChimeraAgent, TerminalAgent

__all__ = ["ChimeraAgent", "HarborChimeraAgent", "TerminalAgent"]
