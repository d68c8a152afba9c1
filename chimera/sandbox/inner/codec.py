"""Plain data as JSON with tags: what may cross between an answer, its judge and the host.

Scalars and lists are themselves; everything else is an object with one key, its tag. Mutable
containers are numbered in the order they are met, on both sides alike, so that shared, repeated and
self-containing values keep their shape, and a reply can name the containers it was given. Nothing
is ever unpickled or evaluated; a value that is not plain goes to `export`, which may refuse it.
"""

from __future__ import annotations

import functools
import json
import json.encoder
import operator
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any

FLAT = frozenset({int, float, str, bool, type(None)})
FLAT_BUT_INTEGERS = FLAT - {int}
COUNTED = 1 << 53  # the whole numbers up to here are doubles
LONG_INTEGER = 1 << 8192  # from here on they travel in hex: decimal digits are slow and limited
TYPES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        bool, bytes, complex, dict, float, frozenset, int, list, object, range, set, str, tuple,
        type,
    )
}  # fmt: skip
DATES = ("date", "time", "datetime", "timedelta")
VIEWS = {type({}.keys()): "keys", type({}.values()): "values", type({}.items()): "items"}
#: An object of a subclass counts as one of its base, whatever methods the subclass overrides.
BASES: dict[type, Callable[[Any], Any]] = {
    int: lambda value: int.__add__(value, 0),
    float: lambda value: float.__mul__(value, 1.0),
    str: lambda value: str.__add__("", value),
    bytes: lambda value: bytes.__add__(b"", value),
    tuple: lambda value: tuple.__getitem__(value, slice(None)),
    frozenset: frozenset,
    complex: lambda value: complex.__mul__(value, 1),
}
#: Classes of sympy and mpmath whose objects may equal one of Python's numbers, and which.
NUMBERS: dict[str, Callable[[Any], Any]] = {
    "Integer": int, "BooleanAtom": bool, "Float": float, "_mpf": float, "_mpc": complex,
}  # fmt: skip
#: Python's own classes around a container, which equals them.
WRAPPERS = {"UserDict": dict, "UserList": list, "UserString": str}
MUTABLE = (list, dict, set, bytearray, deque)
PLAIN_DTYPE = re.compile(r"[<>|=]?[biufcUSmM][0-9]{0,9}(\[[0-9]{0,9}[a-zA-Z]{1,2}\])?")
LOST_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class NotPlain(TypeError):
    """A value that cannot cross."""


class Malformed(ValueError):
    """Bytes that are not what the other side would send if it kept the protocol."""


def is_flat(value: Any) -> bool:
    """Whether the elements are JSON as they are. This is the fast way for long lists."""
    kinds = set(map(type, value))
    if kinds == {int}:
        return min(value) > -LONG_INTEGER and max(value) < LONG_INTEGER  # type: ignore[no-any-return]
    return kinds <= FLAT_BUT_INTEGERS


def snapshot(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else list(value)


def differs(value: Any, old: list[Any]) -> bool:
    new = snapshot(value)
    if len(new) != len(old):
        return True
    if isinstance(value, dict):
        return any(a is not c or b is not d for (a, b), (c, d) in zip(new, old, strict=True))
    return any(a is not b for a, b in zip(new, old, strict=True))


def refuse(value: Any) -> Any:
    raise NotPlain(f"a value of type {type(value).__name__} is not plain data")


class Encoder:
    """Encodes values; `objects` lists the containers both sides already have a number for."""

    def __init__(self, objects: list[Any], export: Callable[[Any], Any] = refuse) -> None:
        self.objects = objects
        self.numbers = {id(each): number for number, each in enumerate(objects)} if objects else {}
        self.export = export

    def encode(self, value: Any) -> Any:
        kind = type(value)
        if kind in FLAT:
            if kind is int and not -LONG_INTEGER < value < LONG_INTEGER:
                return {"i": hex(value)}
            return value
        if kind is list and id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)
            return value if is_flat(value) else [self.encode(each) for each in value]
        if kind is tuple:
            return {"t": self.contents(value)}
        if isinstance(value, MUTABLE):
            return self.container(value, kind)
        return self.rare(value, kind)

    def contents(self, value: Any) -> Any:
        """The elements of a container, as a list."""
        if isinstance(value, dict):
            return [[self.encode(key), self.encode(each)] for key, each in value.items()]
        if isinstance(value, (bytes, bytearray)):
            return value.hex()
        if is_flat(value):
            return value if type(value) is list else list(value)
        return [self.encode(each) for each in value]

    def container(self, value: Any, kind: type) -> Any:
        number = self.numbers.get(id(value))
        if number is not None:
            return {"r": number}
        self.numbers[id(value)] = len(self.objects)
        self.objects.append(value)
        contents = self.contents(value)
        if isinstance(value, list):
            return contents
        if isinstance(value, dict):
            tag = "C" if kind is Counter else "O" if kind is OrderedDict else "d"
        else:
            tag = "s" if isinstance(value, set) else "q" if isinstance(value, deque) else "B"
        return {tag: contents}

    def changes(self, before: list[tuple[Any, list[Any]]]) -> list[Any]:
        """[number, new contents] of each container that is not as its snapshot says."""
        return [
            [number, self.contents(value)]
            for number, (value, old) in enumerate(before)
            if differs(value, old)
        ]

    def rare(self, value: Any, kind: type) -> Any:
        name = kind.__name__
        module = kind.__module__
        if kind in (frozenset, bytes):
            return {"f" if kind is frozenset else "b": self.contents(value)}
        if kind is complex:
            return {"c": [value.real, value.imag]}
        if kind is range:
            return {"range": [self.encode(each) for each in (value.start, value.stop, value.step)]}
        if kind is slice:
            return {"slice": [self.encode(each) for each in (value.start, value.stop, value.step)]}
        if kind in VIEWS:
            return {VIEWS[kind]: self.contents(list(value))}
        if kind is type and any(value is each for each in TYPES.values()):
            return {"type": value.__name__}
        if value is Ellipsis or value is NotImplemented:
            return {"constant": repr(value)}
        if module == "numpy" and not isinstance(value, (str, bytes)):  # its arrays drop zeros
            return self.numpy(value)
        if module == "decimal" and name == "Decimal":
            return {"decimal": str(value)}
        if module == "fractions" and name == "Fraction":
            return {"fraction": [self.encode(value.numerator), self.encode(value.denominator)]}
        if module == "datetime" and name in DATES and getattr(value, "tzinfo", None) is None:
            if name == "timedelta":
                return {name: [value.days, value.seconds, value.microseconds]}
            return {name: value.isoformat()}
        for base, plain in BASES.items():
            if isinstance(value, base):
                return self.encode(plain(value))
        if module.partition(".")[0] in ("mpmath", "sympy"):
            return self.number(value, kind)
        if module == "collections" and type(getattr(value, "data", None)) is WRAPPERS.get(name):
            return self.encode(value.data)
        return self.export(value)

    def number(self, value: Any, kind: type) -> Any:
        """One of Python's numbers, where the object says that it equals it."""
        for base in kind.__mro__:
            plain = NUMBERS.get(base.__name__)
            try:
                if plain is not None and (value == plain(value)) is True:
                    return self.encode(plain(value))
            except Exception:  # noqa: BLE001 - beyond what a float holds, and what else objects do
                break
        return self.export(value)

    def numpy(self, value: Any) -> Any:
        dtype = getattr(value, "dtype", None)
        if dtype is None or dtype.kind not in "biufcUSmM" or not hasattr(value, "tobytes"):
            return self.export(value)
        return {"numpy": [dtype.str, list(value.shape), value.ndim == 0, value.tobytes().hex()]}


class Decoder:
    """Decodes what `Encoder` wrote. `objects` must start as it did on the other side."""

    def __init__(
        self, objects: list[Any], resolve: Callable[[str, Any], Any] | None = None
    ) -> None:
        self.objects = objects
        self.resolve = resolve

    def decode(self, value: Any) -> Any:
        if type(value) is list:
            return self.list_of(value)
        if type(value) is not dict:
            return value
        if len(value) != 1:
            raise Malformed("a tagged value has exactly one tag")
        ((tag, payload),) = value.items()
        read = READERS.get(tag)
        if read is not None:
            return read(self, payload)
        if self.resolve is None:
            raise Malformed(f"unknown tag {tag!r}")
        return self.resolve(tag, payload)

    def list_of(self, value: list[Any]) -> list[Any]:
        if FLAT.issuperset(map(type, value)):
            self.objects.append(value)
            return value
        result: list[Any] = []
        self.objects.append(result)
        result.extend(map(self.decode, value))
        return result

    def elements(self, payload: Any) -> Iterable[Any]:
        if type(payload) is not list:
            raise Malformed("expected a list")
        if FLAT.issuperset(map(type, payload)):
            return payload
        return map(self.decode, payload)

    def pairs(self, payload: Any) -> Iterable[tuple[Any, Any]]:
        for key, each in payload:
            yield self.decode(key), self.decode(each)

    def numbered(self, empty: Any) -> Any:
        self.objects.append(empty)
        return empty

    def set_(self, payload: Any) -> Any:
        """A set that is iterated in the order it came in, where a set can be made to be: one that
        was written out in a program has another table than one that grew."""
        result: set[Any] = self.numbered(set())
        elements = list(self.elements(payload))
        result.update(elements)
        if any(one is not other for one, other in zip(result, elements, strict=False)):
            result.clear()
            result.update(frozenset(elements))
        return result

    def mapping(self, empty: dict[Any, Any], payload: Any) -> Any:
        result = self.numbered(empty)
        for key, each in self.pairs(payload):
            result[key] = each
        return result

    def deque_(self, payload: Any) -> Any:
        result: deque[Any] = self.numbered(deque())
        result.extend(self.elements(payload))
        return result

    def reference(self, payload: Any) -> Any:
        if type(payload) is not int or payload < 0:
            raise Malformed("a reference is a number")
        return self.objects[payload]


def _date(name: str) -> Callable[[Decoder, Any], Any]:
    def read(decoder: Decoder, payload: Any) -> Any:
        import datetime

        kind = getattr(datetime, name)
        value = kind(*payload) if name == "timedelta" else kind.fromisoformat(payload)
        if getattr(value, "tzinfo", None) is not None:
            raise Malformed("only naive dates cross")
        return value

    return read


def _decimal(decoder: Decoder, payload: Any) -> Any:
    from decimal import Decimal

    return Decimal(payload)


def _fraction(decoder: Decoder, payload: Any) -> Any:
    from fractions import Fraction

    numerator, denominator = map(decoder.decode, payload)
    return Fraction(numerator, denominator)


def _numpy(decoder: Decoder, payload: Any) -> Any:
    try:
        import numpy
    except ImportError:
        raise Malformed("a numpy value, and numpy is not here") from None
    code, shape, scalar, data = payload
    if PLAIN_DTYPE.fullmatch(code) is None or any(each < 0 for each in shape):
        raise Malformed("only plain numpy values cross")
    array = numpy.frombuffer(bytes.fromhex(data), dtype=numpy.dtype(code)).reshape(shape).copy()
    if array.dtype.kind == "U":
        array.tolist()  # refuses what is no text
    if array.dtype.kind in "iufc":
        array = _widened(numpy, array)
    return array[()] if scalar is True and not shape else array


def _widened(numpy: Any, array: Any) -> Any:
    """The same numbers, which equal no others: numpy compares with Python's numbers in its own
    width, where they equal their neighbours. Narrow ones are widened, and where one is beyond what
    doubles count, all are compared and taken out as Python's own. numpy reckons with them as ever.
    """
    if array.dtype.kind in "fc":
        wide = numpy.float64 if array.dtype.kind == "f" else numpy.complex128
        array = array.astype(numpy.result_type(array, wide))
    if not any(_uncounted(numpy, part).any() for part in (array.real, array.imag)):
        return array
    return array.view(_exact_array(numpy))


def _uncounted(numpy: Any, part: Any) -> Any:
    return numpy.isfinite(part) & ((part >= COUNTED) | (part <= -COUNTED))


@functools.cache
def _exact_array(numpy: Any) -> Any:
    def exact(values: Any) -> Any:
        """The same, with Python's numbers for numpy's."""
        if not isinstance(values, numpy.ndarray):
            return _exact(numpy, values)
        found = numpy.empty(values.shape, dtype=object)
        found.flat = [_exact(numpy, each) for each in numpy.asarray(values).flat]
        return found

    def compared(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def compare(self: Any, other: Any) -> Any:
            found = operation(exact(self), exact(other))
            return found.astype(bool) if isinstance(found, numpy.ndarray) else found

        return compare

    def item(self: Any, place: Any) -> Any:
        found = numpy.ndarray.__getitem__(self, place)
        return found if isinstance(found, numpy.ndarray) else exact(found)

    def iterate(self: Any) -> Iterable[Any]:
        return (self[place] for place in range(len(self)))

    names = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
    comparisons = {name: compared(getattr(operator, name)) for name in names}
    others = {"__getitem__": item, "__iter__": iterate, "__hash__": None}
    return type("ndarray", (numpy.ndarray,), {**comparisons, **others, "__module__": "numpy"})


def _exact(numpy: Any, number: Any) -> Any:
    """A number of numpy's as one of Python's; what is none stays as it is."""
    if not isinstance(number, numpy.number):
        return number
    plain = number.item()
    if isinstance(plain, numpy.complexfloating):
        return complex(plain)
    if not isinstance(plain, numpy.floating):
        return plain
    if not numpy.isfinite(plain):
        return float(plain)
    from fractions import Fraction

    return Fraction(*plain.as_integer_ratio())


READERS: dict[str, Callable[[Decoder, Any], Any]] = {
    "i": lambda decoder, payload: int(payload, 16),
    "t": lambda decoder, payload: tuple(decoder.elements(payload)),
    "d": lambda decoder, payload: decoder.mapping({}, payload),
    "O": lambda decoder, payload: decoder.mapping(OrderedDict(), payload),
    "C": lambda decoder, payload: decoder.mapping(Counter(), payload),
    "s": Decoder.set_,
    "q": Decoder.deque_,
    "f": lambda decoder, payload: frozenset(decoder.elements(payload)),
    "b": lambda decoder, payload: bytes.fromhex(payload),
    "B": lambda decoder, payload: decoder.numbered(bytearray.fromhex(payload)),
    "c": lambda decoder, payload: complex(*payload),
    "r": Decoder.reference,
    "range": lambda decoder, payload: range(*map(decoder.decode, payload)),
    "slice": lambda decoder, payload: slice(*map(decoder.decode, payload)),
    "keys": lambda decoder, payload: dict.fromkeys(decoder.elements(payload)).keys(),
    "values": lambda decoder, payload: dict(enumerate(decoder.elements(payload))).values(),
    "items": lambda decoder, payload: dict(decoder.elements(payload)).items(),
    "type": lambda decoder, payload: TYPES[payload],
    "constant": lambda decoder, payload: {"Ellipsis": ..., "NotImplemented": NotImplemented}[
        payload
    ],
    "decimal": _decimal,
    "fraction": _fraction,
    "numpy": _numpy,
    **{name: _date(name) for name in DATES},
}


# The C parts of `json`, taken once: what lies around them costs more than they do.
# Each not-a-number is an object of its own: one that stood for all would equal itself in lists.
SCAN: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(parse_constant=float).scan_once  # type: ignore[attr-defined]
WRITE = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, refuse, json.encoder.encode_basestring, None, ":", ",", False, False, True
)  # fmt: skip


def to_text(encoded: Any) -> str:
    """JSON text; a lone surrogate in a string is written as its escape."""
    text = "".join(WRITE(encoded, 0))
    return text if text.isascii() else escaped(text)


def escaped(text: str) -> str:
    if LOST_PAIR.search(text):  # their escapes would be read as one character
        raise NotPlain("a text with two halves of a character side by side is not plain data")
    return text.encode("utf-8", "backslashreplace").decode()


def to_bytes(encoded: Any) -> bytes:
    return to_text(encoded).encode()


def text_of(data: bytes) -> str:
    """The text of a message, in the one form that it is read, kept and stored in."""
    try:
        text = data.decode("utf-8", "surrogatepass")
        return text if text.isascii() else escaped(text)
    except (UnicodeDecodeError, NotPlain):
        raise Malformed("not a message: not text") from None


def parsed(text: str) -> Any:
    """The JSON value that a text is, all of it."""
    try:
        value, end = SCAN(text, 0)
    except (ValueError, RecursionError, StopIteration) as error:
        raise Malformed(f"not a message: {type(error).__name__}") from None
    if end != len(text):
        raise Malformed("not a message: something follows it")
    return value


def from_bytes(data: bytes) -> Any:
    return parsed(text_of(data))


def dump(value: Any) -> bytes:
    """One plain value as bytes; `NotPlain` when it is not."""
    return to_bytes(Encoder([]).encode(value))


def load(data: bytes) -> Any:
    """The value `dump` wrote; `Malformed` for anything else."""
    return decoded(Decoder([]), from_bytes(data))


def decoded(decoder: Decoder, value: Any) -> Any:
    """What an encoded value stands for. Whatever breaks a decoder was no value: `Malformed`."""
    try:
        return decoder.decode(value)
    except Exception as error:  # noqa: BLE001 - numpy alone raises half a dozen kinds
        raise Malformed(f"not plain data: {type(error).__name__}: {str(error)[:200]}") from None
