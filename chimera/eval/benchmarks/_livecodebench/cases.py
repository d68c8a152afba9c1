"""Test cases of LiveCodeBench rows. Private ones are pickled upstream; they are never unpickled."""

from __future__ import annotations

import base64
import binascii
import json
import pickletools
import zlib
from typing import Any, Literal, TypedDict

#: Legitimate rows reach several hundred MB.
MAX_BYTES = 1024**3
#: A pickle of one string has these and nothing else: no opcode that could build an object.
_STRING_OPCODES = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"})
_HARMLESS_OPCODES = frozenset({"PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT", "STOP"})


class Case(TypedDict):
    input: str
    output: str
    testtype: Literal["stdin", "functional"]


def read_cases(text: Any, where: str) -> list[Case]:
    """The cases a field holds: JSON text, a list, or base64 of zlib of a pickled JSON string."""
    if isinstance(text, str):
        try:
            content = json.loads(text)
        except ValueError:
            content = _loads(_packed(text, where), where)
    else:
        content = text
    if not isinstance(content, list):
        raise ValueError(f"{where}: expected a list of tests, found {type(content).__name__}")
    for number, case in enumerate(content):
        if (
            not isinstance(case, dict)
            or not isinstance(case.get("input"), str)
            or not isinstance(case.get("output"), str)
            or case.get("testtype") not in ("stdin", "functional")
        ):
            raise ValueError(f"{where}: test {number} lacks input, output or a known testtype")
    return content


def _loads(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON once unpacked: {error}") from None


def _packed(text: str, where: str) -> str:
    try:
        compressed = base64.b64decode(text, validate=True)
        stream = zlib.decompressobj()
        pickled = stream.decompress(compressed, MAX_BYTES)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"{where}: neither JSON nor base64 of zlib data: {error}") from None
    if stream.unconsumed_tail or not stream.eof:
        reason = (
            f"unpacks to more than {MAX_BYTES >> 20} MiB"
            if stream.unconsumed_tail
            else "is cut off"
        )
        raise ValueError(f"{where}: {reason}; refused")
    return _pickled_string(pickled, where)


def _pickled_string(data: bytes, where: str) -> str:
    """The one string a pickle holds, read from its opcodes; anything else in it is refused."""
    try:
        operations = [(opcode.name, argument) for opcode, argument, _ in pickletools.genops(data)]
    except (ValueError, IndexError, KeyError) as error:
        raise ValueError(f"{where}: damaged pickle: {error}") from None
    names = [name for name, _ in operations]
    foreign = [name for name in names if name not in _STRING_OPCODES | _HARMLESS_OPCODES]
    if foreign:
        raise ValueError(f"{where}: a pickle with {foreign[0]}, not a plain string; refused")
    strings = [argument for name, argument in operations if name in _STRING_OPCODES]
    if len(strings) != 1:
        raise ValueError(f"{where}: a pickle of {len(strings)} strings instead of one; refused")
    return str(strings[0])
