"""Presets of `react` by name: which tools, how many steps, what the model is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chimera.agents.compaction import SummaryCompaction
from chimera.agents.react import DEFAULT_PROMPT, DEFAULT_TOOLS, LoopConfig

ASSISTANT = """\
You are a careful software engineer, alone with a repository or a terminal; nobody can be asked.
Find out how things are before you change them: list, search, read. Follow the conventions you find.
Make the smallest change that solves the whole problem, then run what proves it: the project's own \
tests, or a check you write. Remove what you only made for checking.
When everything holds, call submit; if the task asks for an answer, pass it to submit verbatim."""

SHELL_ONLY = """\
You work in a shell. Every action is one bash command; files are read and changed with commands too.
Check your work before you finish. When the task is done, say so in plain words without a command; \
if the task asks for an answer, that last message must be the answer."""

SMALL = """\
Solve the task step by step with the tools. One tool call at a time. Keep messages short.
Read a file before you edit it. Test after each change. Call submit when done."""

#: name → settings of ReactAgent that differ from its defaults
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "react": {"name": "react"},
    "claude_code": {
        "name": "claude_code",
        "system_prompt": ASSISTANT,
        "tools": ("bash", "view", "edit", "submit"),
        "max_steps": 200,
        "loop": LoopConfig(compaction=SummaryCompaction(keep_last=20), context_tokens=150_000),
    },
    "mink": {
        "name": "mink",
        "system_prompt": ASSISTANT,
        "tools": ("bash", "view", "edit", "ipython", "submit"),
        "max_steps": 300,
        "loop": LoopConfig(
            compaction=SummaryCompaction(keep_last=20),
            condense_every_n_steps=50,
            context_tokens=150_000,
        ),
    },
    "otter": {
        "name": "otter",
        "system_prompt": DEFAULT_PROMPT,
        "tools": DEFAULT_TOOLS,
        "max_steps": 100,
        "loop": LoopConfig(context_tokens=100_000),
    },
    "weasel": {
        "name": "weasel",
        "system_prompt": SHELL_ONLY,
        "tools": ("bash",),
        "max_steps": 100,
        "loop": LoopConfig(context_tokens=100_000),
    },
    "shrew": {
        "name": "shrew",
        "system_prompt": SMALL,
        "tools": ("bash", "view", "edit", "submit"),
        "max_steps": 30,
        "loop": LoopConfig(
            compaction=SummaryCompaction(keep_last=6, summary_max_tokens=300),
            context_tokens=6_000,
            summarize=False,
            tool_output_chars=4_000,
            max_consecutive_errors=5,
        ),
    },
    "ferret": {
        "name": "ferret",
        "system_prompt": ASSISTANT,
        "tools": DEFAULT_TOOLS,
        "max_steps": 150,
        "confined_only": True,
        "loop": LoopConfig(context_tokens=100_000),
    },
}
