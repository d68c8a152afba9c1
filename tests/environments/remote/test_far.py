"""The far end of a command in a service's sandbox, and the lines by which it is spoken to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from chimera.environments.remote.far import BEAT, ERRORS, EXIT, INPUT, OUTPUT, Broken, Lines

PROGRAM = (
    "import json, sys\n"
    "from chimera.environments.remote import far\n"
    "far.main(json.loads(sys.argv[1]))\n"
)


def started(command: list[str], patience: float) -> subprocess.Popen[bytes]:
    job = json.dumps({"command": command, "patience": patience})
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, job], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def test_a_line_is_what_was_said_however_it_comes_in_pieces():
    said = Lines().say(OUTPUT, bytes(range(256)))
    heard = Lines()

    found = [frame for byte in said for frame in heard.hear(bytes([byte]))]

    assert found == [(OUTPUT, bytes(range(256)))]


@pytest.mark.parametrize(
    ("tamper", "why"),
    [
        (lambda lines: lines[1:], "line 0 is missing, 1 came"),
        (lambda lines: [lines[0], *lines], "line 1 is missing, 0 came"),
        (lambda lines: [lines[1], lines[0]], "line 0 is missing"),
        (lambda lines: [lines[0][:-6] + b"\n", lines[1]], "none of ours|was changed"),
        (lambda lines: [lines[0][:20] + b"x" + lines[0][21:]], "was changed"),
        (lambda lines: [b"Traceback (most recent call last):\n"], "none of ours: b'Traceback"),
        (lambda lines: [b"\n"], "none of ours"),
        (lambda lines: [b"A" * 100_000], "has no end"),
    ],
)
def test_what_was_lost_repeated_or_altered_is_noticed(
    tamper: Callable[[list[bytes]], list[bytes]], why: str
):
    mine = Lines()
    lines = [mine.say(OUTPUT, b"first and some more"), mine.say(OUTPUT, b"second")]

    with pytest.raises(Broken, match=why):
        list(Lines().hear(b"".join(tamper(lines))))


def test_a_command_ends_where_nobody_is_heard_any_more():
    with started(["sh", "-c", "echo begun; sleep 1000"], patience=1) as process:
        assert process.stdout is not None
        heard = list(Lines().hear(process.stdout.read()))

    assert (OUTPUT, b"begun\n") in heard
    assert EXIT not in [kind for kind, _ in heard]


def test_a_command_ends_with_its_input_and_tells_its_exit_code():
    mine = Lines()
    with started(["sh", "-c", "cat; exit 3"], patience=60) as process:
        assert process.stdin is not None
        process.stdin.write(mine.say(BEAT) + mine.say(INPUT, b"in") + mine.say(INPUT))
        process.stdin.flush()
        assert process.stdout is not None
        heard = list(Lines().hear(process.stdout.read()))

    assert (OUTPUT, b"in") in heard
    assert heard[-1] == (EXIT, b"3")


def test_a_program_that_is_not_there_is_named():
    with started(["/opt/absent"], patience=60) as process:
        said, _ = process.communicate()

    why = b"/opt/absent: No such file or directory\n"
    assert list(Lines().hear(said)) == [(ERRORS, why), (EXIT, b"127")]
