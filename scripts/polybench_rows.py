"""Make rows of SWE-PolyBench anew where only their public issue texts are at hand.

    python scripts/polybench_rows.py STATEMENTS CLONES FOLDER [INSTANCE…]

STATEMENTS has a row's id, repository, language and issue (JSON lines, .gz or not); the rest comes
from a clone in CLONES (`OWNER__NAME`): the pull request's merge is split into its tests and its
fix, a recipe of ours takes the place of the official Dockerfile and test command, and the tests
are run without and with the fix in bubblewrap: those that only the fix makes pass are F2P, those
that pass both times P2P. Rows go to FOLDER/full.jsonl, one that is there already is kept.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chimera.errors import ChimeraError
from chimera.eval.benchmarks._swe_polybench import logs
from chimera.eval.benchmarks.swe_polybench import PolyBenchTask, SWEPolyBench
from chimera.eval.kits.patches.apply import put_tests
from chimera.eval.kits.repositories.virtualenvs import TESTBED
from chimera.eval.trial import StartBackend

TESTS = re.compile(r"(^|/)(tests?|__tests__|__mocks__)/|\.(test|spec)\.[jt]sx?$")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a repository is built and tested; `{tests}` are the files that a test patch changes."""

    steps: tuple[str, ...]
    command: str
    runs: str = ""  # which changed files the command is given

    def dockerfile(self, language: str) -> str:
        head = f"FROM polybench_{language}_base\nWORKDIR {TESTBED}\nCOPY . .\n"
        return head + "".join(f"RUN {step}\n" for step in self.steps)


_NODE = ". /usr/local/nvm/nvm.sh && nvm use 16.20.2"
#: The lock files name another registry.
_INSTALL = (
    "mv yarn.lock /tmp && npm install --ignore-scripts --no-package-lock --legacy-peer-deps "
    "&& mv /tmp/yarn.lock ."
)
_MAVEN = "mvn -B -ntp -pl gson -Dmaven.test.failure.ignore=true test"
RECIPES = {
    "google/gson": Recipe(
        (_MAVEN,),
        f"rm -rf gson/target/surefire-reports; {_MAVEN.replace(' -B', ' -B -o')}; "
        "find . -name 'TEST-*.xml' | while read -r file; do cat \"$file\"; done",
    ),
    "tailwindlabs/tailwindcss": Recipe(
        (
            f"{_NODE} && mv yarn.lock /tmp && npm install --ignore-scripts --no-package-lock "
            "&& npm run babelify && mv /tmp/yarn.lock .",
        ),
        f"{_NODE} && npx jest --json",
    ),
    "coder/code-server": Recipe(
        (
            f"{_NODE} && {_INSTALL} && cd test && {_INSTALL}",
            f'{_NODE} && export npm_config_nodedir="$(dirname "$(dirname "$(which node)")")" '
            "&& npm rebuild argon2 && cd test && npm rebuild argon2",
        ),
        f"{_NODE} && ./test/node_modules/.bin/jest --json --forceExit --coverage=false "
        """--globals '{"ts-jest":{"diagnostics":false}}' {tests}""",
        r"\.test\.tsx?$",
    ),
    "yt-dlp/yt-dlp": Recipe(
        ("pip install pytest", "pip install -e . || pip install -r requirements.txt"),
        "python -m pytest -v --color=no -p no:cacheprovider {tests}",
        r"^test/test_\w+\.py$",
    ),
}


def git(clone: Path, *arguments: str) -> str:
    command = ["git", "-C", str(clone), "-c", "safe.directory=*", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def merge_of(clone: Path, number: str) -> str:
    """The commit that brought a pull request in; of several the first that changes tests."""
    pattern = rf"\(#{number}\)$|^Merge pull request #{number} "
    found = git(clone, "log", "--format=%H", "--reverse", "-E", f"--grep={pattern}").split()
    for commit in found:
        if any(TESTS.search(path) for path in changed(clone, commit)):
            return commit
    raise ChimeraError(f"no merge of pull request {number} that changes tests")


def changed(clone: Path, commit: str) -> list[str]:
    return git(clone, "diff", "--name-only", f"{commit}^1", commit).splitlines()


def row_of(known: dict[str, Any], clones: Path) -> dict[str, Any]:
    """The row without its lists of tests."""
    recipe = RECIPES[known["repo"]]
    clone = clones / known["repo"].replace("/", "__")
    merge = merge_of(clone, str(known["pull_number"]))
    paths = changed(clone, merge)
    tests = [path for path in paths if TESTS.search(path)]
    fixes = [path for path in paths if path not in tests]
    if not fixes:
        raise ChimeraError("the pull request changes tests alone")
    diff = ("diff", "--no-renames", f"{merge}^1", merge, "--")
    run = " ".join(path for path in tests if recipe.runs and re.search(recipe.runs, path))
    return {
        **known,
        "base_commit": git(clone, "rev-parse", f"{merge}^1").strip(),
        "patch": git(clone, *diff, *fixes),
        "test_patch": git(clone, *diff, *tests),
        "Dockerfile": recipe.dockerfile(known["language"].lower()),
        "test_command": recipe.command.replace("{tests}", run),
        "F2P": [],
        "P2P": [],
    }


def with_tests(row: dict[str, Any], clones: Path, folder: Path) -> dict[str, Any]:
    """The row with what its tests come to without and with the fix."""
    draft = folder / "draft"
    draft.mkdir(parents=True, exist_ok=True)
    (draft / "full.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    benchmark = SWEPolyBench(draft, split="full", repositories=str(clones))
    (task,) = benchmark.tasks()
    before, after = (results(benchmark, task, fixed=fixed) for fixed in (False, True))
    new = sorted(after.passed - after.failed - before.passed)
    if not new:
        raise ChimeraError(f"the fix makes no test pass: {len(after.passed)} did with it")
    kept = sorted(after.passed & before.passed - after.failed - before.failed)
    return {**row, "F2P": new, "P2P": kept}


def results(benchmark: SWEPolyBench, task: PolyBenchTask, *, fixed: bool) -> logs.Results:
    with benchmark.open_environment(task, StartBackend("bubblewrap")) as env:
        for patch in (task["patch"], task["test_patch"])[not fixed :]:
            if not put_tests(env, patch, root=TESTBED):
                raise ChimeraError("a patch does not apply to the base commit")
        command = ["bash", "-c", task["test_command"]]
        done = env.run_command(command, cwd=TESTBED, timeout=1800, output_bytes=64 * 1024**2)
    log = (done.stderr + done.stdout).decode("utf-8", "replace")
    found = logs.reader(task["repo"], task["language"])(log)
    if fixed and not found:
        raise ChimeraError(f"no test results: {log[-1500:]}")
    return found


def statements(path: Path) -> Iterator[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for line in text.decode("utf-8").splitlines():
        row = json.loads(line)
        if row["repo"] in RECIPES:
            yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("statements", type=Path)
    parser.add_argument("clones", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("instances", nargs="*")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    target = chosen.folder / "full.jsonl"
    there = target.read_text("utf-8").splitlines() if target.exists() else []
    done = {json.loads(line)["instance_id"] for line in there}
    for known in statements(chosen.statements):
        name = known["instance_id"]
        if name in done or (chosen.instances and name not in chosen.instances):
            continue
        try:
            row = with_tests(row_of(known, chosen.clones), chosen.clones, chosen.folder)
        except (ChimeraError, subprocess.CalledProcessError) as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            continue
        with target.open("a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")
        print(f"{name}: F2P {len(row['F2P'])}, P2P {len(row['P2P'])}", flush=True)


if __name__ == "__main__":
    main()
