"""The prompts of LiveCodeBench's four scenarios: its structure and markers, in our own words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

EXPERT = (
    "You are an expert Python programmer. You get the specification of a problem and write a "
    "correct Python program that fits it and passes all tests.\n\n"
)
_STARTER = (
    "### Format: Complete the following starter code and put your whole program between the "
    "delimiters.\n```python\n{starter}\n```\n"
)
_STDIN = (
    "### Format: Read the input from standard input, solve the problem and write the answer to "
    "standard output; do not test your program on the samples. Put your program between the "
    "delimiters.\n```python\n# YOUR CODE HERE\n```\n"
)
_ANSWER = "\n### Answer: (use the provided format with backticks)\n\n"
_FEEDBACK: Mapping[int, str] = {
    -1: "The program does not compile: {error}",
    -2: "The answer is wrong.\nInput: {inputs}\nOutput: {output}\nExpected: {expected}",
    -3: "The program is too slow.\nInput: {inputs}\nExpected: {expected}",
    -4: "The program ends with an error: {error}\nInput: {inputs}\nExpected: {expected}",
}
_LONGEST = 300

_EXECUTION_EXAMPLE = (
    "[PYTHON]\ndef repeat(word, times):\n    return word * times\nassert repeat('ab', 2) == ??\n"
    "[/PYTHON]\n"
)


def code_generation(question: str, starter: str) -> str:
    form = _STARTER.format(starter=starter) if starter.strip() else _STDIN
    return f"{EXPERT}### Question:\n{question}\n\n{form}{_ANSWER}"


def self_repair(question: str, starter: str, program: str, fault: Mapping[str, Any]) -> str:
    """Question, the program that failed, and one paragraph on how it failed."""
    code = int(fault.get("error_code", -1))
    template = _FEEDBACK.get(code, "The program failed: {error}")
    error = fault.get("error") or fault.get("error_message") or "unknown error"
    parts = {name: _cut(fault.get(name, "")) for name in ("inputs", "output", "expected")}
    feedback = template.format(error=_cut(error), **parts)
    form = _STARTER.format(starter=starter) if starter.strip() else _STDIN
    return (
        f"{EXPERT}### Question:\n{question}\n\n### Program:\n```python\n{program}\n```\n\n"
        f"{feedback}\n\nSay in two sentences what is wrong, then give the whole right program.\n"
        f"{form}{_ANSWER}"
    )


def _cut(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"


def code_execution(code: str, call: str, *, thinking: bool) -> str:
    ask = (
        "Replace ?? by the value that makes the assertion true: a literal, without computing "
        "expressions or function calls, even where the function seems to be wrong. "
    )
    if thinking:
        ask += "Trace the execution step by step between [THOUGHT] and [/THOUGHT] first. "
        example = "[THOUGHT]\n'ab' is repeated twice, which is 'abab'.\n[/THOUGHT]\n"
    else:
        example = ""
    ask += "Give the full assertion with the right value between [ANSWER] and [/ANSWER].\n\n"
    example += "[ANSWER]\nassert repeat('ab', 2) == 'abab'\n[/ANSWER]\n\n"
    task = f"[PYTHON]\n{code}\nassert {call} == ??\n[/PYTHON]\n"
    return ask + _EXECUTION_EXAMPLE + example + task + ("[THOUGHT]\n" if thinking else "[ANSWER]\n")


def test_output(question: str, starter: str, call: str) -> str:
    return (
        "You get a problem, the signature of a function that solves it, and an incomplete test. "
        "Complete the test: replace # TODO by the value the function must return. Do not write "
        "the function.\n\n"
        f"Problem:\n{question}\n\nFunction:\n```\n{starter}\n```\n"
        "Complete this test and answer with nothing but the assertion in a Python code block:\n"
        f"```\nassert {call} == # TODO\n```\n"
    )
