"""tau-bench and tau2-bench: an agent serves a simulated customer; the state it leaves is graded.

`python -m chimera.eval.benchmarks.tau_bench --domain airline --limit 3 --model …` runs a few tasks
and prints a table.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chimera.cache import file_digest
from chimera.environments.base import Environment
from chimera.errors import DatasetError
from chimera.eval.benchmark import StartEnvironment
from chimera.eval.benchmarks._tau_bench.benchmark import Conversations, TauTask, submission
from chimera.eval.data.rows import Row
from chimera.eval.values import Prediction
from chimera.types import JSON

if TYPE_CHECKING:
    from chimera.eval.benchmarks._tau_bench.domains import Domain, LegacyDomain
    from chimera.eval.benchmarks._tau_bench.rewards import Judge, Reward

AGENT_RULES = """\
<instructions>
You are a customer service agent and help the user according to the policy below.
In each turn you either send a message to the user or make a tool call, never both.
Be helpful and always keep to the policy.
</instructions>
<policy>
{policy}
</policy>"""
#: The official simulations' own models.
USER_MODEL = "openai/gpt-4.1-2025-04-14"
LEGACY_USER_MODEL = "openai/gpt-4o"
LEGACY_MAX_STEPS = 30


class Tau2Bench(Conversations):
    """tau2-bench (tau3): airline, retail, telecom, banking_knowledge and mock."""

    slug = "tau2-bench"
    setup = (
        "Put one directory a domain into it (tasks.json, db.json, policy.md, …; data/tau2/domains "
        "of sierra-research/tau2-bench), or use a clone of that repository."
    )

    def __init__(
        self,
        dataset_path: str | Path | None = None,
        limit: int | None = None,
        domain: str = "airline",
        split: str | None = None,
        user_model: str = USER_MODEL,
        judge_model: str | None = None,
        max_steps: int = 200,
        retrieval: str = "bm25_grep",
        strict: bool = True,
    ) -> None:
        super().__init__(dataset_path, limit)
        from chimera.eval.benchmarks._tau_bench.domains import ALIASES

        self.domain = ALIASES.get(domain, domain)
        self.split, self.user_model, self.judge_model = split, user_model, judge_model
        self.max_steps, self.retrieval, self.strict = max_steps, retrieval, strict

    def options(self) -> dict[str, JSON]:
        own = {"judge_model": self.judge_model, "max_steps": self.max_steps, "strict": self.strict}
        return {**super().options(), **own, "retrieval": self.retrieval}

    def dataset_digest(self) -> str:
        return file_digest(self._domain().folder)

    def rows(self) -> Iterator[Row]:
        yield from self._domain().tasks(self.split)

    def task(self, row: Row) -> TauTask:
        return self._made(str(row["id"]), row)

    def _domain(self) -> Domain:
        from chimera.eval.benchmarks._tau_bench.domains import Domain

        return Domain.at(self.place(), self.domain)

    def open_environment(self, task: TauTask, start: StartEnvironment) -> Environment:
        from chimera.eval.benchmarks._tau_bench.environment import (
            Conversation,
            Rules,
            TauEnvironment,
        )
        from chimera.eval.benchmarks._tau_bench.rewards import replay

        domain, row = self._domain(), task["row"]
        history = (row.get("initial_state") or {}).get("message_history") or []
        world = replay(domain.world(row, self.retrieval), row, history).world
        offered = None if world.user is None else list(world.user.visible())
        if offered is not None and row.get("user_tools") is not None:
            offered = [known for known in offered if known.name in row["user_tools"]]
        user = _LazyUser(self.user_model, domain, row.get("user_scenario") or "", offered)
        talk = Conversation(world.respond, user, Rules(max_steps=self.max_steps))
        talk.messages = [dict(message) for message in history]
        policy = AGENT_RULES.format(policy=domain.policy(row, self.retrieval))
        if history:
            policy += f"\n<conversation_so_far>\n{json.dumps(history)}\n</conversation_so_far>"
        return TauEnvironment(talk, world.agent.visible(), policy)

    def _reward(self, task: TauTask, content: Mapping[str, Any]) -> Reward:
        from chimera.eval.benchmarks._tau_bench.submissions import Grader

        domain, row = self._domain(), task["row"]

        def make() -> Any:
            return domain.world(row, self.retrieval)

        return Grader(row, make, self._judge(), self.strict).grade(content)

    def _judge(self) -> Judge | None:
        if self.judge_model is None:
            return None
        from chimera.eval.benchmarks._tau_bench.judges import ModelJudge
        from chimera.providers import create_provider

        return ModelJudge(create_provider(self.judge_model))

    def _gold_content(self, task: TauTask) -> dict[str, JSON]:
        criteria = task["row"].get("evaluation_criteria") or {}
        keys = ("name", "arguments", "requestor")
        actions = [
            {key: action[key] for key in keys if key in action}
            for action in criteria.get("actions") or ()
        ]
        return {"actions": actions, "outputs": list(criteria.get("communicate_info") or ())}

    def nothing_is_right(self, task: TauTask) -> bool:
        from chimera.eval.benchmarks._tau_bench.rewards import basis_of, gold_world, replay

        row, domain = task["row"], self._domain()
        criteria = row.get("evaluation_criteria") or {}
        basis = basis_of(criteria)
        judged = "NL_ASSERTION" in basis and criteria.get("nl_assertions")
        spoken = "COMMUNICATE" in basis and criteria.get("communicate_info")
        if judged or spoken or basis & {"ACTION", "ENV_ASSERTION"}:
            return False
        history = (row.get("initial_state") or {}).get("message_history") or []
        before = replay(domain.world(row, self.retrieval), row, history).world
        after, _ = gold_world(lambda: domain.world(row, self.retrieval), row)
        return all(before.same_as(after))

    def _changes_state(self, task: TauTask, name: str) -> bool:
        world = self._domain().world(task["row"], self.retrieval)
        return world.has(name) and world.mutates(name)

    def _official(self, content: Any, path: Path) -> Iterable[Prediction] | None:
        if not (isinstance(content, dict) and isinstance(content.get("simulations"), list)):
            return None
        environment = (content.get("info") or {}).get("environment_info") or {}
        made_in = environment.get("domain_name")
        if made_in not in (None, self.domain):
            raise DatasetError(f"{path}: simulations of '{made_in}': --option domain={made_in}")
        embedded = {str(task["id"]): task for task in content.get("tasks") or ()}
        return [self._simulation(entry, embedded, path) for entry in content["simulations"]]

    def _simulation(
        self, entry: Mapping[str, Any], embedded: Mapping[str, Any], path: Path
    ) -> Prediction:
        task_id = str(entry.get("task_id"))
        if not isinstance(entry.get("messages"), list):
            raise DatasetError(f"{path}: the simulation of task {task_id} has no messages")
        data: dict[str, JSON] = {
            "messages": entry["messages"],
            "termination_reason": str(entry.get("termination_reason") or "unexpected_error"),
        }
        official = (entry.get("reward_info") or {}).get("reward")
        if official is not None:
            data["recorded_reward"] = official  # what the file says, to compare with
        row = embedded.get(task_id)
        task = None if row is None else self._made(task_id, row)
        return Prediction(task_id, submission(data), task)


class TauBench(Conversations):
    """The first tau-bench: airline and retail."""

    slug = "tau-bench"
    setup = (
        "Put one directory a domain into it (tasks_test.json, users.json, …, wiki.md), or use a "
        "clone of sierra-research/tau-bench: its Python task files are parsed, never run."
    )

    def __init__(
        self,
        dataset_path: str | Path | None = None,
        limit: int | None = None,
        domain: str = "airline",
        split: str = "test",
        user_model: str = LEGACY_USER_MODEL,
        max_steps: int = LEGACY_MAX_STEPS,
    ) -> None:
        super().__init__(dataset_path, limit)
        self.domain, self.split, self.user_model = domain, split, user_model
        self.max_steps = max_steps

    def options(self) -> dict[str, JSON]:
        return {**super().options(), "max_steps": self.max_steps}

    def dataset_digest(self) -> str:
        return file_digest(self._domain().folder)

    def rows(self) -> Iterator[Row]:
        for index, row in enumerate(self._domain().tasks(self.split or "test")):
            yield {"index": index, **row}

    def task(self, row: Row) -> TauTask:
        return self._made(str(row["index"]), {"actions": row["actions"], **row})

    def _domain(self) -> LegacyDomain:
        from chimera.eval.benchmarks._tau_bench.domains import LegacyDomain

        return LegacyDomain.at(self.place(), self.domain)

    def open_environment(self, task: TauTask, start: StartEnvironment) -> Environment:
        from chimera.eval.benchmarks._tau_bench.environment import (
            Conversation,
            Rules,
            TauEnvironment,
        )
        from chimera.eval.benchmarks._tau_bench.legacy import TERMINATING

        domain = self._domain()
        toolkit = domain.toolkit()
        user = _LazyUser(self.user_model, None, task["row"].get("instruction") or "", None)
        rules = Rules(self.max_steps, None, TERMINATING, agent_steps_only=True)
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
        found = []
        for entry in content:
            task_id = str(entry["task_id"])
            row = (entry.get("info") or {}).get("task")
            task = self._made(task_id, row) if isinstance(row, dict) and "actions" in row else None
            try:
                data = legacy_simulation(entry["traj"] or ())
            except (KeyError, TypeError, ValueError) as error:
                raise DatasetError(f"{path}: episode of task {task_id}: {error}") from None
            found.append(Prediction(task_id, submission(data), task))
        return found


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
