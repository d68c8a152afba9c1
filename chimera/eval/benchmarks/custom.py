"""Tasks of one's own: a directory of JSON files, each task with a real check."""

from __future__ import annotations

import ast
import errno
import re
import secrets
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from chimera.environments.base import Environment, EnvironmentSpec, Machine, machine
from chimera.environments.kept_state import NotRestored
from chimera.environments.reopened import ReopenedMachine
from chimera.environments.testing import PYTEST
from chimera.environments.wrapped import unwrapped
from chimera.errors import EnvironmentFault, GraderError
from chimera.eval.benchmark import StartEnvironment
from chimera.eval.benchmarks._custom.twins import TestCommand, decide
from chimera.eval.data.datasets import Dataset, DatasetBenchmark
from chimera.eval.data.rows import Row, row_place
from chimera.eval.kits.patches.steering import steers
from chimera.eval.values import Submission, Task, Verdict
from chimera.sandbox import Limits, remove_tree, run_tests
from chimera.text import did_you_mean, first_line, one_line
from chimera.types import JSON

TEXT_CHECKS = ("expected", "regex", "python_check")
CHECKS = (*TEXT_CHECKS, "test_command")
#: Of CPU time, for what looks at a reply.
CHECK_SECONDS = 2.0
KNOWN_FIELDS = frozenset(
    {"id", "prompt", "files", "test_files", "setup", "timeout_s", "gold", "gold_files", "metadata"}
    | {*CHECKS}
)


class CustomTask(Task):
    checks: dict[str, str]
    files: Mapping[str, str]  # given to the agent
    test_files: Mapping[str, str]  # brought in after it has stopped, over whatever it left there
    setup: Sequence[str]
    timeout: float
    gold: str | None
    gold_files: Mapping[str, str]


class CustomBenchmark(DatasetBenchmark[CustomTask]):
    """Every check that a task has must hold; a task without one is refused."""

    slug = "custom"
    description = "Tasks of your own, each with a check that it brings along"
    setup = "It is a directory of task JSON files, or one JSON or JSONL file."
    path_parameter = "tasks_dir"

    def __init__(
        self,
        tasks_dir: str | Path | None = None,
        tasks_list: Sequence[Mapping[str, JSON]] | None = None,
        limit: int | None = None,
    ) -> None:
        super().__init__(tasks_dir, limit)
        self.tasks_list = tasks_list

    def rows(self) -> Iterator[Row]:
        return super().rows() if self.tasks_list is None else iter(self.tasks_list)

    def place_of(self, index: int) -> str:
        if self.tasks_list is None:
            return row_place(self.dataset().source(), index)
        return super().place_of(index)

    def dataset(self) -> Dataset:
        if self.tasks_list is None:
            return super().dataset()
        return Dataset(self.slug, given=Path(), locate=lambda place: Path("tasks_list"))

    def dataset_digest(self) -> str:
        return super().dataset_digest() if self.tasks_list is None else ""

    def tasks(self) -> Sequence[CustomTask]:
        tasks = super().tasks()
        if any(_needs_commands(task) for task in tasks):
            self.environments = ("bubblewrap", "docker", "local")
        else:
            self.grading = "none"
        return tasks

    def task(self, row: Row) -> CustomTask:
        unknown = row.keys() - KNOWN_FIELDS
        if unknown:
            wrong = min(unknown)
            known = f"it can have {', '.join(sorted(KNOWN_FIELDS))}"
            raise ValueError(
                f"unknown field {wrong!r}{did_you_mean(wrong, KNOWN_FIELDS) or f'; {known}'}"
            )
        checks = {name: row[name] for name in CHECKS if row.get(name) is not None}
        if not checks:
            raise ValueError(
                f"task {row['id']!r} has no check; it needs one of {', '.join(CHECKS)}"
            )
        _check_fields(row, checks)
        return CustomTask(
            id=str(row["id"]),
            prompt=row["prompt"],
            checks=checks,
            files=dict(row.get("files", {})),
            test_files=dict(row.get("test_files", {})),
            setup=list(row.get("setup", ())),
            timeout=float(row.get("timeout_s", 60)),
            gold=row.get("gold", checks.get("expected")),
            gold_files=dict(row.get("gold_files", {})),
            metadata=dict(row.get("metadata", {})),
        )

    def environment(self, task: CustomTask) -> EnvironmentSpec:
        if not _needs_commands(task):
            return EnvironmentSpec()
        return EnvironmentSpec(
            needs=frozenset({"commands"}),
            files={path: content.encode() for path, content in task["files"].items()},
            setup=tuple(task["setup"]),
        )

    def open_environment(self, task: CustomTask, start: StartEnvironment) -> Environment:
        if not _needs_commands(task):
            return start(self.environment(task))
        return ReopenedMachine(lambda: machine(start(self.environment(task))))

    def grade(self, task: CustomTask, submission: Submission, env: Environment) -> Verdict:
        for name, value in task["checks"].items():
            if name == "test_command":
                verdict = _run_test_command(task, value, submission, machine(env))
            else:
                verdict = _check_text(name, value, submission.text)
            if not verdict.passed:
                return verdict
        return verdict

    def may_reward_nothing(self, task: CustomTask) -> bool:
        """A check of one's own may hold for everything."""
        return True

    def gold(self, task: CustomTask) -> Submission | None:
        if task["gold"] is None and not task["gold_files"]:
            return None
        files = {path: text.encode() for path, text in task["gold_files"].items()}
        return Submission(text=task["gold"] or "", files=files)


def _needs_commands(task: CustomTask) -> bool:
    return bool("test_command" in task["checks"] or task["files"] or task["setup"])


def _check_fields(row: Row, checks: Mapping[str, Any]) -> None:
    for name, value in (("prompt", row["prompt"]), *checks.items()):
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a string, not {type(value).__name__}")
        if name in checks and not value:
            raise ValueError(f"{name} is empty: such a check decides nothing")
    for name in ("files", "test_files", "gold_files"):
        files = row.get(name, {})
        if not isinstance(files, dict) or not all(isinstance(v, str) for v in files.values()):
            raise TypeError(f"{name} must map paths to texts")
    if "regex" in checks:
        try:
            re.compile(checks["regex"])
        except re.error as error:
            raise ValueError(f"regex {checks['regex']!r}: {error}") from None
    if "python_check" in checks:
        try:
            compile(checks["python_check"], "python_check", "exec")
        except SyntaxError as error:
            raise ValueError(f"python_check: {error}") from None


#: Run beside the reply, which is plain data to them; a regular expression can take for ever.
_TEXT_TESTS = {
    "regex": "import re\nassert re.search(data['check'], data['reply']), 'no match'\n",
    "python_check": (
        "scope = {}\n"
        "try:\n"
        "    exec(data['check'], scope)\n"
        "    check = scope['check']\n"
        "except Exception as error:\n"
        "    raise AssertionError(data['broken'] + repr(error))\n"
        "try:\n"
        "    held = check(data['reply'])\n"
        "except ImportError as error:\n"
        "    raise AssertionError(data['unsure'] + repr(error))\n"
        "assert held is True, 'check() did not return True'\n"
    ),
}
#: What of a check's own imports fails without any reply.
_IMPORTS = (
    "for line in data['imports']:\n"
    "    try:\n"
    "        exec(line, {})\n"
    "    except ImportError as error:\n"
    "        raise AssertionError(data['broken'] + repr(error))\n"
)


def _check_text(name: str, value: str, reply: str) -> Verdict:
    if name == "expected":
        passed = reply.strip() == value.strip()
        got, wanted = one_line(reply.strip(), 100), one_line(value.strip(), 100)
        return Verdict(passed, "" if passed else f"got {got!r}, expected {wanted!r}")
    broken, unsure = (f"{secrets.token_hex(8)} " for _ in range(2))  # what no reply can say
    data = {"check": value, "reply": reply, "broken": broken, "unsure": unsure}
    limits = Limits(cpu_seconds=CHECK_SECONDS)
    outcome = run_tests("", _TEXT_TESTS[name], data=data, limits=limits)
    if outcome.passed:
        return Verdict(True)
    if broken in outcome.why or unsure in outcome.why:
        # a check may run the reply, and that may fail as if a package were missing
        imports = _imports(value) if name == "python_check" else []
        given = {"imports": imports, "broken": broken}
        missing = run_tests("", _IMPORTS, data=given, limits=limits).why.partition(broken)[2]
        if missing:
            raise EnvironmentFault(f"{name} needs a package that is not here: {missing}")
        said = outcome.why.partition(broken)[2]
        if said:
            raise GraderError(f"{name} cannot be run: {said}")
        return Verdict(False, f"{name}: {outcome.why.partition(unsure)[2]}")
    if outcome.why.endswith("AssertionError: no match"):
        return Verdict(False, f"regex {value!r} is not found in {one_line(reply.strip(), 100)!r}")
    return Verdict(False, f"{name}: {outcome.why}")


def _imports(check: str) -> list[JSON]:
    """What a check imports itself, whatever happens: that it is missing is no answer's doing."""
    tree = ast.parse(check)
    guarded = {
        id(each) for node in ast.walk(tree) if isinstance(node, ast.Try) for each in ast.walk(node)
    }
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom)) and id(node) not in guarded
    ]


def _run_test_command(
    task: CustomTask, command: str, submission: Submission, env: Machine
) -> Verdict:
    """Bring the tests in, run them; pytest must also report that tests ran and passed."""
    try:
        _restore_user_packages(env)
    except NotRestored as error:
        return Verdict(False, f"what was left stays: {error}")
    for path, content in submission.files.items():
        env.write_file(path, content)
    for path, text in task["test_files"].items():
        env.write_file(path, text)
    if PYTEST.search(command) or ("{report}" in command and "pytest" in command):
        return _run_pytest(task, command, env)
    result = env.run_command(command, timeout=task["timeout"])
    if result.exit_code in (126, 127):
        raise GraderError(f"test_command cannot be run: {result.output.strip()[:200]}")
    why = "time limit" if result.timed_out else f"exit code {result.exit_code}"
    late: dict[str, JSON] = {"timed_out": True} if result.timed_out else {}
    unknown: JSON = {"tests": 0, "twinned": 0, "why": "the command's tests are not known"}
    return Verdict(
        result.success,
        "" if result.success else why,
        metrics={"twin": unknown} if result.success else late,
        evidence={"log": result.output},
    )


#: A machine without room, memory, descriptors or processes: whatever the answer is.
_OF_MACHINE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EIO}
)


def _run_pytest(task: CustomTask, command: str, env: Machine) -> Verdict:
    if not isinstance(env, ReopenedMachine):
        raise GraderError("custom tasks are graded in environments that they open themselves")
    removed = _restore_steering_files(task, env)
    metrics: dict[str, JSON] = {"removed": [*removed]} if removed else {}
    where = type(unwrapped(env)).identity(EnvironmentSpec())
    setting: JSON = [where, {**task["files"]}, [*task["setup"]]]
    tests = TestCommand(command, task["test_files"], task["timeout"], task["gold_files"], setting)
    try:
        outcome = decide(tests, env)
    except OSError as error:
        if error.errno in _OF_MACHINE:
            raise EnvironmentFault(f"the tests cannot be run here: {error}") from error
        return Verdict(False, f"what was left cannot be copied: {error}", metrics=metrics)
    except NotRestored as error:
        return Verdict(False, f"what was left stays: {error}", metrics=metrics)
    report, why = outcome.report, outcome.why
    if not report.all_passed:
        why = f"{report.passed} passed, {report.failed} failed, {report.errors} errors"
        if not report.names:
            why = f"no test ran: {first_line(report.output)}"
            if report.timed_out:
                why, metrics["timed_out"] = "time limit", True
            elif task["gold_files"] or not tests.report_untouched(env):
                metrics["ran"] = False
    else:
        metrics["twin"] = dict(outcome.counts)
        metrics |= {"tampering": True} if why.startswith("tampering") else {}
    return Verdict(not why, why, metrics=metrics, evidence={"log": report.output})


#: Where the user's own packages are, if that is a directory; open to its user, whatever its modes.
_USER_PACKAGES = (
    'at="$HOME/.local/lib"; for each in "$HOME" "$HOME/.local" "$at/"; do chmod u+rwx "$each"; done'
    ' 2> /dev/null; test -d "$at" && printf %s "$at"'
)


def _restore_user_packages(env: Machine) -> None:
    """What the user's own packages do at any start of Python, before a test begins, is what the
    task's do."""
    place = env.run_command(_USER_PACKAGES).output
    if not isinstance(env, ReopenedMachine) or not place:
        return
    with env.fresh() as fresh, tempfile.TemporaryDirectory() as directory:
        copy, given = Path(directory, "lib"), fresh.run_command(_USER_PACKAGES).output
        as_given = bool(given) and fresh.run_command(f"ls -d {shlex.quote(given)}/python*").success
        if as_given and given != place:
            return  # what was installed elsewhere names places there
        if as_given:
            fresh.copy_out(given, copy)
            for each in copy.iterdir():
                if not each.name.startswith("python"):
                    remove_tree(each) if each.is_dir() else each.unlink()
        lib = shlex.quote(f"{place}/")
        found = f"{lib}python*"
        # by their names, which no mode hides from those who may list them
        removed = env.run_command(
            f"chmod -R u+rwx {found} 2> /dev/null; rm -rf {found}; "
            f"names=$(ls -A {lib}) && ! printf '%s\\n' \"$names\" | grep -q '^python'"
        )
        if not removed.success:
            raise NotRestored(f"packages in {place} cannot be removed")
        if as_given:
            env.copy_in(copy, place)


def _restore_steering_files(task: CustomTask, env: Machine) -> list[str]:
    """Undo what an agent did to files that steer the test runner; the names it had added."""
    given = {**task["files"], **task["test_files"]}
    asked = task["gold_files"].keys() - task["test_files"].keys()  # the reference has them too
    links = env.run_command(["find", ".", "-type", "l"]).output.splitlines()
    found = {*env.list_files(), *(link.removeprefix("./") for link in links)} - asked
    steering = [path for path in found if steers(path, new=False)]
    for path in steering:
        env.run_command(["rm", "-f", "--", path])
        if path in given:
            env.write_file(path, given[path])
    added = sorted(path for path in steering if path not in given)
    return [path for path in added if not path.endswith(".pyc")]
