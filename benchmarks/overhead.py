"""What a trial costs beside the model: Chimera and Inspect AI on the same trivial tasks.

    python benchmarks/overhead.py [--trials 10000] [--samples 1] [--peer-trials 1000] [--no-peer]

Both run a scripted model that answers at once, score by comparing text, and store every sample.
Reported: CPU milliseconds a trial (all threads, start-up taken off by a run of one trial), peak
memory, and the ratio. The list of tasks is part of that memory; `--trials 100000 --samples 100`
shows what the trials themselves leave behind. The peer is installed into a virtual environment of
its own; the vocabulary that it would download to count tokens is replaced by bytes, so that it runs
without a network.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from pathlib import Path

from costs import peer

INSPECT = ("inspect-ai", "openai")
#: This interpreter, started by its name as the peer's is.
OWN = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

OURS = """
import json, resource, sys
from chimera.agents import create_agent
from chimera.eval.harness import Benchmark, Harness

class Trivial(Benchmark):
    grading = "none"
    def __init__(self, n): self.n = n
    def name(self): return "trivial"
    def tasks(self): return [{"id": str(i), "prompt": f"Say hello, {i}."} for i in range(self.n)]
    def evaluate(self, task, agent_output, env): return agent_output == "hello"

n, samples = int(sys.argv[1]), int(sys.argv[3])
harness = Harness(
    benchmark=Trivial(n // samples), samples=samples, store=f"{sys.argv[2]}/run.chi",
    agent=create_agent("direct", model="scripted/text:hello"),
)
result = harness.run()
assert result.passed == n, result
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
"""

PEER = """
import json, resource, sys
import tiktoken

class Bytes:
    def encode(self, text, **settings): return list(text.encode())

tiktoken.get_encoding = tiktoken.encoding_for_model = lambda name: Bytes()

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate

n = int(sys.argv[1])
outputs = [ModelOutput.from_content("mockllm/model", "hello") for _ in range(n)]
task = Task(
    dataset=MemoryDataset([Sample(input=f"Say hello, {i}.", target="hello") for i in range(n)]),
    solver=generate(), scorer=match(),
)
log = eval(task, model=get_model("mockllm/model", custom_outputs=outputs), display="none",
           log_dir=sys.argv[2])[0]
assert log.status == "success", log.error
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
"""


def measure(
    variables: Mapping[str, str], script: str, trials: int, samples: int = 1
) -> tuple[float, float]:
    """(CPU seconds, peak MB) of one run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "driver.py"
        file.write_text(textwrap.dedent(script), encoding="utf-8")
        done = subprocess.run(
            ["python", str(file), str(trials), folder, str(samples)],
            capture_output=True, text=True, check=False, cwd=folder,
            env={**os.environ, **variables, "TIKTOKEN_CACHE_DIR": folder},
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{variables}: {done.stderr[-2000:]}")
        cpu, memory = json.loads(done.stdout.splitlines()[-1])
    return cpu, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=1, help="of each task, in Chimera's run")
    parser.add_argument("--peer-trials", type=int, default=1_000)
    parser.add_argument("--no-peer", action="store_true")
    arguments = parser.parse_args()
    contestants = [("chimera", OWN, OURS, arguments.trials)]
    if not arguments.no_peer:
        contestants.append(("inspect-ai", peer("inspect", *INSPECT), PEER, arguments.peer_trials))
    costs = {}
    print(f"{'':12} {'trials':>8} {'CPU ms a trial':>15} {'peak MB':>9} {'MB for one':>11}")
    for name, variables, script, trials in contestants:
        base, base_memory = measure(variables, script, 1)
        samples = arguments.samples if name == "chimera" else 1
        cpu, memory = measure(variables, script, trials, samples)
        costs[name] = (cpu - base) / (trials - 1) * 1000
        print(f"{name:12} {trials:8} {costs[name]:15.3f} {memory:9.0f} {base_memory:11.0f}")
    if len(costs) == 2:
        print(f"ratio {costs['inspect-ai'] / costs['chimera']:.1f}")


if __name__ == "__main__":
    main()
