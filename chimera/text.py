"""Foreign text at the border: what a store cannot hold, and what a terminal would obey.

An answer, a model's reply, a data set and a run file may hold any character. Stored text is kept
as it came, except that lone surrogates, which are no text and which no encoding holds, become
U+FFFD. Shown text has every character that would move the cursor, reach the terminal or turn
around the order of its neighbours written out as `\\u001b`. That is also JSON's own way to write
them, so that JSON stays the same document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

ValueT = TypeVar("ValueT")
#: The most characters of a name that somebody may have mistyped, and names it is compared with.
MOST_TYPED = 200
MOST_NEAR = 2000

#: What most values are that are no text.
_WITHOUT_TEXT = frozenset({bool, bytes, float, int, type(None)})
_SURROGATES = re.compile("[\ud800-\udfff]")
#: Controls but line feed and tab, soft hyphen, marks and orders of writing direction, invisible
#: spaces and separators, surrogates, annotations, tags. Joiners stay: scripts and emoji need them.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)


def storable(text: str) -> str:
    """`text` with U+FFFD for each lone surrogate; everything else as it is."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def storable_value(value: ValueT) -> ValueT:
    """Plain data, or a dataclass of it, with every text in it `storable`."""
    return with_texts(value, storable)


def with_texts(value: ValueT, change: Callable[[str], str]) -> ValueT:
    """Plain data, or a dataclass of it, with every text in it changed, keys too."""
    kind: Any = type(value)
    changed: Any = value
    if kind in _WITHOUT_TEXT:
        return value
    if isinstance(value, str):
        changed = change(value)
    elif isinstance(value, Mapping):
        changed = {with_texts(key, change): with_texts(item, change) for key, item in value.items()}
    elif isinstance(value, (list, tuple)):
        changed = kind([with_texts(item, change) for item in value])
    elif is_dataclass(value) and not isinstance(value, type):
        names = _field_names(kind)
        changed = kind(**{name: with_texts(getattr(value, name), change) for name in names})
    return changed  # type: ignore[no-any-return]


@lru_cache(maxsize=256)
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def printable(text: str) -> str:
    """`text` that a terminal shows and does not obey; its lines and tabs stay."""
    return _OBEYED.sub(_written_out, text)


def one_line(text: str, most: int = 200) -> str:
    """`text` as a part of a line of ours: printable, without line feeds, at most so long.

    What is too long is cut in the middle: a reason's cause is often at its end.
    """
    half = (most - 1) // 2
    cut = text if len(text) <= most else f"{text[: most - 1 - half]}…{text[-half:]}"
    return printable(cut).replace("\n", "\\n").replace("\t", " ")


def first_line(text: str, most: int = 100) -> str:
    """What to show of a reason in a list: its first line that says something."""
    return one_line(text.strip().partition("\n")[0], most)


def log_end(log: str, most: int = 2000) -> str:
    """The end of a log, its last line first: that says why, and lists show one line."""
    end = log.strip()[-most:]
    last = end.rpartition("\n")[2]
    return end if last == end else f"{last}\n{end}"


def markdown(text: str) -> str:
    """`text` in Markdown, shown as it is: no markup, no mention, no link, no cell of its own."""
    plain = re.sub(
        r"[\\`*_{}\[\]()#+!|~@:<>&-]|(?<=www)\.", lambda s: f"&#{ord(s[0])};", one_line(text)
    )
    return plain.replace("&#64;", "&#64;&#8203;")  # people are looked for in what is shown


def code_span(text: str) -> str:
    """`text` as code in Markdown, in which nothing means anything; in tables too."""
    plain = one_line(text, 160).replace("|", "\\|")
    fence = "`" * (1 + max(map(len, re.findall("`+", plain)), default=0))
    space = " " if "`" in plain else ""
    return f"{fence}{space}{plain}{space}{fence}"


_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"}, "−": "$-$", "–": "--",
    **{sign: f"{{{sign}}}" for sign in "[]*"},  # after the end of a row these are orders
}  # fmt: skip


def latex(text: str) -> str:
    """`text` in LaTeX, shown as it is."""
    return "".join(_LATEX.get(sign, sign) for sign in one_line(text))


def file_name(text: str) -> str:
    """`text` as the name of a file: ASCII letters, digits and "-_." alone, never a path."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", text[:200])
    return name if name.strip(".") else f"_{name}"


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters of a text, its start and its end, and how much was left out."""
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[… {left_out} characters left out …]\n{text[len(text) - half :]}"


def counted(number: int, thing: str) -> str:
    """ "1 trial", "2 trials"."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def bytes_text(number: int) -> str:
    """ "45 kB", "1.2 MB": how large a file is, for a person."""
    return f"{number / 1e3:.0f} kB" if number < 1e6 else f"{number / 1e6:,.1f} MB"


def did_you_mean(name: str, known: Iterable[str], *, shown: str = "{}", near: float = 0.7) -> str:
    """ "; did you mean 'x'?" for the known names that a mistyped one is near to, or nothing.

    Nobody mistypes a long name, and comparing with a million would take minutes: those are left.
    """
    if len(name) > MOST_TYPED:
        return ""
    short = (each for each in islice(known, MOST_NEAR) if len(each) <= MOST_TYPED)
    spelled = {each.lower().replace("_", "-"): each for each in short}
    found = get_close_matches(name.lower().replace("_", "-"), spelled, n=3, cutoff=near)
    names = " or ".join(repr(shown.format(spelled[each])) for each in found)
    return f"; did you mean {names}?" if found else ""
