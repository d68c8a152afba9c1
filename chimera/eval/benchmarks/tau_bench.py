"""tau-bench and tau2-bench: an agent serves a simulated customer; the state it leaves is graded.

`python -m chimera.eval.benchmarks.tau_bench --domain airline --limit 3 --model …` runs a few tasks
and prints a table.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from chimera.environments.base import Environment
from chimera.errors import DatasetError
from chimera.eval.benchmark import Export, Lack, StartEnvironment
from chimera.eval.benchmarks._tau_bench.benchmark import (
    ConversationOptions,
    Conversations,
    TauTask,
    marks,
    submission,
)
from chimera.eval.benchmarks._tau_bench.official_results import export
from chimera.eval.data.rows import Row
from chimera.eval.data.sources import Item, PackageFolder, RepositoryPart
from chimera.eval.kits.judge import SAMPLES_TEXT, Judge
from chimera.eval.options import Options, option
from chimera.eval.preflight import lacking_judge
from chimera.eval.values import Prediction, Submission
from chimera.types import JSON

if TYPE_CHECKING:
    from chimera.eval.benchmarks._tau_bench.domains import Domain, LegacyDomain
    from chimera.eval.benchmarks._tau_bench.rewards import Reward

#: The official agent that works on a ticket alone.
SOLO_AGENT = "llm_agent_solo"
AGENT_RULES = """\
<instructions>
You are a customer service agent and help the user according to the policy below.
In each turn you either send a message to the user or make a tool call, never both.
Be helpful and always keep to the policy.
</instructions>
<policy>
{policy}
</policy>"""


@dataclass(frozen=True, slots=True)
class Tau2Options(ConversationOptions):
    domain: Literal["airline", "retail", "telecom", "banking_knowledge", "banking", "mock"] = (
        option("airline", "whose customers are served; `banking` is short for banking_knowledge")
    )
    split: str | None = option(None, "a part of the tasks; `base` where the domain has parts")
    user_model: str = option(
        "openai/gpt-4.1-2025-04-14", "the customer's model, at temperature 0; officially this one"
    )
    judge_model: str | None = option(
        None, "decides statements about conversations (40 retail tasks)"
    )
    judge_samples: int = option(1, SAMPLES_TEXT, quiet=True, least=1)
    max_steps: int = option(200, "messages of a conversation at most", least=1)
    retrieval: Literal[
        "bm25_grep", "bm25", "grep_only", "full_kb", "golden_retrieval", "no_knowledge"
    ] = option("bm25_grep", "banking: how the agent reaches the bank's documents")
    strict: bool = option(
        True,
        "no verdict on recorded conversations whose calls answer differently here; without it "
        "such a conversation may pass, which is told, and still not fail by the state it leaves",
    )

    def __post_init__(self) -> None:
        Options.__post_init__(self)
        if self.domain == "banking":
            object.__setattr__(self, "domain", "banking_knowledge")


class Tau2Bench(Conversations):
    """tau2-bench (tau3): airline, retail, telecom, banking_knowledge and mock."""

    slug = "tau2-bench"
    aliases = ("tau2",)
    description = "An agent serves a simulated customer by a policy; the state it leaves is graded"
    needs = ("user model", "judge model")
    setup = (
        "Put one directory a domain into it (tasks.json, db.json, policy.md, …; data/tau2/domains "
        "of sierra-research/tau2-bench), or use a clone of that repository."
    )
    sources = (
        Item(
            "data",
            PackageFolder("inspect-evals==0.26.0", "inspect_evals/tau2/data"),
            sha256="806fe0d8456047b1afeda3a4f5b83967a617952fed2ea0533ba6c82c5c04621e",
        ),
    )
    licence = "MIT"

    exports: ClassVar[Mapping[str, Export]] = {"tau2": export}
    option_type = Tau2Options
    settings: Tau2Options

    @property
    def user_model(self) -> str:
        return self.settings.user_model

    def _domain_at(self, place: Path) -> Domain:
        from chimera.eval.benchmarks._tau_bench.domains import Domain

        return Domain.at(place, self.settings.domain)

    def _domain(self) -> Domain:
        return self._domain_at(self.dataset().place())

    def graded_as(self) -> str:
        return "tau2-bench 1.0.1 reward bases"

    def options(self) -> dict[str, JSON]:
        """Whose words describe the bank's inner tools counts too."""
        if self.settings.domain != "banking_knowledge":
            return super().options()
        return {**super().options(), "tool_texts": "own" if self.notes() else "official"}

    def notes(self) -> Sequence[str]:
        from chimera.eval.benchmarks._tau_bench.bank_texts import official_source

        if self.settings.domain != "banking_knowledge":
            return ()
        if official_source(self._domain().folder) is not None:
            return ()
        return (
            "the bank's inner tools are described in our words, which differ from the official "
            "ones: use a clone of tau2-bench as data set, or put its banking_knowledge/tools.py "
            "beside the domain's data",
        )

    def rows(self) -> Iterator[Row]:
        yield from self._domain().tasks(self.settings.split)

    def task(self, row: Row) -> TauTask:
        return self._made(str(row["id"]), row)

    def open_environment(self, task: TauTask, start: StartEnvironment) -> Environment:
        from chimera.eval.benchmarks._tau_bench.environment import (
            Conversation,
            Rules,
            TauEnvironment,
        )
        from chimera.eval.benchmarks._tau_bench.rewards import replay

        domain, row = self._domain(), task["row"]
        if row.get("ticket") and not row.get("user_scenario"):
            raise DatasetError(
                f"task {task['id']} is for solo mode, in which no customer takes part: that is not "
                "supported"
            )
        history = (row.get("initial_state") or {}).get("message_history") or []
        settings = self.settings
        world = replay(domain.world(row, settings.retrieval), row, history).world
        offered = None if world.user is None else list(world.user.visible())
        if offered is not None and row.get("user_tools") is not None:
            offered = [known for known in offered if known.name in row["user_tools"]]
        user = _LazyUser(settings.user_model, domain, row.get("user_scenario") or "", offered)
        talk = Conversation(world.respond, user, Rules(max_steps=settings.max_steps))
        talk.messages = [dict(message) for message in history]
        policy = AGENT_RULES.format(policy=domain.policy(row, settings.retrieval))
        if history:
            policy += f"\n<conversation_so_far>\n{json.dumps(history)}\n</conversation_so_far>"
        return TauEnvironment(talk, world.agent.visible(), policy)

    def _reward(self, task: TauTask, content: Mapping[str, Any]) -> Reward:
        from chimera.eval.benchmarks._tau_bench.judges import ModelJudge
        from chimera.eval.benchmarks._tau_bench.submissions import Grader

        settings, domain, row = self.settings, self._domain(), task["row"]
        _check_quoted(content.get("quoted_actions"), row)
        judge = Judge(settings.judge_model, samples=settings.judge_samples)
        asked = None if judge.model is None else ModelJudge(judge)
        grader = Grader(row, lambda: domain.world(row, settings.retrieval), asked, settings.strict)
        reward = grader.grade(content)
        details = {**reward.details, **judge.metrics()}
        return replace(reward, details=details, evidence=judge.evidence())

    def _gold_content(self, task: TauTask) -> dict[str, JSON]:
        criteria = task["row"].get("evaluation_criteria") or {}
        keys = ("name", "arguments", "requestor")
        actions = [
            {key: action[key] for key in keys if key in action}
            for action in criteria.get("actions") or ()
        ]
        said = list(criteria.get("communicate_info") or ())
        if _is_judged(task["row"]):  # statements about what the agent does: here it says them
            said += criteria["nl_assertions"]
        return {"actions": actions, "outputs": said}

    def mutants(self, task: TauTask) -> Iterator[Submission]:
        """Where a judge decides, also the gold actions without a word."""
        if _is_judged(task["row"]):
            yield submission({**self._gold_content(task), "outputs": []})
        yield from super().mutants(task)

    def nothing_is_right(self, task: TauTask) -> bool:
        from chimera.eval.benchmarks._tau_bench.rewards import basis_of, gold_world, replay

        row, domain = task["row"], self._domain()
        criteria = row.get("evaluation_criteria") or {}
        basis = basis_of(criteria)
        judged = _is_judged(row)
        spoken = "COMMUNICATE" in basis and criteria.get("communicate_info")
        if judged or spoken or basis & {"ACTION", "ENV_ASSERTION"}:
            return False
        history = (row.get("initial_state") or {}).get("message_history") or []
        variant = self.settings.retrieval
        before = replay(domain.world(row, variant), row, history).world
        after, _ = gold_world(lambda: domain.world(row, variant), row)
        return all(before.same_as(after))

    def missing(self, tasks: Sequence[TauTask] | None = None) -> Sequence[Lack]:
        judged = frozenset(task["id"] for task in tasks or () if _is_judged(task["row"]))
        return [*super().missing(tasks), *lacking_judge(self.settings.judge_model, judged)]

    def _changes_state(self, task: TauTask, name: str) -> bool:
        world = self._domain().world(task["row"], self.settings.retrieval)
        return world.has(name) and world.mutates(name)

    def _official(self, content: Any, path: Path) -> Iterable[Prediction] | None:
        if not (isinstance(content, dict) and isinstance(content.get("simulations"), list)):
            return None
        environment = (content.get("info") or {}).get("environment_info") or {}
        made_in = environment.get("domain_name")
        agent = ((content.get("info") or {}).get("agent_info") or {}).get("implementation")
        if agent == SOLO_AGENT:
            raise DatasetError(
                f"{path}: simulations of solo mode, in which no customer takes part: that is not "
                "supported"
            )
        if made_in not in (None, self.settings.domain):
            raise DatasetError(f"{path}: simulations of '{made_in}': --option domain={made_in}")
        tasks = content.get("tasks") or ()
        if not all(isinstance(task, Mapping) and "id" in task for task in tasks):
            raise DatasetError(f"{path}: tasks that are no objects with an id")
        embedded = {str(task["id"]): task for task in tasks}
        known = {str(row["id"]): row for row in self._domain().all_tasks()} if embedded else {}
        return [self._simulation(entry, embedded, known, path) for entry in content["simulations"]]

    def _simulation(
        self,
        entry: Mapping[str, Any],
        embedded: Mapping[str, Row],
        known: Mapping[str, Row],
        path: Path,
    ) -> Prediction:
        task_id = str(entry.get("task_id"))
        if not isinstance(entry.get("messages"), list):
            raise DatasetError(f"{path}: the simulation of task {task_id} has no messages")
        data: dict[str, JSON] = {
            "messages": entry["messages"],
            "termination_reason": str(entry.get("termination_reason") or "unexpected_error"),
        }
        official = entry.get("reward_info") or {}
        if official.get("reward") is not None:
            data["recorded_reward"] = official["reward"]  # what the file says, to compare with
        if official.get("action_checks"):
            data["quoted_actions"] = [check.get("action") for check in official["action_checks"]]
        row = embedded.get(task_id)
        if row is None:
            return Prediction(task_id, submission(data))
        data |= marks(row, known.get(task_id), _decisive)
        return Prediction(task_id, submission(data), self._made(task_id, row))


def _check_quoted(quoted: Any, row: Row) -> None:
    """Raise where a result file was graded against other gold actions than its task has."""
    if quoted is None:
        return
    criteria = row.get("evaluation_criteria") or {}
    sides = [_plain_actions(actions) for actions in (quoted, criteria.get("actions") or ())]
    if sides[0] != sides[1]:
        raise DatasetError(
            f"the result file quotes gold actions that its task does not have: {sides[0]:.200} "
            f"there, {sides[1]:.200} in the task"
        )


def _decisive(row: Row) -> str:
    """What a verdict follows from in a task, as text; what is null or by default is not there."""
    from chimera.eval.benchmarks._tau_bench.rewards import basis_of

    criteria, state = row.get("evaluation_criteria") or {}, row.get("initial_state") or {}
    actions, asserted = criteria.get("actions"), criteria.get("env_assertions")
    checks = [
        [each.get("env_type"), each.get("func_name"), each.get("arguments") or {}]
        for each in asserted or ()
    ]
    said = [
        [message.get("role"), message.get("content") or "", message.get("tool_calls") or []]
        for message in state.get("message_history") or ()
    ]
    parts = [
        sorted(map(str, basis_of(criteria))) if row.get("evaluation_criteria") else None,
        actions is None and asserted is None,
        _plain_actions(actions or ()),
        [action.get("compare_args") for action in actions or ()],
        checks,
        [each.get("assert_value", True) for each in asserted or ()],
        *(criteria.get(key) or [] for key in ("communicate_info", "nl_assertions")),
        *(state.get(key) or [] for key in ("initialization_data", "initialization_actions")),
        said,
    ]
    return json.dumps(_without_null(parts), sort_keys=True, default=str)


def _without_null(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_null(each) for k, each in value.items() if each is not None}
    return [_without_null(each) for each in value] if isinstance(value, list) else value


def _plain_actions(actions: Any) -> str:
    """Who is to call what with which arguments, as text."""
    return json.dumps(
        [
            [action.get("requestor") or "assistant", action.get("name"), action.get("arguments")]
            for action in actions
            if isinstance(action, Mapping)
        ],
        sort_keys=True,
        default=str,
    )


def _is_judged(row: Row) -> bool:
    """Whether a model must decide statements about the conversation."""
    from chimera.eval.benchmarks._tau_bench.rewards import basis_of

    criteria = row.get("evaluation_criteria") or {}
    return "NL_ASSERTION" in basis_of(criteria) and bool(criteria.get("nl_assertions"))


@dataclass(frozen=True, slots=True)
class TauOptions(ConversationOptions):
    domain: Literal["airline", "retail"] = option("airline", "whose customers are served")
    split: Literal["test", "train", "dev"] = option(
        "test", "a part of the tasks; airline has `test` alone"
    )
    user_model: str = option("openai/gpt-4o", "the customer's model; officially this one")
    max_steps: int = option(30, "what the agent may do at most, calls and messages", least=1)


class TauBench(Conversations):
    """The first tau-bench: airline and retail."""

    slug = "tau-bench"
    aliases = ("tau", "taubench")
    description = "An agent serves a simulated customer (the first version, to compare with)"
    needs = ("user model",)
    setup = (
        "Put one directory a domain into it (tasks_test.json, users.json, …, wiki.md), or use a "
        "clone of sierra-research/tau-bench: its Python task files are parsed, never run."
    )
    sources = (
        Item(
            "tau_bench/envs",
            RepositoryPart(
                "sierra-research/tau-bench",
                "59a200c6d575d595120f1cb70fea53cef0632f6b",
                "tau_bench/envs",
            ),
            sha256="b2e6ab0f097dc7b3725dcbfb3836fd984ee97aaf474ad80c60a240f5e7240776",
            size=8_440_712,
        ),
    )
    licence = "MIT"

    option_type = TauOptions
    settings: TauOptions

    @property
    def user_model(self) -> str:
        return self.settings.user_model

    def _domain_at(self, place: Path) -> LegacyDomain:
        from chimera.eval.benchmarks._tau_bench.domains import LegacyDomain

        return LegacyDomain.at(place, self.settings.domain)

    def _domain(self) -> LegacyDomain:
        return self._domain_at(self.dataset().place())

    def graded_as(self) -> str:
        return "tau-bench 59a200c reward"

    def rows(self) -> Iterator[Row]:
        for index, row in enumerate(self._domain().tasks(self.settings.split)):
            yield {"index": index, **row}

    def task(self, row: Row) -> TauTask:
        return self._made(str(row["index"]), {"actions": row["actions"], **row})

    def open_environment(self, task: TauTask, start: StartEnvironment) -> Environment:
        from chimera.eval.benchmarks._tau_bench.environment import (
            Conversation,
            Rules,
            TauEnvironment,
        )
        from chimera.eval.benchmarks._tau_bench.legacy import TERMINATING

        domain = self._domain()
        toolkit = domain.toolkit()
        user = _LazyUser(self.settings.user_model, None, task["row"].get("instruction") or "", None)
        rules = Rules(self.settings.max_steps, None, TERMINATING, agent_steps_only=True)
        talk = Conversation(toolkit.respond, user, rules)
        return TauEnvironment(talk, toolkit.visible(), domain.policy())

    def _reward(self, task: TauTask, content: Mapping[str, Any]) -> Reward:
        from chimera.eval.benchmarks._tau_bench.submissions import LegacyGrader

        return LegacyGrader(task["row"], self._domain().toolkit).grade(content)

    def _gold_content(self, task: TauTask) -> dict[str, JSON]:
        actions = [
            {"name": a["name"], "arguments": a.get("kwargs", a.get("arguments")) or {}}
            for a in task["row"]["actions"]
        ]
        return {"actions": actions, "outputs": list(task["row"].get("outputs") or ())}

    def nothing_is_right(self, task: TauTask) -> bool:
        from chimera.eval.benchmarks._tau_bench.submissions import LegacyGrader

        make = self._domain().toolkit
        gold = LegacyGrader(task["row"], make).gold_toolkit()
        return not task["row"].get("outputs") and make().data_hash_equals(gold)

    def _changes_state(self, task: TauTask, name: str) -> bool:
        known = self._domain().toolkit().tools.get(name)
        return known is not None and known.mutates

    def _official(self, content: Any, path: Path) -> Iterable[Prediction] | None:
        from chimera.eval.benchmarks._tau_bench.submissions import legacy_simulation

        episodes = isinstance(content, list) and content and all("traj" in e for e in content)
        if not episodes:
            return None
        known = {task["id"]: task["row"] for task in self.tasks()}
        found = []
        for entry in content:
            task_id = str(entry["task_id"])
            row = (entry.get("info") or {}).get("task")
            task = self._made(task_id, row) if isinstance(row, dict) and "actions" in row else None
            try:
                data = legacy_simulation(entry["traj"] or ())
            except (KeyError, TypeError, ValueError) as error:
                raise DatasetError(f"{path}: episode of task {task_id}: {error}") from None
            if task is not None:
                data |= marks(task["row"], known.get(task_id), _legacy_decisive)
            found.append(Prediction(task_id, submission(data), task))
        return found


def _legacy_decisive(row: Row) -> str:
    """What a verdict follows from in a task of the first tau-bench, as text."""
    actions = [
        [action.get("name"), action.get("kwargs", action.get("arguments")) or {}]
        for action in row["actions"]
    ]
    return json.dumps([actions, list(row.get("outputs") or ())], sort_keys=True, default=str)


class _LazyUser:
    """The simulated customer; its model is only asked for when the agent speaks to it.

    `tools` is None where the domain gives customers none; a task may leave them none of some."""

    def __init__(
        self, model: str, domain: Domain | None, scenario: Any, tools: list[Any] | None
    ) -> None:
        self._model, self._domain, self._scenario, self._tools = model, domain, scenario, tools
        self._user: Any = None

    @property
    def empty_turns(self) -> int:
        return int(getattr(self._user, "empty_turns", 0))

    def next(self, messages: Any) -> Any:
        if self._user is None:
            self._user = self._create()
        return self._user.next(messages)

    def _create(self) -> Any:
        from chimera.eval.benchmarks._tau_bench.users import (
            ModelUser,
            SchemaTool,
            legacy_user_prompt,
            user_prompt,
        )
        from chimera.providers import create_provider

        if self._domain is None:
            prompt = legacy_user_prompt(self._scenario)
        else:
            with_tools = self._tools is not None
            guidelines = self._domain.guidelines(with_tools=with_tools)
            prompt = user_prompt(guidelines, self._scenario, with_tools=with_tools)
        tools = [SchemaTool.of(known) for known in self._tools or ()]
        return ModelUser(create_provider(self._model), prompt, tools)


def main(arguments: list[str] | None = None) -> int:
    """A few tasks and a table; runs are stored and resumed as by `chimera eval`."""
    from chimera.eval.door import main_for

    return main_for("tau-bench", "tau2-bench", arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
