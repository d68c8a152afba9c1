"""Untrusted Python, confined: an answer in one process, its judge in another, plain data between.

    run_tests(program, tests)                    test code (`check(f)`, asserts) against a program
    judge_calls(program, name, inputs, expected, oracle=…)   a function on many inputs, compared
    call_function(program, name, inputs)         what a function returns, as plain data
    run_program(program, stdin), run_cases(…)    a script on standard input

Every call is safe from any thread, runs in a warm interpreter of a pool as large as the machine has
cores, and raises `GraderError` or `EnvironmentFault` when the checks or the sandbox are at fault;
whatever the answer does ends in an `Outcome`.

Plain data are None, booleans, numbers (also Decimal, Fraction, complex and numpy's), strings,
bytes, lists, tuples, sets, dicts, deques, ranges and naive dates. Subclasses of these arrive as
their base. Arguments changed in place are changed in the tests too, and an argument that is handed
back is the same object there. Objects of other kinds stay with the answer and the tests hold a
handle: it can be called, iterated, indexed, read and handed back, but it equals nothing but itself
and cannot be calculated with.
"""

from chimera.sandbox.execute import call_function, judge_calls, run_cases, run_program, run_tests
from chimera.sandbox.inner.codec import dump as dump_plain
from chimera.sandbox.inner.codec import load as load_plain
from chimera.sandbox.inner.trees import remove_tree
from chimera.sandbox.pool import close_all
from chimera.sandbox.values import Call, Isolation, Limits, Outcome, ProgramResult

__all__ = [
    "Call",
    "Isolation",
    "Limits",
    "Outcome",
    "ProgramResult",
    "call_function",
    "close_all",
    "dump_plain",
    "judge_calls",
    "load_plain",
    "remove_tree",
    "run_cases",
    "run_program",
    "run_tests",
]
