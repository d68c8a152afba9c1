"""One SWE-bench instance: its record, how it is tested, and where its code can be had."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from chimera.errors import EnvironmentFault, GraderError, UsageError
from chimera.eval.data.rows import Row, rows
from chimera.eval.kits.patches import diffs
from chimera.eval.kits.reports.swebench_logs import Version
from chimera.eval.kits.repositories import swebench_specs
from chimera.eval.kits.repositories.checkout import PythonSetup
from chimera.eval.kits.repositories.patch_tests import TestPlan
from chimera.eval.kits.repositories.row_fields import (
    commit_of_row,
    id_of_row,
    repository_of_row,
)
from chimera.eval.kits.repositories.source import (
    FirstToBeHad,
    GitRepository,
    Source,
    SourceDistribution,
)
from chimera.eval.kits.repositories.swebench_rule import EvalType
from chimera.eval.kits.repositories.virtualenvs import package_name
from chimera.eval.values import Task

SourceKind = Literal["auto", "sdist", "git"]
CODE_HOST = "https://github.com/{repo}"
#: What makes an official image's interpreter the one in use.
ACTIVATE = "source /opt/miniconda3/bin/activate && conda activate testbed"
#: Files that the official harness does not hand to the test command.
DATA_SUFFIXES = (
    ".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml",
)  # fmt: skip


class SWEBenchTask(Task):
    instance: SWEBenchInstance


@dataclass(frozen=True, slots=True)
class SWEBenchInstance:
    """A row of the data set, with what other files beside it say about the same id."""

    instance_id: str
    repo: str
    base_commit: str
    problem_statement: str
    hints_text: str = ""
    test_patch: str = ""
    patch: str = ""
    image: str = ""
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    version: str = ""
    difficulty: str = ""
    test_command: str = ""
    log_parser: str = ""
    eval_type: EvalType = "pass_and_fail"
    python: str = ""
    pins: tuple[str, ...] = ()
    requirement: str = ""  # the source distribution that gives the base tree
    requirements: tuple[str, ...] = ()  # where there are no pins: names that bring others
    requirement_files: tuple[str, ...] = ()  # of the repository; the first that is there counts

    @classmethod
    def from_row(cls, row: Row) -> SWEBenchInstance:
        """Classic rows, and those with the columns that swebench 5 added."""
        return cls(
            instance_id=id_of_row(row),
            repo=repository_of_row(row),
            base_commit=commit_of_row(row),
            problem_statement=str(row["problem_statement"]),
            hints_text=str(row.get("hints_text") or ""),
            test_patch=str(row["test_patch"]),
            patch=str(row.get("patch") or ""),
            image=str(row.get("image") or ""),
            fail_to_pass=test_ids(row["FAIL_TO_PASS"]),
            pass_to_pass=test_ids(row["PASS_TO_PASS"]),
            version=str(row.get("version") or ""),
            difficulty=str(row.get("difficulty") or ""),
            test_command=command_of(str(row.get("eval_script") or "")),
            log_parser=str(row.get("log_parser") or ""),
            eval_type=_eval_type(row.get("eval_type")),
        )

    def with_settings(self, row: Row) -> SWEBenchInstance:
        """This instance with a row of evaluation settings: command, parser, Python, pins."""
        return replace(
            self,
            test_command=self.test_command or str(row.get("test_command") or ""),
            log_parser=self.log_parser or str(row.get("log_parser") or ""),
            eval_type=_eval_type(row.get("eval_type") or self.eval_type),
            python=str(row.get("python") or self.python),
            pins=tuple(row.get("pins") or self.pins),
            requirements=tuple(row.get("requirements") or ()),
            requirement_files=tuple(row.get("requirement_files") or ()),
        )

    def with_distribution(self, row: Row) -> SWEBenchInstance:
        """This instance with the source distribution its tree can be made from."""
        extra = tuple(row.get("pins") or ())
        named = {package_name(pin) for pin in extra}
        kept = tuple(pin for pin in self.pins if package_name(pin) not in named)
        return replace(self, requirement=str(row["requirement"]), pins=(*kept, *extra))

    def to_task(self, prompt: str = "{problem_statement}") -> SWEBenchTask:
        metadata = {"repo": self.repo, "version": self.version}
        if self.difficulty:
            metadata["difficulty"] = self.difficulty
        text = prompt.format(problem_statement=self.problem_statement, repo=self.repo)
        return SWEBenchTask(id=self.instance_id, prompt=text, metadata=metadata, instance=self)

    @property
    def image_name(self) -> str:
        """The official image."""
        name = self.instance_id.lower().replace("__", "_1776_")
        return self.image or f"swebench/sweb.eval.x86_64.{name}:latest"

    def source(self, kind: SourceKind, repositories: str | None) -> Source:
        """Where the code is: a clone below `repositories`, the code host, else a distribution."""
        if repositories and kind != "sdist":
            return GitRepository(_location(repositories, self.repo), self.base_commit)
        hosted = GitRepository(CODE_HOST.format(repo=self.repo), self.base_commit)
        if kind != "git" and self.requirement:
            release = SourceDistribution(self.requirement, (self.test_patch, self.patch))
            return release if kind == "sdist" else FirstToBeHad(hosted, release)
        if kind == "sdist":
            raise UsageError(
                f"{self.instance_id}: no source distribution is known for it\n"
                "  Give clones with --option repositories=DIRECTORY, or --option source=git."
            )
        return hosted

    def setup(
        self, kind: SourceKind, repositories: str | None, interpreters: Mapping[str, str]
    ) -> PythonSetup:
        if not self.python:
            raise UsageError(
                f"{self.instance_id}: its Python version and pins are not known, so it needs its "
                f"image (--environment docker), or {swebench_specs.MISSING}"
            )
        return PythonSetup(
            self.source(kind, repositories),
            self.python,
            self.pins,
            interpreters,
            requirements=self.requirements,
            requirement_files=self.requirement_files,
            version=self.version,
        )

    def plan(self, *, timeout: float, in_official_image: bool, rule: Version = "5.0") -> TestPlan:
        """How the instance is decided; outside the image tox is replaced by what it would run."""
        if not (self.test_command and self.log_parser):
            raise GraderError(
                f"{self.instance_id}: its test command is not known: the data needs the columns "
                f"eval_script and log_parser, or {swebench_specs.MISSING}"
            )
        command = self.test_command
        if in_official_image:
            command = f"{ACTIVATE} && {command}"
        elif command.startswith("tox "):
            command = f"python -X dev -m pytest -rA {command.rpartition(' -- ')[2]}"
        return TestPlan(
            command=command,
            log_parser=self.log_parser,
            test_patch=self.test_patch,
            fail_to_pass=self.fail_to_pass,
            pass_to_pass=self.pass_to_pass,
            gold_patch=self.patch,
            eval_type=self.eval_type,
            rule=rule,
            timeout=timeout,
        )


@dataclass(frozen=True, slots=True)
class Annexes:
    """The files beside a data set that say how its instances are run."""

    settings: Mapping[str, Row] = field(default_factory=dict)
    distributions: Mapping[str, Row] = field(default_factory=dict)

    @classmethod
    def beside(cls, place: Path) -> Annexes:
        folder = place if place.is_dir() else place.parent
        return cls(
            _by_id(folder, ("eval_settings.jsonl.gz", "eval_settings.jsonl")),
            _by_id(folder, ("registry_sdists.jsonl", "registry_sdists.jsonl.gz")),
        )

    def complete(self, instance: SWEBenchInstance) -> SWEBenchInstance:
        if row := self.settings.get(instance.instance_id) or _classic_settings(instance):
            instance = instance.with_settings(row)
        if row := self.distributions.get(instance.instance_id):
            instance = instance.with_distribution(row)
        return instance


def _classic_settings(instance: SWEBenchInstance) -> Row | None:
    """For rows that say nothing of how they are tested."""
    if instance.test_command and instance.log_parser:
        return None
    files = directives(instance.test_patch, instance.repo)
    return swebench_specs.settings(instance.repo, instance.version, files)


def test_ids(value: Any) -> tuple[str, ...]:
    """FAIL_TO_PASS and PASS_TO_PASS are lists, or JSON text of one."""
    if isinstance(value, str):
        value = json.loads(value)
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError("a list of test ids is expected")
    return tuple(value)


test_ids.__test__ = False  # type: ignore[attr-defined]  # not a test, whatever pytest thinks


def command_of(eval_script: str) -> str:
    """The test command of an official evaluation script: the line before the end mark."""
    lines = [line.strip() for line in eval_script.split("\n")]
    for number, line in enumerate(lines):
        if "Start Test Output" in line and number + 1 < len(lines):
            return lines[number + 1]
    return ""


def directives(test_patch: str, repo: str) -> list[str]:
    """What the official harness hands to the test command for a test patch."""
    names = [file.path for file in diffs.parse(test_patch)]
    names = [name for name in names if not name.endswith(DATA_SUFFIXES)]
    if repo == "django/django":
        stripped = (name.removeprefix("tests/").removesuffix(".py") for name in names)
        names = [name.replace("/", ".") for name in stripped]
    return names


def _eval_type(value: Any) -> EvalType:
    if value not in (None, "", "pass_and_fail", "fail_only"):
        raise ValueError(f"eval_type {value!r} is not known")
    return cast(EvalType, value or "pass_and_fail")


def _by_id(folder: Path, names: Sequence[str]) -> dict[str, Row]:
    for name in names:
        if (folder / name).exists():
            return {str(row["instance_id"]): row for row in rows(folder / name)}
    return {}


def _location(repositories: str, repo: str) -> str:
    root = Path(repositories).expanduser()
    flat = repo.replace("/", "__")
    for name in (repo, f"{repo}.git", flat, f"{flat}.git", repo.rpartition("/")[2]):
        if (root / name).exists():
            return str(root / name)
    raise EnvironmentFault(
        f"{root} has no clone of {repo} (looked for {repo}, {flat}, with and without .git)"
    )
