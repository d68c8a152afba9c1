"""SWE-PolyBench: issues of Java, JavaScript, TypeScript and Python repositories."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, get_args

from chimera.environments.base import Environment, EnvironmentSpec, Machine
from chimera.environments.engine import Engine, image_map
from chimera.errors import DatasetError, GraderError
from chimera.eval.benchmark import StartEnvironment
from chimera.eval.benchmarks._swe_polybench import logs, retrieval
from chimera.eval.benchmarks._swe_polybench.recipe import Prepared, Recipe
from chimera.eval.benchmarks._swe_polybench.witnessed_run import WitnessedRun, run_witnessed
from chimera.eval.data.rows import Row
from chimera.eval.data.sources import HubFile, Item
from chimera.eval.kits.patches import diffs
from chimera.eval.kits.patches.apply import Chain, apply_submission, put_tests
from chimera.eval.kits.patches.steering import PACKAGE_KEYS
from chimera.eval.kits.repositories import checkout
from chimera.eval.kits.repositories.benchmark import (
    PatchBenchmark,
    Reference,
    RepositoryOptions,
)
from chimera.eval.kits.repositories.row_fields import (
    commit_of_row,
    id_of_row,
    repository_of_row,
)
from chimera.eval.kits.repositories.source import (
    Directory,
    GitRepository,
    Source,
    base_tree,
    clone_or_copy,
)
from chimera.eval.kits.repositories.swe_instance import CODE_HOST
from chimera.eval.kits.repositories.twin_runs import Form, Tests, Tried, decide, put_form
from chimera.eval.kits.repositories.virtualenvs import TESTBED
from chimera.eval.kits.task_folders.images import base_images, with_base_images
from chimera.eval.options import Options, option
from chimera.eval.values import Submission, Task, Verdict
from chimera.types import JSON

PROMPT = """\
The directory {root} holds a checkout of the {language} repository {repo}. Resolve the issue below \
by changing its code. The change is taken from the working tree as it is when you stop, and judged \
by tests that you cannot see.

<issue>
{statement}
</issue>
"""
#: As the official harness tries them: what the first leaves behind, the second meets.
APPLICATION = Chain(
    (
        "git apply -v --ignore-whitespace --reject {file}",
        "patch --batch --fuzz=5 -p1 -f -i {file}",
    )
)
TIMEOUTS = {"java": 1800.0}

Split = Literal["full", "pb500", "verified"]
Language = Literal["java", "javascript", "typescript", "python"]
LANGUAGES = get_args(Language)


class PolyBenchTask(Task):
    repo: str
    language: str
    base_commit: str
    patch: str
    test_patch: str
    dockerfile: str
    test_command: str
    fail_to_pass: list[str]
    pass_to_pass: list[str]
    modified_nodes: list[str] | None


@dataclass(frozen=True, slots=True)
class PolyBenchOptions(RepositoryOptions):
    split: Split = option("pb500", "which set: 2,110, 500 or 382 instances")
    language: Language | None = option(None, "only instances in this language")
    _: KW_ONLY
    image: Literal["published", "built"] = option(
        "published",
        "where a container's image comes from: pulled by its name, or built from the row's "
        "Dockerfile on `polybench_LANGUAGE_base`; results of built ones carry `image: built`",
        quiet=True,
    )
    test_timeout: float | None = option(
        None, "seconds for one run of the tests; otherwise 1800 for Java, else 1200"
    )

    def __post_init__(self) -> None:
        if isinstance(self.language, str):
            object.__setattr__(self, "language", self.language.lower())
        Options.__post_init__(self)


class SWEPolyBench(PatchBenchmark[PolyBenchTask]):
    slug = "swe-polybench"
    aliases = ("polybench",)
    description = "Issues of Java, JavaScript, TypeScript and Python repositories"
    setup = (
        "Or put full, pb500 or verified of SWE-PolyBench there, as .csv or .jsonl; the first two "
        "are not pinned."
    )
    sources = (
        Item(
            "full.csv",
            HubFile(
                "AmazonScience/SWE-PolyBench",
                "test.csv",
                "d56445f9940eae4e9d2974ec66820c2f1d7754e6",
            ),
            sha256="17ad661b20e9af1e2067fbbc2e2658a21137d56693570d1d07f966d8bc0408b7",
        ),
        Item(
            "pb500.csv",
            HubFile(
                "AmazonScience/SWE-PolyBench_500",
                "test.csv",
                "546075b4b05d17ba914e72b8f4c6d5b1ea150c1d",
            ),
            sha256="20961b616b404875adead16dd456adc4cf583035436fc0d7e9c3f2adf8322e0c",
        ),
        Item(
            "verified.csv",
            HubFile(
                "AmazonScience/SWE-PolyBench_Verified",
                "test.csv",
                "b3fca77b637379f0c01ad86d18753a7ac1998b53",
            ),
            sha256="0c8138e73c34fa29a5276b675b146b72d78ce001fcc4560d76302c908b4808a5",
            size=12_410_402,
        ),
    )
    licence = "MIT"
    files = ("{split}.jsonl", "{split}.jsonl.gz", "{split}.csv", "{split}.parquet",
             "polybench_full_record*.json")  # fmt: skip
    needs = ("docker, or the languages' tools and bubblewrap",)

    option_type = PolyBenchOptions
    settings: PolyBenchOptions

    def task(self, row: Row) -> PolyBenchTask | None:
        language = str(row["language"]).lower()
        if language not in LANGUAGES:
            raise DatasetError(f"{row['instance_id']}: language {row['language']!r} is not known")
        if self.settings.language not in (None, language):
            return None
        repo = repository_of_row(row)
        statement = str(row["problem_statement"])
        return PolyBenchTask(
            id=id_of_row(row),
            prompt=PROMPT.format(
                root=TESTBED, language=row["language"], repo=repo, statement=statement
            ),
            metadata={"language": language, "category": row.get("task_category"), "repo": repo},
            repo=repo,
            language=language,
            base_commit=commit_of_row(row),
            patch=str(row["patch"]),
            test_patch=str(row["test_patch"]),
            dockerfile=str(row.get("Dockerfile") or ""),
            test_command=str(row["test_command"]),
            fail_to_pass=literal_list(row["F2P"]),
            pass_to_pass=literal_list(row["P2P"]),
            modified_nodes=_nodes(row.get("modified_nodes")),
        )

    # --- environments

    def code(self, task: PolyBenchTask, backend: str) -> Source | None:
        pulled = backend == "docker" and self.settings.image == "published"
        return None if pulled else self._source(task)

    def images(self, task: PolyBenchTask, backend: str) -> Sequence[str]:
        if backend != "docker":
            return ()
        if self.settings.image == "published":
            return (_image(task),)
        return base_images(task["dockerfile"], image_map())

    def open_environment(self, task: PolyBenchTask, start: StartEnvironment) -> Environment:
        """A container of the instance's image, or this machine's tools on a copy of the code."""
        if start.backend == "docker":
            built = self.settings.image == "built"
            prepare = None if built else checkout.hide_history
            return checkout.open_image(self._image(task), start, prepare=prepare)
        made, variables = self._prepared(task, start), _recipe(task).variables()
        return checkout.open_tree(made.tree, start, variables=variables, mounts=made.mounts)

    def _prepared(self, task: PolyBenchTask, start: StartEnvironment) -> Prepared:
        """The code after the steps of the row's Dockerfile; a copy that is ready is left as is."""
        source, recipe = self._source(task), _recipe(task)
        tree = base_tree(source)
        if isinstance(source, Directory):
            return Prepared(tree, recipe.mounts())
        return recipe.prepared(tree, start)

    def _image(self, task: PolyBenchTask) -> str:
        """The published image, or one that is built from the row's Dockerfile."""
        if self.settings.image == "published":
            return _image(task)
        recipe, tree = _recipe(task), base_tree(self._source(task))
        context = with_base_images(recipe.context(tree), image_map())
        return Engine.find().build(context)

    def graded_in(self, task: PolyBenchTask, start: StartEnvironment) -> JSON:
        if start.backend == "docker":
            return start.identity(EnvironmentSpec(image=self._image(task)))
        made = self._prepared(task, start)
        return checkout.tree_identity(made.tree, start, mounts={path: path for path in made.mounts})

    def _source(self, task: PolyBenchTask) -> Source:
        if not self.settings.repositories:
            return GitRepository(CODE_HOST.format(repo=task["repo"]), task["base_commit"])
        names = (task["repo"], task["id"], task["repo"].replace("/", "__"))
        return clone_or_copy(self.settings.repositories, names, task["base_commit"])

    # --- submissions

    def reference(self, task: PolyBenchTask) -> Reference:
        return Reference(task["patch"], task["test_patch"], task["fail_to_pass"])

    # --- grading

    def grade(self, task: PolyBenchTask, submission: Submission, env: Environment) -> Verdict:
        patch = submission.text
        if not patch.strip():
            metrics = {**localization_accuracy(task["patch"], patch), "generation": False}
            return Verdict(False, "the submission is an empty patch", metrics=metrics)
        listed: JSON = [*task["fail_to_pass"]]
        tests = Tests(
            lambda inside, tried, form: self._try(task, tried, inside, form),
            diffs.paths(task["test_patch"]),
            task["patch"],
            task["fail_to_pass"].__contains__,
            [task["id"], task["test_patch"], task["test_command"], task["dockerfile"], listed],
        )
        return decide(tests, patch, env)

    def _try(self, task: PolyBenchTask, patch: str, env: Machine, form: Form) -> Tried:
        """Run the tests on a patch, in one of their forms."""
        metrics: dict[str, JSON] = dict(localization_accuracy(task["patch"], patch))
        before = _sources(env, patch)
        application = apply_submission(
            env,
            patch,
            root=TESTBED,
            test_paths=diffs.paths(task["test_patch"]),
            expected=(task["patch"], task["test_patch"]),
            chain=APPLICATION,
        )
        metrics["generation"] = True
        if not application.applied:
            zero: dict[str, JSON] = {name: 0.0 for name in metrics if name.startswith("file_")}
            metrics = {**metrics, **zero, "patch_applied": False}
            return Tried(Verdict(False, "the patch does not apply", metrics=metrics))
        after = _sources(env, patch)
        metrics["cst_node_recall"] = cst_node_recall(task["modified_nodes"], patch, before, after)
        metrics.update(application.undone())
        if not put_tests(env, task["test_patch"], root=TESTBED):
            raise GraderError("the test patch does not apply to the base commit")
        if "package.json" in application.changed and "package.json" not in diffs.paths(
            task["patch"]
        ):
            metrics["restored_scripts"] = _keep_scripts(env)
        put_form(env, TESTBED, diffs.paths(task["test_patch"]), form)
        return self._tested(task, env, metrics)

    def _tested(self, task: PolyBenchTask, env: Machine, metrics: dict[str, JSON]) -> Tried:
        timeout = self.settings.test_timeout or TIMEOUTS.get(task["language"], 1200.0)
        reader = logs.reader(task["repo"], task["language"])
        run = run_witnessed(
            env,
            task["test_command"],
            language=task["language"],
            root=TESTBED,
            timeout=timeout,
            read=lambda log: reader(log).passed,
        )
        result = run.result
        text = (result.stderr + result.stdout).decode("utf-8", "replace")
        log = f"{text}\nContainer exited with status code: {result.exit_code}\n"
        evidence: dict[str, JSON] = {"log": log[-200_000:]}
        if result.timed_out or result.truncated:
            why = (
                f"the tests did not end within {timeout:g} s"
                if result.timed_out
                else "the log was cut"
            )
            metrics["timed_out"] = result.timed_out
            return Tried(Verdict(False, why, metrics=metrics, evidence=evidence))
        results = reader(log)
        missing, broken = shortcomings(results, task["fail_to_pass"], task["pass_to_pass"])
        absent = [
            name for name in task["pass_to_pass"] if name not in results.passed | results.failed
        ]
        why = _why(results, missing, broken)
        metrics["witness"] = run.witnessed
        if not results:
            metrics["ran"] = False
        if not why and (forged := _forged(run, results, task["fail_to_pass"])):
            why = f"tampering: {forged}"
            metrics["tampering"] = True
        metrics.update(
            with_logs=bool(results),
            all_f2p_passed=not missing,
            no_p2p_failed=not broken,
            p2p_absent=len(absent),
            f2p_total=len(task["fail_to_pass"]),
            p2p_total=len(task["pass_to_pass"]),
        )
        evidence["passed_tests"] = sorted(results.passed)
        evidence["failed_tests"] = sorted(results.failed)
        if self.settings.image == "built":
            metrics["image"] = "built"
        verdict = Verdict(not why, why, metrics=metrics, evidence=evidence)
        return Tried(verdict, frozenset(results.passed), frozenset(results.failed))

    def graded_as(self) -> str:
        return "SWE-PolyBench's pass rule (June 2026)"

    def localization_accuracy(self, task: PolyBenchTask, patch: str) -> dict[str, float]:
        """Recall, precision and F1 over the files that a patch changes, against the reference."""
        return localization_accuracy(task["patch"], patch)

    def cst_node_recall(
        self, task: PolyBenchTask, patch: str, before: dict[str, bytes], after: dict[str, bytes]
    ) -> float | None:
        """Share of the reference's syntax nodes that a patch changes; None where it lists none.

        `before` and `after` are the changed files without and with the patch, by path.
        """
        return cst_node_recall(task["modified_nodes"], patch, before, after)


def _recipe(task: PolyBenchTask) -> Recipe:
    return Recipe(task["dockerfile"], task["test_command"])


def _image(task: PolyBenchTask) -> str:
    return f"polybench_{task['language']}_{task['id']}".lower()


def localization_accuracy(gold: str, patch: str) -> dict[str, float]:
    """Recall, precision and F1 over the files a patch changes."""
    found = retrieval.retrieval(retrieval.changed_files(gold), retrieval.changed_files(patch))
    return {"file_recall": found.recall, "file_precision": found.precision, "file_f1": found.f1}


def cst_node_recall(
    modified_nodes: list[str] | None, patch: str, before: dict[str, bytes], after: dict[str, bytes]
) -> float | None:
    """Share of the reference's syntax nodes that a patch changes; None where it lists none."""
    if not modified_nodes:
        return None
    return retrieval.retrieval(modified_nodes, retrieval.changed_nodes(patch, before, after)).recall


def shortcomings(
    results: logs.Results, fail_to_pass: Sequence[str], pass_to_pass: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The official rule: F2P tests that did not pass, P2P tests that failed; both must be none."""
    missing = [name for name in fail_to_pass if name not in results.passed]
    return missing, [name for name in pass_to_pass if name in results.failed]


def literal_list(value: Any) -> list[str]:
    """F2P and P2P are lists, or the text of a Python list."""
    if value is None:
        return []
    if isinstance(value, str):
        value = ast.literal_eval(value)
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError("a list of test names is expected")
    return value


def _nodes(value: Any) -> list[str] | None:
    if isinstance(value, str):
        value = json.loads(value)
    return [str(node) for node in value] if value else None


def _keep_scripts(env: Machine) -> list[str]:
    """Put back the parts of package.json that say how tests are run; the parts that differed."""
    base = env.run_command("git show HEAD:package.json", cwd=TESTBED)
    try:
        before = json.loads(base.stdout or b"{}")
        after = json.loads(env.read_file(f"{TESTBED}/package.json"))
        changed = [key for key in PACKAGE_KEYS if before.get(key) != after.get(key)]
    except (OSError, ValueError, AttributeError):
        return []  # a package.json that cannot be read runs no tests
    kept = {key: value for key, value in after.items() if key not in changed}
    kept.update({key: before[key] for key in changed if key in before})
    if changed:
        env.write_file(f"{TESTBED}/package.json", json.dumps(kept, indent=2) + "\n")
    return changed


def _sources(env: Machine, patch: str) -> dict[str, bytes]:
    found = {}
    for file in diffs.parse(patch):
        if file.old and file.old == file.new and not re.search(r"(^|/)\.\.(/|$)", file.old):
            try:
                found[file.old] = env.read_file(f"{TESTBED}/{file.old}")
            except OSError:
                continue  # the patch names a file that is not there: it will not apply
    return found


def _why(results: logs.Results, missing: list[str], broken: list[str]) -> str:
    """Why the official rule does not hold; "" when it does."""
    if not results:
        return "the log has no test results"
    if missing:
        return f"not passed: {', '.join(missing[:3])}"
    return f"broken: {', '.join(broken[:3])}" if broken else ""


def _forged(run: WitnessedRun, results: logs.Results, names: list[str]) -> str:
    """Why a log that shows all as passed is not believed."""
    if unseen := run.unconfirmed(names):
        ended = "" if run.finished else ", and the runner never came to its end"
        return f"the log claims passes that did not happen: {', '.join(unseen[:3])}{ended}"
    if run.witnessed or not run.tools_failed:
        return ""
    if not results.failed:
        return "the test command failed, but its report names no failed test"
    both = sorted(results.failed.intersection(names))
    return f"the report has {both[0]} as passed and as failed" if both else ""
