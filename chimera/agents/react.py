"""`react`: the model works with tools in the task's environment until it submits or stops."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_type_hints

from chimera.agents import text_protocol
from chimera.agents.base import BaseAgent, at_step
from chimera.agents.compaction import SummaryCompaction, estimated_tokens
from chimera.agents.toolbox import Toolbox
from chimera.environments.base import Environment
from chimera.errors import LimitReached, UsageError
from chimera.providers.base import CallFailed, ContextOverflow, Provider
from chimera.providers.meter import current_meter, steps_allowed
from chimera.tools.base import Tool
from chimera.types import JSON, AgentResult, Message, Response, Step, ToolCall, Usage

DEFAULT_TOOLS = ("bash", "view", "edit", "ipython", "submit")
LOOP_OPTIONS = (
    "condense_every_n_steps",
    "context_tokens",
    "max_consecutive_errors",
    "summarize",
    "tool_output_chars",
)
COMPACTION_OPTIONS = ("keep_first", "keep_last", "summary_max_tokens")
NO_PICTURE = "\n[a picture, left out: this model takes none]"
NOT_KEPT = "\n[a picture, not kept: there were too many]"
#: How much of pictures a stored trajectory holds; the model sees the later ones all the same.
KEPT_PICTURE_BYTES = 16 * 1024**2
DEFAULT_PROMPT = """\
You solve tasks by working in an environment with the tools you are given.
Look before you change things, make one step at a time, and check your work before you finish.
When the task is done, call submit; if the task asks for an answer, pass it to submit verbatim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """How the loop treats a long conversation and a model that stumbles."""

    compaction: SummaryCompaction = SummaryCompaction()
    condense_every_n_steps: int = 0  # 0: only when the conversation becomes too long
    context_tokens: int | None = None  # condense when the conversation is estimated longer
    summarize: bool = True  # the agent's own model writes the summary where no other is to
    tool_output_chars: int = 20_000
    max_consecutive_errors: int = 10  # calls in a row that name no tool or have bad arguments

    def identity(self) -> dict[str, JSON]:
        return {
            "compaction": self.compaction.identity(),
            "condense_every_n_steps": self.condense_every_n_steps,
            "context_tokens": self.context_tokens,
            "summarize": self.summarize,
            "tool_output_chars": self.tool_output_chars,
            "max_consecutive_errors": self.max_consecutive_errors,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactAgent(BaseAgent):
    """A loop of model calls and tool calls, as plain settings; see `presets` for named ones.

    `tools` are names from the toolbox or tools themselves; those of the environment are added.
    They are used only where the environment can run commands.
    """

    provider: Provider
    name: str = "react"
    tools: Sequence[str | Tool] = DEFAULT_TOOLS
    system_prompt: str = DEFAULT_PROMPT
    max_steps: int = 100
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    confined_only: bool = False
    mcp: Sequence[str] = ()  # commands of MCP servers whose tools are added
    screenshots: bool = False  # the model sees pictures of a browser, not the page's text alone
    loop: LoopConfig = LoopConfig()

    needs_environment = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", tuple(self.tools))
        object.__setattr__(self, "mcp", tuple(self.mcp))
        if self.mcp:
            from chimera.tools.mcp import check_commands

            check_commands(self.mcp)
        if self.max_steps < 1:
            raise UsageError(f"agent '{self.name}' needs at least one step, not {self.max_steps}")

    def identity(self) -> dict[str, JSON]:
        """Everything of this agent that can change an outcome."""
        return {
            "agent": self.name,
            **self.provider.identity(),
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "max_steps": self.max_steps,
            "tools": [tool if isinstance(tool, str) else tool.name for tool in self.tools],
            "prompts": hashlib.sha256(self.system_prompt.encode()).hexdigest(),
            "loop": self.loop.identity(),
            **({"mcp": list(self.mcp)} if self.mcp else {}),
            **({"screenshots": True} if self.screenshots else {}),
            **({} if text_protocol.calls_tools(self.provider) else {"tools_as": "text"}),
        }

    def notes(self) -> Sequence[str]:
        if text_protocol.calls_tools(self.provider):
            return ()
        name = self.provider.name
        return (f"{name} calls no tools: they are offered as text, a fenced block is a call",)

    def providers(self) -> Sequence[Provider]:
        summarizer = self.loop.compaction.provider
        return (self.provider,) if summarizer is None else (self.provider, summarizer)

    def run(self, prompt: str, env: Environment) -> AgentResult:
        if self.confined_only and "confined" not in env.capabilities:
            raise UsageError(
                f"agent '{self.name}' works in confined environments only, and '{env.name}' is none"
                "\n  Choose --environment bubblewrap or docker."
            )
        toolbox = Toolbox(
            self.tools,
            env,
            self.loop.tool_output_chars,
            mcp=self.mcp,
            screenshots=self.screenshots,
        )
        with toolbox:
            return _Run(self, env, toolbox).run(prompt)


@dataclass(slots=True)
class _Run:
    """One conversation: what the model sees (`messages`) and what is kept (`trajectory`)."""

    agent: ReactAgent
    env: Environment
    toolbox: Toolbox
    messages: list[Message] = field(default_factory=list)
    trajectory: list[Step] = field(default_factory=list)
    output: str = ""
    usage: Usage = Usage()
    cost: float | None = 0.0
    steps: int = 0
    errors_in_a_row: int = 0
    picture_bytes: int = 0

    def run(self, prompt: str) -> AgentResult:
        parts = (self.agent.system_prompt, self.env.system_prompt)
        if not self.toolbox.own:
            parts = ("", self.env.system_prompt)  # nothing to work with: only the task's own words
        system = "\n\n".join(part for part in parts if part)
        if system:
            self._add(Message.system(system))
        self._add(Message.user(prompt))
        meter = current_meter()
        if meter is not None:
            meter.trajectory = self.trajectory
        try:
            stop_reason = self._loop()
        except LimitReached as limit:
            stop_reason = f"limit:{limit.limit}"
        return AgentResult(
            self.output,
            usage=self.usage,
            cost=self.cost,
            steps=self.steps,
            trajectory=tuple(self.trajectory),
            stop_reason=stop_reason,
        )

    def _loop(self) -> str:
        for _ in range(steps_allowed(self.agent.max_steps)):
            with at_step(self.steps + 1, self.cost):
                stop_reason = self._step()
            if stop_reason is not None:
                return stop_reason
        return "limit:steps"

    def _step(self) -> str | None:
        """One call of the model and what follows from it; the reason to stop, if there is one."""
        self._condense_when_due()
        response = self._ask()
        self.steps += 1
        if response.content:
            self.output = response.content
        if response.tool_calls:
            if self._answer_calls(response.tool_calls):
                return "submitted"
            stuck = self.errors_in_a_row >= self.agent.loop.max_consecutive_errors
            return "stuck" if stuck else None
        reply = self.env.reply(response.content)
        if reply is None:
            return "length" if response.stop_reason == "length" else "done"
        self._add(Message.user(reply))
        return None

    def _ask(self) -> Response:
        """The model's next message; a conversation too long for it is condensed first."""
        agent = self.agent
        while True:
            try:
                response = text_protocol.complete(
                    agent.provider,
                    self.messages,
                    tools=self.toolbox.tools,
                    temperature=agent.temperature,
                    max_tokens=agent.max_tokens,
                    seed=agent.seed,
                )
                break
            except ContextOverflow as error:
                if self.steps == 0:
                    raise  # the task itself does not fit: a fault of the set-up, not of the work
                if not self._condense(estimated_tokens(self.messages) // 2):
                    raise LimitReached("context", str(error)) from error
            except CallFailed as error:
                if error.retryable or not self._leave_out_pictures():
                    raise  # else the model may be one that takes no pictures
        self.usage = self.usage + response.usage
        known = self.cost is not None and response.cost is not None
        self.cost = (self.cost or 0.0) + (response.cost or 0.0) if known else None
        message = response.message()
        self.messages.append(message)
        self.trajectory.append(
            Step(
                message,
                usage=response.usage,
                cost=response.cost,
                timestamp=time.time(),
                metadata={"stop_reason": response.stop_reason, "model": response.model},
            )
        )
        return response

    def _answer_calls(self, calls: Sequence[ToolCall]) -> bool:
        """Run the calls in order and tell the model what came of each; True once it submitted."""
        for call, answer in zip(calls, self.toolbox.call_all(calls), strict=False):
            self.errors_in_a_row = 0 if answer.understood else self.errors_in_a_row + 1
            self._add(Message.tool(answer.text, call.id, answer.images), answer.metadata)
            if answer.submitted is not None:
                self.output = answer.submitted or self.output
                return True
        return False

    def _leave_out_pictures(self) -> bool:
        """Take the pictures out of the conversation; False when there are none."""
        found = any(message.images for message in self.messages)
        self.messages = [
            _without_pictures(message, NO_PICTURE) if message.images else message
            for message in self.messages
        ]
        return found

    def _condense_when_due(self) -> None:
        loop = self.agent.loop
        tokens = estimated_tokens(self.messages) if loop.context_tokens else 0
        every = loop.condense_every_n_steps
        if loop.context_tokens and tokens > loop.context_tokens:
            self._condense(loop.context_tokens)
        elif every and self.steps and self.steps % every == 0:
            self._condense(loop.context_tokens or estimated_tokens(self.messages))

    def _condense(self, budget: int) -> bool:
        """Make the conversation shorter; False when that cannot be done."""
        before = estimated_tokens(self.messages)
        shorter = self._compaction().compact(self.messages, budget)
        after = estimated_tokens(shorter)
        if after >= before:
            return False
        self.messages = shorter
        summary = next((m for m in shorter if m.content.startswith("[Compacted")), None)
        if summary is not None:
            metadata = {"condensed": {"tokens_before": before, "tokens_after": after}}
            self.trajectory.append(Step(summary, timestamp=time.time(), metadata=metadata))
        return True

    def _compaction(self) -> SummaryCompaction:
        compaction, loop = self.agent.loop.compaction, self.agent.loop
        if compaction.provider is None and loop.summarize:
            return replace(compaction, provider=self.agent.provider)
        return compaction

    def _add(self, message: Message, metadata: Mapping[str, JSON] | None = None) -> None:
        self.messages.append(message)
        self.picture_bytes += sum(len(image.data) for image in message.images)
        if message.images and self.picture_bytes > KEPT_PICTURE_BYTES:
            message = _without_pictures(message, NOT_KEPT)
        self.trajectory.append(Step(message, timestamp=time.time(), metadata=metadata or {}))


def _without_pictures(message: Message, why: str) -> Message:
    return replace(message, content=message.content + why, images=())


def loop_with(
    loop: LoopConfig | None, options: dict[str, str], summarizer: Provider | None = None
) -> LoopConfig:
    """`loop` with the options that are its own or its condensation's, which are taken out, and the
    model that is to write its summaries."""
    from chimera.plugins import convert

    def taken(cls: type, names: Sequence[str]) -> dict[str, JSON]:
        hints = get_type_hints(cls)
        return {key: convert(options.pop(key), hints[key], key) for key in names if key in options}

    loop = loop or LoopConfig()
    compaction = replace(loop.compaction, **taken(SummaryCompaction, COMPACTION_OPTIONS))
    if summarizer is not None:
        compaction = replace(compaction, provider=summarizer)
    return replace(loop, compaction=compaction, **taken(LoopConfig, LOOP_OPTIONS))
