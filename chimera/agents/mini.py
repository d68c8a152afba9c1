"""`mini`: mini-swe-agent's bash-only protocol in our loop, for results that stand beside its board.

Taken over: one fenced command a reply, each in a shell of its own, sixty seconds a command, 10,000
characters of output, 250 steps, three US dollars, three unreadable replies in a row, and the word
that hands in. The prompts say the same in our own words; `--agent mini-swe-agent` is the original.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from chimera.agents.base import BaseAgent, at_step
from chimera.environments.base import Environment, Machine, machine
from chimera.errors import LimitReached
from chimera.providers.base import ContextOverflow, Provider
from chimera.providers.meter import current_meter, steps_allowed
from chimera.types import JSON, AgentResult, CommandResult, Message, Response, Step, Usage

END_WORD = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
FENCE = "mswea_bash_command"
COMMAND_SECONDS = 60.0
SHOWN_CHARACTERS = 10_000
OUTPUT_BYTES = 1024**2
#: So that no program waits for a key or draws a progress bar.
VARIABLES = {
    "PAGER": "cat",
    "MANPAGER": "cat",
    "LESS": "-R",
    "PIP_PROGRESS_BAR": "off",
    "TQDM_DISABLE": "1",
}

SYSTEM = f"""\
You solve programming tasks by working with a shell, one command after the other.
Every reply has a part that begins with THOUGHT, in which you reason, and then exactly one code \
block with one command (several may be joined by && or ||):

THOUGHT: what you think and why you run this

```{FENCE}
the command
```

A reply without such a block, or with more than one, is rejected."""

TASK = f"""\
<task>
{{task}}
</task>

Work on it step by step: you write one command, it is run, you see what it printed, you go on.

- Each command runs in a new shell in the working directory: `cd` and variables do not last. Join \
what belongs together with &&, or keep it in files.
- A command has {COMMAND_SECONDS:.0f} seconds and nobody to answer questions: no editors, no \
interactive programs, always flags such as -y.
- Look around first. Where something is to be fixed, reproduce it, change the source (not the \
tests, not the configuration), and check that it is solved, edge cases too.
- When you are done, hand in with a command that prints {END_WORD} as the first line and, where \
the task asks for an answer or a patch, that answer after it, and nothing else:

```{FENCE}
echo {END_WORD} && cat patch.txt
```

Prepare and check what you hand in with commands before; after this one nothing more can be done. \
It counts only when the command succeeds."""

WRONG_FORM = f"""\
Your reply has {{count}} code blocks of the form below, and must have exactly one.

THOUGHT: what you think

```{FENCE}
the command
```

To hand in, follow what the first message says."""
CUT_OFF = "Your reply was cut off at the limit of its length. Be brief, and give one command."

_BLOCK = re.compile(rf"```{FENCE}\s*\n(.*?)\n```", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniAgent(BaseAgent):
    """The loop; its own limits end it as ours do, and what there is then is graded."""

    provider: Provider
    max_steps: int = 250
    cost_limit: float = 3.0
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    max_unreadable: int = 3

    name = "mini"
    needs_environment = True

    def identity(self) -> dict[str, JSON]:
        """Everything of this agent that can change an outcome."""
        return {
            "agent": self.name,
            **self.provider.identity(),
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "max_steps": self.max_steps,
            "cost_limit": self.cost_limit,
            "max_unreadable": self.max_unreadable,
            "prompts": hashlib.sha256((SYSTEM + TASK + WRONG_FORM).encode()).hexdigest(),
        }

    def providers(self) -> Sequence[Provider]:
        return (self.provider,)

    def run(self, prompt: str, env: Environment) -> AgentResult:
        return _Run(self, machine(env)).run(prompt)


@dataclass(slots=True)
class _Run:
    """One conversation."""

    agent: MiniAgent
    env: Machine
    messages: list[Message] = field(default_factory=list)
    trajectory: list[Step] = field(default_factory=list)
    output: str = ""
    usage: Usage = Usage()
    cost: float | None = 0.0
    steps: int = 0
    unreadable: int = 0

    def run(self, prompt: str) -> AgentResult:
        self._tell(Message.system("\n\n".join(filter(None, (SYSTEM, self.env.system_prompt)))))
        self._tell(Message.user(TASK.format(task=prompt)))
        meter = current_meter()
        if meter is not None:
            meter.trajectory = self.trajectory
        try:
            stop_reason = self._loop()
        except LimitReached as limit:
            stop_reason = f"limit:{limit.limit}"
        except ContextOverflow:
            if self.steps == 0:
                raise  # the task itself does not fit
            stop_reason = "limit:context"
        return AgentResult(
            self.output, self.usage, self.cost, self.steps, tuple(self.trajectory), stop_reason
        )

    def _loop(self) -> str:
        for _ in range(steps_allowed(self.agent.max_steps)):
            if (self.cost or 0.0) >= self.agent.cost_limit > 0:
                return "limit:cost"
            with at_step(self.steps + 1, self.cost):
                stop_reason = self._step()
            if stop_reason is not None:
                return stop_reason
        return "limit:steps"

    def _step(self) -> str | None:
        """One reply and its command; the reason to stop, if there is one."""
        response = self._ask()
        commands = _BLOCK.findall(response.content)
        if len(commands) != 1:
            self.unreadable += 1
            cut = response.stop_reason == "length"
            wrong = WRONG_FORM.replace("{count}", str(len(commands)))
            self._tell(Message.user(CUT_OFF if cut else wrong))
            return "stuck" if self.unreadable >= self.agent.max_unreadable else None
        self.unreadable = 0
        result = self._execute(commands[0].strip())
        handed_in = submission(result)
        if handed_in is not None:
            self.output = handed_in
            return "submitted"
        self._tell(Message.user(observation(result)))
        return None

    def _ask(self) -> Response:
        agent = self.agent
        response = agent.provider.complete(
            self.messages,
            temperature=agent.temperature,
            max_tokens=agent.max_tokens,
            seed=agent.seed,
        )
        self.steps += 1
        self.usage = self.usage + response.usage
        known = self.cost is not None and response.cost is not None
        self.cost = (self.cost or 0.0) + (response.cost or 0.0) if known else None
        self._tell(response.message(), response)
        return response

    def _execute(self, command: str) -> CommandResult:
        return self.env.run_command(
            ["bash", "-c", f"exec 2>&1\n{command}"],
            timeout=COMMAND_SECONDS,
            variables=VARIABLES,
            output_bytes=OUTPUT_BYTES,
        )

    def _tell(self, message: Message, response: Response | None = None) -> None:
        self.messages.append(message)
        usage, cost = (response.usage, response.cost) if response else (Usage(), None)
        metadata = (
            {"stop_reason": response.stop_reason, "model": response.model} if response else {}
        )
        self.trajectory.append(Step(message, usage, cost, time.time(), metadata))


def submission(result: CommandResult) -> str | None:
    """What a command handed in: all after the line with the end word, if it succeeded."""
    first, _, rest = result.output.lstrip().partition("\n")
    return rest if result.success and first.strip() == END_WORD else None


def observation(result: CommandResult) -> str:
    """What the model is told of a command."""
    text = result.output
    lines = []
    if result.timed_out:
        lines.append(
            f"<exception>The command had not ended after {COMMAND_SECONDS:.0f} s.</exception>"
        )
    lines.append(f"<returncode>{result.exit_code}</returncode>")
    if len(text) < SHOWN_CHARACTERS:
        lines.append(f"<output>\n{text}</output>")
    else:
        half = SHOWN_CHARACTERS // 2
        lines += [
            "<warning>\nThat was too much output. Print less: head, tail or sed -n for a part of a "
            "file, a narrower pattern for grep and find, or a file to search in.\n</warning>",
            f"<output_head>\n{text[:half]}\n</output_head>",
            f"<elided_chars>\n{len(text) - 2 * half} characters elided\n</elided_chars>",
            f"<output_tail>\n{text[-half:]}\n</output_tail>",
        ]
    return "\n".join(lines)
