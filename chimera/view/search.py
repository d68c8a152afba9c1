"""Words in prompts, answers and steps: an index of them made when somebody first searches a run.

The index holds words and where they stand, and no text: what is shown of a hit is read from the run
itself. It lies with the run's other index in the user's cache.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from chimera.errors import UsageError
from chimera.eval.runs.store import Count, RunStore
from chimera.text import one_line
from chimera.types import JSON, Step
from chimera.view.grid import TrialKey, task_link
from chimera.view.library import PATIENCE, Run
from chimera.view.trial import part_of

HITS = 25
MOST_WORDS = 12
#: Characters of one text whose words are kept.
MOST_CHARACTERS = 2_000_000
AROUND = 90
_SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS place (id INTEGER PRIMARY KEY, task TEXT NOT NULL, sample INTEGER,
    part TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS done (kind TEXT PRIMARY KEY, last INTEGER NOT NULL);
CREATE VIRTUAL TABLE IF NOT EXISTS word USING fts5 (text, content = '', detail = none,
    tokenize = 'unicode61');
"""


class _Place(NamedTuple):
    task: str
    sample: int | None
    part: str


class _Answer(NamedTuple):
    id: Count
    task: str
    sample: Count
    text: str | None


class _Words:
    """The words of one run; filled by one thread while others ask."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.filling: threading.Thread | None = None
        self.last, self.fault = 0, ""
        with _opened(path) as connection:
            connection.executescript(_SCHEMA)

    def fill(self, store: RunStore) -> None:
        try:
            with _opened(self.path) as connection, store:
                connection.execute("PRAGMA synchronous = OFF")
                _fill(connection, store, self)
        except Exception as error:  # noqa: BLE001 - shown on the page that waits for it
            self.fault = str(error)

    def found(self, query: str, start: int) -> list[tuple[int, _Place]]:
        statement = (
            "SELECT place.id, task, sample, part FROM word JOIN place ON place.id = word.rowid "
            "WHERE word MATCH ? AND word.rowid > ? ORDER BY word.rowid LIMIT ?"
        )
        with _opened(self.path) as connection:
            rows = connection.execute(statement, (query, start, HITS + 1)).fetchall()
        return [(number, _Place(*rest)) for number, *rest in rows]


class _opened:
    """A connection that is closed in the end, with its changes kept."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=60)

    def __enter__(self) -> sqlite3.Connection:
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.commit()
        self._connection.close()


def _fill(connection: sqlite3.Connection, store: RunStore, words: _Words) -> None:
    """Add the texts that came since; kept every some hundred of them."""
    done = dict(connection.execute("SELECT kind, last FROM done").fetchall())
    for kind, texts in (("tasks", _prompts), ("trials", _trials)):
        for count, (last, place, text) in enumerate(texts(store, done.get(kind, 0)), 1):
            row = connection.execute(
                "INSERT INTO place (task, sample, part) VALUES (?, ?, ?)", place
            ).lastrowid
            connection.execute(
                "INSERT INTO word (rowid, text) VALUES (?, ?)", (row, text[:MOST_CHARACTERS])
            )
            connection.execute("INSERT OR REPLACE INTO done VALUES (?, ?)", (kind, last))
            if kind == "trials":
                words.last = last
            if count % 200 == 0:
                connection.commit()


def _prompts(store: RunStore, last: int) -> Iterator[tuple[int, _Place, str]]:
    query = "SELECT rowid, task_id, prompt FROM tasks WHERE rowid > ? ORDER BY rowid"
    for number, task, prompt in store.rows(tuple[Count, str, str], query, (last,)):
        yield number, _Place(task, None, "prompt"), prompt


def _trials(store: RunStore, last: int) -> Iterator[tuple[int, _Place, str]]:
    query = (
        "SELECT id, task_id, sample, coalesce(raw, text) FROM trials LEFT JOIN submissions "
        "ON trial = id WHERE id > ? AND status <> 'submitted' ORDER BY id"
    )
    for number, task, sample, answer in store.rows(_Answer, query, (last,)):
        steps = store.trajectory(task, sample)
        if steps:
            yield number, _Place(task, sample, "steps"), "\n".join(_said(steps))
        elif answer:
            yield number, _Place(task, sample, "reply"), answer


def _said(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        yield step.message.content
        for call in step.message.tool_calls:
            yield f"{call.name} {call.raw_arguments or dict(call.arguments or {})}"


_known: dict[Path, _Words] = {}
_lock = threading.Lock()


def _words_of(run: Run) -> _Words:
    """The words of a run; what it has had since is being added."""
    path = run.index.path.with_suffix(f".{run.index.fact('name')}.words")
    with _lock:
        words = _known.setdefault(path, _Words(path)) if path not in _known else _known[path]
        if words.filling is None or not words.filling.is_alive():
            store = RunStore(run.path, lasting=True)
            words.filling = threading.Thread(target=words.fill, args=(store,), daemon=True)
            words.filling.start()
    words.filling.join(PATIENCE)
    return words


def search_page(run: Run, text: str, start: int = 0) -> dict[str, JSON]:
    """Where all these words stand in a run, with what stands around them."""
    asked = re.findall(r"[^\W_]+", text)[:MOST_WORDS]
    run.known()
    words = _words_of(run)
    query = " ".join(f'"{word}"' for word in asked) + ("*" if asked else "")
    found = words.found(query, start) if asked else []
    hits = (_hit_if_there(run, place, asked) for _, place in found[:HITS])
    total = run.index.rows("SELECT max(id) FROM trial")[0][0] or 0
    return {
        "run": run.name,
        "text": text,
        "words": asked,
        "hits": [hit for hit in hits if hit is not None],
        "next": found[HITS - 1][0] if len(found) > HITS else None,
        "complete": words.filling is None or not words.filling.is_alive(),
        "read": words.last,
        "trials": total,
        "fault": words.fault,
    }


def _hit_if_there(run: Run, place: _Place, words: Sequence[str]) -> JSON:
    """None of a trial that is gone: the run was replaced, and is not counted anew yet."""
    try:
        return _hit(run, place, words)
    except UsageError:
        return None


def _hit(run: Run, place: _Place, words: Sequence[str]) -> JSON:
    store = run.store
    key = TrialKey(place.task, place.sample or 0)
    part, step, text = place.part, None, ""
    if part == "steps":
        pattern = re.compile("|".join(map(re.escape, words)), re.IGNORECASE)
        said = enumerate(store.trajectory(*key), 1)
        step, text = next(
            ((n, " ".join(_said([s]))) for n, s in said if pattern.search(" ".join(_said([s])))),
            (None, ""),
        )
    else:
        text = part_of(store, key, part) or part_of(store, key, "answer") or ""
    return {
        "task": place.task,
        "link": task_link(run.index, place.task),
        "sample": place.sample,
        "part": part,
        "step": step,
        "around": _around(text, words),
    }


def _around(text: str, words: Sequence[str]) -> str:
    match = re.search("|".join(map(re.escape, words)), text, re.IGNORECASE)
    start = max(0, match.start() - AROUND) if match else 0
    cut = " ".join(text[start : start + 3 * AROUND].split())
    return ("… " if start else "") + one_line(cut, 3 * AROUND)
