"""What reads a reply in Chimera's own process takes time in proportion to the reply."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Callable

import pytest

from chimera.agents.terminal.loop import MalformedReply, read_turn
from chimera.environments.web.actions import parse_action
from chimera.environments.web.session import ActionFailed
from chimera.eval.benchmarks._aider_polyglot.conversation import reply_files
from chimera.eval.benchmarks._aider_polyglot.languages import LANGUAGES
from chimera.eval.benchmarks._aimo.text import whole_number
from chimera.eval.benchmarks._context_bench.phrasing import decide
from chimera.eval.benchmarks._feature_bench import pytest_summary
from chimera.eval.benchmarks._livecodebench import replies as livecodebench
from chimera.eval.benchmarks._swe_polybench import logs as polybench_logs
from chimera.eval.benchmarks._webarena.grading import tokens
from chimera.eval.benchmarks.webarena import read_reply
from chimera.eval.kits import replies
from chimera.eval.kits.patches import diffs
from chimera.eval.kits.reports import swebench_logs
from chimera.eval.kits.repositories import swebench_rule
from chimera.eval.kits.task_folders.verifier import pytest_summary as folder_summary
from chimera.providers.secrets import redact

READERS: dict[str, Callable[[str], object]] = {
    "boxed answers": replies.boxed_answers,
    "answer lines": replies.answer_lines,
    "final answer": replies.final_answer,
    "JSON envelope": replies.json_envelope,
    "patch": replies.patch,
    "fenced blocks": replies.fenced_blocks,
    "whole number": whole_number,
    "code": livecodebench.code,
    "execution answer": lambda text: livecodebench.execution_answer(text, thinking=True),
    "test output": livecodebench.test_output,
    "files": lambda text: reply_files(text, ["a.py", "b.py"]),
    "number": lambda text: decide(text, "7"),
    "name": lambda text: decide(text, "bob", ["ann"]),
    "answer and URL": read_reply,
    "tokens": tokens,
    "turn": read_turn,
    "action": parse_action,
    "diff": diffs.parse,
    "redaction": redact,
    "summary": folder_summary,
    **{f"counts of {name}": language.summary.findall for name, language in LANGUAGES.items()},
}
#: What is repeated, between what it begins and ends with.
TEXTS = [
    ("", "\\boxed{", ""), ("", "\\boxed{1}", ""), ("\\boxed{", "{}", ""), ("", "\\fbox  ", ""),
    ("", "\\text{", ""), ("", "\\text{", "7" + "}" * 10_000), ("#", "sk-", ""), ("", "sk-a_", ""),
    ("answer is ", " ", "\n" * 10_000), ("answer is ", "\n", ""), ("answer is a", " ", "b"),
    ("", "answer is **a. ", ""), ("", "answer is \\(a. ", ""), ("", "answer is $", ""),
    ("Answer: a", " ", "b"), ("# answer\na", " ", "b"),
    ("Answer: ", "final answer is . I hope", ""),
    ("", "the\n", ""), ("", '{"a":', ""), ("", "{", ""), ("", '{"', ""), ("", '{"a":[0,', ""),
    ("", "{\n", ""), ("```", " ", "`"), ("", "`", "\n"), ("", "```a\n", ""), ("", "```\na\n", ""),
    ("", "````", ""), ("", "<patch>", ""), ("", "<patch><diff>", ""), ("", "--- a\n", ""),
    ("", "diff --git a b\n@@ -1 +1 @@\n", ""), ("", "7 ", ""), ("", "7 not ", ""), ("", "bob ", ""),
    ("", "not bob is ", ""), ("", "1,", "a"), ("", "\n", ""), ("ANSWER: a", "\n", "b"),
    ("", "ANSWER: a\n", ""), ("", ".", "a"), (".", " ", "a"), ("", "]} ", ""), ("", "'", ""),
    ("", "=", ""), ("", "1", ""), ("Tests:", "1", ""), ("", "Tests:", ""), ("", "Tests: 1 ", ""),
    ("", "All tests passed (", ""), ("All tests passed (", " in 1", ""), ("", "ok\n\n", ""),
    ("", ",", ""), ("{", ", ", ""), ("type [5] [", "] ", ""), ("type [5] [", "] [1] ", "a"),
]  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
def test_four_times_the_text_takes_about_four_times_as_long(reader):
    slow = [text for text in TEXTS if not _grows_gently(READERS[reader], *text)]

    assert slow == []


def _grows_gently(reader: Callable[[str], object], start: str, middle: str, end: str) -> bool:
    """Linear is four times as long, quadratic sixteen times; below milliseconds is noise."""
    return any(
        _seconds(reader, start + middle * 16_000 + end)
        < 8 * max(0.002, _seconds(reader, start + middle * 4000 + end))
        for _ in range(4)
    )


def _seconds(reader: Callable[[str], object], text: str) -> float:
    """What the thread computes, whatever else the machine does."""
    before = time.thread_time()
    with contextlib.suppress(MalformedReply, ActionFailed):
        reader(text)
    return time.thread_time() - before


def test_the_search_for_code_in_a_reply_ends():
    """The error of the text stands at its end: all of the rest is the function's body."""
    reply = "import a\n" * 20_000 + "("

    program = replies.python_program(reply, entry_point="f", prompt="def f(x):\n")

    assert program.startswith("def f(x):\n    import a\n")
    assert program.count("import a\n") == 20_000


#: Texts over which Python's own parser takes memory or time by the square of their length.
UNREADABLE = {
    "a long name of a module": "import a" + ".a" * 200_000,
    "a text of many parts": 'f"' + "{a}" * 300_000 + '"',
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_what_python_cannot_read_in_time_is_no_python(text):
    memory, seconds = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()

    assert replies.parse_python(text) is None
    assert replies.parse_expression(text) is None
    assert replies.python_program(f"```python\n{text}\n```", entry_point="f").startswith(text[:8])
    assert time.process_time() - seconds < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 200_000  # kB


LOGS: dict[str, tuple[Callable[[str], object], str]] = {
    "sympy: blanks": (swebench_logs.parser("parse_log_sympy"), " " * 200_000),
    "sympy: names": (swebench_logs.parser("parse_log_sympy"), " " + ".py:" * 100_000),
    "requests: an id": (swebench_logs.parser("parse_log_requests"), "PASSED " + "a" * 300_000),
    "django: no end": (
        swebench_logs.parser("parse_log_django"),
        "a ... Testing against Django installed in \n" * 20_000,
    ),
    "PolyBench, pytest": (polybench_logs.reader("a/b", "python"), "=" * 300_000),
    "PolyBench, unittest": (polybench_logs.reader("a/b", "python"), "a" * 300_000),
    "PolyBench, JUnit": (polybench_logs.reader("a/b", "java"), "<testsuite " * 100_000),
    "FeatureBench": (pytest_summary.verbose, "a::" * 100_000),
    "counts": (lambda log: swebench_rule.read_log(swebench_rule.write_log(log, 0), "pytest"),
               "1" * 1_000_000),
}  # fmt: skip


#: Ended by the same clock as others of their reader, which costs two seconds each.
AS_OTHERS = {"sympy: names", "requests: an id", "PolyBench, unittest"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] * (name in AS_OTHERS)) for name in LOGS]
)
def test_what_a_test_run_printed_is_read_in_bounded_time_or_not_at_all(name, monkeypatch):
    monkeypatch.setattr(swebench_logs, "SECONDS", 1)
    monkeypatch.setattr(polybench_logs, "SECONDS", 1)
    read, log = LOGS[name]
    before = time.process_time()

    with contextlib.suppress(swebench_logs.UnreadableLog):
        assert not getattr(read(log), "passed", ())

    assert time.process_time() - before < 5
