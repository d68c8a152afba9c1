"""One client's account with a model: what it may ask, what it was answered, what stopped it."""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from chimera.errors import BudgetExceeded, ChimeraError, LimitReached, ProviderError
from chimera.gateway.recording import Recording
from chimera.gateway.relay import Relay, upstream_for
from chimera.gateway.wires import Target
from chimera.gateway.wires.base import Asked, Malformed, Wire, stream_data
from chimera.providers.base import CallFailed, ContextOverflow, Provider, Unanswered, patience
from chimera.providers.journal import JournaledCall, conversation_key
from chimera.providers.meter import CallRecord, Meter, metered
from chimera.providers.secrets import redact
from chimera.types import JSON, Image, Message, Response, Usage

OtherModels = Literal["rewrite", "refuse"]
MOST_WITHHELD, SHOWN_CHARACTERS = 20, 80  # of what was not passed on
#: More than a model says in one answer: under a budget, nobody has more set aside for one.
MOST_ASKED_TOKENS = 128_000
BYTES_PER_TOKEN = 4  # of a count that costs nothing


class Out(Protocol):
    """Where an answer goes."""

    def send(self, data: bytes) -> None:
        """A part of the answer; the first one ends the time in which an error has a status."""

    def fail(self, status: int, body: JSON) -> None: ...


@dataclass(frozen=True, slots=True)
class Call:
    """What a client sent."""

    target: Target
    body: dict[str, JSON]
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def wire(self) -> Wire:
        return self.target.wire

    @property
    def stream(self) -> bool:
        return self.target.stream or self.wire.streamed(self.body)

    @property
    def model(self) -> str:
        return self.target.model or str(self.body.get("model") or "")


#: Told of each call: the call, the answer, which of the client's models was asked for.
Observer = Callable[[Call, Response], None]


@dataclass(slots=True)
class Session:
    """Answers the calls of whoever holds `token`, on account of `meter`.

    A client may ask for other models than the one it was given (small ones, on the side): these are
    answered by that one model, or refused.
    """

    provider: Provider
    meter: Meter
    other_models: OtherModels = "rewrite"
    #: Names under which the client knows the model.
    names: tuple[str, ...] = ()
    observer: Observer | None = None
    token: str = field(default_factory=lambda: f"chimera-{secrets.token_hex(16)}", repr=False)
    recording: Recording = field(default_factory=Recording)
    calls: int = 0
    #: What ended it for good, and the fault of the last call, if it had one.
    limit: LimitReached | BudgetExceeded | None = None
    failure: ChimeraError | None = None
    #: What its client waited for when its work was over, if that was for long.
    unanswered: Unanswered | None = None
    stopped: threading.Event = field(default_factory=threading.Event)
    #: Whether its client's work is over: what is answered then, it never heard of.
    _over: bool = False
    _opened: float = field(default_factory=time.monotonic)
    _answered_at: float = 0.0
    #: When the calls under way began.
    _under_way: dict[int, float] = field(default_factory=dict)
    _replies: dict[str, Message] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _idle: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def __post_init__(self) -> None:
        self.meter.trajectory = self.recording.steps

    @property
    def fault(self) -> ChimeraError | None:
        """The fault that its work ended with, where that is the service's: what it refuses to take
        after it has answered is the client's, who wrote it."""
        if isinstance(self.failure, CallFailed) and self.failure.refused and self.recording.steps:
            return None
        return self.failure

    def opens(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    def models(self) -> tuple[str, ...]:
        return (self.provider.model, self.provider.name, *self.names)

    def count(self, call: Call) -> JSON:
        """An estimate, for clients that ask how many tokens a request would have."""
        tokens = len(json.dumps(call.body)) // BYTES_PER_TOKEN
        return {"totalTokens": tokens} if call.wire.name == "gemini" else {"input_tokens": tokens}

    def answer(self, call: Call, out: Out) -> None:
        """Answer one call; whatever happens, the client hears of it and the account is right."""
        wire = call.wire
        if self.other_models == "refuse" and call.model not in self.models():
            text = f"the model '{call.model}' is not offered here; there is: {self.provider.model}"
            out.fail(404, wire.error(404, "model_not_found", text))
            return
        held = _Held(out.send)
        number, began = id(held), time.monotonic()
        with self._idle:
            self._under_way[number] = began
        try:
            asked = wire.asked(call.body)
            if self.meter.budget_bounded and wire.media(call.body)["other"]:
                raise Malformed("under a budget no documents, sound or films are taken: nobody "
                                "knows beforehand what they cost")  # fmt: skip
            if self.meter.budget_bounded and asked.max_tokens is not None:
                asked = replace(asked, max_tokens=min(asked.max_tokens, MOST_ASKED_TOKENS))
            passed, withheld = wire.passed(call.body)
            response = self._answered(call, asked, passed, held)
            self._record(call, asked, response, withheld)
        except Malformed as error:
            out.fail(400, wire.error(400, "invalid_request_error", str(error)))
        except (LimitReached, BudgetExceeded) as error:
            self.limit = self.limit or error
            self.stopped.set()
            out.fail(402, wire.error(402, "limit_reached", redact(str(error))))
        except Unanswered as error:
            self._not_answered(error, began)
            out.fail(424, wire.error(424, "upstream_failed", redact(str(error))))
        except ContextOverflow as error:
            self.failure = error
            out.fail(400, wire.error(400, "context_length_exceeded", redact(str(error))))
        except ChimeraError as error:
            # It was tried again here as often as makes sense: clients do not retry a 424.
            self.failure = error
            out.fail(424, wire.error(424, "upstream_failed", redact(str(error))))
        except Exception as error:  # noqa: BLE001 - what breaks here is the trial's to know
            self.failure = ProviderError(f"the gateway broke on a call: {redact(repr(error))}")
            out.fail(500, wire.error(500, "gateway_failed", str(self.failure)))
        else:
            self._answered_at = time.monotonic()
            if not self._over:
                self.failure = None
            with contextlib.suppress(OSError):
                held.release()
        finally:
            with self._idle:
                del self._under_way[number]
                self._idle.notify_all()

    def _not_answered(self, error: Unanswered, began: float) -> None:
        """The time was up before a call was answered: the service's fault, unless it was answering
        others of this client's meanwhile."""
        if error.attempts == 1 and self._silent_since(began) < patience(self.meter.limits.seconds):
            self.limit = self.limit or LimitReached("time", str(error))
            self.stopped.set()
        else:
            self.failure = error

    def _silent_since(self, began: float) -> float:
        """For how many seconds the service has had a call that began then, and answered none."""
        return time.monotonic() - max(began, self._answered_at)

    def end(self) -> None:
        """The client's work is over."""
        with self._idle:
            self._over, waiting = True, list(self._under_way.values())
        silent = self._silent_since(min(waiting)) if waiting else 0.0
        if waiting and silent >= patience(time.monotonic() - self._opened):
            self.unanswered = Unanswered(self.provider.name, silent)

    def drain(self, timeout: float) -> None:
        """Wait for calls that the client left behind: they are paid for, and are its own. What one
        costs that is not answered in time is not known, and so is the sum."""
        began, clock = time.time(), time.monotonic()
        with self._idle:
            if self._idle.wait_for(lambda: not self._under_way, timeout):
                return
        why = "the client left it behind, and it was not answered in time"
        name, seconds = self.provider.name, time.time() - began
        self.meter.record(CallRecord(name, Usage(), None, began, seconds, error=why))
        if self._answered_at < clock:
            self.failure = self.failure or Unanswered(name, seconds)

    def _answered(self, call: Call, asked: Asked, passed: dict[str, JSON], send: _Held) -> Response:
        self._check()
        key = conversation_key(call.wire.name, asked.messages)
        journal = self.meter.journal
        found = None if journal is None else journal.take(key)
        if found is not None:
            return self._again(call, asked, found, send)
        started = time.time()
        upstream = upstream_for(self.provider, call.wire, stream=call.stream)
        with metered(self.meter):
            if upstream is None:
                response = self._translated(call, asked, send)
            else:
                relay = Relay.of(
                    self.provider, upstream, call.wire, asked, passed, call.headers, send
                )
                # It stands for the request where its tokens are reserved, and is not sent.
                pictures = [Image("", "")] * call.wire.media(passed)["picture"]
                text = Message.user(json.dumps(passed, ensure_ascii=False), pictures)
                response = relay.complete([text], max_tokens=asked.max_tokens)
        if journal is not None:
            account = self._account(response, started)
            native = response.native if upstream is None else None
            journal.add(JournaledCall(key, send.content(), account, native))
        return response

    def _check(self) -> None:
        if self.limit is not None:
            raise self.limit
        steps = self.meter.limits.max_steps
        with self._lock:
            if steps is not None and self.calls >= steps:
                raise LimitReached("steps", f"all {steps} calls are made")
            self.calls += 1

    def _translated(self, call: Call, asked: Asked, send: Callable[[bytes], None]) -> Response:
        """Ask by our own types, and give the answer in the client's format."""
        response = self.provider.complete(
            [self._as_sent(message) for message in asked.messages],
            tools=asked.tools,
            temperature=asked.temperature,
            max_tokens=asked.max_tokens,
            stop=asked.stop,
        )
        self._remember(response.message())
        reply = call.wire.reply(response, asked, call.model)
        send(call.wire.stream(reply) if call.stream else json.dumps(reply).encode())
        return response

    def _as_sent(self, message: Message) -> Message:
        """The model's turn as it came, with what the client's format had no place for."""
        if message.role != "assistant":
            return message
        found = self._replies.get(_words(message, exactly=True))
        return found or self._replies.get(_words(message), message)

    def _remember(self, said: Message) -> None:
        self._replies[_words(said)] = self._replies[_words(said, exactly=True)] = said

    def _again(self, call: Call, asked: Asked, found: JournaledCall, send: _Held) -> Response:
        """What was answered, and paid, before this run was interrupted."""
        self.meter.replied_again = True
        send(found.reply)
        if found.reply.lstrip().startswith(b"{"):
            whole = json.loads(found.reply)
        else:
            whole = call.wire.whole(stream_data(found.reply))
        response = call.wire.response(whole, asked)
        if found.native is not None:
            self._remember(replace(response.message(), native=found.native))
        return replace(response, usage=found.account.usage, cost=found.account.cost)

    def _account(self, response: Response, started: float) -> CallRecord:
        """The call as the meter has it."""
        seconds = time.time() - started
        return CallRecord(self.provider.name, response.usage, response.cost, started, seconds)

    def _record(
        self, call: Call, asked: Asked, response: Response, withheld: Sequence[str]
    ) -> None:
        metadata: dict[str, JSON] = {"model": response.model or self.provider.model}
        if call.model not in self.models():
            metadata["asked_for"] = call.model
        if withheld:
            metadata["withheld"] = [name[:SHOWN_CHARACTERS] for name in withheld[:MOST_WITHHELD]]
        self.recording.add(asked.messages, response, metadata, tools=bool(asked.tools))
        if self.observer is not None:
            self.observer(call, response)


class _Held:
    """Hands on all but the last part, which waits until the call is recorded: a client that has
    the whole answer may end at once, and so may we."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._parts: list[bytes] = []

    def __call__(self, data: bytes) -> None:
        if self._parts:
            self._send(self._parts[-1])
        self._parts.append(data)

    def release(self) -> None:
        if self._parts:
            self._send(self._parts[-1])

    def content(self) -> bytes:
        return b"".join(self._parts)


def _words(message: Message, *, exactly: bool = False) -> str:
    """What a turn is known by. Not every service gives calls ids that are theirs alone, nor does
    every client send arguments back as they came: those that are `exactly` the same go first."""
    calls = [
        [call.id, call.name, *([dict(call.arguments or {})] if exactly else ())]
        for call in message.tool_calls
    ]
    return json.dumps([message.content.strip(), calls], sort_keys=True)
