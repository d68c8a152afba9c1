"""What every tau domain shares: tools over plain dicts, calls and their texts, hashes of the state.

The official environments are Python classes over pydantic models, and parts of that show in what an
agent reads: a wrong argument is answered with Python's own TypeError, a malformed object with
pydantic's report. Those texts are part of the protocol, so they are reproduced here.
"""

from __future__ import annotations

import ast
import inspect
import json
import operator
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, create_model

from chimera.types import JSON

Kind = Literal["read", "write", "generic"]
Requestor = Literal["assistant", "user"]
Database = dict[str, Any]
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

#: The links in pydantic's reports name its version; recorded conversations carry this one.
PYDANTIC_LINK = "https://errors.pydantic.dev/2.11/"


class Record(dict[str, Any]):
    """A dict that stands for one of the official model objects: rendered with its numbers as they
    are, while a plain dict that a tool returns has its scalars turned into strings."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of a conversation."""

    name: str
    arguments: Mapping[str, JSON]
    requestor: Requestor = "assistant"
    id: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the environment answers to a call."""

    content: str
    error: bool = False


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """A tool as the domain declares it."""

    name: str
    kind: Kind
    mutates: bool
    discoverable: bool
    description: str
    parameters: Mapping[str, JSON]
    signature: inspect.Signature


def tool(
    kind: Kind, *, mutates: bool | None = None, discoverable: bool = False
) -> Callable[[FunctionT], FunctionT]:
    """Declare a method as a tool; its docstring's first paragraph is what the model reads."""

    def mark(function: FunctionT) -> FunctionT:
        changes = kind == "write" if mutates is None else mutates
        function.__dict__["declared"] = (kind, changes, discoverable)
        return function

    return mark


class Toolkit:
    """The tools of one side (agent or user) over its database.

    `official` is the name of the upstream class, which Python's messages about wrong arguments
    carry. Public methods that are no tools may be called by a task's set-up and assertions.
    """

    official: ClassVar[str]
    #: The model of the database, which a task's own data are checked with.
    database: ClassVar[type[BaseModel]]
    #: What a parameter means, by its name; shown to the model.
    arguments: ClassVar[Mapping[str, str]] = {}
    #: Tools of a base class that this one does not have.
    without: ClassVar[frozenset[str]] = frozenset()
    #: Tools whose results are in our words: beyond their first line, records may differ.
    own_words: frozenset[str] = frozenset()
    tools: ClassVar[Mapping[str, ToolFunction]] = {}

    def __init__(self, db: Database) -> None:
        self.db = db

    def __init_subclass__(cls) -> None:
        found: dict[str, ToolFunction] = {}
        for base in reversed(cls.__mro__[1:]):
            found |= vars(base).get("tools", {})
        for name, function in vars(cls).items():
            if declared := getattr(function, "declared", None):
                found[name] = _declare(cls, name, function, *declared)
        cls.tools = {name: known for name, known in found.items() if name not in cls.without}

    def visible(self) -> Sequence[ToolFunction]:
        """The tools a model is shown."""
        return [known for known in self.tools.values() if not known.discoverable]

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Run a tool. What it raises is, with "Error: " before it, what the caller reads."""
        if name not in self.tools:
            raise ValueError(f"Tool '{name}' not found.")
        known = self.tools[name]
        check_arguments(f"{self.official}.{name}", known.signature, arguments)
        return getattr(self, name)(**arguments)

    def _refusal(self, text: str, *values: object) -> Exception:
        """What a tool raises when it will not do what it is asked; values fill the places in it."""
        return ValueError(text.format(*values) if values else text)

    def _find(self, table: str, label: str, key: str) -> Any:
        """A record by its key."""
        if key not in self.db[table]:
            raise self._refusal(f"{label} {key} not found")
        return self.db[table][key]

    def run_function(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Run a public method by name: a tool, a set-up function or an assertion of a task."""
        function = None if name.startswith("_") or name in RESERVED else getattr(self, name, None)
        if not inspect.ismethod(function):
            raise AttributeError(f"'{self.official}' object has no attribute '{name}'")
        return function(**arguments)

    @classmethod
    def load(cls, raw: Any) -> Database:
        """A whole database as plain JSON values, after the model's conversions."""
        checked_whole = cls.database.model_validate(raw).model_dump()
        loaded: Database = json.loads(json.dumps(checked_whole, default=str))
        return loaded

    def update_db(self, changes: Mapping[str, Any]) -> None:
        """Lay a task's data over the database; the task keeps its own."""
        self.db = self.load(deep_update(self.db, deepcopy(changes)))


RESERVED = frozenset({"call", "load", "run_function", "update_db", "visible"})


def _declare(
    cls: type[Toolkit],
    name: str,
    function: Callable[..., Any],
    kind: Kind,
    mutates: bool,
    discoverable: bool,
) -> ToolFunction:
    signature = inspect.signature(function)
    signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    description = inspect.cleandoc(function.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    parameters = schema(signature, typing.get_type_hints(function), cls.arguments)
    return ToolFunction(name, kind, mutates, discoverable, description, parameters, signature)


def schema(
    signature: inspect.Signature, hints: Mapping[str, Any], descriptions: Mapping[str, str]
) -> dict[str, JSON]:
    """The JSON schema of a function's parameters."""
    properties: dict[str, JSON] = {}
    required: list[str] = []
    for name, parameter in signature.parameters.items():
        properties[name] = _type_schema(hints.get(name, str))
        if name in descriptions:
            properties[name]["description"] = descriptions[name]
        if parameter.default is parameter.empty:
            required.append(name)
        else:
            properties[name]["default"] = parameter.default
    return {"type": "object", "properties": properties, "required": required}


_SCALARS: Mapping[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def _type_schema(hint: Any) -> dict[str, JSON]:
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": _type_schema(arguments[0])}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_type_schema(argument) for argument in arguments]}
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        made = hint.model_json_schema()
        return {key: made[key] for key in ("type", "properties", "required") if key in made}
    return {"type": "object"}


def check_arguments(
    function: str, signature: inspect.Signature, arguments: Mapping[str, Any]
) -> None:
    """Raise the TypeError of a call with these keyword arguments, in the words of Python 3.12."""
    for name in arguments:
        if name not in signature.parameters:
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
    missing = [
        f"'{name}'"
        for name, parameter in signature.parameters.items()
        if parameter.default is parameter.empty and name not in arguments
    ]
    if missing:
        head, last = missing[:-1], missing[-1]
        listed = last if not head else f"{', '.join(head)}{',' if len(head) > 1 else ''} and {last}"
        plural = "s" if head else ""
        raise TypeError(
            f"{function}() missing {len(missing)} required positional argument{plural}: {listed}"
        )


def model(title: str, config: ConfigDict | None = None, /, **fields: Any) -> type[BaseModel]:
    """A pydantic model from `field=type` and `field=(type, default)`, for reports in its words."""
    declared = {
        key: kind if isinstance(kind, tuple) else (kind, ...) for key, kind in fields.items()
    }
    return create_model(title, __config__=config, **declared)  # type: ignore[no-any-return, call-overload]


def checked(kind: type[BaseModel], value: Mapping[str, Any]) -> Record:
    """The value as the model stores it: known fields in their order, with their defaults."""
    return Record(kind(**value).model_dump())


def attribute(item: Any, name: str) -> Any:
    """A field of a checked object; anything else answers as a Python object without it."""
    if isinstance(item, Record):
        return item[name]
    raise AttributeError(f"'{type(item).__name__}' object has no attribute '{name}'")


def error_text(error: Exception) -> str:
    """What stands behind "Error: " in an agent's view of a tool that raised."""
    return re.sub(r"https://errors\.pydantic\.dev/[\d.]+/", PYDANTIC_LINK, str(error))


def render(value: Any) -> str:
    """A tool's result as the text that goes into the conversation."""
    if isinstance(value, str):
        return value
    return json.dumps(_plain(value), default=str)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (Record, str)):
        return value
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    raise ValueError(f"Unsupported type: {type(value)}")


def deep_update(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Database:
    """`base` with `changes` laid over it; dicts are merged, everything else is replaced."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        result[key] = deep_update(old, value) if both and isinstance(old, dict) else value
    return result


@dataclass(slots=True)
class World:
    """The state of one conversation: the agent's tools, the user's, and what keeps them in step."""

    agent: Toolkit
    user: Toolkit | None = None
    synchronise: Callable[[Toolkit, Toolkit], None] | None = None

    def __post_init__(self) -> None:
        self.sync()

    def sync(self) -> None:
        if self.synchronise is not None and self.user is not None:
            self.synchronise(self.agent, self.user)

    def toolkit(self, side: str) -> Toolkit:
        if side == "assistant":
            return self.agent
        if side == "user" and self.user is not None:
            return self.user
        raise ValueError(
            "User tools not available" if side == "user" else f"Invalid requestor: {side}"
        )

    def has(self, name: str) -> bool:
        return name in self.agent.tools or (self.user is not None and name in self.user.tools)

    def mutates(self, name: str) -> bool:
        for toolkit in (self.agent, self.user):
            if toolkit is not None and name in toolkit.tools:
                return toolkit.tools[name].mutates
        return True

    def respond(self, call: Call) -> Reply:
        """Run a call as agent or user makes it: what goes wrong is an answer, not a fault."""
        try:
            _check_dispatch(call.arguments)
            result = self.toolkit(call.requestor).call(call.name, call.arguments)
            self.sync()
            return Reply(render(result))
        except Exception as error:  # noqa: BLE001 - the caller reads it, by the official rule
            return Reply(f"Error: {error_text(error)}", error=True)

    def replay(self, call: Call) -> str | None:
        """Run a gold call, not keeping both sides in step; the text of what it raised, or None."""
        try:
            self.toolkit(call.requestor).call(call.name, call.arguments)
        except Exception as error:  # noqa: BLE001 - gold calls may fail; officially that is only logged
            return error_text(error)
        return None

    def run_function(self, side: str, name: str, arguments: Mapping[str, Any]) -> Any:
        result = self.toolkit(side).run_function(name, arguments)
        self.sync()
        return result

    def initialise(self, agent_data: Any, user_data: Any) -> None:
        """Lay a task's data over the databases. Officially either side's new database then serves
        both, which only matters where both sides have one."""
        if agent_data is not None:
            self.agent.update_db(agent_data)
            if self.user is not None:
                self.user.db = self.agent.db
        if user_data is not None and self.user is not None:
            self.user.update_db(user_data)
            self.agent.db = self.user.db

    def same_as(self, other: World) -> tuple[bool, bool]:
        """Whether the agent's and the user's databases are the same in both worlds."""
        agent = same_state(self.agent.db, other.agent.db)
        if self.user is None or other.user is None:
            return agent, self.user is other.user
        return agent, same_state(self.user.db, other.user.db)


def _check_dispatch(arguments: Mapping[str, Any]) -> None:
    """Raise what Python does when arguments have names that the official dispatcher itself has."""
    dispatcher = "Environment.make_tool_call() got multiple values for"
    if "requestor" in arguments:
        raise TypeError(f"tau2.environment.environment.{dispatcher} keyword argument 'requestor'")
    for name in arguments:
        if name in ("self", "tool_name"):
            raise TypeError(f"{dispatcher} argument '{name}'")


class Table(dict[str, Any]):
    """Records of a large table, shared between conversations until one is taken by its key.

    Whoever changes a record takes it with `table[key]`, which copies it first; what `values()` and
    `items()` give is only to be read.
    """

    def __init__(self, records: Mapping[str, Any]) -> None:
        super().__init__(records)
        self._own: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if key not in self._own:
            value = deepcopy(value)
            self[key] = value
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        self._own.add(key)
        super().__setitem__(key, value)


def fresh(db: Any) -> Any:
    """A database of tables of records for one more conversation, at the price of its keys."""
    return {name: Table(records) for name, records in db.items()}


def same_state(one: Any, other: Any) -> bool:
    """Whether two states have the same official hash, that of their JSON text with sorted keys: the
    order of lists counts, 5 differs from 5.0."""
    if one is other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return False
        return all(same_state(dict.get(one, key), dict.get(other, key)) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_state, one, other))
    return type(one) is type(other) and bool(one == other)


_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


#: Longer ones would keep everybody waiting: numbers grow with every multiplication.
MOST_CHARACTERS = 10_000


def calculate(expression: str) -> str:
    """The value of an arithmetic expression, rounded to cents, as `calculate` prints it."""
    if len(expression) > MOST_CHARACTERS:
        raise MemoryError(f"an expression of more than {MOST_CHARACTERS} characters")
    tree = ast.parse(expression.lstrip(" \t"), filename="<string>", mode="eval")
    return str(round(float(_evaluate(tree.body)), 2))


def _evaluate(node: ast.AST) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Tuple(elts=elements):
            return tuple(_evaluate(element) for element in elements)
        case ast.UnaryOp(op=operation, operand=operand):
            return _OPERATORS[type(operation)](_evaluate(operand))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_evaluate(left), _evaluate(right))
        case ast.BinOp(left=left, op=operation, right=right):
            return _OPERATORS[type(operation)](_evaluate(left), _evaluate(right))
        case ast.Call(func=function):
            raise TypeError(f"'{type(_evaluate(function)).__name__}' object is not callable")
    raise SyntaxError("invalid syntax (<string>, line 1)")


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > 4096:
        raise OverflowError("int too large to convert to float")
    return base**exponent
