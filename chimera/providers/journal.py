"""Calls of a trial that is not stored yet, kept so that an interrupted one is not paid twice."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import math
import os
import re
import stat
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from chimera.providers.meter import CallRecord
from chimera.types import JSON, Message, Native, Usage

VOLATILE = re.compile(r"[0-9a-f]{6,}|\d+")


@dataclass(frozen=True, slots=True)
class JournaledCall:
    """A reply as its client got it, by what had been said, and what it cost. `native` is what the
    client's format had no place for, and the model wants back."""

    key: str
    reply: bytes
    account: CallRecord
    native: Native | None = None


def conversation_key(kind: str, messages: Sequence[Message]) -> str:
    """What was said, without what is never the same twice: what a client says of itself (its system
    prompt), and the numbers (times, process ids) in what it and its tools tell. Behind the dot,
    what was said to the letter."""
    said = [
        (
            message.role,
            message.content,
            [[call.name, call.raw_arguments] for call in message.tool_calls],
            [hashlib.sha256(image.data.encode()).hexdigest() for image in message.images],
        )
        for message in messages
        if message.role != "system"
    ]
    alike = [
        (role, text if role == "assistant" else VOLATILE.sub("#", text), *shown)
        for role, text, *shown in said
    ]
    texts = [json.dumps([kind, each]).encode("utf-8", "surrogatepass") for each in (alike, said)]
    return ".".join(hashlib.sha256(text).hexdigest() for text in texts)


class Journal:
    """A file with a line for each call; what a killed process left there is given out once. It may
    lie beside a stranger's run: what leads elsewhere is neither read nor written."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory, self.name = directory, name
        self._lock = threading.Lock()
        self.left = _read(directory, name)

    def take(self, key: str) -> JournaledCall | None:
        """The reply to this conversation, if it was paid for and not given out yet; to one that
        differs in its numbers alone, if there is none to the very same."""
        with self._lock:
            same = [call for call in self.left if call.key == key]
            start = key.partition(".")[0]
            alike = [call for call in self.left if call.key.partition(".")[0] == start]
            found = next(iter([*same, *alike]), None)
            if found is not None:
                self.left.remove(found)
            return found

    def add(self, call: JournaledCall) -> None:
        value = {
            "key": call.key,
            "reply": base64.b64encode(call.reply).decode(),
            "account": asdict(call.account),
            "native": None if call.native is None else asdict(call.native),
        }
        line = json.dumps(value).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):  # without it a call may be paid twice
            self.directory.mkdir(parents=True, exist_ok=True)
            with _opened(self.directory, self.name, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as file:
                file.write(line)

    def remove(self) -> None:
        """The trial's record has all of it."""
        with contextlib.suppress(OSError):
            (self.directory / self.name).unlink(missing_ok=True)
            self.directory.rmdir()


def _read(directory: Path, name: str) -> list[JournaledCall]:
    """The calls of the file; a line that was cut off by the end of its process is none."""
    calls = []
    try:
        with _opened(directory, name, os.O_RDONLY) as file:
            lines = file.read().split(b"\n")
    except OSError:
        return []
    for line in lines:
        try:
            value = json.loads(line)
            native = Native(**value["native"]) if value.get("native") else None
            reply = base64.b64decode(value["reply"])
            calls.append(JournaledCall(value["key"], reply, _account(value["account"]), native))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return calls


def _opened(directory: Path, name: str, flags: int) -> IO[bytes]:
    """The file itself, which is no link, in a directory that is none; an `OSError` otherwise."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        number = os.open(name, flags, 0o600, dir_fd=opened)
    finally:
        os.close(opened)
    file = os.fdopen(number, "ab" if flags & os.O_APPEND else "rb")
    if not stat.S_ISREG(os.fstat(number).st_mode):
        file.close()
        raise OSError(f"{name} is no file")
    return file


def _account(value: dict[str, JSON]) -> CallRecord:
    """What a call cost; a `ValueError` of what no call can have cost."""
    account = CallRecord(**{**value, "usage": Usage(**value["usage"])})
    tokens = asdict(account.usage).values()
    told = [*tokens, account.started, account.seconds, account.cost or 0.0]
    if not all(type(each) is int for each in tokens) or not all(0 <= n < math.inf for n in told):
        raise ValueError("the account is none")
    return account
