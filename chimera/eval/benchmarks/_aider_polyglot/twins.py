"""A pass must survive its twin: the same tests with other expected values, on the same files."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from chimera.cache import digest, file_digest, stored_value
from chimera.errors import GraderError
from chimera.eval.benchmarks._aider_polyglot.exercises import exercise_files
from chimera.eval.benchmarks._aider_polyglot.languages import Language, TestRun, Toolchain
from chimera.eval.benchmarks._aider_polyglot.toolchains import REQUIREMENTS
from chimera.eval.kits.twins import LANGUAGES as TWIN_LANGUAGES
from chimera.eval.kits.twins import VERSION, rewritten
from chimera.eval.kits.twins.cases import Rewritten
from chimera.eval.kits.twins.reach import FULL_REACH, LEAST_REACH, Reach, learnt_reach
from chimera.types import JSON


@dataclass(frozen=True, slots=True)
class Form:
    """The true form or the twin, in which one test of a file may keep its values.

    With a choice, each assertion of the others has to fail by itself; where they cannot, or the
    form is plain, one expected value of each test is changed. Other values are drawn from `values`.
    """

    twin: bool
    kept: tuple[str, int] | None = None
    choice: int | None = None
    values: int | None = None
    plain: bool = False  # nothing is put around assertions
    reach: Reach = FULL_REACH


#: Runs files with the tests of an exercise in a form, in an environment that nothing has touched.
RunForm = Callable[[Mapping[str, bytes], Form], TestRun]


def forms(
    language: Language, directory: Path, editable: Sequence[str], form: Form
) -> dict[str, bytes]:
    """The test files of an exercise in a form, never twice the same."""
    return {name: made.content for name, made in _made(language, directory, editable, form)}


def chosen(language: Language, directory: Path, editable: Sequence[str]) -> Form:
    """A twin in which a test that is chosen by chance keeps its values, if there is another."""
    made = _made(language, directory, editable, Form(twin=True))
    tests = [(name, number) for name, file in made for number in range(file.tests)]
    chance = random.SystemRandom()
    kept = chance.choice(tests) if len(tests) > 1 else None
    # in Go no value can equal what it is not, and few tests would meet the one that is chosen
    choice = chance.getrandbits(64) if language.name != "go" else None
    return Form(True, kept, choice, chance.getrandbits(64))


def _made(
    language: Language, directory: Path, editable: Sequence[str], form: Form
) -> Iterator[tuple[str, Rewritten]]:
    seed = random.Random(random.SystemRandom().getrandbits(128))
    file, number = form.kept or ("", None)
    for path in exercise_files(directory):
        name = path.relative_to(directory).as_posix()
        if name in editable or path.suffix not in TWIN_LANGUAGES:
            continue
        content = language.unskip(path.read_text("utf-8")).encode()
        kept = number if name == file else None
        made = rewritten(
            name,
            content,
            twin=form.twin,
            seed=seed,
            keeps=lambda number, _, kept=kept: number == kept,  # type: ignore[misc]
            choice=form.choice,
            values=form.values,
            plain=form.plain,
            reach=form.reach,
        )
        if made is not None:
            yield name, made


@dataclass(frozen=True, slots=True)
class Control:
    """What the reference shows.

    `tests` are those it passes, `twinned` those of them that it fails in the twin. Of the latter it
    passes those that `kept` keeps. `fails` is whether it fails the twin as a whole, and `why` says
    why nothing is twinned.
    """

    tests: tuple[str, ...] = ()
    twinned: tuple[str, ...] = ()
    passing: tuple[str, ...] = ()
    kept: tuple[str, int] | None = None
    choice: int | None = None
    values: int | None = None
    plain: bool = False
    reach: Reach = FULL_REACH
    fails: bool = False
    why: str = ""

    @property
    def form(self) -> Form:
        """The twin for submissions: what fails by chance rather than by values fails the kept."""
        return Form(True, self.kept, self.choice, self.values, self.plain, self.reach)

    def metrics(self) -> dict[str, JSON]:
        counts: dict[str, JSON] = {"tests": len(self.tests), "twinned": len(self.twinned)}
        return {**counts, "why": self.why} if self.why else counts

    def missing(self, true: TestRun) -> str:
        """Which tests a run that passed did not have; empty when none. (Solutions bring tests of
        their own, as comments in Rust: those have no twin.)"""
        passed = _passed(true)
        missing = [name for name in self.twinned if name not in passed]
        return f"{len(missing)} tests did not run, first {missing[0]}" if missing else ""

    def tampering(self, twin: TestRun) -> str:
        """What is wrong with a submission's run of the twin; empty when it failed as it must."""
        passed = _passed(twin)
        changed = [name for name in self.twinned if name not in self.passing]
        forged = [name for name in changed if name in passed]
        if forged:
            return (
                f"tampering: {len(forged)} of {len(changed)} tests passed although their "
                f"expected values were changed, first {forged[0]}"
            )
        return "tampering: the tests passed with other expected values" if twin.passed else ""

    def lost(self, twin: TestRun) -> str:
        """Which test failed in the twin although it was not changed; empty when none did."""
        if self.twinned and twin.report is None:
            return "the twin leaves no report, although with the reference it does"
        passed = _passed(twin)
        lost = [name for name in self.passing if name not in passed]
        return (
            f"tampering: a test with its own values failed in the twin: {lost[0]}" if lost else ""
        )


def _passed(run: TestRun) -> set[str]:
    return set(run.report.passed()) if run.report else set()


def controlled(reference: Mapping[str, bytes], run: RunForm, kept: Form, name: str) -> Control:
    """The control of an exercise, run once for each name; one in which a run did not end in time is
    not kept, since the load of the machine may be why."""
    late = False

    def watched(files: Mapping[str, bytes], form: Form) -> TestRun:
        nonlocal late
        made = run(files, form)
        late |= made.timed_out
        return made

    def make() -> Control:
        true = watched(reference, Form(False))
        # what is put around assertions may be what the language refuses
        plain = not true.passed and not true.timed_out
        if plain:
            true = watched(reference, Form(False, plain=True))

        def tried(form: Form) -> Control:
            control = _control(true, watched(reference, form))
            return replace(
                control, choice=form.choice, values=form.values, plain=plain, reach=form.reach
            )

        first = replace(kept, kept=None, plain=plain)
        control = tried(first)
        if len(control.twinned) < len(control.tests):
            # what was chosen may be what a test never comes to: then all of it changes
            weaker = replace(first, choice=None, reach=LEAST_REACH)
            least = tried(weaker)

            def failing(reach: Reach) -> frozenset[str]:
                return frozenset(tried(replace(weaker, reach=reach)).twinned)

            if len(least.twinned) > len(control.twinned):
                reach, failed = learnt_reach(failing, frozenset(least.twinned))
                twinned = tuple(name for name in least.tests if name in failed)
                control = replace(least, reach=reach, twinned=twinned)
        if not control.twinned or kept.kept is None:
            return control
        passed = _passed(watched(reference, replace(control.form, kept=kept.kept)))
        passing = tuple(name for name in control.twinned if name in passed)
        if not 0 < len(passing) <= len(control.twinned) / 2:  # one function may hold them all
            return control
        return replace(control, passing=passing, kept=kept.kept)

    def dump(control: Control) -> bytes:
        return json.dumps(asdict(control)).encode()

    def load(content: bytes) -> Control:
        fields = json.loads(content)
        names = {each: tuple(fields[each]) for each in ("tests", "twinned", "passing")}
        kept = tuple(fields["kept"]) if fields["kept"] else None
        lowered = tuple((name, most) for name, most in fields["reach"]["lowered"])
        return Control(**{**fields, **names, "kept": kept, "reach": Reach(lowered=lowered)})

    return stored_value("polyglot-twins", name, make, dump=dump, load=load, keeps=lambda: not late)


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
    return Control(tests, twinned, fails=not twin.passed, why=why)


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
