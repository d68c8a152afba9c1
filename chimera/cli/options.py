"""Options that several commands share: each is a flag, a CHIMERA_* variable and a TOML key."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from chimera.cli.names import COMPLETERS
from chimera.errors import UsageError
from chimera.text import did_you_mean

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
#: The variables of all options made so far.
VARIABLES: set[str] = set()


#: The largest numbers that are taken; they can be stored.
MOST_COUNT, MOST_NUMBER = 2**62, 1e300


class Number(click.FloatRange):
    """A number of a command line, a variable or a TOML file: nan and inf are none, nor is true."""

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> float:
        number: float = super().convert(value, parameter, context)
        if isinstance(value, bool) or not abs(number) <= MOST_NUMBER:
            self.fail(f"{value!r} is not a number that can be counted with.", parameter, context)
        return number


class Whole(click.IntRange):
    """A whole number that can be stored; 1.5 and true of a TOML file are none."""

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> int:
        if isinstance(value, (bool, float)):
            self.fail(f"{value!r} is not a whole number.", parameter, context)
        whole: int = super().convert(value, parameter, context)
        if abs(whole) > MOST_COUNT:
            self.fail(f"{value!r} is too large to be counted.", parameter, context)
        return whole

    def _describe_range(self) -> str:
        return "" if self.min is None and self.max is None else super()._describe_range()


#: A chance, or a difference of rates: from a thousand-millionth on, which formulas can bear.
SHARE = Number(1e-9, 1 - 1e-9)


def option(*flags: str, **settings: Any) -> Callable[[CommandT], CommandT]:
    """A click option whose value can also come from the variable CHIMERA_<FLAG>."""
    long = max(flags, key=len).lstrip("-").split("/")[0]
    settings.setdefault("envvar", f"CHIMERA_{long.upper().replace('-', '_')}")
    settings.setdefault("shell_complete", COMPLETERS.get(long))
    VARIABLES.add(settings["envvar"])
    settings.setdefault("show_default", settings.get("default") is not None)
    return click.option(*flags, **settings)


def read_config(context: click.Context, _: click.Parameter, value: Path | None) -> Path | None:
    """Take a TOML file's keys as defaults of this command's options."""
    if value is None:
        return None
    try:
        content = tomllib.loads(value.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--config {value}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {value}: {error}") from None
    known = {parameter.name for parameter in context.command.params if parameter.name}
    defaults: dict[str, Any] = {}
    for key, setting in content.items():
        name = key.replace("-", "_")
        if name not in known:
            near = did_you_mean(name, known)
            raise UsageError(f"--config {value}: unknown key '{key}'{near}")
        if isinstance(setting, dict):
            setting = [f"{k}={v}" for k, v in setting.items()]
        defaults[name] = setting
    context.default_map = {**(context.default_map or {}), **defaults}
    return value


config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    is_eager=True,
    expose_value=False,
    callback=read_config,
    envvar="CHIMERA_CONFIG",
    help="A TOML file whose keys are this command's long flags.",
)
runs_dir_option = option(
    "--runs-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where runs are kept (default: ./runs).",
)
_REPORTS = (
    option("--junit", type=click.Path(path_type=Path), help="Write JUnit XML to this file."),
    option("--ctrf", type=click.Path(path_type=Path), help="Write CTRF JSON to this file."),
    option(
        "--github/--no-github",
        default=None,
        help="Annotations and step summary for GitHub (default: where GITHUB_ACTIONS is set).",
    ),
)


def report_options(command: CommandT) -> CommandT:
    """The options for continuous integration."""
    for each in reversed(_REPORTS):
        command = each(command)
    return command


json_option = option("--json", "as_json", is_flag=True, help="Machine-readable output.")
controls_option = option(
    "--controls",
    type=click.Choice(["auto", "first", "off"]),
    default="auto",
    help="Grade known answers too: when a verdict needs one, all before any agent is paid, never.",
)
