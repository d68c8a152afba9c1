"""What a hostile agent does in a terminal task instead of solving it; none of it may pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from chimera.eval.values import Submission

#: A submission of this form is a script that is run as the agent's work before the verifier comes.
COMMANDS = "commands"
#: Scripts, each with what it does in its first line.
SCRIPTS = Path(__file__).parent / "hostile"
#: A line of theirs that stands for a script of `parts`.
_USES = re.compile(r"^# uses (\w+)\n", re.MULTILINE)


def attacks() -> Iterator[tuple[str, Submission]]:
    """(what is done, the script that does it)"""
    for file in sorted(SCRIPTS.glob("*.sh")):
        script = _USES.sub(_part, file.read_text("utf-8"))
        name = script.partition("\n")[0].removeprefix("# ")
        yield name, Submission(text=script, form=COMMANDS)


def _part(line: re.Match[str]) -> str:
    return (SCRIPTS / "parts" / f"{line[1]}.sh").read_text("utf-8")
