"""What grading MATH-500 costs: Chimera's three rules beside math-verify alone, in turns.

    python benchmarks/mathematics.py [--turns 3]

Both read the same 500 replies, the published solutions with each third one that of another
problem, and are started as commands. CPU is that of everything they start, by a control group.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from costs import Cost, cost_of, load, peer

PEER = """
import json, logging, sys
from math_verify import parse, verify
logging.disable(logging.CRITICAL)
passed = 0
for line in open(sys.argv[1]):
    row = json.loads(line)
    passed += verify(parse("$" + row["answer"] + "$"), parse(row["solution"]))
print(passed)
"""


def replies() -> list[dict[str, str]]:
    root = os.environ.get("CHIMERA_DATASETS_DIR", Path.home() / ".chimera" / "datasets")
    lines = (Path(root) / "math-500" / "test.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [
        {
            "task_id": row["unique_id"],
            "answer": row["answer"],
            "solution": (row if number % 3 else rows[(number + 1) % len(rows)])["solution"],
        }
        for number, row in enumerate(rows)
    ]


def turn() -> dict[str, Cost]:
    """Each of them once, in directories of their own."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "replies.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in replies()))
        ours = [sys.executable, "-m", "chimera", "grade", "--benchmark", "math-500"]
        ours += ["--predictions", str(file), "--runs-dir", place]
        return {
            "chimera": cost_of(ours, directory=Path(place)),
            "math-verify": cost_of(
                ["python", "-c", PEER, str(file)],
                variables=peer("math", "math-verify[antlr4_13_2]"),
            ),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--turns", type=int, default=3)
    for _ in range(parser.parse_args().turns):
        costs = turn()
        ratio = costs["chimera"].cpu / costs["math-verify"].cpu
        each = ", ".join(f"{name} {cost.cpu:.1f} s" for name, cost in costs.items())
        print(f"{each}: {ratio:.2f} times ({load()})", flush=True)


if __name__ == "__main__":
    main()
