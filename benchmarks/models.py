"""What model calls cost on this machine: imports, the way of a call, the embedded model.

    python benchmarks/models.py

CPU time is the measure where waiting does not count; the local model's speed is in wall time too.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

from chimera.providers import create_provider
from chimera.providers.meter import Meter, metered
from chimera.types import Message

CALLS = 5000
TOKENS = 64


def import_milliseconds(module: str, repeats: int = 5) -> float:
    """CPU milliseconds of an interpreter that imports `module`, less those of a bare one."""

    def least(code: str) -> float:
        found = []
        for _ in range(repeats):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", code], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(found) * 1000

    return least(f"import {module}") - least("pass")


def call_microseconds() -> float:
    """CPU microseconds of a call whose model takes no time."""
    provider, question = create_provider("scripted/echo"), [Message.user("hi")]
    rounds = []
    for _ in range(5):
        with metered(Meter()):
            began = time.thread_time()
            for _ in range(CALLS):
                provider.complete(question)
            rounds.append((time.thread_time() - began) / CALLS * 1e6)
    return min(rounds)


def embedded_model() -> tuple[float, float]:
    """Seconds until the first answer, and tokens a second after that."""
    provider = create_provider("local/smollm2")
    question = [Message.user("Write a Python function that adds two numbers.")]
    began = time.monotonic()
    provider.complete(question, max_tokens=1)
    ready = time.monotonic() - began
    began = time.monotonic()
    tokens = provider.complete(question, max_tokens=TOKENS).usage.output_tokens
    return ready, tokens / (time.monotonic() - began)


def main() -> None:
    for module in ("chimera.providers", "chimera.agents.react", "openai", "anthropic"):
        print(f"import {module:22} {import_milliseconds(module):8.1f} ms CPU")
    print(f"scripted call                 {call_microseconds():8.1f} us CPU")
    ready, speed = embedded_model()
    print(f"local/smollm2 ready after     {ready:8.1f} s")
    print(f"local/smollm2                 {speed:8.1f} tokens/s")


if __name__ == "__main__":
    main()
