"""The tasks and trials of a run: filtered, sorted, a page at a time, one after the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from chimera.types import JSON
from chimera.view.index import GROUNDS, PROOFS, STATUSES, Index

PAGE = 50
#: What tasks can be sorted by.
ORDERS = {
    "order": "id",
    "name": "name",
    "rate": "(passed * 1.0 / max(trials, 1))",
    "cost": "cost",
    "time": "seconds",
    "steps": "steps",
    "tokens": "tokens",
}
_OUTCOMES = {"passed": "passed > 0", "failed": "failed > 0", "error": "errors > 0",
             "not-run": "trials = 0", "mixed": "passed > 0 AND passed < trials"}  # fmt: skip
_TRIALS = {"passed": "status = 0", "failed": "status = 1", "error": "status > 1"}
#: What the verdicts of trials rest on: by their controls, or by what their metrics say.
RESTS = {
    **{f"{name}-{status}": f"ground = {ground} AND status = {code}"
       for ground, name in enumerate(GROUNDS) if name
       for code, status in enumerate(STATUSES[:2])},
    "withheld": f"ground = {GROUNDS.index('withheld')}",
    **{name: f"proofs >> {place} & 1" for place, name in enumerate(PROOFS)},
}  # fmt: skip

#: A task with a longer name is linked to by its number.
MOST_NAME = 300


class TrialKey(NamedTuple):
    task: str
    sample: int


def task_link(index: Index, name: str) -> list[tuple[str, str]]:
    """The part of a URL that says which task is meant."""
    if len(name) <= MOST_NAME:
        return [("task", name)]
    found = index.rows("SELECT id FROM task WHERE name = ?", (name,))
    return [("number", str(found[0][0]))] if found else [("task", name)]


def linked_task(index: Index, name: str, number: str) -> str:
    """The task that such a part of a URL means."""
    found = index.rows("SELECT name FROM task WHERE id = ?", (number,)) if number else []
    return str(found[0][0]) if found else name


@dataclass(frozen=True, slots=True)
class Filter:
    """Which tasks of a run are meant, and in which order: the query of its page."""

    status: str = ""
    reason: int | None = None
    groups: tuple[tuple[str, str], ...] = ()
    text: str = ""
    label: str = ""
    rests: str = ""
    sort: str = "order"
    descending: bool = False
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, Sequence[str]]) -> Filter:
        """What a URL asks for; what it does not know how to ask for is left out."""

        def one(name: str) -> str:
            return next(iter(query.get(name, ())), "")[:200]

        pairs = (text.partition(":") for text in query.get("group", ())[:12])
        return cls(
            status=one("status") if one("status") in _OUTCOMES else "",
            reason=_number(one("reason")),
            groups=tuple((key, value) for key, _, value in pairs),
            text=one("text"),
            label=one("label"),
            rests=one("rests") if one("rests") in RESTS else "",
            sort=one("sort") if one("sort") in ORDERS else "order",
            descending=one("down") == "1",
            page=max(1, _number(one("page")) or 1),
        )

    def query(self, **changes: Any) -> list[tuple[str, str]]:
        """As the parts of a URL; what is as always is left out."""
        new = replace(self, **changes)
        parts = [
            ("status", new.status),
            ("reason", "" if new.reason is None else str(new.reason)),
            *(("group", f"{key}:{value}") for key, value in new.groups),
            ("text", new.text),
            ("label", new.label),
            ("rests", new.rests),
            ("sort", "" if new.sort == "order" else new.sort),
            ("down", "1" if new.descending else ""),
            ("page", "" if new.page == 1 else str(new.page)),
        ]
        return [(name, value) for name, value in parts if value]

    @property
    def narrows(self) -> bool:
        return bool(self.query(sort="order", descending=False, page=1))

    @property
    def order(self) -> str:
        direction = "DESC" if self.descending else "ASC"
        return f"{ORDERS[self.sort]} {direction}, id {direction}"

    def tasks(self, index: Index, labelled: Collection[str] = ()) -> tuple[str, list[Any]]:
        """The condition on tasks; `labelled` are the tasks that carry the filter's label."""
        parts: list[str] = []
        arguments: list[Any] = []
        if self.status:
            parts.append(_OUTCOMES[self.status])
        if self.reason is not None:
            parts.append("id IN (SELECT task FROM trial WHERE reason = ? AND status > 0)")
            arguments.append(self.reason)
        if self.rests:
            parts.append(f"id IN (SELECT task FROM trial WHERE {RESTS[self.rests]})")
        if self.groups:
            kinds = [
                kind
                for kind, groups in index.kinds().items()
                if all(groups.get(key) == value for key, value in self.groups)
            ]
            parts.append(f"kind IN ({', '.join(map(str, kinds))})")
        if self.text:
            parts.append("name LIKE ? ESCAPE '\\'")
            arguments.append(f"%{_escaped(self.text)}%")
        if self.label:
            parts.append(f"name IN ({', '.join('?' * len(labelled))})")
            arguments += labelled
        return " AND ".join(parts) or "true", arguments

    def trials(self) -> str:
        """The condition on the trials of such a task."""
        parts = [_TRIALS.get(self.status, "true")]
        if self.reason is not None:
            parts.append(f"reason = {self.reason} AND status > 0")
        if self.rests:
            parts.append(RESTS[self.rests])
        return " AND ".join(parts)


def tasks_page(
    index: Index, asked: Filter, labelled: Collection[str] = (), size: int = PAGE
) -> dict[str, JSON]:
    """One page of the tasks with their trials, and how many there are."""
    where, arguments = asked.tasks(index, labelled)
    ((found,),) = index.rows(f"SELECT count(*) FROM task WHERE {where}", arguments)
    pages = max(1, -(-found // size))
    page = min(asked.page, pages)
    priced = "CASE WHEN unpriced THEN NULL ELSE cost END AS cost"
    columns = f"id, name, trials, passed, failed, errors, {priced}, seconds, steps, tokens"
    query = f"SELECT {columns} FROM task WHERE {where} ORDER BY {asked.order} LIMIT ? OFFSET ?"
    rows = index.rows(query, (*arguments, size, (page - 1) * size))
    trials = trials_of(index, [row[0] for row in rows])
    names = columns.replace(priced, "cost").split(", ")[1:]
    return {
        "found": found,
        "page": page,
        "pages": pages,
        "rows": [
            {
                **_row(dict(zip(names, row[1:], strict=True)), trials.get(row[0], [])),
                "link": task_link(index, row[1]),
            }
            for row in rows
        ],
    }


def _row(task: dict[str, JSON], samples: list[JSON]) -> dict[str, JSON]:
    why = next((trial["why"] for trial in samples if trial["status"] != "passed"), "")
    return {**task, "why": why, "samples": samples}


def names_of(index: Index, tasks: Sequence[int]) -> dict[int, str]:
    chosen = ", ".join(map(str, tasks))
    return dict(index.rows(f"SELECT id, name FROM task WHERE id IN ({chosen})"))


def trials_of(index: Index, tasks: Sequence[int]) -> dict[int, list[JSON]]:
    chosen = ", ".join(map(str, tasks))
    query = (
        "SELECT task, sample, status, corrected, text FROM trial LEFT JOIN reason "
        f"ON reason.id = reason WHERE task IN ({chosen}) ORDER BY task, sample"
    )
    found: dict[int, list[JSON]] = {}
    for task, sample, status, corrected, why in index.rows(query):
        samples = found.setdefault(task, [])
        if len(samples) < 200:
            disputed = corrected is not None and corrected != (status == 0)
            samples.append(
                {"sample": sample, "status": STATUSES[status], "why": why or "",
                 "disputed": disputed}
            )  # fmt: skip
    return found


def neighbours(
    index: Index, asked: Filter, key: TrialKey, labelled: Collection[str] = ()
) -> tuple[TrialKey | None, TrialKey | None]:
    """The trials before and after one, in the order of the filter."""
    return tuple(  # type: ignore[return-value]
        _beside(index, asked, key, labelled, forward=forward) for forward in (False, True)
    )


def _beside(
    index: Index, asked: Filter, key: TrialKey, labelled: Collection[str], *, forward: bool
) -> TrialKey | None:
    sort = ORDERS[asked.sort]
    here = index.rows(f"SELECT id, {sort} FROM task WHERE name = ?", (key.task,))
    if not here:
        return None
    number, value = here[0]
    sign, direction = (">", "ASC") if forward else ("<", "DESC")
    trials = asked.trials()
    query = (
        f"SELECT sample FROM trial WHERE task = ? AND sample {sign} ? AND {trials} "
        f"ORDER BY sample {direction} LIMIT 1"
    )
    for (sample,) in index.rows(query, (number, key.sample)):
        return TrialKey(key.task, sample)
    if asked.descending:
        sign, direction = ("<", "DESC") if forward else (">", "ASC")
    where, arguments = asked.tasks(index, labelled)
    query = (
        f"SELECT id, name FROM task WHERE {where} AND ({sort}, id) {sign} (?, ?) AND EXISTS "
        f"(SELECT 1 FROM trial WHERE task = task.id AND {trials}) "
        f"ORDER BY {sort} {direction}, id {direction} LIMIT 1"
    )
    for other, name in index.rows(query, (*arguments, value, number)):
        edge = "min" if forward else "max"
        query = f"SELECT {edge}(sample) FROM trial WHERE task = ? AND {trials}"
        return TrialKey(name, index.rows(query, (other,))[0][0])
    return None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
