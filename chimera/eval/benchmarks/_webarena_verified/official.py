"""Asks the package webarena-verified, in a Python that has it, for the result of one task."""

import json
import logging
import sys


def main() -> None:
    logging.disable(logging.CRITICAL)
    from webarena_verified.api import WebArenaVerified
    from webarena_verified.types.config import WebArenaVerifiedConfig

    job = json.load(sys.stdin)
    config = WebArenaVerifiedConfig(environments=job["environments"] or None)
    result = WebArenaVerified(config=config).evaluate_task(
        task_id=job["task_id"], agent_response=job["response"], network_trace=job["trace"]
    )
    sys.stdout.write("\nRESULT " + result.model_dump_json())


if __name__ == "__main__":
    main()
