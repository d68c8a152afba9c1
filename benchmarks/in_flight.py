"""Many slow model calls at once: Chimera and Inspect AI against a service that takes its time.

    python benchmarks/in_flight.py [--calls 1000] [--at-once 1000] [--seconds 2] [--turns 3]

A server in a process of its own answers chat completions after `--seconds`. Reported of each turn:
the share of the ideal throughput (all calls at once, nothing else takes any time) from the first
call to the last answer stored, CPU milliseconds a call (start-up taken off by a run of one call),
and the most memory, threads and descriptors. The two take turns, so that other work on the machine
disturbs both alike.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from costs import load, peer
from overhead import INSPECT, OWN

SERVER = """
import asyncio, json, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
message = {"role": "assistant", "content": "hello"}
reply = json.dumps({
    "id": "x", "object": "chat.completion", "created": 1, "model": "m", "usage": usage,
    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
}).encode()
head = b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n"

async def serve(reader, writer):
    try:
        while True:
            lines = (await reader.readuntil(b"\\r\\n\\r\\n")).lower().split(b"\\r\\n")
            (size,) = (int(l.split(b":")[1]) for l in lines if l.startswith(b"content-length"))
            await reader.readexactly(size)
            await asyncio.sleep(float(sys.argv[1]))
            writer.write(head % len(reply) + reply)
    except (asyncio.IncompleteReadError, OSError):
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=16384)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""
PEAKS = """
import json, os, resource, threading, time
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
peaks = [0, 0]
def watch():
    while True:
        peaks[:] = (max(peaks[0], threading.active_count()),
                    max(peaks[1], len(os.listdir("/proc/self/fd"))))
        time.sleep(0.25)
threading.Thread(target=watch, daemon=True).start()
def report(wall):
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps([wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, *peaks]))
"""
OURS = (
    PEAKS
    + """
import sys
from chimera.agents import create_agent
from chimera.eval.harness import Benchmark, Harness

class Trivial(Benchmark):
    grading = "none"
    def __init__(self, n): self.n = n
    def name(self): return "trivial"
    def tasks(self): return [{"id": str(i), "prompt": f"Say hello, {i}."} for i in range(self.n)]
    def evaluate(self, task, agent_output, env): return agent_output == "hello"

n, at_once, address, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
agent = create_agent("direct", model="gateway:m", base_url=address, api_key="none",
                     max_connections=at_once)
agent.provider.start()
harness = Harness(benchmark=Trivial(n), store=f"{folder}/run.chi", concurrency=at_once, agent=agent)
began = time.monotonic()
result = harness.run()
assert result.passed == n, result
report(time.monotonic() - began)
"""
)
PEER = (
    PEAKS
    + """
import sys
import tiktoken

class Bytes:
    def encode(self, text, **settings): return list(text.encode())

tiktoken.get_encoding = tiktoken.encoding_for_model = lambda name: Bytes()
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate

n, at_once, address, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
task = Task(
    dataset=MemoryDataset([Sample(input=f"Say hello, {i}.", target="hello") for i in range(n)]),
    solver=generate(), scorer=match(),
)
model = get_model("openai/m", base_url=address, api_key="none", responses_api=False)
began = time.monotonic()
log = eval(task, model=model, display="none", log_dir=folder, max_connections=at_once,
           max_samples=at_once)[0]
assert log.status == "success", log.error
report(time.monotonic() - began)
"""
)


def measure(
    variables: Mapping[str, str], script: str, calls: int, at_once: int, address: str
) -> list[float]:
    """Wall seconds, CPU seconds, peak MB, threads and descriptors of one run."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "driver.py"
        file.write_text(script, encoding="utf-8")
        done = subprocess.run(
            ["python", str(file), str(calls), str(at_once), address, folder],
            capture_output=True, text=True, check=False, cwd=folder,
            env={**os.environ, **variables, "TIKTOKEN_CACHE_DIR": folder},
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{variables}: {done.stderr[-2000:]}")
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def in_turns(given: argparse.Namespace) -> Iterator[tuple[str, list[float]]]:
    """Of each turn: share of the ideal, CPU milliseconds a call, MB, threads, descriptors."""
    contestants = [("chimera", OWN, OURS)]
    if not given.no_peer:
        contestants.append(("inspect-ai", peer("inspect", *INSPECT), PEER))
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(given.seconds)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    address = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
    ideal = -(-given.calls // given.at_once) * given.seconds
    try:
        alone = {name: measure(path, code, 1, 1, address)[1] for name, path, code in contestants}
        for _ in range(given.turns):
            for name, variables, script in contestants:
                wall, cpu, *peaks = measure(variables, script, given.calls, given.at_once, address)
                each = (cpu - alone[name]) / max(1, given.calls - 1) * 1000
                yield name, [ideal / wall, each, *peaks]
    finally:
        server.kill()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true")
    given = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    print(f"{given.calls} calls; at most {most} descriptors are allowed; {load()}")
    print(f"{'':12}{'of ideal':>9}{'CPU ms a call':>15}{'MB':>7}{'threads':>9}{'files':>7}")
    for name, (share, each, memory, threads, files) in in_turns(given):
        line = f"{name:12}{share:9.0%}{each:15.2f}{memory:7.0f}{threads:9}{files:7}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
