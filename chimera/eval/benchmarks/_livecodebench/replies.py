"""What LiveCodeBench takes out of a reply in each scenario, rule by rule."""

from __future__ import annotations

import re


def code(reply: str) -> str:
    """The text between the last two lines that contain a fence; "" where there are fewer."""
    lines = reply.split("\n")
    fences = [index for index, line in enumerate(lines) if "```" in line]
    if len(fences) < 2:
        return ""
    return "\n".join(lines[fences[-2] + 1 : fences[-1]])


def execution_answer(reply: str, *, thinking: bool) -> str:
    """The value after the first `==`, cut at `[/ANSWER]` or the end of its line."""
    text = reply
    if thinking and "[ANSWER]" in text:
        text = text.split("[ANSWER]")[1].strip()
    if "==" in text:
        text = text.split("==")[1].strip()
    if "[/ANSWER]" in text:
        return text.split("[/ANSWER]")[0].strip()
    return text.split("\n")[0].strip()


def test_output(reply: str) -> str:
    """The last line that is an assert, else the first Python block, else the first block."""
    lines = reply.split("\n")
    asserts = [line for line in lines if line.strip().startswith("assert")]
    if asserts:
        return asserts[-1]
    for pattern in (r"```python\n(.*?)```", r"```\w*\n(.*?)```"):
        if found := re.search(pattern, reply, re.DOTALL):
            return found[1].strip("\n")
    return ""
