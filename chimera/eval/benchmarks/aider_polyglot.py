"""Aider Polyglot: 225 Exercism exercises in six languages, two attempts each.

Official rule (aider's benchmark of May 2026): the exercise's own test command decides; after a
failed first attempt the model sees what the tests printed and may try once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NotRequired

from chimera.environments.base import (
    Environment,
    EnvironmentSpec,
    ResourceLimits,
    machine,
)
from chimera.environments.reopened import ReopenedMachine
from chimera.errors import GraderError, UsageError
from chimera.eval.benchmark import Lack, Preparation, StartEnvironment
from chimera.eval.benchmarks._aider_polyglot.apart import Checks, checks_of
from chimera.eval.benchmarks._aider_polyglot.attacks import attacks
from chimera.eval.benchmarks._aider_polyglot.caches import is_ready, prepare
from chimera.eval.benchmarks._aider_polyglot.conversation import (
    TwoAttempts,
    reply_files,
    second_message,
)
from chimera.eval.benchmarks._aider_polyglot.exercises import (
    READ_ONLY,
    configured_files,
    declared_tests,
    exercise_files,
    exercises_in,
    exercises_source,
    reference_files,
    tables_of_tests,
)
from chimera.eval.benchmarks._aider_polyglot.grading import ExerciseTests, rated
from chimera.eval.benchmarks._aider_polyglot.languages import LANGUAGES
from chimera.eval.benchmarks._aider_polyglot.toolchains import missing_requirements
from chimera.eval.data.datasets import Dataset, DatasetBenchmark
from chimera.eval.data.rows import Row, rows
from chimera.eval.data.sources import Item, RepositoryPart
from chimera.eval.options import Options, option
from chimera.eval.preflight import lacking_packages
from chimera.eval.values import Submission, Task, Verdict
from chimera.types import JSON, AgentResult

#: The official limit of one test run.
TEST_SECONDS = 180.0

PROMPT = """{docs}

Write a solution for the exercise above in {language} by changing {files}.
Keep the file names and the names and signatures of everything that is there already: tests import
them. Use only the standard library.

The files as they are now:

{stubs}
Answer with every file you change, whole, like this: a line with nothing but the file's name, then
a fenced block with its new content. If you can edit files yourself, do that instead; they are in
the working directory.
"""


class PolyglotTask(Task):
    language: str
    directory: str  # the exercise in the data set
    editable: list[str]
    tests: list[str]
    reference: dict[str, str]  # place in the exercise → file below `directory`
    timeout: float
    test_command: NotRequired[str]
    expected_files: NotRequired[dict[str, str]]


@dataclass(frozen=True, slots=True)
class PolyglotOptions(Options):
    languages: Sequence[str] | None = option(
        None, "only these; a subset is not comparable with the leaderboard"
    )
    language: str | None = option(
        None, "only this one, where `languages` names none", outcome=False
    )
    attempts: int = option(2, "how often a model may hand in; official: 2", least=1)
    timeout: float = option(
        TEST_SECONDS,
        "seconds of one test run, official: 180; C++ and Java need 15 CPU seconds of them",
    )

    def __post_init__(self) -> None:
        chosen = self.languages or ([self.language] if self.language else [])
        for name in chosen:
            if name not in LANGUAGES:
                raise UsageError(f"unknown language {name!r}; known: {', '.join(LANGUAGES)}")
        object.__setattr__(self, "languages", tuple(dict.fromkeys(chosen)))
        Options.__post_init__(self)


class AiderPolyglot(DatasetBenchmark[PolyglotTask]):
    """`languages` (a list) wins over `language`; both empty means all six."""

    slug = "aider-polyglot"
    aliases = ("aider", "polyglot")
    description = "225 Exercism exercises in six languages, two attempts each"
    needs = ("compilers",)
    trials_per_core = 1
    grading = "fresh"
    environments = ("bubblewrap", "local")
    setup = "Or put a clone of Aider-AI/polyglot-benchmark (its .tar.gz, or a tasks.json) there."
    sources = (
        Item(
            "polyglot-benchmark",
            RepositoryPart(
                "Aider-AI/polyglot-benchmark", "7e0611e77b54e2dea774cdc0aa00cf9f7ed6144f"
            ),
            sha256="caa27e84562cdd8a06b7feea50e8aa81e0f3b96569c3684a90c6e6a41cf8cfec",
            size=23_238_393,
        ),
    )
    licence = "Exercism's tracks, MIT"

    option_type = PolyglotOptions
    settings: PolyglotOptions

    def name(self) -> str:
        return f"{self.slug}:{'+'.join(self.languages)}" if self.languages else self.slug

    @property
    def languages(self) -> tuple[str, ...]:
        """Those that were chosen; none stands for all."""
        return tuple(self.settings.languages or ())

    def graded_as(self) -> str:
        return "the exercises' own tests (aider's benchmark protocol)"

    def dataset(self) -> Dataset:
        return replace(super().dataset(), locate=exercises_source)

    def rows(self) -> Iterator[Row]:
        source = self.dataset().source()
        if source.suffix == ".json":
            yield from rows(source)
            return
        root = exercises_in(source)
        for language in self.languages or LANGUAGES:
            for directory in sorted((root / language / "exercises/practice").glob("*/")):
                yield {"id": f"{language}/{directory.name}", "exercise_dir": str(directory)}

    def task(self, row: Row) -> PolyglotTask | None:
        language = str(row.get("language") or str(row["id"]).partition("/")[0])
        if language not in LANGUAGES:
            raise ValueError(f"language {language!r} is not one of {', '.join(LANGUAGES)}")
        if self.languages and language not in self.languages:
            return None
        directory = self._exercise_directory(row)
        files = configured_files(directory, row)
        editable = [
            name
            for name in files["solution"]
            if PurePosixPath(name).name not in READ_ONLY and (directory / name).is_file()
        ]
        task = PolyglotTask(
            id=str(row["id"]),
            prompt=str(row.get("prompt") or ""),
            language=language,
            directory=str(directory),
            editable=editable,
            tests=files["test"],
            reference=reference_files(directory, files),
            timeout=float(row.get("timeout_s") or self.settings.timeout),
            metadata={"language": language},
        )
        if row.get("test_command"):
            task["test_command"] = str(row["test_command"])
        if row.get("expected_files"):
            task["expected_files"] = dict(row["expected_files"])
            task["editable"] = sorted({*editable, *task["expected_files"]})
        task["prompt"] = _prompt(task, directory)
        return task

    def _exercise_directory(self, row: Row) -> Path:
        name, source = str(row.get("exercise_dir", "")), self.dataset().source()
        if source.suffix != ".json":
            return Path(name)
        root = source.parent
        for place in (root / "exercises" / name, root / name):
            if place.is_dir():
                if not place.resolve().is_relative_to(root.resolve()):
                    raise ValueError(f"exercise_dir {name!r} is outside the data set")
                return place
        if row.get("test_command"):
            raise ValueError(f"exercise_dir {name!r} is not below {root}")
        return root / "exercises" / name

    def environment(self, task: PolyglotTask) -> EnvironmentSpec:
        """Where an agent works: the exercise without tests and reference."""
        return self._spec(task, "", {*task["tests"], *tables_of_tests(Path(task["directory"]))})

    def open_environment(self, task: PolyglotTask, start: StartEnvironment) -> Environment:
        inner = machine(start(self.environment(task)))
        judge = self._judge(task, start)
        return TwoAttempts(inner, judge, task["editable"], self.settings.attempts)

    def open_grading_environment(self, task: PolyglotTask, start: StartEnvironment) -> Environment:
        spec = self._spec(task, f"{Path(task['directory']).name}/", set())
        return ReopenedMachine(lambda: machine(start(spec)))

    def files_beside(self, task: PolyglotTask) -> Sequence[Path]:
        return (Path(task["directory"]),)

    def _judge(self, task: PolyglotTask, start: StartEnvironment) -> Any:
        tests = self._tests(task)

        def judge(files: Mapping[str, bytes]) -> str | None:
            """What the model is told about these files; None when the data set's tests pass."""
            if (same := _compared(task, files)) is not None:
                why = "the files are not the expected ones"
                return None if same else second_message(why, task["editable"])
            with machine(self.open_grading_environment(task, start)) as env:
                run = tests.run(_allowed(task, files), env)
            verdict = tests.verdict_of_run(run, {"attempts": 1})
            output = run.output or verdict.why
            return None if verdict.passed else second_message(output, task["editable"])

        return judge

    def _spec(self, task: PolyglotTask, prefix: str, without: set[str]) -> EnvironmentSpec:
        language = LANGUAGES[task["language"]]
        directory = Path(task["directory"])
        toolchain = language.toolchain(directory)
        files: dict[str, bytes | Path] = {}
        for path in exercise_files(directory):
            relative = path.relative_to(directory).as_posix()
            if relative in without:
                continue
            content: bytes | Path = path
            if relative in task["tests"]:
                content = language.unskip(path.read_text("utf-8")).encode()
            files[prefix + relative] = content
        return EnvironmentSpec(
            needs=frozenset({"commands"}),
            files=files,
            mounts=toolchain.mounts,
            variables=toolchain.variables,
            limits=ResourceLimits(memory_bytes=6 * 1024**3, processes=2048),
        )

    def extract(self, task: PolyglotTask, reply: str) -> Submission:
        files = {n: t.encode() for n, t in reply_files(reply, task["editable"]).items()}
        return Submission(files=files, raw=reply, data={"attempts": 1, "malformed": int(not files)})

    def collect(self, task: PolyglotTask, result: AgentResult, env: Environment) -> Submission:
        if not isinstance(env, TwoAttempts):
            return self.extract(task, result.output)
        env.apply(result.output)
        data = {"attempts": max(1, env.used), "malformed": env.malformed}
        return Submission(files=env.solution(), raw=result.output, data=data)

    def grade(self, task: PolyglotTask, submission: Submission, env: Environment) -> Verdict:
        details = submission.data if isinstance(submission.data, Mapping) else {}
        attempts, malformed = int(details.get("attempts", 1)), int(details.get("malformed", 0))
        gold = self.gold(task) if submission.form == "reference" else None
        is_gold = gold is not None and gold.files == submission.files  # a run file may call it so
        files = submission.files if is_gold else _allowed(task, submission.files)
        metrics: dict[str, JSON] = {"well_formed": int(malformed == 0), "attempts": attempts}
        tested = is_gold and task.get("test_command")  # the reference must pass as answers do
        same = None if tested else _compared(task, files)
        if same is not None:
            why = f"the files are {'' if same else 'not '}the expected ones"
            return rated(same, why, metrics, decided_by="diff")
        if (verdict := self._apart(task, files, metrics)) is not None:
            return verdict
        if not isinstance(env, ReopenedMachine):
            raise GraderError("exercises are graded in environments that they open themselves")
        metrics["process"] = "shared"
        return self._tests(task).verdict(files, env, metrics)

    def _tests(self, task: PolyglotTask) -> ExerciseTests:
        gold = self.gold(task)
        return ExerciseTests(
            language=LANGUAGES[task["language"]],
            directory=Path(task["directory"]),
            editable=task["editable"],
            declared=_declared(task),
            reference=gold.files if gold is not None else None,
            seconds=task["timeout"],
            command=task.get("test_command", ""),
        )

    def _apart(
        self, task: PolyglotTask, files: Mapping[str, bytes], metrics: Mapping[str, JSON]
    ) -> Verdict | None:
        """The verdict by tests that never meet the solution; None where they have to."""
        checks = self.checks_apart(task)
        if checks is None:
            return None
        (name,) = task["editable"]
        program = files.get(name, (Path(task["directory"]) / name).read_bytes())
        found = checks.verdict(program.decode("utf-8", "surrogateescape"))
        timed = int("time" in str(found.metrics["limit"]))
        marks: dict[str, JSON] = {"process": "apart", "test_timeouts": timed}
        why = found.why or f"{len(_declared(task))} tests passed"
        return rated(
            found.passed, why, {**found.metrics, **metrics, **marks}, evidence=found.evidence
        )

    def checks_apart(self, task: PolyglotTask) -> Checks | None:
        """The tests of an exercise for a judge that the solution never meets; None where the
        reference does not pass them so."""
        gold = None if task.get("test_command") else self.gold(task)
        single = len(task["editable"]) == len(task["tests"]) == 1
        if task["language"] != "python" or gold is None or not single:
            return None
        (name,), (tests,) = task["editable"], task["tests"]
        source = (Path(task["directory"]) / tests).read_text("utf-8")
        reference = gold.files[name].decode()
        checks = checks_of(source, PurePosixPath(name).stem, reference, task["timeout"])
        return checks if checks is not None and checks.fit() else None

    def gold(self, task: PolyglotTask) -> Submission | None:
        directory = Path(task["directory"])
        if task.get("expected_files"):
            files = {path: text.encode() for path, text in task["expected_files"].items()}
            return Submission(files=files, form="reference")
        if not task["reference"]:
            return None
        files = {
            place: (directory / path).read_bytes() for place, path in task["reference"].items()
        }
        return Submission(files=files, form="reference")

    def may_reward_nothing(self, task: PolyglotTask) -> bool:
        """Some exercises are refactorings, whose stub passes as it is."""
        return True

    def mutants(self, task: PolyglotTask) -> Iterable[Submission]:
        """The stub as it is, and files that do not compile."""
        directory = Path(task["directory"])
        stubs = {name: (directory / name).read_bytes() for name in task["editable"]}
        yield Submission(files=stubs)
        yield Submission(files=dict.fromkeys(task["editable"], b"@ no language reads this @\n"))

    def missing(self, tasks: Sequence[PolyglotTask] | None = None) -> Sequence[Lack]:
        """Compilers, and the grammars that a second set of test values is written with."""
        found = []
        for language, ids in self._by_language(tasks).items():
            lacks = [
                Lack(need.what, need.install_command) for need in missing_requirements(language)
            ]
            if language != "python":
                grammar = ("tree_sitter", f"tree_sitter_{language}")
                lacks += lacking_packages(grammar, "syntax", f"that read {language}")
            found += [replace(lack, tasks=ids) for lack in lacks]
        return found

    def preparations(self, tasks: Sequence[PolyglotTask] | None = None) -> Sequence[Preparation]:
        return [
            Preparation(f"the packages of {language} exercises", partial(prepare, language))
            for language in self._by_language(tasks)
            if not missing_requirements(language) and not is_ready(language)
        ]

    def _by_language(
        self, tasks: Sequence[PolyglotTask] | None
    ) -> dict[str, frozenset[str] | None]:
        """The ids of the tasks of each language; with no tasks, the languages alone."""
        if tasks is None:
            return dict.fromkeys(self.languages or LANGUAGES)
        languages = dict.fromkeys(task["language"] for task in tasks)
        return {
            language: frozenset(task["id"] for task in tasks if task["language"] == language)
            for language in languages
        }

    def attacks(self, task: PolyglotTask) -> Iterable[tuple[str, Submission]]:
        directory = Path(task["directory"])
        stubs = {name: (directory / name).read_bytes() for name in task["editable"]}
        return attacks(task["language"], stubs, task["tests"])


def _allowed(task: PolyglotTask, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {path: content for path, content in files.items() if path in task["editable"]}


def _compared(task: PolyglotTask, files: Mapping[str, bytes]) -> bool | None:
    """Whether the files are the expected ones; None where tests decide."""
    expected = task.get("expected_files")
    if not expected:
        return None
    if all(_same_text(files.get(path, b""), text) for path, text in expected.items()):
        return True
    return None if task.get("test_command") else False


def _declared(task: PolyglotTask) -> list[str]:
    if task.get("test_command"):
        return []
    language = LANGUAGES[task["language"]]
    return declared_tests(language, Path(task["directory"]), task["tests"])


def _prompt(task: PolyglotTask, directory: Path) -> str:
    parts = [task["prompt"]] if task["prompt"] else []
    if not parts:
        for name in ("introduction.md", "instructions.md", "instructions.append.md"):
            if (directory / ".docs" / name).is_file():
                parts.append((directory / ".docs" / name).read_text("utf-8").strip())
    stubs = ""
    for name in task["editable"]:
        stub = directory / name
        content = stub.read_text("utf-8") if stub.is_file() else ""
        stubs += f"{name}\n```\n{content.rstrip()}\n```\n\n"
    return PROMPT.format(
        docs="\n\n".join(parts),
        language={"cpp": "C++", "javascript": "JavaScript"}.get(
            task["language"], task["language"].capitalize()
        ),
        files=", ".join(f"`{name}`" for name in task["editable"]),
        stubs=stubs,
    )


def _same_text(content: bytes, expected: str) -> bool:
    return content.decode("utf-8", "replace").rstrip() == expected.rstrip()
