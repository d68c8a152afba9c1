"""A task that is one JSON object, written out as a folder of Harbor's form."""

from __future__ import annotations

import json
import re
from pathlib import Path

from chimera.cache import digest, made_once
from chimera.eval.data.rows import Row
from chimera.eval.kits.task_folders.folders import HARBOR_VERIFIER_SECONDS


def written_out(row: Row) -> Path:
    """The folder of a row's task, written once.

    Fields: `id`, `instruction` (or `prompt`), `dockerfile` or `docker_image`, `test_command` or
    `tests` (path → content, with test.sh), and optionally `setup` (commands that are added to the
    image), `solution` (a script), `workdir`, `agent_timeout_sec`, `verifier_timeout_sec`.
    """
    name = str(row.get("id") or row["task_id"])
    if not re.fullmatch(r"[\w.-]+", name):
        raise ValueError(f"id {name!r} is not a plain name")

    def write(place: Path) -> None:
        folder = place / name
        for path, content in _row_files(row).items():
            file = folder / path
            if not file.resolve().is_relative_to(folder.resolve()):
                raise ValueError(f"the file {path!r} is outside the task")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, "utf-8")

    text = json.dumps(dict(row), sort_keys=True, default=str)
    return made_once("harbor-rows", digest(text), write) / name


def _row_files(row: Row) -> dict[str, str]:
    files = {"instruction.md": str(row.get("instruction") or row["prompt"])}
    tests = dict(row.get("tests") or {})
    if "test.sh" not in tests:
        tests["test.sh"] = _test_script(str(row["test_command"]), str(row.get("workdir") or ""))
    files |= {f"tests/{path}": str(content) for path, content in tests.items()}
    if row.get("solution"):
        files["solution/solve.sh"] = str(row["solution"])
    setup = row.get("setup") or ()
    commands = [setup] if isinstance(setup, str) else list(setup)
    dockerfile = str(row.get("dockerfile") or "")
    if not dockerfile and row.get("docker_image"):
        dockerfile = f"FROM {row['docker_image']}\n"
    if not dockerfile:
        raise KeyError("dockerfile")
    if row.get("workdir"):
        dockerfile += f"\nWORKDIR {row['workdir']}\n"
    dockerfile += "".join(f"\nRUN {json.dumps(['sh', '-c', command])}\n" for command in commands)
    files["environment/Dockerfile"] = dockerfile
    agent = float(row.get("agent_timeout_sec") or 1800.0)
    verifier = float(row.get("verifier_timeout_sec") or HARBOR_VERIFIER_SECONDS)
    files["task.toml"] = (
        f'version = "1.0"\n[agent]\ntimeout_sec = {agent}\n[verifier]\ntimeout_sec = {verifier}\n'
    )
    return files


def _test_script(command: str, workdir: str) -> str:
    move = f"cd '{workdir}' || exit 1\n" if workdir else ""
    return (
        f"#!/bin/bash\n{move}({command})\n"
        "if [ $? -eq 0 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"
    )
