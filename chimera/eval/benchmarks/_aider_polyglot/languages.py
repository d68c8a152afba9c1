"""How the tests of an exercise are run and read in each language."""

from __future__ import annotations

import re
import secrets
import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache as cached
from functools import partial
from pathlib import Path

from chimera.environments.base import Machine
from chimera.errors import EnvironmentFault, GraderError
from chimera.eval.benchmarks._aider_polyglot import reports
from chimera.eval.benchmarks._aider_polyglot.caches import precompiled_main, ready_cache
from chimera.eval.kits.apart import SHORT, Ended, apart
from chimera.eval.kits.reports import javascript, junit
from chimera.eval.kits.reports.report import Report, Status
from chimera.types import CommandResult

#: Where the runners put reports and build products, beside the exercise; its name is another one
#: in every run and this one in what a run prints.
SCRATCH = ".scratch"
PREAMBLE = f'SCRATCH="$(cd .. && pwd)/{SCRATCH}" && export HOME="$(cd .. && pwd)/.home"\n'
PREAMBLE += 'mkdir -p "$SCRATCH" "$HOME" || exit 1\n'
#: More than a report of an exercise ever has, in JSON or lines.
REPORT_BYTES = 8 * 1024**2
RUNNERS = Path(__file__).with_name("runners")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """What an environment needs of the host for one language; all of it is mounted read-only."""

    directories: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def mounts(self) -> dict[str, str]:
        return {str(path): str(path) for path in self.directories}


@dataclass(frozen=True, slots=True)
class TestRun:
    """A finished run: the report (None when there is none), what it printed, how it ended."""

    __test__ = False

    report: Report | None
    output: str
    exit_code: int
    timed_out: bool
    passes: int = 0  # tests that passed; a data set's own command only counts them

    @property
    def passed(self) -> bool:
        failed = self.report is None or self.report.failed()
        return self.exit_code == 0 and not self.timed_out and self.passes > 0 and not failed


#: The content of a file that a run left in its scratch directory; empty when it is not there.
ReadScratch = Callable[[str], bytes]


@dataclass(frozen=True, slots=True)
class Language:
    """A language of the data set.

    `script` (below `runners`) is run by the shell in the exercise's directory with $SCRATCH set.
    `read` turns what it left into a report and the text a person would have seen. `declared` finds
    the names of tests in a test file, each of which must be in the report. `unskip` turns on tests
    which the exercise ships switched off. `summary` finds the number of tests that passed (1 for a
    package of Go) in what another command for the same runner prints, in time by the text's length.
    """

    name: str
    read: Callable[[ReadScratch, CommandResult], tuple[Report | None, str]]
    toolchain: Callable[[Path], Toolchain]
    summary: re.Pattern[str]
    declared: Callable[[str], list[str]] = lambda text: []
    unskip: Callable[[str], str] = lambda text: text

    @property
    def script(self) -> str:
        return (RUNNERS / f"{self.name}.sh").read_text()


def run_exercise(
    env: Machine, language: Language, exercise: str, toolchain: Toolchain, timeout: float
) -> TestRun:
    """Run the exercise in the directory `exercise` of `env` by its language's own command."""
    scratch = f".{secrets.token_hex(8)}"
    done = env.run_command(
        ["bash", "-c", PREAMBLE.replace(SCRATCH, scratch) + language.script],
        cwd=exercise,
        timeout=timeout,
        variables=toolchain.variables,
    )
    report, output = language.read(partial(_scratch_file, env, scratch), done)
    output = output.replace(scratch, SCRATCH)
    if report is not None and not report.complete:
        report = None
    passes = len(report.passed()) if report else 0
    return TestRun(report, output, done.exit_code, done.timed_out, passes)


def run_command(
    env: Machine,
    language: Language,
    command: str,
    exercise: str,
    toolchain: Toolchain,
    timeout: float,
) -> TestRun:
    """Run a data set's own command; its exit code counts only if it printed that tests passed."""
    done = env.run_command(
        ["bash", "-c", PREAMBLE + command],
        cwd=exercise,
        timeout=timeout,
        variables=toolchain.variables,
    )
    counts = [int(match[1] or 1) for match in language.summary.finditer(done.output)]
    report = Report() if counts else None
    return TestRun(report, done.output, done.exit_code, done.timed_out, sum(counts))


def _scratch_file(env: Machine, scratch: str, name: str) -> bytes:
    try:
        return env.read_file(f"{scratch}/{name}")
    except (OSError, EnvironmentFault):
        return b""


def _junit(
    file: ReadScratch, done: CommandResult, name: str = "report.xml"
) -> tuple[Report | None, str]:
    return junit.read(file(name), classes=False), done.output


def _junit_of_jupiter(file: ReadScratch, done: CommandResult) -> tuple[Report | None, str]:
    return _junit(file, done, "reports/TEST-junit-jupiter.xml")


def _text(file: ReadScratch, name: str) -> str:
    """A report; one that is longer than any is none, since the code under test can write it."""
    content = file(name)
    return content.decode("utf-8", "replace") if len(content) <= REPORT_BYTES else ""


def _jest(file: ReadScratch, done: CommandResult) -> tuple[Report | None, str]:
    text = _text(file, "report.json")
    if len(text) <= SHORT:
        return Report(*_jest_report(text)), done.output
    try:
        return Report(*apart(_jest_report, text)), done.output
    except Ended:
        return None, done.output


def _jest_report(text: str) -> tuple[dict[str, Status], bool]:
    report = javascript.jest(text, suites=True)
    return dict(report.statuses), report.complete


def _cargo(file: ReadScratch, done: CommandResult) -> tuple[Report | None, str]:
    printed = done.stdout.decode("utf-8", "replace")
    return reports.cargo(_text(file, "results"), printed), done.output


def _go(file: ReadScratch, done: CommandResult) -> tuple[Report | None, str]:
    report, text = reports.go_events(done.stdout)
    return report, text + done.stderr.decode("utf-8", "replace")


def _python_toolchain(exercise: Path) -> Toolchain:
    place = ready_cache("python")
    base = Path((place / "venv/bin/python").resolve()).parent.parent
    directories = (place,) if base == Path("/usr") else (place, base)
    return Toolchain(directories, {"PATH": f"{place}/venv/bin:{SYSTEM_PATH}"})


def _javascript_toolchain(exercise: Path) -> Toolchain:
    place = ready_cache("javascript")
    return Toolchain(
        (place, *_program_directories("node", "--version")),
        {"NODE_MODULES": f"{place}/node_modules", "PATH": _path_with("node")},
    )


def _rust_toolchain(exercise: Path) -> Toolchain:
    place, root = ready_cache("rust"), Path(_answer("rustc", "--print", "sysroot"))
    variables = {"PATH": f"{root}/bin:{SYSTEM_PATH}", "VENDOR": f"{place}/vendor"}
    return Toolchain((place,) if root == Path("/usr") else (place, root), variables)


def _go_toolchain(exercise: Path) -> Toolchain:
    place, root = ready_cache("go"), Path(_answer("go", "env", "GOROOT"))
    return Toolchain(
        (place, root),
        {
            "PATH": f"{root}/bin:{SYSTEM_PATH}",
            "WARM": f"{place}/build",
            "GOROOT": str(root),
            "GOFLAGS": "-mod=mod",
            "GOPROXY": "off",
            "GOTOOLCHAIN": "local",
        },
    )


def _java_toolchain(exercise: Path) -> Toolchain:
    place = ready_cache("java")
    home = Path(_answer("which", "javac")).resolve().parent.parent
    return Toolchain((place, home), {"PATH": f"{home}/bin:{SYSTEM_PATH}", "JARS": f"{place}/jars"})


def _cpp_toolchain(exercise: Path) -> Toolchain:
    main = precompiled_main(exercise)
    if main is None:
        return Toolchain((), {"PATH": SYSTEM_PATH})
    launcher = {"CMAKE_CXX_COMPILER_LAUNCHER": f"{main}/launcher.sh"}
    return Toolchain((main,), {"PATH": SYSTEM_PATH, **launcher})


@cached
def _answer(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise GraderError(f"{shlex.join(command)}: {error}") from None
    return done.stdout.strip()


def _program_directories(program: str, *probe: str) -> tuple[Path, ...]:
    """The installation a program lives in, unless that is the system's own."""
    root = Path(_answer("which", program)).resolve().parent.parent
    return () if root in (Path("/usr"), Path("/usr/local"), Path("/")) else (root,)


def _path_with(program: str) -> str:
    return f"{Path(_answer('which', program)).resolve().parent}:{SYSTEM_PATH}"


def _named(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE | re.DOTALL)


def _cpp_tests(text: str) -> list[str]:
    """Test cases that are compiled: those of optional parts of a file are not."""
    text = re.split(r"^#if defined\(EXERCISM_INCLUDE_BENCHMARK\)", text, flags=re.MULTILINE)[0]
    return re.findall(r'^TEST_CASE\(\s*"([^"]+)"', text, re.MULTILINE)


def _java_tests(text: str) -> list[str]:
    """Methods with @Test, but for those that stay disabled."""
    text = re.sub(r"@Disabled\s+@Test\b", "", text)
    return re.findall(r"@Test\b[^;{}]*?void\s+(\w+)\s*\(", text)


def _rust_tests(text: str) -> list[str]:
    """Test functions; those of a module or function behind a feature are not compiled."""
    text = re.sub(r"#\[cfg\(feature[^\n]*\n(\s*)mod .*?\n\1\}", "", text, flags=re.DOTALL)
    attributes = r"((?:#\[[^\n]*\]\s*)+)fn (\w+)\("
    found = re.findall(attributes, text)
    return [name for marks, name in found if "#[test]" in marks and "cfg(feature" not in marks]


LANGUAGES: Mapping[str, Language] = {
    language.name: language
    for language in (
        Language(
            "cpp",
            _junit,
            _cpp_toolchain,
            _named(r"All tests passed \([^\n(]* in (\d{1,9}) test case"),
            declared=_cpp_tests,
        ),
        Language(
            "go",
            _go,
            _go_toolchain,
            _named(r"^ok()\s+\S"),
            declared=_named(r"^func (Test\w+)\(\w+ \*testing\.T\)").findall,
        ),
        Language(
            "java",
            _junit_of_jupiter,
            _java_toolchain,
            _named(r"\b(\d{1,9}) tests successful"),
            declared=_java_tests,
            unskip=lambda text: re.sub(r"@Disabled\([^\n]*\)\s*\n", "", text),
        ),
        Language(
            "javascript",
            _jest,
            _javascript_toolchain,
            _named(r"Tests:(?:(?!Tests:)[^\n\d]|\d++(?! passed))*+(\d{1,9}) passed"),
            unskip=lambda text: text.replace("xtest(", "test("),
        ),
        Language(
            "python",
            _junit,
            _python_toolchain,
            _named(r"(?<!\d)(\d{1,9}) passed\b"),
            declared=_named(r"^\s+def (test_\w+)\(self\b").findall,
        ),
        Language(
            "rust",
            _cargo,
            _rust_toolchain,
            _named(r"test result: ok\. (\d{1,9}) passed"),
            declared=_rust_tests,
        ),
    )
}
