"""The conversation between judge and answer: questions, answers, and handles for what is not plain.

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
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

from .codec import (
    FLAT,
    MALFORMED,
    Decoder,
    Encoder,
    Malformed,
    NotPlain,
    from_bytes,
    snapshot,
    to_bytes,
)

Kind = TypeVar("Kind")
TEXT_LIMIT = 2000
LARGEST_FRAME = 1 << 28
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
    """An object that lives on the other side."""

    __slots__ = ("_handle", "_kind", "_link")

    def __init__(self, link: Link, handle: int, kind: str) -> None:
        for name, value in (("_link", link), ("_handle", handle), ("_kind", kind)):
            object.__setattr__(self, name, value)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._link.ask("call", self._handle, list(arguments), *((named,) if named else ()))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__name__", "__doc__"):
            raise AttributeError(f"'{self._kind}' of the answer: {name} is not shown to tests")
        return self._link.ask("getattr", self._handle, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._link.ask("setattr", self._handle, name, value)

    def __getitem__(self, key: Any) -> Any:
        return self._link.ask("getitem", self._handle, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._link.ask("setitem", self._handle, key, value)

    def __iter__(self) -> Iterator[Any]:
        iterator: Iterator[Any] = self._link.ask("iter", self._handle)
        return iterator

    def __next__(self) -> Any:
        return self._link.ask("next", self._handle)

    def __len__(self) -> int:
        return as_type(int, self._link.ask("len", self._handle))

    def __bool__(self) -> bool:
        return as_type(bool, self._link.ask("bool", self._handle))

    def __int__(self) -> int:
        return as_type(int, self._link.ask("int", self._handle))

    def __float__(self) -> float:
        return as_type(float, self._link.ask("float", self._handle))

    def __str__(self) -> str:
        return as_type(str, self._link.ask("str", self._handle))

    def __repr__(self) -> str:
        return f"<{self._kind} of the answer>"


def as_type(kind: type[Kind], value: Any) -> Kind:
    if isinstance(value, kind) and type(value) is kind:
        return value
    raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")


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
    "int": int,
    "float": float,
    "str": str,
}


class Link:
    """One end. `trusting` is true on the answer's side: there every operation is served."""

    def __init__(self, descriptor: int, *, trusting: bool, answer_pid: int = 0) -> None:
        self.descriptor = descriptor
        self.trusting = trusting
        self.answer_pid = answer_pid
        self.seconds: float | None = None  # CPU seconds the answer has for one question
        self.exported: list[Any] = []
        self.handles: dict[int, int] = {}
        self.remotes: dict[int, Remote] = {}
        self.names: dict[str, Any] = {}
        self.broken: AnswerEnded | None = None
        self.unsupported: str | None = None  # what tests handed over that cannot cross
        self.rest = b""
        self.changed = False  # whether the last question changed its arguments
        self.count = 0

    # Questions

    def ask(self, operation: str, *payload: Any) -> Any:
        """What the other side says to `operation`; its exceptions are raised here."""
        if self.broken is not None:
            raise self.broken
        self.count += 1
        number = self.count
        objects: list[Any] = []
        encoder = Encoder(objects, self.export)
        self.send(["ask", number, operation, *map(encoder.encode, payload)])
        deadline = self.deadline()
        while True:
            message = self.receive(deadline)
            try:
                if message[0] == "ask":
                    self.serve(message)
                    continue
                kind, which, value, error, changes = message
                if kind != "done" or which != number:
                    raise Malformed("an answer to no question")
                if error is None and not changes and type(value) in FLAT:
                    self.changed = False
                    return value
                decoder = Decoder(objects, self.resolve)
                result = decoder.decode(value)
                self.apply(changes, objects, decoder)
                raised = None if error is None else exception_from(*error)
            except MALFORMED as problem:
                self.end(f"the answer's process left the protocol ({problem})")
            if raised is not None:
                raise raised
            return result

    def apply(self, changes: Any, objects: list[Any], decoder: Decoder) -> None:
        """Change our containers as the other side changed its copies of them."""
        known = len(objects)
        fresh: list[tuple[Any, list[Any]]] = []
        for number, contents in changes:
            if type(number) is not int or not 0 <= number < known:
                raise Malformed("a change to an unknown container")
            if isinstance(objects[number], dict):
                fresh.append((objects[number], list(decoder.pairs(contents))))
            elif isinstance(objects[number], bytearray):
                fresh.append((objects[number], list(bytes.fromhex(contents))))
            else:
                fresh.append((objects[number], list(decoder.elements(contents))))
        for target, elements in fresh:
            target.clear()
            (target.extend if hasattr(target, "extend") else target.update)(elements)
        self.changed = bool(fresh)

    # Answers

    def serve_forever(self) -> None:
        while True:
            message = self.receive(None)
            self.serve(message)

    def serve(self, message: Any) -> None:
        _, number, operation, *encoded = message
        objects: list[Any] = []
        decoder = Decoder(objects, self.resolve)
        payload = [decoder.decode(each) for each in encoded]
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
        self.send(["done", number, value, error, changes])

    def perform(self, operation: str, payload: list[Any]) -> Any:
        if operation == "names" and self.trusting:
            return {name: self.names[name] for name in payload[0] if name in self.names}
        target, *arguments = payload
        if type(target) is not int or not 0 <= target < len(self.exported):
            raise Malformed("an unknown handle")
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
            if type(handle) is not int or type(kind) is not str:
                raise Malformed("a handle is a number and a name")
            if handle not in self.remotes:
                self.remotes[handle] = Remote(self, handle, kind)
            return self.remotes[handle]
        if tag == "builtin" and self.trusting:
            return getattr(builtins, payload)
        raise Malformed(f"unknown tag {tag!r}")

    # Frames

    def send(self, message: Any) -> None:
        data = to_bytes(message)
        frame = len(data).to_bytes(8, "big") + data
        view = memoryview(frame)
        try:
            while view:
                view = view[os.write(self.descriptor, view) :]
        except OSError:
            self.end("the answer's process ended before the tests did")

    def receive(self, deadline: Deadline | None) -> Any:
        """The next message. What came in beyond it waits for the next call."""
        data = self.rest or self.read(deadline)
        while len(data) < 8:
            data += self.read(deadline)
        end = 8 + int.from_bytes(data[:8], "big")
        if end > LARGEST_FRAME:
            self.end("the answer sent more than a value may hold", "output size")
        if len(data) < end:
            data = self.read_up_to(end, data, deadline)
        self.rest = data[end:]
        try:
            message = from_bytes(data[8:end])
            if type(message) is not list or not message:
                raise Malformed("a message is a list")
        except Malformed as problem:
            self.end(f"the answer's process left the protocol ({problem})")
        return message

    def read_up_to(self, end: int, start: bytes, deadline: Deadline | None) -> bytes:
        parts, size = [start], len(start)
        while size < end:
            parts.append(self.read(deadline))
            size += len(parts[-1])
        return b"".join(parts)

    def read(self, deadline: Deadline | None) -> bytes:
        if deadline is not None and not deadline.wait(self.descriptor):
            self.end(f"one call took more than {deadline.seconds:g} s", "CPU time of a call")
        try:
            data = os.read(self.descriptor, 1 << 18)
        except OSError:
            data = b""
        if not data:
            self.end("the answer's process ended before the tests did")
        return data

    def deadline(self) -> Deadline | None:
        return None if self.seconds is None else Deadline(self.answer_pid, self.seconds)

    def end(self, why: str, limit: str | None = None) -> NoReturn:
        self.broken = AnswerEnded(why, limit)
        raise self.broken


class Deadline:
    """CPU seconds of another process, with three times as many of wall-clock time as a backstop."""

    def __init__(self, pid: int, seconds: float) -> None:
        self.clock = (~pid << 3) | 2  # the kernel's name for the CPU clock of a process
        self.seconds = seconds
        self.start = self.used()
        self.end = time.monotonic() + 3 * seconds + 5

    def used(self) -> float:
        try:
            return time.clock_gettime(self.clock)
        except OSError:  # it has ended; reading will say so
            return 0.0

    def wait(self, descriptor: int) -> bool:
        """Whether something can be read before time is up."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        left = self.seconds
        while left > 0 and (wall := self.end - time.monotonic()) > 0:
            if poll.poll(1000 * min(max(left, 0.005), wall)):
                return True
            left = self.seconds - (self.used() - self.start)
        return bool(poll.poll(0))


def exception_from(names: list[str], text: str) -> BaseException:
    """The nearest built-in exception to one that was raised on the other side."""
    for name in names:
        kind = getattr(builtins, name, None)
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            continue
        if not issubclass(kind, Exception):
            break
        try:
            raised: Exception = kind(text[:TEXT_LIMIT])
        except TypeError:  # one that demands other arguments: its base will do
            continue
        raised.add_note(f"{names[0]}: {text[:TEXT_LIMIT]}")
        return raised
    return AnswerExit(f"{names[0]}: {text[:TEXT_LIMIT]}")


def described(problem: BaseException) -> list[Any]:
    """[names of its classes, most special first; its message], for the other side."""
    names = [each.__name__ for each in type(problem).__mro__ if each.__name__ != "object"]
    try:
        text = str(problem)
    except BaseException:  # noqa: BLE001 - the answer's own __str__ may do anything
        text = "(its message cannot be shown)"
    return [[name[:100] for name in names], text[:TEXT_LIMIT]]
