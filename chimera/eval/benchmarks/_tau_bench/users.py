"""The other side of the conversation: a model that plays the customer.

A user answers messages in turn. It sees the conversation from its own side: what the agent says are
its user messages, what it said itself are its assistant messages, and only its own tool calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Protocol

from chimera.errors import EnvironmentFault
from chimera.eval.benchmarks._tau_bench.kernel import ToolFunction
from chimera.providers.base import Provider
from chimera.tools.base import Tool
from chimera.types import JSON, Message, Response, ToolCall, ToolResult

STOP = "###STOP###"
TRANSFER = "###TRANSFER###"
OUT_OF_SCOPE = "###OUT-OF-SCOPE###"
#: How often a user model that said nothing at all is asked once more.
ATTEMPTS = 3

LEGACY_RULES = """\
You are the customer in a chat with a customer service agent.{situation}
How to behave:
- Write one short message at a time and wait for the answer.
- Tell only what the current step needs; do not give away your whole situation at once.
- Stay with your situation. What it does not say, you do not know or remember; never invent it.
- When everything you wanted is settled, write '###STOP###' alone, without anything else, to end.
- Use your own words instead of repeating the description of your situation.
- Keep the talk natural and in character."""

GUIDELINES = """\
You play a customer who contacts customer service. Follow your scenario strictly, write one message
at a time, reveal facts only when they are needed, and never invent what the scenario does not say.
{tools}When your goal is reached, write '###STOP###'. When you are handed to someone else, write
'###TRANSFER###'. When the scenario does not tell you how to go on, write '###OUT-OF-SCOPE###'."""
GUIDELINES_TOOLS = """\
You have tools to act on your side. In a turn you either write a message or call a tool, never both.
Call a tool only when the agent asks for it, and report only what it really showed.
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a user does next: says something, or calls its tools."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()

    @property
    def stops(self) -> bool:
        if self.calls:
            return False
        return any(sign in self.text for sign in (STOP, TRANSFER, OUT_OF_SCOPE))


class User(Protocol):
    def next(self, messages: Sequence[Mapping[str, Any]]) -> Turn:
        """The user's turn, given the whole conversation so far."""


@dataclass(slots=True)
class SchemaTool:
    """A tool that a model is only shown; who shows it runs it."""

    name: str
    description: str
    parameters: Mapping[str, JSON]

    @classmethod
    def of(cls, known: ToolFunction) -> SchemaTool:
        return cls(known.name, known.description, known.parameters)

    def execute(self, arguments: Mapping[str, JSON], env: object) -> ToolResult:
        raise EnvironmentFault(f"'{self.name}' is run by the conversation, not by itself")


@dataclass(slots=True)
class ModelUser:
    """A model with the scenario as its system prompt, at temperature 0."""

    provider: Provider
    system_prompt: str
    tools: Sequence[Tool] = ()
    temperature: float | None = 0.0
    seed: int | None = None
    max_tokens: int | None = 1024  # no customer writes more; a small model may not stop by itself
    empty_turns: int = 0  # how often the model said nothing

    def next(self, messages: Sequence[Mapping[str, Any]]) -> Turn:
        seen = [Message.system(self.system_prompt), *flipped(messages)]
        for _ in range(ATTEMPTS):
            turn = _turn(self._complete(seen))
            if turn.calls or turn.text.strip():
                return turn
            self.empty_turns += 1
        raise EnvironmentFault(f"the simulated user said nothing in {ATTEMPTS} attempts")

    def _complete(self, seen: Sequence[Message]) -> Response:
        return self.provider.complete(
            seen,
            tools=self.tools,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            seed=self.seed,
        )


def _turn(response: Response) -> Turn:
    calls = tuple(call for call in response.tool_calls if call.arguments is not None)
    return Turn("" if calls else response.content, calls)


def flipped(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The conversation as the user's model sees it."""
    seen: list[Message] = []
    for message in messages:
        role, content = message["role"], message.get("content") or ""
        calls = message.get("tool_calls") or ()
        if role == "user":
            own = tuple(ToolCall(c["id"], c["name"], c["arguments"]) for c in calls)
            seen.append(Message.assistant(content, own))
        elif role == "assistant" and not calls:
            seen.append(Message.user(content))
        elif role == "tool" and message.get("requestor") == "user":
            seen.append(Message.tool(content, message["id"]))
    return seen


def scenario_text(scenario: Any) -> str:
    """A tau2 user scenario (persona and instructions) as the text the user's model reads."""
    if isinstance(scenario, str):
        return scenario
    persona, instructions = scenario.get("persona"), scenario.get("instructions") or ""
    if not isinstance(instructions, str):
        instructions = _instructions(instructions)
    lines = [] if persona is None else ["Persona:", indent(str(persona), "\t")]
    return "\n".join([*lines, "Instructions:", indent(instructions, "\t")])


def _instructions(parts: Mapping[str, Any]) -> str:
    lines = [f"Domain: {parts.get('domain')}"]
    for key in ("reason_for_call", "known_info", "unknown_info", "task_instructions"):
        if parts.get(key) is not None:
            label = key.replace("_", " ").capitalize()
            lines.append(f"{label}:\n{indent(str(parts[key]), chr(9))}")
    return "\n".join(lines)


def user_prompt(guidelines: str | None, scenario: Any, *, with_tools: bool) -> str:
    """The system prompt of a tau2 user: the data set's guidelines (or ours) and the scenario."""
    own = GUIDELINES.format(tools=GUIDELINES_TOOLS if with_tools else "")
    rules = (guidelines or own).replace("<PERSONA_GUIDELINES>", "")
    return f"{rules}\n\n<scenario>\n{scenario_text(scenario)}\n</scenario>"


def legacy_user_prompt(instruction: str) -> str:
    return LEGACY_RULES.format(
        situation=f"\n\nYour situation: {instruction}\n" if instruction else ""
    )
