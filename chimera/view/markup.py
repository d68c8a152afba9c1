"""Pages out of templates: every text that is put into one is shown as text, and obeyed by nobody.

Autoescaping makes markup of no foreign text; `printable` writes out what would turn around or hide
its neighbours. Both happen to whatever a template prints, so that no template can forget them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from chimera.text import one_line, printable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

#: Beyond, colours are not worth the time.
MOST_HIGHLIGHTED = 40_000
#: What a program says to colour its log; of the text itself it is no part.
_COLOURS = re.compile(r"\x1b\[[0-9;:]{0,40}m")


def asset(name: str) -> str:
    """A file that pages are made with."""
    return resources.files("chimera.view").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("chimera.view", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "percent": percent, "points": points, "money": money, "duration": duration, "when": when,
        "count": count, "highlight": highlight, "log": log, "short": short, "iso": iso,
        "address": address, "mark": mark, "named": named, "chance": chance,
    }  # fmt: skip
    return made


def page(template: str, values: Mapping[str, Any]) -> str:
    return templates().get_template(template).render(values)


def _shown(value: Any) -> Any:
    """What a template prints: our own markup as it is, everything else as text that only shows."""
    if hasattr(value, "__html__"):
        return value
    return "" if value is None else printable(str(value))


def percent(share: float | None, digits: int = 1) -> str:
    return "–" if share is None else f"{share * 100:.{digits}f}\u00a0%"


def points(share: float) -> str:
    return f"{share * 100:+.1f}".replace("-", "−")


def chance(p: float) -> str:
    """A p-value, with its sign."""
    return f"= {p:.4f}" if p >= 0.0001 else "< 0.0001"


def money(cost: float | None) -> str:
    if cost is None:
        return "unknown"
    return f"${cost:,.2f}" if cost >= 1 or cost == 0 else f"${cost:.4f}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def when(moment: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment)) if moment else "–"


def iso(moment: float | None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment or 0))


def count(number: float | None) -> str:
    return "–" if number is None else f"{number:,.0f}"


def short(number: float) -> str:
    """A large number in few signs: 12.3 M."""
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.1f}\u202f{sign}"
    return f"{number:.0f}"


def named(text: str) -> str:
    """A task's name in a list: of a long one its start and its end, in which others differ."""
    return one_line(text, 120)


def address(path: str, parts: Any = ()) -> str:
    """A URL of ours: `path` is written by us, `parts` are foreign."""
    query = urlencode(list(parts))
    return quote(path, safe="/~") + (f"?{query}" if query else "")


def log(text: str) -> str:
    """A program's output without its colours."""
    return _COLOURS.sub("", text)


def mark(text: str, words: list[str]) -> Markup:
    """`text` with the words that were searched for marked."""
    from markupsafe import Markup, escape

    pattern = re.compile("|".join(map(re.escape, words)) or r"(?!)", re.IGNORECASE)
    parts, place = [], 0
    for match in pattern.finditer(text):
        parts.append(escape(printable(text[place : match.start()])))
        parts.append(Markup("<mark>{}</mark>").format(printable(match[0])))
        place = match.end()
    return Markup("").join([*parts, escape(printable(text[place:]))])


def highlight(text: str, language: str = "") -> Markup:
    """A program with its words in classes; prose, or what is very long, as it is."""
    from markupsafe import Markup, escape

    if not language or len(text) > MOST_HIGHLIGHTED:
        return escape(printable(log(text)))
    pieces = (
        Markup('<span class="{}">{}</span>').format(kind, printable(piece))
        if kind
        else escape(printable(piece))
        for kind, piece in _pieces(text, language)
    )
    return Markup("").join(pieces)


#: Kinds of words that look different; the first that a token's name starts with.
_KINDS = (
    ("Generic.Inserted", "hi-add"), ("Generic.Deleted", "hi-del"), ("Generic", "hi-head"),
    ("Comment", "hi-com"), ("Keyword", "hi-key"), ("Literal.String", "hi-str"),
    ("Literal.Number", "hi-num"), ("Name.Function", "hi-fun"), ("Name.Class", "hi-fun"),
    ("Name.Tag", "hi-key"), ("Name.Builtin", "hi-key"),
)  # fmt: skip


def _pieces(text: str, language: str) -> Iterator[tuple[str, str]]:
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    for token, piece in lexer.get_tokens(text):
        name = ".".join(token)
        yield next((kind for start, kind in _KINDS if name.startswith(start)), ""), piece
