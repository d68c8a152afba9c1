"""A pass must survive its twin: the same tests with other expected values, on the same files."""

from __future__ import annotations

import json
import random
import secrets
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from chimera.cache import digest, file_digest, stored_value
from chimera.errors import GraderError
from chimera.eval.benchmarks._aider_polyglot.exercises import exercise_files
from chimera.eval.benchmarks._aider_polyglot.languages import Language, TestRun, Toolchain
from chimera.eval.benchmarks._aider_polyglot.toolchains import REQUIREMENTS
from chimera.eval.kits.twins import LANGUAGES as TWIN_LANGUAGES
from chimera.eval.kits.twins import VERSION, rewritten
from chimera.eval.kits.twins.cases import Half, Rewritten
from chimera.eval.kits.twins.grammars import renamed_variables, words_held
from chimera.eval.kits.twins.reach import FULL_REACH, LEAST_REACH, Reach, learnt_reach
from chimera.types import JSON


@dataclass(frozen=True, slots=True)
class Form:
    """The true form or the twin, in which a half may keep its values.

    With a choice, each assertion of the others has to fail by itself; where they cannot, or the
    form is plain, one expected value of each test is changed. Other values are drawn from `values`.
    """

    twin: bool
    half: Half | None = None
    choice: int | None = None
    values: int | None = None
    plain: bool = False  # nothing is put around assertions
    reach: Reach = FULL_REACH


#: Runs files with the tests of an exercise in a form, in an environment that nothing has touched.
RunForm = Callable[[Mapping[str, bytes], Form], TestRun]


def forms(
    language: Language,
    directory: Path,
    editable: Sequence[str],
    form: Form,
    reference: Iterable[bytes] = (),
) -> dict[str, bytes]:
    """The test files of an exercise in a form, never twice the same. (Those of Go are of one
    package with what they test, where `nil` would be whatever that declares.)"""
    files = {name: made.content for name, made in _made(language, directory, editable, form)}
    if language.name == "go" and not form.plain:
        files |= words_held(test_sources(language, directory, editable), reference)
    return files


def resting_on_their_end(language: Language, directory: Path, editable: Sequence[str]) -> int:
    """How many tests a twin changes by the check at their end alone: what they assert is not
    understood. (Python's is the one that all tests have.)"""
    if language.name == "python":
        return 0
    made = _made(language, directory, editable, Form(twin=False))
    return sum(each.at_end for _, each in made)


def chosen(language: Language) -> Form:
    """A twin by chance."""
    # in Go no value can equal what it is not, and few tests would meet the one that is chosen
    choice = secrets.randbits(64) if language.name != "go" else None
    return Form(True, choice=choice, values=secrets.randbits(64))


def _made(
    language: Language, directory: Path, editable: Sequence[str], form: Form
) -> Iterator[tuple[str, Rewritten]]:
    seed = random.Random(secrets.randbits(128))
    sources = test_sources(language, directory, editable)
    if language.name == "go" and not form.plain:
        sources = renamed_variables(sources, seed)
    for name, content in sources.items():
        made = rewritten(
            name,
            content,
            twin=form.twin,
            seed=seed,
            half=form.half,
            choice=form.choice,
            values=form.values,
            plain=form.plain,
            reach=form.reach,
            once=True,
        )
        yield name, made or Rewritten(content, (), 0)


def test_sources(language: Language, directory: Path, editable: Sequence[str]) -> dict[str, bytes]:
    """The files of an exercise that a solution does not bring, with nothing skipped."""
    paths = {path.relative_to(directory).as_posix(): path for path in exercise_files(directory)}
    return {
        name: language.unskip(path.read_text("utf-8")).encode()
        for name, path in paths.items()
        if name not in editable and path.suffix in TWIN_LANGUAGES
    }


@dataclass(frozen=True, slots=True)
class Control:
    """What the reference shows.

    `tests` are those it passes, `twinned` those of them that it fails in the twin. Of the latter it
    passes `passing` in the twins of the two halves. `fails` is whether it fails the twin as a
    whole, and `why` says why nothing is twinned.
    """

    tests: tuple[str, ...] = ()
    twinned: tuple[str, ...] = ()
    passing: tuple[tuple[str, ...], ...] = ()
    choice: int | None = None
    values: int | None = None
    plain: bool = False
    reach: Reach = FULL_REACH
    fails: bool = False
    why: str = ""
    at_end: int = 0  # tests of which the check at their end is all that differs in a twin

    @property
    def forms(self) -> Iterator[tuple[Form, Collection[str]]]:
        """The twins for submissions, and what passes in each: what fails by chance rather than by
        values fails these."""
        whole = Form(True, None, self.choice, self.values, self.plain, self.reach)
        for second, passing in enumerate(self.passing):
            yield replace(whole, half=Half(self.values or 0, bool(second))), passing
        if not self.passing or set.intersection(*map(set, self.passing)):
            yield whole, ()  # some test has no half that changes it

    def metrics(self) -> dict[str, JSON]:
        counts: dict[str, JSON] = {"tests": len(self.tests), "twinned": len(self.twinned)}
        counts |= {"at_end": min(self.at_end, len(self.twinned))} if self.at_end else {}
        return {**counts, "why": self.why} if self.why else counts

    def missing(self, true: TestRun) -> str:
        """Which tests a run that passed did not have; empty when none. (Solutions bring tests of
        their own, as comments in Rust: those have no twin.)"""
        passed = _passed(true)
        missing = [name for name in self.twinned if name not in passed]
        return f"{len(missing)} tests did not run, first {missing[0]}" if missing else ""

    def tampering(self, twin: TestRun, passing: Collection[str]) -> str:
        """What is wrong with a submission's run of a twin; empty when it failed as it must."""
        passed = _passed(twin)
        changed = [name for name in self.twinned if name not in passing]
        forged = [name for name in changed if name in passed]
        if forged:
            return (
                f"tampering: {len(forged)} of {len(changed)} tests passed although their "
                f"expected values were changed, first {forged[0]}"
            )
        if twin.passed and (changed or not self.twinned):
            return "tampering: the tests passed with other expected values"
        return ""

    def lost(self, *twins: TestRun, passing: Collection[str]) -> str:
        """Which test failed in each of these runs although it was not changed; empty when none."""
        if self.twinned and twins[-1].report is None:
            return "the twin leaves no report, although with the reference it does"
        lost = sorted(set(passing).difference(*map(_passed, twins)))
        return (
            f"tampering: a test with its own values failed in the twin: {lost[0]}" if lost else ""
        )


def _passed(run: TestRun) -> set[str]:
    return set(run.report.passed()) if run.report else set()


def controlled(reference: Mapping[str, bytes], run: RunForm, twin: Form, name: str) -> Control:
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
        control = made(true, plain=False) if not plain else None
        if control is None:
            control = made(watched(reference, Form(False, plain=True)), plain=True)
        return control or Control(why="half of a twin leaves no report with the reference")

    def made(true: TestRun, *, plain: bool) -> Control | None:
        """None where the reference leaves no report of a half."""

        def tried(form: Form) -> Control:
            control = _control(true, watched(reference, form))
            return replace(
                control, choice=form.choice, values=form.values, plain=plain, reach=form.reach
            )

        first = replace(twin, plain=plain)
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
        if not control.twinned:
            return control
        halves = replace(control, passing=((), ())).forms
        runs = [watched(reference, form) for form, _ in halves]
        if any(run.report is None for run in runs):
            return None
        passed = map(_passed, runs)
        passing = (tuple(name for name in control.twinned if name in each) for each in passed)
        return replace(control, passing=tuple(passing))

    def dump(control: Control) -> bytes:
        return json.dumps(asdict(control)).encode()

    def load(content: bytes) -> Control:
        fields = json.loads(content)
        names = {each: tuple(fields[each]) for each in ("tests", "twinned")}
        passing = tuple(map(tuple, fields["passing"]))
        lowered = tuple((name, most) for name, most in fields["reach"]["lowered"])
        reach = Reach(lowered=lowered)
        return Control(**{**fields, **names, "passing": passing, "reach": reach})

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
