"""Commands: results, limits of time and output, processes that stay and that go."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time

from chimera.environments.base import EnvironmentSpec, Machine, ResourceLimits
from chimera.environments.conformance.base import Start, expect
from chimera.errors import EnvironmentFault, LimitReached
from chimera.types import CommandResult

LOOP = "while :; do echo beat >> {name}; sleep 0.1; done"


def beats(env: Machine, name: str) -> int:
    try:
        return env.read_file(name).count(b"beat")
    except FileNotFoundError:
        return 0


def wait_for_beats(env: Machine, name: str) -> None:
    """Until the process that writes them runs; then it is a process worth ending."""
    end = time.monotonic() + 30
    while not beats(env, name):
        expect(time.monotonic() < end, "a background process does not run")
        time.sleep(0.05)


def expect_still(env: Machine, name: str, what: str) -> None:
    before = beats(env, name)
    time.sleep(0.5)
    expect(beats(env, name) == before, f"{what} still runs")


def results_are_told_apart(env: Machine) -> None:
    """stdout, stderr and the exit code come back as they are, bytes untouched."""
    result = env.run_command("printf 'a\\000\\377'; printf err >&2; exit 7")
    expect(result.stdout == b"a\0\xff", f"stdout was {result.stdout!r}")
    expect(result.stderr == b"err", f"stderr was {result.stderr!r}")
    expect(result.exit_code == 7 and not result.success, f"exit code was {result.exit_code}")
    expect(not result.timed_out and not result.truncated, "it neither timed out nor was cut")


def lists_bypass_the_shell(env: Machine) -> None:
    """A list of arguments reaches the program as it is."""
    result = env.run_command(["printf", "%s|", "a b", "$HOME", "*", "'\"", ""])
    expect(result.stdout == b"a b|$HOME|*|'\"||", f"arguments arrived as {result.stdout!r}")


def strings_use_the_shell(env: Machine) -> None:
    result = env.run_command("for i in 1 2; do echo $((i * 2)); done | tail -n 1")
    expect(result.stdout == b"4\n", f"the shell answered {result.output!r}")


def unknown_programs_fail(env: Machine) -> None:
    """A program that is not there is a failed command, not a broken environment."""
    result = env.run_command(["no-such-program-here"])
    expect(not result.success, "a missing program was reported as a success")


def stdin_is_given_or_empty(env: Machine) -> None:
    data = bytes(range(256)) * 4096
    expect(env.run_command(["cat"], stdin=data).stdout == data, "stdin did not arrive whole")
    result = env.run_command(["cat"], timeout=20)
    expect(result.success and not result.stdout, "without stdin, reading it must end at once")
    ignored = env.run_command(["true"], stdin=data)
    expect(ignored.success, "a command that does not read its stdin must not fail for it")


def directory_and_variables(env: Machine) -> None:
    """`cwd` is relative to the working directory; variables last for one command."""
    env.write_file("sub/dir/file", "x")
    result = env.run_command("ls; echo $WORD", cwd="sub/dir", variables={"WORD": "a b$c"})
    expect(result.stdout == b"file\na b$c\n", f"got {result.output!r}")
    expect(env.run_command("echo $WORD").stdout == b"\n", "a variable outlived its command")
    expect(env.run_command("pwd").stdout.decode().strip() == env.workdir, "pwd is not the workdir")


def time_outs_end_commands(env: Machine) -> None:
    """What was written until then is kept; the result says that time ran out."""
    result = env.run_command("echo begun; sleep 600", timeout=1.5)
    expect(result.timed_out and not result.success, "the command was not timed out")
    expect(result.stdout == b"begun\n", f"its output was {result.stdout!r}")
    expect(env.run_command("echo on").stdout == b"on\n", "the environment did not go on")


def time_outs_end_what_ignores_signals(env: Machine) -> None:
    script = "trap '' TERM INT HUP QUIT; " + LOOP.format(name="deaf")
    result = env.run_command(script, timeout=1.5)
    expect(result.timed_out, "the command was not timed out")
    expect_still(env, "deaf", "a command that ignores signals")


def time_outs_end_daemons(env: Machine) -> None:
    """Also what left the command's session and was orphaned."""
    script = f"(setsid sh -c '{LOOP.format(name='daemon')}' >/dev/null 2>&1 &); sleep 600"
    result = env.run_command(script, timeout=3)
    expect(result.timed_out, "the command was not timed out")
    expect(beats(env, "daemon") > 0, "the daemon never ran")
    expect_still(env, "daemon", "a daemon of a timed out command")


def time_outs_spare_earlier_processes(env: Machine) -> None:
    env.run_command(f"sh -c '{LOOP.format(name='earlier')}' >/dev/null 2>&1 &")
    wait_for_beats(env, "earlier")
    env.run_command("sleep 600", timeout=1)
    before = beats(env, "earlier")
    time.sleep(0.5)
    expect(beats(env, "earlier") > before, "a time-out ended a process of an earlier command")
    env.stop_processes()


def background_does_not_delay(env: Machine) -> None:
    """A command is over when its shell is, whatever it left in the background."""
    result = env.run_command("sleep 30 & echo done", timeout=20)
    expect(result.success and b"done" in result.stdout, f"got {result}")
    env.stop_processes()


def processes_are_stopped(env: Machine) -> None:
    """`stop_processes` leaves files in place and nobody running."""
    env.write_file("kept", "1")
    env.run_command(f"(setsid sh -c '{LOOP.format(name='stay')}' >/dev/null 2>&1 &)")
    wait_for_beats(env, "stay")
    env.stop_processes()
    expect_still(env, "stay", "a background process after stop_processes()")
    expect(env.read_file("kept") == b"1", "stop_processes() lost a file")
    expect(env.run_command("echo on").stdout == b"on\n", "no command runs after stop_processes()")


def output_is_bounded(env: Machine) -> None:
    """500 MB of output end in a result of the size that was asked for, which says so."""
    script = "echo first; head -c 250000000 /dev/zero; head -c 250000000 /dev/zero >&2; echo last"
    result = env.run_command(script, timeout=300, output_bytes=10_000)
    expect(result.success, f"the command failed: {result.exit_code}")
    expect(result.truncated, "the result does not say that it was cut")
    for stream in (result.stdout, result.stderr):
        expect(len(stream) < 11_000, f"{len(stream)} bytes were kept")
    expect(result.stdout.startswith(b"first") and result.stdout.endswith(b"last\n"), "ends lost")


def deadline_is_kept(start: Start) -> None:
    """It cuts a running command, and after it none starts."""
    with start(EnvironmentSpec()) as env:
        env.deadline = time.monotonic() + 2
        result = env.run_command("sleep 600", timeout=500)
        expect(result.timed_out, "the deadline did not end the command")
        try:
            env.run_command("true")
        except LimitReached as error:
            expect(error.limit == "time", f"the limit is named {error.limit}")
        else:
            raise AssertionError("a command started after the deadline")


def commands_run_side_by_side(env: Machine) -> None:
    found: dict[int, CommandResult] = {}

    def run(number: int) -> None:
        found[number] = env.run_command(f"sleep 0.2; echo {number}", timeout=60)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outputs = [found[number].stdout for number in range(6)]
    expect(outputs == [f"{n}\n".encode() for n in range(6)], f"got {outputs}")


def processes_can_be_talked_to(env: Machine) -> None:
    """`open_process` gives pipes; the process ends by itself, by a signal, or by kill()."""
    process = env.open_process(["cat"])
    expect(process.stdin is not None and process.stdout is not None, "no pipes")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"hello\n")
    process.stdin.flush()
    expect(process.stdout.readline() == b"hello\n", "no answer over the pipes")
    expect(process.poll() is None, "the process is said to have ended")
    process.stdin.close()
    expect(process.wait(20) == 0, "it did not end with its input")
    close_streams(process)


def processes_can_be_signalled(env: Machine) -> None:
    script = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done"
    process = env.open_process(["sh", "-c", script])
    assert process.stdout is not None
    expect(process.stdout.readline() == b"ready\n", "it did not start")
    process.send_signal(2)
    expect(process.stdout.readline() == b"caught\n", "the signal did not arrive")
    expect(process.wait(20) == 5, "its exit code was lost")
    close_streams(process)


def processes_can_be_killed(env: Machine) -> None:
    process = env.open_process(["sh", "-c", f"trap '' TERM; {LOOP.format(name='opened')}"])
    wait_for_beats(env, "opened")
    process.kill()
    expect(process.wait(20) != 0, "a killed process must not have succeeded")
    expect_still(env, "opened", "a killed process")
    close_streams(process)


def close_streams(process: object) -> None:
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(process, name, None)
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    if isinstance(process, subprocess.Popen):
        process.wait()


def closing_twice_is_fine(start: Start) -> None:
    env = start(EnvironmentSpec())
    env.open_process(["sleep", "600"])
    env.close()
    env.close()
    try:
        env.run_command("true")
    except EnvironmentFault:
        return
    raise AssertionError("a closed environment ran a command")


def big_files_are_refused(start: Start) -> None:
    """No file grows beyond `file_bytes`."""
    limits = ResourceLimits(file_bytes=8 * 1024**2)
    with start(EnvironmentSpec(limits=limits)) as env:
        env.run_command("head -c 64000000 /dev/zero > big", timeout=60)
        size = int(env.run_command("wc -c < big").stdout)
        expect(size <= 8 * 1024**2, f"a file of {size} bytes was written")


SHARED = (
    results_are_told_apart,
    lists_bypass_the_shell,
    strings_use_the_shell,
    unknown_programs_fail,
    stdin_is_given_or_empty,
    directory_and_variables,
    time_outs_end_commands,
    time_outs_end_what_ignores_signals,
    time_outs_end_daemons,
    time_outs_spare_earlier_processes,
    background_does_not_delay,
    processes_are_stopped,
    output_is_bounded,
    commands_run_side_by_side,
    processes_can_be_talked_to,
    processes_can_be_signalled,
    processes_can_be_killed,
)
FRESH = (deadline_is_kept, closing_twice_is_fine, big_files_are_refused)
