"""Asks the package webarena-verified, in a Python that has it, for results: a task a line."""

import json
import logging
import os
import sys


def main() -> None:
    logging.disable(logging.CRITICAL)
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the package prints is no result
    from webarena_verified.api import WebArenaVerified
    from webarena_verified.types.config import WebArenaVerifiedConfig

    known: dict[str, WebArenaVerified] = {}
    for line in sys.stdin:
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


if __name__ == "__main__":
    main()
