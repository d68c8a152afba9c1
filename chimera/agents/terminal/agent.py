"""`ChimeraAgent`: one terminal loop in terminal-bench's harness, in Harbor's and in Chimera's own.

tb run --agent-import-path chimera.benchmarks.terminal_bench_agent:ChimeraAgent -m MODEL …
harbor run -a chimera.benchmarks.terminal_bench_agent:HarborChimeraAgent -m MODEL …
chimera eval --benchmark terminal-bench --agent terminal --model MODEL
"""

from __future__ import annotations

import asyncio
import json
import shlex
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chimera import __version__
from chimera.agents.base import BaseAgent
from chimera.agents.terminal.loop import MAX_TURNS, SYSTEM_PROMPT, Progress, TerminalLoop
from chimera.agents.terminal.tmux import TmuxTerminal, key_arguments
from chimera.environments.base import Environment, machine
from chimera.errors import ChimeraError, LimitReached
from chimera.providers import create_provider
from chimera.providers.base import Provider
from chimera.providers.meter import steps_allowed
from chimera.types import JSON, AgentResult

if TYPE_CHECKING:
    _TerminalBenchBase: Any = object
    _HarborBase: Any = object
else:
    try:
        from terminal_bench.agents.base_agent import BaseAgent as _TerminalBenchBase
    except ImportError:  # an optional harness
        _TerminalBenchBase = object
    try:
        from harbor.agents.base import BaseAgent as _HarborBase
    except ImportError:  # an optional harness
        _HarborBase = object


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalAgent(BaseAgent):
    """The loop in one of Chimera's environments, with a tmux that runs inside it."""

    provider: Provider
    max_steps: int = MAX_TURNS
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    system_prompt: str = SYSTEM_PROMPT

    name = "terminal"
    needs_environment = True

    def identity(self) -> dict[str, JSON]:
        """Everything of this agent that can change an outcome."""
        return {
            "agent": self.name,
            **self.provider.identity(),
            "max_steps": self.max_steps,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "system_prompt": self.system_prompt,
        }

    def providers(self) -> Sequence[Provider]:
        return (self.provider,)

    def run(self, prompt: str, env: Environment) -> AgentResult:
        loop = TerminalLoop(
            provider=self.provider,
            max_turns=steps_allowed(self.max_steps),
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            seed=self.seed,
            system_prompt=self.system_prompt,
        )
        terminal, progress = TmuxTerminal.inside(machine(env)), Progress()
        try:
            terminal.start()  # not stopped: what it runs may be the solution
            loop.run(
                prompt, terminal, progress=progress, out_of_time=lambda: env.remaining(1.0) <= 0.0
            )
        except LimitReached as limit:  # what was done until then is kept
            progress.stopped_by(limit)
        return progress.result()


class _SessionTerminal:
    """terminal-bench's TmuxSession as the loop knows a terminal."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def send(self, keys: str) -> None:
        for arguments in key_arguments(keys):
            self.session.send_keys(arguments)

    def text(self) -> str:
        return str(self.session.capture_pane(capture_entire=True))

    def screen(self) -> str:
        return str(self.session.capture_pane())


class ChimeraAgent(_TerminalBenchBase):  # type: ignore[misc]
    """For terminal-bench 0.2. `model_name` comes from -m, `max_turns` and the rest from -k."""

    def __init__(
        self,
        model_name: str | None = None,
        max_turns: int | str = MAX_TURNS,
        temperature: float | str | None = None,
        provider: Provider | None = None,
        **kwargs: Any,
    ) -> None:
        if _TerminalBenchBase is not object:
            super().__init__(**kwargs)
        self.loop = TerminalLoop(
            provider=provider or create_provider(model_name),
            max_turns=int(max_turns),
            temperature=None if temperature is None else float(temperature),
        )

    @staticmethod
    def name() -> str:
        return "chimera"

    @property
    def version(self) -> str:
        return __version__

    def perform_task(self, instruction: str, session: Any, logging_dir: Path | None = None) -> Any:
        from terminal_bench.agents.base_agent import AgentResult as TerminalBenchResult
        from terminal_bench.agents.failure_mode import FailureMode

        render = getattr(self, "_render_instruction", lambda text: text)
        progress = Progress()
        markers: list[tuple[float, str]] = []

        def mark(text: str) -> None:
            markers.append((session.get_asciinema_timestamp(), text))

        failure = None
        try:
            self.loop.run(
                render(instruction), _SessionTerminal(session), progress=progress, marker=mark
            )
        except ChimeraError as error:
            failure = f"{error.boundary}: {error}"
        _write_log(logging_dir, progress, failure)
        mode = {
            "done": FailureMode.NONE,
            "turns": FailureMode.AGENT_TIMEOUT,
            "malformed": FailureMode.FATAL_LLM_PARSE_ERROR,
            "context": FailureMode.CONTEXT_LENGTH_EXCEEDED,
            "length": FailureMode.OUTPUT_LENGTH_EXCEEDED,
            "time": FailureMode.AGENT_TIMEOUT,
        }.get(progress.stop_reason, FailureMode.UNKNOWN_AGENT_ERROR)
        return TerminalBenchResult(
            total_input_tokens=progress.usage.input_tokens,
            total_output_tokens=progress.usage.output_tokens,
            failure_mode=FailureMode.UNKNOWN_AGENT_ERROR if failure else mode,
            timestamped_markers=markers,
        )


class HarborChimeraAgent(_HarborBase):  # type: ignore[misc]
    """For Harbor. The loop blocks, so it runs in a thread and asks the event loop to execute."""

    def __init__(
        self,
        logs_dir: Path,
        model_name: str | None = None,
        max_turns: int | str = MAX_TURNS,
        provider: Provider | None = None,
        **kwargs: Any,
    ) -> None:
        if _HarborBase is not object:
            super().__init__(logs_dir=logs_dir, model_name=model_name, **kwargs)
        self.logs = Path(logs_dir)
        self.loop = TerminalLoop(
            provider=provider or create_provider(model_name), max_turns=int(max_turns)
        )

    @staticmethod
    def name() -> str:
        return "chimera"

    def version(self) -> str:
        return __version__

    async def setup(self, environment: Any) -> None:
        """See to it that there is a tmux; distributions with apt, apk and dnf are known."""
        install = (
            "command -v tmux >/dev/null || (apt-get update && apt-get install -y tmux) || "
            "apk add tmux || dnf install -y tmux"
        )
        done = await environment.exec(command=install, timeout_sec=300)
        if done.return_code != 0:
            raise RuntimeError(f"tmux cannot be installed in the environment: {done.stderr}")

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        events = asyncio.get_running_loop()
        stopped = threading.Event()

        def execute(command: Sequence[str]) -> tuple[int, str]:
            call = environment.exec(command=shlex.join(command), timeout_sec=60)
            done = asyncio.run_coroutine_threadsafe(call, events).result()
            return done.return_code, (done.stdout or "") or (done.stderr or "")

        progress = Progress()
        terminal = TmuxTerminal(execute)

        def work() -> None:
            terminal.start()
            self.loop.run(instruction, terminal, progress=progress, out_of_time=stopped.is_set)

        failure = None
        try:
            task = asyncio.create_task(asyncio.to_thread(work))
            while not task.done():
                await asyncio.wait({task}, timeout=1.0)
                _fill(context, progress)
            await task
        except asyncio.CancelledError:
            stopped.set()
            raise
        except ChimeraError as error:
            failure = f"{error.boundary}: {error}"
            raise
        finally:
            _fill(context, progress)
            _write_log(self.logs, progress, failure)


def _fill(context: Any, progress: Progress) -> None:
    """Tell Harbor what was used so far, so that a time-out keeps it."""
    context.n_input_tokens = progress.usage.input_tokens
    context.n_cache_tokens = progress.usage.cached_tokens
    context.n_output_tokens = progress.usage.output_tokens
    context.cost_usd = progress.cost
    context.metadata = {
        "turns": progress.turns,
        "malformed_replies": progress.malformed,
        "stop_reason": progress.stop_reason,
    }


def _write_log(directory: Path | None, progress: Progress, failure: str | None) -> None:
    if directory is None:
        return
    lines = [
        json.dumps({"role": step.message.role, "content": step.message.content})
        for step in progress.trajectory
    ]
    end = {"stop_reason": progress.stop_reason, "turns": progress.turns, "failure": failure}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "chimera.jsonl").write_text("\n".join([*lines, json.dumps(end)]) + "\n", "utf-8")
