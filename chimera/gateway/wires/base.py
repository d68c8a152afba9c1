"""What a wire format is to the gateway: requests and replies as values, replies as streams."""

from __future__ import annotations

import json
import secrets
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from chimera.errors import AgentError
from chimera.providers.base import CallFailed, Request
from chimera.providers.sdk import malformed, parsed
from chimera.providers.wire.common import MOST_TOKENS, objects
from chimera.types import JSON, Message, Response, ToolResult

#: What is sent as data: a picture has so many tokens at the most; a document, sound or film of a
#: few bytes can have as many as the model reads.
Medium = Literal["picture", "other"]
#: An event of a stream: its name, empty where the format has none, and its data.
Event = tuple[str, JSON]


class Malformed(ValueError):
    """A request that is none of its format."""


@dataclass(slots=True)
class OfferedTool:
    """A tool as a client describes it; the client runs it."""

    name: str
    description: str
    parameters: Mapping[str, JSON]
    #: It takes one text, not arguments, in formats that have such tools.
    free_text: bool = False

    def execute(self, arguments: Mapping[str, JSON], env: object) -> ToolResult:
        raise AgentError(f"the tool '{self.name}' runs at the client")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as far as all formats have it."""

    messages: tuple[Message, ...] = ()
    tools: tuple[OfferedTool, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()


class Wire(ABC):
    """One wire format. Bodies are JSON objects; what is odd in them is left out, never trusted."""

    name: ClassVar[str]
    #: How providers write and read the format.
    codec: ClassVar[Any]
    #: The field with the conversation, without which a request is none.
    conversation: ClassVar[str]
    #: The fields that decide an answer. No other is passed on: services bill some of them apart
    #: from the tokens (tiers, searches, other models), and lead to the network by others.
    fields: ClassVar[frozenset[str]]
    #: Fields that lean on what the service keeps, without which a request means something else.
    refused: ClassVar[tuple[str, ...]] = ()
    #: Headers of the client that the service needs to know.
    passed_headers: ClassVar[tuple[str, ...]] = ()

    def asked(self, body: Mapping[str, Any]) -> Asked:
        """The request in our own types; `Malformed` when it is none."""
        if not body.get(self.conversation):
            raise Malformed(f"the request has no '{self.conversation}'")
        for name in self.refused:
            if body.get(name):
                raise Malformed(f"'{name}' is not taken here: send the whole conversation")
        try:
            if any(map(self.is_reference, self.parts(body))):
                raise Malformed("files and pictures are taken as data, not by address or id")
            messages = self.codec.read_conversation(self.plain(body))
            return replace(self.settings(body), messages=tuple(messages))
        except (CallFailed, TypeError, ValueError, KeyError, AttributeError) as error:
            raise Malformed(f"the request cannot be read: {error}") from None

    #: Parts of a conversation that are data of the client's own, in which any word may stand.
    own_data: ClassVar[frozenset[str]] = frozenset()

    #: Where else than in the conversation parts can stand.
    instructions: ClassVar[tuple[str, ...]] = ()

    def parts(self, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Everything of a conversation that may be a part, at any depth."""
        said = {name: body.get(name) for name in (self.conversation, *self.instructions)}
        return every_object(said, self.own_data)

    @abstractmethod
    def is_reference(self, part: dict[str, Any]) -> bool:
        """Whether a part, wherever it stands, names what the service would fetch."""

    @abstractmethod
    def medium(self, part: dict[str, Any]) -> Medium | None:
        """What a part is whose tokens its size does not bound."""

    def media(self, body: Mapping[str, Any]) -> Counter[Medium]:
        found = (self.medium(part) for part in self.parts(body))
        return Counter(each for each in found if each is not None)

    @abstractmethod
    def runs_at_client(self, tool: dict[str, Any]) -> bool:
        """Whether an offered tool is the client's; the service's own lead to the network."""

    def passed(self, body: Mapping[str, Any]) -> tuple[dict[str, JSON], list[str]]:
        """What of a request is passed on, and the names of what is not."""
        kept = {name: value for name, value in body.items() if name in self.fields}
        withheld = [name for name in body if name not in self.fields]
        if kept.get("tools"):
            kept["tools"], others = self.client_tools(objects(kept["tools"]))
            withheld += others
            if not kept["tools"]:
                kept = {name: kept[name] for name in kept if name not in ("tools", "tool_choice")}
        return kept, withheld

    def client_tools(self, tools: list[dict[str, Any]]) -> tuple[list[JSON], list[str]]:
        """Those that run at the client, also of groups of tools, and the names of the others."""
        kept: list[JSON] = []
        others: list[str] = []
        for tool in tools:
            if not self.runs_at_client(tool):
                others.append(str(tool.get("type") or next(iter(tool), "tool")))
            elif "tools" in tool:
                inner, more = self.client_tools(objects(tool["tools"]))
                kept.append({**tool, "tools": inner})
                others += more
            else:
                kept.append(tool)
        return kept, others

    @abstractmethod
    def settings(self, body: Mapping[str, Any]) -> Asked:
        """All of the request but its messages."""

    def plain(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The request or reply as the codec knows them."""
        return body

    @abstractmethod
    def bounded(self, body: dict[str, JSON], most: int) -> dict[str, JSON]:
        """The request with `most` as the one bound on the answer's tokens."""

    def streamed(self, body: Mapping[str, Any]) -> bool:
        return body.get("stream") is True

    def prepared(self, body: dict[str, JSON], model: str) -> dict[str, JSON]:
        """The request as it is sent on: for this model, and so that the tokens are told."""
        return {**body, "model": model}

    @abstractmethod
    def whole(self, events: Iterable[JSON]) -> dict[str, JSON]:
        """The reply that a stream's data make up, as if it had not been streamed; `CallFailed` of
        one that was cut off."""

    def response(self, body: Mapping[str, Any], asked: Asked) -> Response:
        """A reply in our own types; `CallFailed` where it is none."""
        request = Request(asked.messages, asked.tools)
        read: Response = self.codec.read_reply("the model", dict(self.plain(body)), request)
        return read

    @abstractmethod
    def reply(self, response: Response, asked: Asked, model: str) -> dict[str, JSON]:
        """Our answer as a reply of the format."""

    @abstractmethod
    def events(self, reply: Mapping[str, Any]) -> Iterator[Event]:
        """A reply that `reply` made, as a stream."""

    #: What ends a stream, beyond its events.
    last_line: ClassVar[bytes] = b""

    def error(self, status: int, kind: str, message: str) -> dict[str, JSON]:
        return {"error": {"message": message, "type": kind, "code": kind, "param": None}}

    def stream(self, reply: Mapping[str, Any]) -> bytes:
        """A reply as the bytes of an event stream."""
        lines = []
        for name, data in self.events(reply):
            head = f"event: {name}\n" if name else ""
            lines.append(f"{head}data: {json.dumps(data)}\n\n".encode())
        return b"".join(lines) + self.last_line


def stream_data(stream: bytes) -> Iterator[JSON]:
    """The data of an event stream's events, as far as they are JSON."""
    for block in stream.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:")]
        if not lines or lines == [b"[DONE]"]:
            continue
        try:
            yield parsed(b"\n".join(lines))
        except ValueError:
            continue


def cut_off() -> CallFailed:
    """A stream that ended before its answer did; its service may bill what it had made."""
    return malformed("the model", "the stream ended before the answer was complete")


def new_id(prefix: str) -> str:
    """A name that no other reply has: clients take two of one name for parts of the same."""
    return f"{prefix}{secrets.token_hex(12)}"


def every_object(value: object, left_out: frozenset[str] = frozenset()) -> Iterator[dict[str, Any]]:
    """All JSON objects of a value at any depth, but for those under these names."""
    rest = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, dict):
            yield each
            rest += [inner for name, inner in each.items() if name not in left_out]
        elif isinstance(each, list):
            rest += each


def is_address(value: object) -> bool:
    """Whether a link, plain or in an object, is no data."""
    link = value.get("url") if isinstance(value, dict) else value
    return link is not None and not str(link).startswith("data:")


def linked(part: Mapping[str, Any]) -> list[Any]:
    """The links of a part, by whatever names services have for them."""
    return [link for name, link in part.items() if name.endswith("_url") and link is not None]


def is_picture(value: object) -> bool:
    """Whether a link, plain or in an object, is a picture as data: services also take documents
    and films by the name of one."""
    link = value.get("url") if isinstance(value, dict) else value
    return str(link)[:11].lower() == "data:image/"


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def limit(*values: object) -> int | None:
    """The first of these that bounds an answer."""
    whole = (each for each in values if isinstance(each, int) and not isinstance(each, bool))
    return next((each for each in whole if 0 < each <= MOST_TOKENS), None)


def real(value: object) -> float | None:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if plain and abs(value) <= MOST_TOKENS else None  # type: ignore[arg-type]


def texts(value: object) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(each for each in found if isinstance(each, str))
