"""Plain values that agents, providers, tools and environments exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]
JSON = Any  # a value that `json` can write; spelled out so that signatures say what they mean


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's request to run a tool. `arguments` is None when the model's JSON was malformed."""

    id: str
    name: str
    arguments: Mapping[str, JSON] | None
    raw_arguments: str = ""


@dataclass(frozen=True, slots=True)
class Image:
    """A picture: its media type (`image/png`) and its bytes as base64."""

    media_type: str
    data: str


@dataclass(frozen=True, slots=True)
class Native:
    """A model's turn as its service sent it: signatures, encrypted reasoning, extras of calls.

    It goes back unchanged, and only to a service that speaks the same `protocol`.
    """

    protocol: str
    content: JSON


@dataclass(frozen=True, slots=True)
class Message:
    """What someone said. `content` and `tool_calls` say all that other models need to know;
    `reasoning` is what the model thought, as far as its service shows it."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    reasoning: str = ""
    images: tuple[Image, ...] = ()
    native: Native | None = None

    def with_content(self, content: str) -> Message:
        """The message with another text, which is then no longer what the service sent."""
        return self if content == self.content else replace(self, content=content, native=None)

    @classmethod
    def system(cls, content: str) -> Message:
        return cls("system", content)

    @classmethod
    def user(cls, content: str, images: Sequence[Image] = ()) -> Message:
        return cls("user", content, images=tuple(images))

    @classmethod
    def assistant(cls, content: str, tool_calls: Sequence[ToolCall] = ()) -> Message:
        return cls("assistant", content, tuple(tool_calls))

    @classmethod
    def tool(cls, content: str, call_id: str, images: Sequence[Image] = ()) -> Message:
        return cls("tool", content, (), call_id, images=tuple(images))


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call or the sum of many.

    Those read from a cache and written into one are part of the input, those of the reasoning part
    of the output.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


@dataclass(frozen=True, slots=True)
class Response:
    """What a model answered. `cost` is None when the price is not known, never 0 for that."""

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    cost: float | None = None
    stop_reason: str = "stop"
    model: str = ""
    reasoning: str = ""
    native: Native | None = None

    def message(self) -> Message:
        """The answer as the model's turn in a conversation that goes on."""
        return Message(
            "assistant",
            self.content,
            self.tool_calls,
            reasoning=self.reasoning,
            native=self.native,
        )


class OutputBytes(bytes):
    """What a command wrote. Compared with a text, which it never equals, it says so."""

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            raise TypeError(
                f"a command's output is bytes: compare with b{other[:40]!r}, or compare "
                "stdout_text or stderr_text"
            )
        return bytes.__eq__(self, other)

    __hash__ = bytes.__hash__


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended. A time-out, an output cut short, or a limit is said, not guessed."""

    stdout: bytes
    stderr: bytes
    exit_code: int
    timed_out: bool = False
    truncated: bool = False
    duration: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "stdout", OutputBytes(self.stdout))
        object.__setattr__(self, "stderr", OutputBytes(self.stderr))

    @property
    def stdout_text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def stderr_text(self) -> str:
        return self.stderr.decode("utf-8", "replace")

    @property
    def success(self) -> bool:
        return self.exit_code == 0 and not self.timed_out

    @property
    def output(self) -> str:
        """stdout and stderr as text, for people and models."""
        return (self.stdout + self.stderr).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class TestResult:
    """Outcome of a test command by its machine-readable report."""

    __test__ = False  # not a test class, whatever pytest thinks

    passed: int
    failed: int
    errors: int
    output: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    timed_out: bool = False

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.errors

    @property
    def all_passed(self) -> bool:
        """True only when tests ran and every one of them passed."""
        return self.passed > 0 and self.failed == 0 and self.errors == 0


@dataclass(frozen=True, slots=True)
class ToolResult:
    output: str
    error: str | None = None
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of a trajectory: a message, or the observation of a tool call."""

    message: Message
    usage: Usage = Usage()
    cost: float | None = None
    timestamp: float = 0.0
    metadata: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgentResult:
    """What an agent hands back: its final text and how it got there."""

    output: str
    usage: Usage = Usage()
    cost: float | None = 0.0
    steps: int = 0
    trajectory: tuple[Step, ...] = ()
    stop_reason: str = "done"
    metadata: Mapping[str, JSON] = field(default_factory=dict)
