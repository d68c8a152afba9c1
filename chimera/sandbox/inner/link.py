"""The conversation between judge and answer: questions, answers, and handles for what is not plain.

The answer owns its end: what it sends is hostile until `Link.accept` has held it against the
question it answers, and after that it never changes. Everything that is said is kept, so that the
same tests can be held against the record alone (`transcript.py`).

Each side keeps its own objects and hands out numbers for them. The judge may use an answer's
object as far as `Remote` allows (call it, iterate it, read an attribute); comparing and calculating
with it is not among these, so an object that claims to equal everything equals nothing but itself.
The answer may only call functions and draw from iterators that the tests handed to it.
"""

from __future__ import annotations

import builtins
import os
import select
import time
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from .codec import (
    FLAT,
    LONG_INTEGER,
    Decoder,
    Encoder,
    Malformed,
    NotPlain,
    parsed,
    snapshot,
    text_of,
    to_text,
)

TEXT_LIMIT = 2000
MOST_NAMES = 100  # of the classes of an exception
MOST_ARGUMENTS = 10  # of an exception
LARGEST_FRAME = 1 << 28
LARGEST_CONVERSATION = 1 << 28
FRAME_COST = 256  # what keeping a message costs beside its text
#: Limits of time, by what reached them.
CALL_TIME, CALL_WALL_TIME = "CPU time of a call", "wall time of a call"
LOAD = "the machine's load"
STRETCH = 4  # wall time is never more than this many times its limit, whatever the load
FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
)


class AnswerEnded(BaseException):
    """The other process is gone, left the protocol, or used up its time. Not an `Exception`:
    test code that catches those must not go on as if nothing had happened."""

    def __init__(self, why: str, limit: str | None = None) -> None:
        super().__init__(why)
        self.limit = limit


class AnswerExit(BaseException):
    """The answer raised SystemExit, KeyboardInterrupt or the like."""


class Remote:
    """An object that lives on the other side. What it says of itself stays said until something is
    called or changed: looking twice is no way to see two things."""

    __slots__ = ("_handle", "_kind", "_link")

    def __init__(self, link: Link, handle: int, kind: str) -> None:
        for name, value in (("_link", link), ("_handle", handle), ("_kind", kind)):
            object.__setattr__(self, name, value)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._link.ask("call", self._handle, list(arguments), *((named,) if named else ()))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__name__", "__doc__"):
            raise AttributeError(f"'{self._kind}' of the answer: {name} is not shown to tests")
        return self._link.look(self, "getattr", name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._link.ask("setattr", self._handle, name, value)

    def __getitem__(self, key: Any) -> Any:
        return self._link.look(self, "getitem", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._link.ask("setitem", self._handle, key, value)

    def __iter__(self) -> Iterator[Any]:
        self._link.looked_at.add(self._kind)
        iterator: Iterator[Any] = self._link.ask("iter", self._handle)
        return iterator

    def __next__(self) -> Any:
        self._link.looked_at.add(self._kind)
        return self._link.ask("next", self._handle)

    def __len__(self) -> int:
        length: int = self._link.look(self, "len")
        return length

    def __bool__(self) -> bool:
        truth: bool = self._link.look(self, "bool")
        return truth

    def __str__(self) -> str:
        text: str = self._link.look(self, "str")
        return text

    def __hash__(self) -> int:
        return hash(self._handle)  # not where it lies in memory, which is another place next time

    def __repr__(self) -> str:
        return f"<{self._kind} of the answer>"


OPERATIONS: dict[str, Callable[..., Any]] = {
    "call": lambda target, arguments, named={}: target(*arguments, **named),
    "getattr": getattr,
    "setattr": setattr,
    "getitem": lambda target, key: target[key],
    "setitem": lambda target, key, value: target.__setitem__(key, value),
    "iter": iter,
    "next": next,
    "len": len,
    "bool": bool,
    "str": str,
}
#: What may answer a question; for those that are not here, any value.
ANSWERS: dict[str, type] = {
    "names": dict,
    "setattr": type(None),
    "setitem": type(None),
    "iter": Remote,
    "len": int,
    "bool": bool,
    "str": str,
}


class Link:
    """One end. `trusting` is true on the answer's side: there every operation is served."""

    def __init__(
        self, descriptor: int, *, trusting: bool, answer_pid: int = 0, waits: int = -1
    ) -> None:
        self.descriptor = descriptor
        self.trusting = trusting
        self.answer_pid, self.waits = answer_pid, waits
        self.seconds: float | None = None  # CPU seconds the answer has for one question
        self.used_by_all: Callable[[], float] = unknown
        self.exported: list[Any] = []
        self.handles: dict[int, int] = {}
        self.remotes: dict[int, Remote] = {}
        self.names: dict[str, Any] = {}
        self.broken: AnswerEnded | None = None
        self.unsupported: str | None = None  # what tests handed over that cannot cross
        self.rest = b""
        self.changed = False  # whether the last question changed its arguments
        self.count = 0
        self.transcript: list[str] = []  # on the judge's side: all that was said
        self.room = LARGEST_CONVERSATION
        self.seen: dict[str, tuple[Any, list[Any] | None]] = {}
        self.looked_at: set[str] = set()  # kinds of the answer's objects that the tests looked into

    # Questions

    def ask(self, operation: str, *payload: Any) -> Any:
        """What the other side says to `operation`; its exceptions are raised here."""
        self.seen.clear()
        value, error = self.hear(operation, payload)
        if error is not None:
            raise exception_from(operation, *error)
        return value

    def look(self, target: Remote, operation: str, *payload: Any) -> Any:
        """What an object says of itself, asked once as long as nothing happens."""
        self.looked_at.add(target._kind)
        encoded = [operation, target._handle, *map(Encoder([], self.export).encode, payload)]
        key = to_text(encoded)
        if key not in self.seen:
            self.seen[key] = self.hear(operation, (target._handle, *payload))
        value, error = self.seen[key]
        if error is not None:
            raise exception_from(operation, *error)
        return value

    def hear(self, operation: str, payload: tuple[Any, ...]) -> tuple[Any, list[Any] | None]:
        """Ask, serve what the other side asks meanwhile, and return its (value, error)."""
        if self.broken is not None:
            raise self.broken
        if self.rest:
            self.end("the answer's process left the protocol (it spoke without being asked)")
        self.count += 1
        number = self.count
        objects: list[Any] = []
        encoder = Encoder(objects, self.export)
        self.send(["ask", number, operation, *map(encoder.encode, payload)])
        deadline = self.deadline()
        while True:
            message = self.receive(deadline)
            try:
                if message[0] != "ask":
                    return self.accept(message, number, operation, payload, objects)
                question = self.question(message)
            except Exception as problem:  # noqa: BLE001 - whatever hostile input breaks
                self.end(f"the answer's process left the protocol ({said(problem)})")
            self.respond(*question)

    def accept(
        self,
        message: list[Any],
        number: int,
        operation: str,
        payload: tuple[Any, ...],
        objects: list[Any],
    ) -> tuple[Any, list[Any] | None]:
        """The (value, error) of a reply that answers this question as the protocol has it; any
        other raises. This is the one way for anything of the answer into the judge."""
        kind, which, encoded, error, changes = message
        if kind != "done" or type(which) is not int or which != number:
            raise Malformed("an answer to no question")
        decoder = Decoder(objects, self.resolve)
        value: Any = encoded if type(encoded) in FLAT else decoder.decode(encoded)
        if error is not None:
            check_error(error)
            if encoded is not None:
                raise Malformed("a value and an error")
        elif operation in ANSWERS and type(value) is not ANSWERS[operation]:
            raise Malformed(f"a {type(value).__name__} is no answer to '{operation}'")
        elif operation == "names" and not set(payload[0]).issuperset(value):
            raise Malformed("a name that nobody asked for")
        self.apply(changes, objects, decoder)
        return value, error

    def apply(self, changes: Any, objects: list[Any], decoder: Decoder) -> None:
        """Change our containers as the other side changed its copies of them."""
        if type(changes) is not list:
            raise Malformed("changes are a list")
        known = len(objects)
        fresh: dict[int, list[Any]] = {}
        for number, contents in changes:
            if type(number) is not int or not 0 <= number < known or number in fresh:
                raise Malformed("a change to an unknown container")
            if isinstance(objects[number], dict):
                fresh[number] = list(decoder.pairs(contents))
            elif isinstance(objects[number], bytearray):
                fresh[number] = list(bytes.fromhex(contents))
            else:
                fresh[number] = list(decoder.elements(contents))
        for number, elements in fresh.items():
            target = objects[number]
            target.clear()
            if isinstance(target, dict):
                dict.update(target, elements)  # a Counter's own would count them
            else:
                (target.update if isinstance(target, set) else target.extend)(elements)
        self.changed = bool(fresh)

    # Answers

    def serve_forever(self) -> None:
        while True:
            self.serve(self.receive(None))

    def serve(self, message: list[Any]) -> None:
        self.respond(*self.question(message))

    def question(self, message: list[Any]) -> tuple[int, str, list[Any], list[Any]]:
        """(number, operation, payload, containers in it) of what the other side asks."""
        kind, number, operation, *encoded = message
        if kind != "ask" or type(number) is not int or type(operation) is not str or not encoded:
            raise Malformed("neither a question nor an answer")
        objects: list[Any] = []
        decoder = Decoder(objects, self.resolve)
        payload = [decoder.decode(each) for each in encoded]
        if not self.trusting:
            self.check_question(operation, payload)
        return number, operation, payload, objects

    def check_question(self, operation: str, payload: list[Any]) -> None:
        """An answer may call the tests' functions and draw from their iterators."""
        target, *arguments = payload
        if type(target) is not int or not 0 <= target < len(self.exported):
            raise Malformed("an unknown handle")
        kinds = tuple(map(type, arguments))
        if kinds not in (((list,), (list, dict)) if operation == "call" else ((),)):
            raise Malformed("a question with other arguments than it has")

    def respond(self, number: int, operation: str, payload: list[Any], objects: list[Any]) -> None:
        before = [(each, snapshot(each)) for each in objects]
        encoder = Encoder(objects, self.export)
        value, error, changes = None, None, []
        try:
            value = encoder.encode(self.perform(operation, payload))
        except (Malformed, AnswerEnded):
            raise
        except BaseException as problem:  # noqa: BLE001 - whatever it is, the judge hears of it
            error = described(problem)
            encoder = Encoder(objects[: len(before)], self.export)
        try:
            changes = encoder.changes(before) if before else []
        except (NotPlain, RecursionError) as problem:
            value, error, changes = None, described(problem), []
        try:
            self.send(["done", number, value, error, changes])
        except NotPlain as problem:
            self.send(["done", number, None, described(problem), []])

    def perform(self, operation: str, payload: list[Any]) -> Any:
        if operation == "names" and self.trusting:
            return {name: self.names[name] for name in payload[0] if name in self.names}
        target, *arguments = payload
        held = self.exported[target]
        if not self.trusting and not (
            (operation == "call" and isinstance(held, FUNCTIONS))
            or (operation in ("iter", "next") and isinstance(held, Iterator))
            or operation == "bool"
        ):
            raise TypeError(f"'{type(held).__name__}' of the tests has no {operation} here")
        return OPERATIONS[operation](held, *arguments)

    # Values

    def export(self, value: Any) -> Any:
        if isinstance(value, Remote):
            if value._link is not self:
                raise NotPlain("an object of another conversation")
            return {"own": value._handle}
        if not self.trusting:
            name = getattr(value, "__name__", None)
            if isinstance(name, str) and getattr(builtins, name, None) is value:
                return {"builtin": name}
            if not isinstance(value, (*FUNCTIONS, Iterator)):
                self.unsupported = f"the tests hand over a {type(value).__name__}, not plain data"
                raise NotPlain(self.unsupported)
        handle = self.handles.get(id(value))
        if handle is None:
            handle = self.handles[id(value)] = len(self.exported)
            self.exported.append(value)
        return {"object": [handle, type(value).__name__[:100]]}

    def resolve(self, tag: str, payload: Any) -> Any:
        if tag == "own" and type(payload) is int and payload >= 0:
            return self.exported[payload]
        if tag == "object":
            handle, kind = payload
            if type(handle) is not int or type(kind) is not str or len(kind) > 100:
                raise Malformed("a handle is a number and a name")
            if handle not in self.remotes:
                self.remotes[handle] = Remote(
                    self, handle, kind if kind.isidentifier() else "object"
                )
            return self.remotes[handle]
        if tag == "builtin" and self.trusting:
            return getattr(builtins, payload)
        raise Malformed(f"unknown tag {tag!r}")

    # Messages

    def send(self, message: Any) -> None:
        text = to_text(message)
        if not self.trusting:
            self.keep(">" + text)
        self.put(text)

    def receive(self, deadline: Deadline | None) -> list[Any]:
        try:
            text = self.take(deadline)
            if not self.trusting:
                self.keep("<" + text)
            message = parsed(text)
            if type(message) is not list or not message:
                raise Malformed("a message is a list")
        except Malformed as problem:
            self.end(f"the answer's process left the protocol ({problem})")
        return message

    def keep(self, line: str) -> None:
        self.transcript.append(line)
        self.room -= len(line) + FRAME_COST
        if self.room < 0:
            self.cut(
                "the answer and its tests said more than a conversation may hold", "output size"
            )

    def put(self, text: str) -> None:
        data = text.encode()
        view = memoryview(len(data).to_bytes(8, "big") + data)
        try:
            while view:
                view = view[os.write(self.descriptor, view) :]
        except OSError:
            self.cut("the answer's process ended before the tests did")

    def take(self, deadline: Deadline | None) -> str:
        """The next message. What came in beyond it waits for the next call."""
        data = self.rest or self.read(deadline)
        while len(data) < 8:
            data += self.read(deadline)
        end = 8 + int.from_bytes(data[:8], "big")
        if end > LARGEST_FRAME:
            self.cut("the answer sent more than a value may hold", "output size")
        if len(data) < end:
            data = self.read_up_to(end, data, deadline)
        self.rest = data[end:]
        return text_of(data[8:end])

    def read_up_to(self, end: int, start: bytes, deadline: Deadline | None) -> bytes:
        parts, size = [start], len(start)
        while size < end:
            parts.append(self.read(deadline))
            size += len(parts[-1])
        return b"".join(parts)

    def read(self, deadline: Deadline | None) -> bytes:
        if deadline is not None and (limit := deadline.reached(self.descriptor)):
            self.cut(f"one call took more than {deadline.seconds:g} s", limit)
        try:
            data = os.read(self.descriptor, 1 << 18)
        except OSError:
            data = b""
        if not data:
            self.cut("the answer's process ended before the tests did")
        return data

    def deadline(self) -> Deadline | None:
        if self.seconds is None:
            return None
        return Deadline(self.answer_pid, self.seconds, self.waits, self.used_by_all)

    def cut(self, why: str, limit: str | None = None) -> NoReturn:
        """End a conversation for what no message says; the record says it instead."""
        self.transcript.append("!" + to_text([why, limit]))
        self.end(why, limit)

    def end(self, why: str, limit: str | None = None) -> NoReturn:
        self.broken = AnswerEnded(why, limit)
        raise self.broken


def unknown() -> float:
    """CPU time of the answer with all it started, where nobody counts that."""
    return 0.0


class Deadline:
    """CPU seconds of another process, and of all it started where a control group counts them, with
    three times as many of wall-clock time as a backstop.

    The backstop stands still while that process waits for a processor, up to `STRETCH` times; then
    it is the machine's load that decides, which is no verdict on anybody.
    """

    def __init__(
        self, pid: int, seconds: float, waits: int, used_by_all: Callable[[], float] = unknown
    ) -> None:
        self.used_by_all, self.all_before = used_by_all, used_by_all()
        self.clock = (~pid << 3) | 2  # the kernel's name for the CPU clock of a process
        self.seconds, self.waits = seconds, waits
        self.used_before, self.waited_before = self.used(), waiting_time(waits)
        self.began, self.backstop = time.monotonic(), 3 * seconds + 5

    def used(self) -> float:
        try:
            return time.clock_gettime(self.clock)
        except OSError:  # it has ended; reading will say so
            return 0.0

    def reached(self, descriptor: int) -> str | None:
        """The limit that is reached before anything can be read, if one is."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        pause, limit = self.seconds, None
        while not poll.poll(1000 * pause):
            if limit:
                return limit
            left = self.seconds - max(
                self.used() - self.used_before, self.used_by_all() - self.all_before
            )
            gone = time.monotonic() - self.began
            limit = self.limit(left, gone)
            pause = 0.0 if limit else min(max(left, 0.005), max(self.backstop - gone, 0.1))
        return None

    def limit(self, left: float, gone: float) -> str | None:
        if left <= 0:
            return CALL_TIME
        waited = waiting_time(self.waits) - self.waited_before
        if gone - waited >= self.backstop:
            return CALL_WALL_TIME
        return LOAD if gone >= STRETCH * self.backstop else None


def waiting_time(waits: int) -> float:
    """Seconds that a process had work to do and no processor, by the kernel's account of it."""
    try:
        return int(os.pread(waits, 64, 0).split()[1]) / 1e9
    except (OSError, IndexError, ValueError):  # it has ended, or there is no such account
        return 0.0


def check_error(error: Any) -> None:
    """An error is the names of its classes and a text, and its arguments if they are others."""
    names, text, *others = error
    if type(names) is not list or not names or type(text) is not str or len(others) > 1:
        raise Malformed("an error is names and a text")
    if len(names) > MOST_NAMES or any(type(n) is not str or len(n) > TEXT_LIMIT for n in names):
        raise Malformed("a name is a text, and not a long one")
    if others and (type(others[0]) is not list or not are_plain(others[0])):
        raise Malformed("arguments of an error are few, flat and short")


def are_plain(arguments: Sequence[Any]) -> bool:
    """Whether these can be the arguments of an exception on both sides."""
    return len(arguments) <= MOST_ARGUMENTS and all(
        type(each) in FLAT
        and (type(each) is not str or len(each) <= TEXT_LIMIT)
        and (type(each) is not int or abs(each) < LONG_INTEGER)
        for each in arguments
    )


def exception_from(
    operation: str, names: list[str], text: str, arguments: Sequence[Any] | None = None
) -> BaseException:
    """The nearest built-in exception to one that was raised on the other side."""
    for name in names:
        kind = getattr(builtins, name, None)
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            continue
        if not issubclass(kind, Exception):
            break
        if kind is StopIteration and operation != "next":
            kind = RuntimeError  # else it would end a loop of the tests as if that were done
        try:
            raised: Exception = kind(text[:TEXT_LIMIT])
        except TypeError:  # one that demands other arguments: its base will do
            continue
        if arguments is not None:
            raised.args = tuple(arguments)
        raised.add_note(f"{names[0]}: {text[:TEXT_LIMIT]}")
        return raised
    return AnswerExit(f"{names[0]}: {text[:TEXT_LIMIT]}")


def described(problem: BaseException) -> list[Any]:
    """[names of its classes, most special first; its message; its arguments, where they are plain
    and not the message alone], for the other side."""
    names = [each.__name__[:100] for each in type(problem).__mro__ if each.__name__ != "object"]
    try:
        text = str(problem)[:TEXT_LIMIT]
        to_text(text)
    except BaseException:  # noqa: BLE001 - the answer's own __str__ may do anything
        return [names, "(its message cannot be shown)"]
    arguments = list(problem.args)
    if arguments == [text] or not are_plain(arguments):
        return [names, text]
    return [names, text, arguments]


def said(problem: Exception) -> str:
    return (
        str(problem) if isinstance(problem, Malformed) else f"{type(problem).__name__}: {problem}"
    )
