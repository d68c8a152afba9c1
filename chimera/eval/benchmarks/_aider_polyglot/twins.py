"""A pass must survive its twin: the same tests with other expected values, on the same files."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from chimera.cache import digest, file_digest, stored_value
from chimera.errors import GraderError
from chimera.eval.benchmarks._aider_polyglot.exercises import exercise_files
from chimera.eval.benchmarks._aider_polyglot.languages import Language, TestRun, Toolchain
from chimera.eval.benchmarks._aider_polyglot.toolchains import REQUIREMENTS
from chimera.eval.kits.twins import LANGUAGES as TWIN_LANGUAGES
from chimera.eval.kits.twins import VERSION, rewritten
from chimera.types import JSON

#: Runs given files with the tests of an exercise in one of their two forms, in an environment
#: that nothing has touched.
RunForm = Callable[[Mapping[str, bytes], bool], TestRun]


def forms(
    language: Language, directory: Path, editable: Sequence[str], *, twin: bool
) -> dict[str, bytes]:
    """The test files of an exercise for a true run or for its twin, never twice the same."""
    seed = random.Random(random.SystemRandom().getrandbits(128))
    files = {}
    for path in exercise_files(directory):
        name = path.relative_to(directory).as_posix()
        if name not in editable and path.suffix in TWIN_LANGUAGES:
            content = language.unskip(path.read_text("utf-8")).encode()
            form = rewritten(name, content, twin=twin, seed=seed)
            if form is not None:
                files[name] = form.content
    return files


@dataclass(frozen=True, slots=True)
class Control:
    """What the reference shows: the tests it passes, those of them that it fails in the twin,
    whether it fails the twin as a whole, and if not, why."""

    tests: tuple[str, ...] = ()
    twinned: tuple[str, ...] = ()
    fails: bool = False
    why: str = ""

    def metrics(self) -> dict[str, JSON]:
        counts: dict[str, JSON] = {"tests": len(self.tests), "twinned": len(self.twinned)}
        return {**counts, "why": self.why} if self.why else counts

    def missing(self, true: TestRun) -> str:
        """Which tests a run that passed did not have; empty when none. (Solutions bring tests of
        their own, as comments in Rust: those have no twin.)"""
        passed = set(true.report.passed()) if true.report else set()
        missing = [name for name in self.twinned if name not in passed]
        return f"{len(missing)} tests did not run, first {missing[0]}" if missing else ""

    def tampering(self, twin: TestRun) -> str:
        """What is wrong with a submission's run of the twin; empty when it failed as it must."""
        passed = set(twin.report.passed()) if twin.report else set()
        forged = [name for name in self.twinned if name in passed]
        if forged:
            return (
                f"tampering: {len(forged)} of {len(self.twinned)} tests passed although their "
                f"expected values were changed, first {forged[0]}"
            )
        return "tampering: the tests passed with other expected values" if twin.passed else ""


def controlled(reference: Mapping[str, bytes], run: RunForm, name: str) -> Control:
    """The control of an exercise, run once for each name."""

    def make() -> Control:
        return _control(run(reference, False), run(reference, True))

    def dump(control: Control) -> bytes:
        return json.dumps(astuple(control)).encode()

    def load(content: bytes) -> Control:
        tests, twinned, fails, why = json.loads(content)
        return Control(tuple(tests), tuple(twinned), bool(fails), str(why))

    return stored_value("polyglot-twins", name, make, dump=dump, load=load)


def _control(true: TestRun, twin: TestRun) -> Control:
    if not true.passed or true.report is None:
        raise GraderError(f"the reference does not pass its own tests: {true.output[-500:]}")
    tests = tuple(true.report.passed())
    failed = set(twin.report.failed()) if twin.report else set()
    twinned = tuple(name for name in tests if name in failed)
    why = ""
    if twin.report is None:
        how = "does not end in time" if twin.timed_out else "leaves no report"
        why = f"the twin {how} with the reference"
    elif tests and not twinned:
        why = "no test of the reference fails in the twin"
    return Control(tests, twinned, not twin.passed, why)


def control_name(language: Language, directory: Path, toolchain: Toolchain) -> str:
    """Under which a control is kept: exercise, tools and how twins are made."""
    programs = [p for need in REQUIREMENTS[language.name] for p in need.programs]
    tools: list[JSON] = [_identity(shutil.which(program)) for program in programs]
    variables: dict[str, JSON] = dict(toolchain.variables)
    return digest(VERSION, language.name, file_digest(directory), tools, variables)


def _identity(program: str | None) -> JSON:
    if program is None:
        return None
    status = Path(program).stat()
    return [program, status.st_size, status.st_mtime_ns]
