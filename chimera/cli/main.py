"""The `chimera` command. Commands are imported when they are called, so that help is instant."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import NoReturn, TextIO

import click

from chimera import __version__
from chimera.cli.terminal import echo
from chimera.errors import ChimeraError, ExitCode, fault
from chimera.interrupts import Terminated, listen
from chimera.text import did_you_mean, shortened

#: name → (module with `command`, the line `chimera --help` shows)
COMMANDS: dict[str, tuple[str, str]] = {
    "eval": ("chimera.cli.eval", "Run an agent against a benchmark."),
    "grade": ("chimera.cli.grade", "Grade stored answers or a stored run, without an agent."),
    "validate": ("chimera.cli.validate", "Prove a grader: gold passes, nothing and mutants fail."),
    "controls": ("chimera.cli.controls", "The known answers that verdicts rest on."),
    "attack": ("chimera.cli.attack", "Try hostile answers on a grader; each must fail."),
    "bench": ("chimera.cli.bench", "Run a suite of your own tasks."),
    "agents": ("chimera.cli.agents", "List, install and check coding agents."),
    "gateway": ("chimera.cli.gateway", "Serve a model to programs: metered, bounded, recorded."),
    "benchmarks": ("chimera.cli.benchmarks", "List the benchmarks and their state."),
    "prepare": ("chimera.cli.prepare", "Fetch all that a benchmark needs before the first run."),
    "datasets": ("chimera.cli.datasets", "List, find and fetch data sets."),
    "models": ("chimera.cli.models", "List models and services; fetch the embedded one."),
    "runs": ("chimera.cli.runs", "List, show, export and remove stored runs."),
    "view": ("chimera.cli.view", "See and compare runs in a browser."),
    "report": ("chimera.cli.report", "Write runs as one file to send: HTML, Markdown, LaTeX."),
    "top": ("chimera.cli.top", "What running runs do now."),
    "compare": ("chimera.cli.compare", "Compare two or more runs task by task; gate on it."),
    "table": ("chimera.cli.table", "Models × benchmarks as a table, with intervals."),
    "power": ("chimera.cli.power", "How many tasks and samples show a difference."),
    "doctor": ("chimera.cli.doctor", "What this machine can confine and run, and what is missing."),
}
LONGEST_MESSAGE = 4000  # it may quote a file of a stranger's
#: What people on other systems read first.
ELSEWHERE = {
    "darwin": "Chimera is made for Linux; on macOS run it in a Linux container (Docker, Colima): "
    "here answers are not confined, and most benchmarks do not run.",
    "win32": "Chimera is made for Linux; on Windows install it inside WSL 2 or a container.",
}
#: How it shows that a file, or standard output, cannot be written.
_UNWRITABLE = frozenset(
    {errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EROFS}
)
#: The same of a path that cannot be what it was named for.
_MISNAMED = frozenset(
    {errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR}
)
PRESETS = ("claude_code", "ferret", "mini", "mink", "otter", "shrew", "weasel")


class LazyGroup(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        return [*COMMANDS, *PRESETS]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name in COMMANDS:
            command: click.Command = importlib.import_module(COMMANDS[name][0]).command
            return command
        if name in PRESETS:
            group: click.Command = importlib.import_module("chimera.cli.presets").group(name)
            return group
        return None

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if arguments and self.get_command(context, arguments[0]) is None:
            near = did_you_mean(arguments[0], self.list_commands(context))
            raise click.UsageError(f"No such command '{arguments[0]}'{near}", context)
        return super().resolve_command(context, arguments)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])
        with formatter.section("Agent presets (chimera PRESET bench BENCHMARK)"):
            formatter.write_text(", ".join(PRESETS))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="chimera")
def cli() -> None:
    """Run AI agents against public benchmarks; know for every task whether it was solved.

    \b
    Examples:
      chimera eval --benchmark human-eval --model local/smollm2 --limit 5
      chimera grade --benchmark human-eval --predictions samples.jsonl
      chimera validate human-eval
    """
    from chimera.cli.variables import refuse_misspelt

    refuse_misspelt(module for module, _ in COMMANDS.values())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line; exit codes are those of docs/running.md."""
    _open_closed_streams()
    if sys.platform in ELSEWHERE:
        echo(ELSEWHERE[sys.platform], err=True)
        if sys.platform == "win32":
            sys.exit(ExitCode.USAGE)
    if threading.current_thread() is threading.main_thread():
        listen()
    try:
        result = cli.main(args=arguments, prog_name="chimera", standalone_mode=False)
        sys.stdout.flush()
        sys.stderr.flush()
    except click.exceptions.Abort:
        sys.exit(ExitCode.INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(ExitCode.USAGE)
    except KeyboardInterrupt as interruption:
        _say("interrupted")
        terminated = isinstance(interruption, Terminated)
        sys.exit(ExitCode.TERMINATED if terminated else ExitCode.INTERRUPTED)
    except ChimeraError as error:
        _say(str(error))
        sys.exit(error.exit_code)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - what nobody foresaw has a code, too
        sys.exit(_told(error))
    sys.exit(result if isinstance(result, int) else ExitCode.DONE)


def _told(error: BaseException) -> ExitCode:
    """Say what ended the command; no shell may take it for a gate that is not met, nor a fault of
    somebody's code for success."""
    from chimera.plugins import crosses_own_code

    if crosses_own_code(error):
        _say(f"code of your own failed: {fault(error)}")
        return ExitCode.USAGE
    if isinstance(error, BrokenPipeError):  # the reader of a pipe has seen enough
        sys.stderr.close()
        return ExitCode.DONE
    if isinstance(error, OSError) and error.errno in _MISNAMED and error.filename is not None:
        _say(f"{shortened(str(error.filename), 300)}: {error.strerror}")
        return ExitCode.USAGE
    if isinstance(error, OSError) and error.errno in _UNWRITABLE:
        _say(f"{error.filename or 'standard output'} cannot be written: {error.strerror}")
        for stream in (sys.stdout, sys.stderr):
            _forget(stream)
        return ExitCode.UNWRITABLE
    traceback.print_exception(error)
    return ExitCode.BROKEN


def _say(message: str) -> None:
    with contextlib.suppress(OSError):  # standard error may be full, too
        echo(f"chimera: {shortened(message, LONGEST_MESSAGE)}", err=True)


def _open_closed_streams() -> None:
    """Let standard streams that the shell closed lead nowhere: no file may get their numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def _forget(stream: TextIO) -> None:
    """Write what a full stream still holds nowhere when the process ends: it would fail again."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


if __name__ == "__main__":
    main()
