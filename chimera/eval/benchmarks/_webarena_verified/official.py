"""Asks the package webarena-verified, in a Python that has it, for results: a task a line.

The package reads a reply as it reads expected values: a text `^…$` is a pattern there, and a list
where one value is due holds alternatives. A reply is to give values, so that either is refused.
"""

import json
import logging
import os
import resource
import sys
from typing import Any
from urllib.parse import parse_qsl, urlsplit

#: What one result may take; the process ends by SIGXCPU after it.
CPU_SECONDS = 30


def main() -> None:
    logging.disable(logging.CRITICAL)
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the package prints is no result
    from webarena_verified.api import WebArenaVerified
    from webarena_verified.core.evaluation.evaluators.agent_response_evaluator import (
        AgentResponseEvaluator,
    )
    from webarena_verified.types.config import WebArenaVerifiedConfig

    take_values_alone(AgentResponseEvaluator)
    known: dict[str, WebArenaVerified] = {}
    for line in sys.stdin:
        limit_cpu_time()
        job = json.loads(line)
        sites = json.dumps(job["environments"], sort_keys=True)
        if sites not in known:
            config = WebArenaVerifiedConfig(environments=job["environments"] or None)
            known[sites] = WebArenaVerified(config=config)
        try:
            result = known[sites].evaluate_task(
                task_id=job["task_id"], agent_response=job["response"], network_trace=job["trace"]
            )
            told = {"result": json.loads(result.model_dump_json())}
        except Exception as error:  # noqa: BLE001 - the next task is another matter
            told = {"fault": f"{type(error).__name__}: {error}"}
        results.write(json.dumps(told) + "\n")
        results.flush()


def limit_cpu_time() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = int(used.ru_utime + used.ru_stime) + CPU_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def take_values_alone(evaluator: Any) -> None:
    """Let this evaluator refuse replies that hold patterns or alternatives, once they are read."""
    read = evaluator._normalized_actual_value

    def values(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = read(self, *args, **kwargs)
        if (what := in_the_checkers_language(found)) is not None:
            raise ValueError(f"the reply gives {what}, and no value")
        return found

    evaluator._normalized_actual_value = values


def in_the_checkers_language(value: Any) -> str | None:
    """A pattern or alternatives in what was read from a reply."""
    if hasattr(value, "alternatives"):
        if len(value.alternatives) > 1:
            return "several alternatives"
        if value.is_regexp:
            return "a pattern"
        if isinstance(value.raw, dict) and any(
            isinstance(part, (list, tuple)) for part in value.raw.values()
        ):
            return "several alternatives"
        if isinstance(value.raw, (str, dict)):
            return in_the_checkers_language(value.raw)
    elif hasattr(value, "items"):
        return next(filter(None, map(in_the_checkers_language, value.values())), None)
    elif isinstance(value, (list, tuple)):
        return next(filter(None, map(in_the_checkers_language, value)), None)
    elif isinstance(value, str) and any(map(is_pattern, parts(value))):
        return "a pattern"
    return None


def parts(text: str) -> list[str]:
    """A text, and the values of its query if it is an address."""
    try:
        return [text, *(value for _, value in parse_qsl(urlsplit(text).query))]
    except ValueError:
        return [text]


def is_pattern(text: str) -> bool:
    return len(text.strip()) > 1 and text.strip().startswith("^") and text.strip().endswith("$")


if __name__ == "__main__":
    main()
