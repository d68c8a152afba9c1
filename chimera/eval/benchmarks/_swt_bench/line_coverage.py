"""coverage.py inside a test run: which lines of chosen files how many tests reached."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chimera.cache import digest, made_once
from chimera.environments.base import Machine
from chimera.errors import EnvironmentFault
from chimera.eval.kits.repositories.installing import Installer
from chimera.programs import python_with_pip

PLACE = "/tmp/line-coverage"
_CONFIG = """\
[run]
data_file = {place}/data
parallel = true
dynamic_context = test_function
include =
{files}
disable_warnings = no-data-collected,module-not-measured,already-imported,include-ignored
"""
_REPORT = Path(__file__).with_name("coverage_report.py")


@dataclass(frozen=True, slots=True)
class CoverageTool:
    """coverage.py for one interpreter, in a directory of its own that a run can mount."""

    folder: Path

    def mounts(self) -> dict[str, str]:
        return {str(self.folder): str(self.folder)}

    def place(self, env: Machine, files: Sequence[str], root: str) -> dict[str, str]:
        """Prepare a run that measures `files`; the variables that the test command needs."""
        listed = "\n".join(f"    {root}/{name}" for name in files)
        env.write_file(f"{PLACE}/rc", _CONFIG.format(place=PLACE, files=listed))
        start = "import coverage\ncoverage.process_startup()\n"
        for module in ("sitecustomize", "chimera_coverage"):  # the latter for a witness to call
            env.write_file(f"{PLACE}/start/{module}.py", start)
        return {
            "COVERAGE_PROCESS_START": f"{PLACE}/rc",
            "PYTHONPATH": f"{PLACE}/start:{self.folder}",
        }

    def read(self, env: Machine, root: str, activate: str = "true") -> dict[str, dict[int, int]]:
        """Tests that reached each executable line, by path below `root`; empty when nothing ran."""
        env.write_file(f"{PLACE}/report.py", _REPORT.read_text())
        variables = {"PYTHONPATH": str(self.folder), "COVERAGE_PROCESS_START": ""}
        command = ["bash", "-c", f"{activate} && python {PLACE}/report.py {PLACE}"]
        result = env.run_command(command, cwd=root, timeout=300, variables=variables)
        if result.exit_code != 0:
            if "No data to combine" in result.output or "NoDataError" in result.output:
                return {}
            raise EnvironmentFault(f"coverage.py cannot report: {result.output[-300:]}")
        found = json.loads(result.stdout.decode().splitlines()[-1])
        return {
            path.removeprefix(f"{root}/"): {int(line): hits for line, hits in lines.items()}
            for path, lines in found.items()
        }


def coverage_tool(version: str) -> CoverageTool:
    """coverage.py for a CPython `major.minor`, wherever that is; installed once."""

    def make(folder: Path) -> None:
        wheels = ["--target", str(folder), "--python-version", version, "--only-binary", ":all:"]
        python = python_with_pip() or sys.executable  # uv installs without pip
        with Installer(folder) as work:  # a wheel of a name that is ours: nothing of it is run
            failure = work.install(python, [*wheels, "coverage>=5"], timeout=600)
        if failure:
            raise EnvironmentFault(
                f"coverage.py cannot be installed for Python {version}: {failure}"
            )

    return CoverageTool(made_once("tools", digest("coverage", 2, version), make))
