"""The benchmark contract: three methods are enough, the rest has defaults."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Generic, Literal, TypeVar

from chimera.agents.base import Agent
from chimera.environments import missing_capabilities
from chimera.environments.base import Environment, EnvironmentSpec
from chimera.environments.identity import this_process
from chimera.errors import ChimeraError, UsageError, fault
from chimera.eval.filed import Names
from chimera.eval.values import Prediction, Submission, Task, TrialRecord, Verdict
from chimera.text import storable
from chimera.types import JSON, AgentResult

TaskT = TypeVar("TaskT", bound=Task)
#: What an answer is to a grader; the catalogue of hostile answers has some for each.
AttackKind = Literal["python tests", "python calls", "python scripts", "text"]


class StartEnvironment(ABC):
    """Starts environments: with a named backend, or by a user's own function."""

    #: The backend's name; empty where a user's function starts what it likes.
    backend: str = ""

    @abstractmethod
    def __call__(self, spec: EnvironmentSpec) -> Environment: ...

    def identity(self, spec: EnvironmentSpec) -> JSON:
        """What an environment for `spec` is made of; None where nobody can say."""
        return None

    def without_network(self) -> StartEnvironment:
        """The same for checks, which are not allowed what the user allowed the agent."""
        return self


@dataclass(frozen=True, slots=True)
class Lack:
    """What some tasks need beside their data and this machine or the settings do not have."""

    what: str
    #: The command or the option that brings it.
    remedy: str
    #: The ids of the tasks that get no verdict without it; None: of all.
    tasks: frozenset[str] | None = None
    #: A model that nobody named is no matter where answers come without any; a judge always is.
    #: What may not matter after all (doubt) refuses nothing: `--limit N` takes other tasks first.
    kind: Literal["machine", "model", "judge", "doubt"] = "machine"


@dataclass(frozen=True, slots=True)
class Preparation:
    """Something that is fetched or built once, before the first trial that needs it."""

    what: str
    make: Callable[[], object]


@dataclass(frozen=True, slots=True)
class OfficialGrader:
    """The published grader of a benchmark, driven by `program` in an interpreter that has it.

    The program reads `settings` as the first line of its standard input, then one answer a line
    (`task`, `text`), and prints a verdict for each (`passed`, `note`), all as JSON.
    """

    name: str
    program: Path
    settings: Mapping[str, JSON] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run to be written in a benchmark's own format: one record for each task and sample."""

    name: str
    model: str
    records: Iterable[TrialRecord]
    #: The ids of all tasks that could have been answered.
    tasks: Sequence[str]
    #: How it was made: read as a stranger's word.
    manifest: Mapping[str, JSON] = field(default_factory=dict)
    #: The prompt and the metadata of a task.
    task: Callable[[str], tuple[str, Mapping[str, JSON]]] = lambda _: ("", {})


#: Writes files below a directory; those that a person should look at first.
Export = Callable[[StoredRun, Path], Sequence[Path]]


class Benchmark(ABC, Generic[TaskT]):
    """A set of tasks and the rule that decides them.

    Implement `name`, `tasks` and `evaluate` (or `grade`, for verdicts that say why).
    """

    # --- facts

    #: The name users type, that of the data set's folder, and other names people know it by.
    slug: ClassVar[str] = ""
    aliases: ClassVar[Sequence[str]] = ()
    #: What it asks, in a line, for people who choose.
    description: ClassVar[str] = ""
    #: What it needs beside its data: "docker", "judge model", "sites", …
    needs: ClassVar[Sequence[str]] = ()
    #: Where `grade` happens: in the agent's own environment after its processes were ended,
    #: in a fresh one, or in none (the grader confines what it runs by itself).
    grading: Literal["same", "fresh", "none"] = "same"
    #: Whether a verdict follows from the answer alone, so that equal ones are graded once: no judge
    #: model, nothing but the answer's own doing that could come out otherwise.
    decided_by_answer: ClassVar[bool] = False
    #: Environment backends, best first; the first that fits the chosen tasks is the default.
    environments: Sequence[str] = ("none", "bubblewrap", "docker", "local")
    #: The agent that plays it when none is named.
    default_agent: ClassVar[str] = "direct"
    #: Trials at once for each core, when nobody says: few where grading compiles or runs suites.
    trials_per_core: ClassVar[int] = 4
    #: Raised when a change to the grader can change verdicts; part of what resume matches on.
    grader_version: ClassVar[int] = 1
    #: Formats of its own in which runs can be written: name → who writes it.
    exports: ClassVar[Mapping[str, Export]] = {}
    #: Which hostile answers of the catalogue fit its grader, beside those of `attacks`.
    attack_kind: AttackKind | None = None

    # --- what must be there

    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def tasks(self) -> Sequence[TaskT]: ...

    def evaluate(self, task: TaskT, agent_output: str, env: Environment) -> bool:
        """Whether this reply solves the task."""
        return self.grade(task, self.extract(task, agent_output), env).passed

    def grade(self, task: TaskT, submission: Submission, env: Environment) -> Verdict:
        """Decide. Raise a `RunError` for a fault that is not the answer's."""
        if type(self).evaluate is Benchmark.evaluate:
            raise UsageError(f"{type(self).__name__} implements neither evaluate() nor grade()")
        reply = submission.text if submission.raw is None else submission.raw
        return Verdict.of(self.evaluate(task, reply, env))

    # --- from the agent to what is graded

    def extract(self, task: TaskT, reply: str) -> Submission:
        """The answer in a model's whole reply."""
        return Submission(text=reply, raw=reply)

    def collect(self, task: TaskT, result: AgentResult, env: Environment) -> Submission:
        """What is handed in once the agent has stopped: by default what it said."""
        return self.extract(task, result.output)

    def environment(self, task: TaskT) -> EnvironmentSpec:
        """What the task needs of its environment."""
        return EnvironmentSpec()

    def fitting_environments(self, task: TaskT) -> Sequence[str]:
        """The backends in which this task can be decided: those that offer what it needs."""
        if type(self).open_environment is not Benchmark.open_environment:
            return self.environments
        spec = self.environment(task)
        return [name for name in self.environments if not missing_capabilities(name, spec)]

    def open_environment(self, task: TaskT, start: StartEnvironment) -> Environment:
        """The environment the agent works in. `start` starts one with the backend in use."""
        return start(self.environment(task))

    def open_grading_environment(self, task: TaskT, start: StartEnvironment) -> Environment:
        """The fresh environment for `grading = "fresh"`."""
        return start(self.environment(task))

    def agent_seconds(self, task: TaskT) -> float | None:
        """How long the protocol lets an agent work on the task; None: as long as the run allows."""
        return None

    def prepare_agent(self, agent: Agent) -> Agent:
        """A copy of the agent as the protocol wants it: a step budget, a tool."""
        return agent

    @property
    def regradable(self) -> bool:
        """Whether a stored submission is all that `grade` needs."""
        return self.grading != "same"

    def read_predictions(self, path: Path) -> Iterable[Prediction] | None:
        """Stored answers in an official format of its own; None when the file is in the common one
        (`chimera.eval.data.predictions`)."""
        return None

    def missing(self, tasks: Sequence[TaskT] | None = None) -> Sequence[Lack]:
        """What it needs beside its data and is not here: for these tasks, or for any of its own."""
        return ()

    def out_of_reach(self, tasks: Sequence[TaskT], backend: str) -> Sequence[Lack]:
        """Code and images that these tasks would fetch in this backend, from where none comes."""
        return ()

    def preparations(self, tasks: Sequence[TaskT] | None = None) -> Sequence[Preparation]:
        """What is still to be fetched or built for these tasks, or for any of its own."""
        return ()

    def notes(self) -> Sequence[str]:
        """What a run with these options should say of itself before it starts, a line each."""
        return ()

    def options(self) -> dict[str, JSON]:
        """The settings that could change an outcome; part of what resume matches on."""
        return {}

    # --- what proves the grader

    def graded_as(self) -> str:
        """What the verdict follows with these options: the official grader and its version."""
        return "the task's own check"

    def gold(self, task: TaskT) -> Submission | None:
        """The reference answer, when the data set has one."""
        return None

    def oracle(self, task: TaskT, env: Environment) -> Submission:
        """Hand in the reference answer, working in `env` where the protocol wants it."""
        gold = self.gold(task)
        if gold is None:
            raise UsageError(f"{self.name()}: task {task['id']} has no reference answer")
        return gold

    def has_reference(self, task: TaskT) -> bool:
        """Whether `oracle` has an answer to hand in."""
        return type(self).oracle is not Benchmark.oracle or self.gold(task) is not None

    def has_untouched(self, task: TaskT) -> bool:
        """Whether doing nothing can still be tried once others worked on the task: not where what
        they changed stays, as on a site that all trials share."""
        return True

    def untouched(self, task: TaskT, env: Environment) -> Submission:
        """Hand in what there is when nothing was done; graded like any answer, it must fail."""
        return self.collect(task, AgentResult(""), env)

    def graded_in(self, task: TaskT, start: StartEnvironment) -> JSON:
        """What a verdict depends on beside task, answer and options: image or tree, interpreter,
        tools. What known answers came to is kept under it."""
        if self.grading == "none" or start.backend == "none":
            return this_process()
        return start.identity(self.environment(task))

    def files_beside(self, task: TaskT) -> Sequence[Path]:
        """Files and directories that a verdict depends on and that the task only names."""
        return ()

    def check_task(self, task: TaskT, start: StartEnvironment) -> None:
        """Raise when the task cannot be decided here, before an agent is paid for it."""

    def may_reward_nothing(self, task: TaskT) -> bool:
        """Whether the data themselves may let an untouched task pass; where they cannot, such a
        pass shows that the environment is not what they were made in."""
        return type(self).grade is Benchmark.grade or self.nothing_is_right(task)

    def nothing_is_right(self, task: TaskT) -> bool:
        """Whether the task asks for nothing to be done, so that an empty answer passes."""
        return False

    def mutants(self, task: TaskT) -> Iterable[Submission]:
        """Wrong answers made from the gold one, each of which must fail."""
        return ()

    def behaves_like_gold(self, task: TaskT, submission: Submission) -> bool:
        """Whether a mutant that passed is no different from the gold on further inputs either."""
        return False

    def attacks(self, task: TaskT) -> Iterable[tuple[str, Submission]]:
        """Named answers that try to pass without being right; each must fail."""
        return ()

    def official_grader(self, tasks: Sequence[TaskT]) -> OfficialGrader | None:
        """The published grader to compare with, where one can be driven."""
        return None


def tasks_of(benchmark: Benchmark[TaskT]) -> Sequence[TaskT]:
    """Its tasks, checked; what its own code raises is told with the line it came from."""
    try:
        given = benchmark.tasks()
        tasks = given if isinstance(given, Sequence) else list(given)
    except ChimeraError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{benchmark.name()}: tasks() failed: {fault(error)}") from error
    return checked_tasks(benchmark.name(), tasks)


def checked_tasks(name: str, tasks: Sequence[TaskT]) -> Sequence[TaskT]:
    """The tasks, once each is a dictionary with a prompt and an id that no other one has."""
    seen = Names()
    for number, task in enumerate(tasks):
        texts = [task.get(key) for key in ("id", "prompt")] if isinstance(task, Mapping) else [None]
        if not all(isinstance(text, str) for text in texts):
            wanted = "a dictionary with the texts 'id' and 'prompt'"
            raise UsageError(f"{name}: task {number} is {task!r:.80}: expected {wanted}")
        if storable(task["id"]) != task["id"]:
            raise UsageError(f"{name}: task id {task['id']!r} is not text")
        if not seen.add(task["id"], number):
            raise UsageError(f"{name}: task id {task['id']!r} appears twice")
    return tasks
