"""What opening an environment costs: a repository's tree, one command, everything removed again.

    python benchmarks/opening.py [--files 5000] [--times 5] [--turns 3]

Chimera's bubblewrap environment beside the floor: `cp -a` of the same tree, the same command in a
bare `bwrap`, `rm -r`. Both open as many times as asked in one process; its start is taken off by a
run that opens none. CPU is that of everything they start, by a control group.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from costs import Cost, cost_of, load

OURS = """
import sys
from pathlib import Path
from chimera.environments import start_environment
from chimera.environments.base import EnvironmentSpec

for _ in range(int(sys.argv[2])):
    env = start_environment("bubblewrap", EnvironmentSpec(files={"tree": Path(sys.argv[1])}))
    try:
        assert env.run_command("test -f tree/0/0.py").exit_code == 0
    finally:
        env.close()
"""

FLOOR = """
import subprocess, sys, tempfile

for _ in range(int(sys.argv[2])):
    place = tempfile.mkdtemp()
    subprocess.run(["cp", "-a", "--reflink=auto", sys.argv[1], place + "/tree"], check=True)
    inside = ["bwrap", "--ro-bind", "/", "/", "--bind", place, "/mnt", "--unshare-all"]
    subprocess.run([*inside, "test", "-f", "/mnt/tree/0/0.py"], check=True)
    subprocess.run(["rm", "-r", place], check=True)
"""


def planted(directory: Path, files: int) -> Path:
    """A tree like a repository's: directories of a hundred small files."""
    for number in range(files):
        file = directory / str(number // 100) / f"{number % 100}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"value = {number}\n" * 100)
    return directory


def turn(files: int, times: int) -> dict[str, float]:
    """CPU seconds of one opening, for each."""
    with tempfile.TemporaryDirectory() as place:
        tree = planted(Path(place) / "tree", files)

        def cost(script: str, count: int) -> Cost:
            return cost_of([sys.executable, "-c", script, str(tree), str(count)])

        return {
            name: (cost(script, times).cpu - cost(script, 0).cpu) / times
            for name, script in (("chimera", OURS), ("floor", FLOOR))
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    for _ in range(given.turns):
        found = turn(given.files, given.times)
        each = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in found.items())
        print(f"{each}: {found['chimera'] / found['floor']:.2f} times ({load()})", flush=True)


if __name__ == "__main__":
    main()
