"""The process of `apart`: one call a line comes in, its value goes out, until a limit ends it."""

from __future__ import annotations

import importlib
import json
import logging
import resource
import sys


def main(memory_bytes: int, modules: list[str]) -> None:
    logging.disable(logging.CRITICAL)
    for name in modules:
        importlib.import_module(name)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    replies = sys.stdout
    sys.stdout = sys.stderr  # a library that prints must not speak on the channel of values
    print("[]", file=replies, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        module, name = request["function"]
        function = getattr(importlib.import_module(module), name)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        spent = int(usage.ru_utime + usage.ru_stime) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (spent + request["seconds"], hard))
        value = function(*request["arguments"])
        print(json.dumps([value]), file=replies, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
