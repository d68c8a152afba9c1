"""The environment an agent meets: a domain's tools, and a customer who answers what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from chimera.environments.base import Environment
from chimera.errors import LimitReached
from chimera.eval.benchmarks._tau_bench.kernel import Call, Reply, ToolFunction
from chimera.eval.benchmarks._tau_bench.users import User
from chimera.tools.base import Tool
from chimera.types import JSON, ToolResult

GREETING = "Hi! How can I help you today?"
Termination = Literal["user_stop", "agent_stop", "max_steps", "too_many_errors"]


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits of a conversation, and calls that end it.

    tau2 counts every message and 10 failing calls; the first tau-bench counts only what the agent
    does, and looks after the user has answered.
    """

    max_steps: int = 200
    max_errors: int | None = 10
    terminating: frozenset[str] = frozenset()
    agent_steps_only: bool = False


def recorded(call: Call, reply: Reply) -> list[dict[str, JSON]]:
    """A call and its result as two messages of a conversation."""
    side = call.requestor
    made = {"id": call.id, "name": call.name, "arguments": dict(call.arguments), "requestor": side}
    answer = {"role": "tool", "id": call.id, "content": reply.content}
    return [
        {"role": side, "content": None, "tool_calls": [made]},
        {**answer, "requestor": side, "error": reply.error},
    ]


@dataclass(slots=True)
class Conversation:
    """A dialogue by the official turn rules, recorded in the form of the official result files.

    A step is one message: of the agent, of the user, or the results of calls. Limits are checked
    when no call is waiting for its result.
    """

    respond: Callable[[Call], Reply]
    user: User
    rules: Rules
    messages: list[dict[str, JSON]] = field(default_factory=list)
    steps: int = 0
    errors: int = 0
    termination: Termination | None = None

    def begin(self) -> str | None:
        """Start with the fixed greeting; what the user answers, or None when it is over."""
        self.messages.append({"role": "assistant", "content": GREETING})
        return self._user_turn()

    def say(self, text: str) -> str | None:
        """The agent tells the user something; what the user answers, or None when it is over."""
        self._check_over()
        self._add({"role": "assistant", "content": text})
        if not self.rules.agent_steps_only:
            self._check_limits()
        return None if self.termination else self._user_turn()

    def call(self, name: str, arguments: Mapping[str, JSON]) -> Reply:
        """The agent calls a tool."""
        self._check_over()
        reply = self._run(Call(name, arguments, "assistant", self._call_id()))
        if name in self.rules.terminating:
            self.termination = "agent_stop"
        else:
            self._check_limits()
        return reply

    def _user_turn(self) -> str | None:
        while True:
            turn = self.user.next(self.messages)
            if not turn.calls:
                self._add({"role": "user", "content": turn.text})
                if turn.stops:
                    self.termination = "user_stop"
                if not (turn.stops and self.rules.agent_steps_only):
                    self._check_limits()
                return None if self.termination else turn.text
            for call in turn.calls:
                self._run(Call(call.name, call.arguments or {}, "user", self._call_id()))
            self._check_limits()
            if self.termination:
                return None

    def _run(self, call: Call) -> Reply:
        reply = self.respond(call)
        for message in recorded(call, reply):
            self._add(message)
        self.errors += reply.error
        return reply

    def _add(self, message: dict[str, JSON]) -> None:
        self.messages.append(message)
        self.steps += not self.rules.agent_steps_only or message["role"] == "assistant"

    def _call_id(self) -> str:
        return f"call_{len(self.messages)}"

    def _check_limits(self) -> None:
        if self.steps >= self.rules.max_steps:
            self.termination = "max_steps"
        most = self.rules.max_errors
        if most is not None and self.errors >= most:
            self.termination = "too_many_errors"

    def _check_over(self) -> None:
        if self.termination is not None:
            raise LimitReached("steps", f"the conversation is over: {self.termination}")


@dataclass(slots=True)
class DialogueTool:
    """A domain's tool in the normal tool protocol: what it returns is the text of the result."""

    name: str
    description: str
    parameters: Mapping[str, JSON]
    checks_arguments: bool = True

    def execute(self, arguments: Mapping[str, JSON], env: Environment) -> ToolResult:
        if not isinstance(env, TauEnvironment):
            raise TypeError(f"'{self.name}' belongs to a tau environment")
        reply = env.conversation.call(self.name, arguments)
        return ToolResult(reply.content, metadata={"failed": reply.error})


class TauEnvironment(Environment):
    """A customer on the line. There are no files and no commands, only the domain's tools.

    The conversation is recorded as the official orchestrator does. An agent that opens with words
    has them replaced by the fixed greeting; `reply` then gives what the customer answers.
    """

    name = "tau"
    capabilities = frozenset({"dialogue"})

    def __init__(
        self, conversation: Conversation, functions: Sequence[ToolFunction], system_prompt: str
    ) -> None:
        self.conversation = conversation
        self.system_prompt = system_prompt
        self._tools = [DialogueTool(f.name, f.description, f.parameters) for f in functions]

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def reply(self, text: str) -> str | None:
        if not self.conversation.messages:
            return self.conversation.begin()
        return self.conversation.say(text)
