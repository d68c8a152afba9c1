"""The embedded model's server as a process of its own: it ends with whoever started it, at once.

Settings come as one line of JSON on standard input, the address goes back as one line. When the
input ends, because the other side closed it or is gone, so does the process.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    import xllamacpp

    given = json.loads(sys.stdin.readline())
    settings = xllamacpp.CommonParams()
    settings.model.path = given["path"]
    settings.model_alias = {given["name"]}
    settings.n_ctx = given["context"]
    settings.n_parallel = given["parallel"]
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = given["threads"]
    settings.api_keys = [given["key"]]
    settings.port = 0
    settings.ui = False
    settings.verbosity = -1
    # Answers must not depend on what was asked before, nor lose the beginning of a prompt.
    settings.cache_prompt = False
    settings.ctx_shift = False
    try:
        server = xllamacpp.Server(settings)
    except RuntimeError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    print(json.dumps({"address": server.listening_address}), flush=True)
    sys.stdin.read()
    os._exit(0)  # a generation under way is not waited for


if __name__ == "__main__":
    main()
