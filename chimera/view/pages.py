"""What each page shows, as data: templates make it readable, `?format=json` gives it as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chimera.errors import UsageError
from chimera.eval.runs.comparison import RunScores, basis_of, notes_on
from chimera.types import JSON
from chimera.view.comparing import LISTS, MOST_RUNS, Together, comparison
from chimera.view.grid import Filter, TrialKey, linked_task, neighbours, task_link, tasks_page
from chimera.view.library import Known, Library, Run, headline
from chimera.view.notes import Note, read_notes
from chimera.view.trial import (
    PREVIEW,
    STEPS,
    control_data,
    part_of,
    parting,
    step_data,
    steps_of,
    trial_data,
)

Query = Mapping[str, Sequence[str]]

RUNS = 100
#: Characters of a long text on a page of its own.
PART = 30_000
#: Cells of the grid on a page, and tasks.
CELLS, TASKS = 500, 50
#: Controls on a page; those that come out as they must.
CONTROLS = 50
_AS_THEY_MUST = (["reference", "passed"], ["nothing", "failed"])
#: Newest runs among which some are offered for a comparison.
OTHERS = 60
#: Samples of a task beside those of other runs.
SHOWN_SAMPLES = 20
_RUN_ORDERS = {
    "started": lambda row: row["started"] or 0,
    "benchmark": lambda row: row["benchmark"],
    "model": lambda row: row["model"] or "",
    "agent": lambda row: row["agent"] or "",
    "passed": lambda row: -1 if row["pass_rate"] is None else row["pass_rate"],
    "errors": lambda row: row["errored"] + row["not_run"],
    "cost": lambda row: -1 if row["total_cost"] is None else row["total_cost"],
    "time": lambda row: row["wall"] or 0,
}


def one(query: Query, name: str, most: int = 2000) -> str:
    """The first value of a query's part; empty where it has none."""
    return next(iter(query.get(name, ())), "")[:most]


def number(query: Query, name: str, otherwise: int = 0) -> int:
    text = one(query, name, 15)
    return int(text) if text.isascii() and text.isdigit() else otherwise


def runs_page(library: Library, query: Query) -> dict[str, JSON]:
    """All runs in a table, with what they can be narrowed to."""
    rows = [headline(run, run.known(patience=0.02)) for run in library.runs()]
    chosen = {name: one(query, name) for name in ("benchmark", "model", "agent")}
    found = [
        row
        for row in rows
        if all(not value or row[name] == value for name, value in chosen.items())
        and one(query, "text").lower() in f"{row['run']} {row['benchmark']} {row['model']}".lower()
    ]
    sort = one(query, "sort") if one(query, "sort") in _RUN_ORDERS else "started"
    down = one(query, "down") != "0"
    found.sort(key=_RUN_ORDERS[sort], reverse=down)
    page = min(max(1, number(query, "page", 1)), max(1, -(-len(found) // RUNS)))
    return {
        "all": len(rows),
        "found": len(found),
        "page": page,
        "pages": max(1, -(-len(found) // RUNS)),
        "sort": sort,
        "down": down,
        "text": one(query, "text"),
        "chosen": chosen,
        "kept": [(k, v) for k, v in (("text", one(query, "text")), *chosen.items()) if v],
        "choices": {name: sorted({row[name] for row in rows if row[name]}) for name in chosen},
        "runs": found[(page - 1) * RUNS : page * RUNS],
    }


def run_page(library: Library, name: str, query: Query) -> dict[str, JSON]:
    """A run: its numbers, and a page of the grid of its tasks and samples."""
    run, known, head = _head(library, name)
    asked, notes = Filter.of(query), read_notes(run.path)
    most = max(1, int(head["samples"] or 1))
    size = max(5, min(TASKS, CELLS // most))
    labelled = _labelled(notes, asked.label)
    return {
        **head,
        "summary": known.summary,
        "manifest": dict(known.manifest),
        "grid": tasks_page(run.index, asked, labelled, size) if known.summary else None,
        "filter": asked,
        "labels": sorted({label for note in notes.values() for label in note.labels}),
        "notes": len(notes),
        "others": [
            other.name
            for other in library.runs()[:OTHERS]
            if other is not run and other.benchmark == head["benchmark"]
        ],
        "reason": _reason(run, asked.reason),
    }


def _head(library: Library, name: str) -> tuple[Run, Known, dict[str, JSON]]:
    run = library.run(name)
    known = run.known()
    if known.fault is not None:
        raise UsageError(known.fault)
    return run, known, headline(run, known)


def _labelled(notes: Mapping[TrialKey, Note], label: str) -> list[str]:
    return sorted({key.task for key, note in notes.items() if label and label in note.labels})


def _reason(run: Run, reason: int | None) -> str | None:
    rows = run.index.rows("SELECT text FROM reason WHERE id = ?", (reason,))
    return rows[0][0] if rows else None


def trial_key(run: Run, query: Query) -> TrialKey:
    name = linked_task(run.index, one(query, "task", 100_000), one(query, "number", 15))
    return TrialKey(name, number(query, "sample"))


def trial_link(run: Run, key: TrialKey | None) -> list[tuple[str, str]] | None:
    """The part of a URL that leads to a trial."""
    return key and [*task_link(run.index, key.task), ("sample", str(key.sample))]


def trial_page(library: Library, name: str, query: Query) -> dict[str, JSON]:
    """A trial: what decided it, what was handed in, and the steps that led there."""
    run, _, head = _head(library, name)
    key, asked = trial_key(run, query), Filter.of(query)
    notes = read_notes(run.path)
    previous, following = neighbours(run.index, asked, key, _labelled(notes, asked.label))
    first = max(1, number(query, "step", 1))
    first -= (first - 1) % STEPS
    return {
        "run": head["run"],
        "benchmark": head["benchmark"],
        "model": head["model"],
        "agent": head["agent"],
        **trial_data(run.store, key, first),
        "step": number(query, "step"),
        "steps_a_page": STEPS,
        "hidden": [kind for kind in one(query, "hide").split(",") if kind],
        "filter": asked,
        "link": trial_link(run, key),
        "previous": trial_link(run, previous),
        "next": trial_link(run, following),
        "samples": _samples(run, key.task),
        "note": notes.get(key, Note(*key)),
    }


def _samples(run: Run, task: str) -> list[JSON]:
    query = (
        "SELECT sample, status FROM trial WHERE task = (SELECT id FROM task WHERE name = ?) "
        "ORDER BY sample LIMIT 200"
    )
    return [{"sample": sample, "code": code} for sample, code in run.index.rows(query, (task,))]


def rests_page(library: Library, name: str, query: Query) -> dict[str, JSON]:
    """What the verdicts of a run rest on: its controls, and what else was done to prove them."""
    run, known, head = _head(library, name)
    summary = known.summary or {"rests": {}, "controls": []}
    wrong = one(query, "list") != "all"
    counts = summary["controls"]
    found = sum(count for *control, count in counts if not wrong or control not in _AS_THEY_MUST)
    pages = max(1, -(-found // CONTROLS))
    page = min(max(1, number(query, "page", 1)), pages)
    controls = run.store.some_controls(wrong=wrong, start=(page - 1) * CONTROLS, most=CONTROLS)
    resting: dict[str, dict[str, int]] = {}
    for identity, status, count in run.store.resting_on([each.identity for each in controls]):
        resting.setdefault(identity, {})[status] = count
    return {
        **head,
        "rests": summary["rests"],
        "counts": counts,
        "wrong": wrong,
        "found": found,
        "page": page,
        "pages": pages,
        "controls": [
            {**control_data(each, PREVIEW), "resting": resting.get(each.identity, {})}
            for each in controls
        ],
    }


def part_page(library: Library, name: str, query: Query) -> dict[str, JSON]:
    """A stretch of a text that is too long for the page it is part of."""
    run = library.run(name)
    key, part = trial_key(run, query), one(query, "part")
    text = part_of(run.store, key, part)
    if text is None:
        raise UsageError("there is no such text in this trial")
    start = min(number(query, "from"), max(0, len(text) - 1))
    return {
        "run": run.name,
        "task": key.task,
        "sample": key.sample,
        "part_name": part,
        "length": len(text),
        "start": start,
        "to": min(len(text), start + PART),
        "size": PART,
        "text": text[start : start + PART],
        "link": trial_link(run, key),
        "filter": Filter.of(query),
    }


def compare_page(library: Library, query: Query) -> dict[str, JSON]:
    """Two or more runs on the tasks that they share; the others are set against the first."""
    names = list(dict.fromkeys(query.get("run", ())))
    if not 2 <= len(names) <= MOST_RUNS:
        raise UsageError(f"choose two to {MOST_RUNS} runs to compare")
    runs = [_head(library, name) for name in names]
    heads = [head for _, _, head in runs]
    ready = all(known.summary for _, known, _ in runs)
    together = Together([run.index for run, _, _ in runs]) if ready else None
    listed = one(query, "list") if one(query, "list") in LISTS else "flipped"
    text, page = one(query, "text", 200), max(1, number(query, "page", 1))
    return {
        "runs": heads,
        "names": [chr(ord("A") + place) for place in range(len(heads))],
        "picked": [("run", head["run"]) for head in heads],
        "complete": all(head["complete"] for head in heads),
        "cautions": cautions([(head, known) for _, known, head in runs]),
        "comparison": comparison(together) if together else None,
        "tasks": together.tasks(listed, text, page, _rows(heads)) if together else None,
        "list": listed,
        "text": text,
    }


def cautions(runs: Sequence[tuple[Mapping[str, JSON], Known]]) -> list[str]:
    """What a reader must know before believing a comparison."""
    scores = [
        RunScores(
            head["run"], head["benchmark"], "", {}, head["not_run"], basis=basis_of(known.manifest)
        )
        for head, known in runs
    ]
    mixed = len({run.benchmark for run in scores}) > 1
    other = ["these are runs of different benchmarks: only tasks of the same name are compared"]
    return (other if mixed else []) + notes_on(scores)


def _rows(heads: Sequence[Mapping[str, JSON]]) -> int:
    """So many tasks on a page that their cells are not too many."""
    cells = sum(min(int(head["samples"] or 1), SHOWN_SAMPLES) for head in heads)
    return max(10, min(TASKS, CELLS // cells))


def pair_page(library: Library, query: Query) -> dict[str, JSON]:
    """The trajectories of two trials of one task, from the step in which they part."""
    names = query.get("run", ())[:2]
    if len(names) != 2:
        raise UsageError("two runs are set side by side")
    runs = [library.run(name) for name in names]
    key, samples = trial_key(runs[0], query), [number(query, "sample"), number(query, "other")]
    sides = [
        _side(run, TrialKey(key.task, sample)) for run, sample in zip(runs, samples, strict=True)
    ]
    steps = [steps_of(side["store"], side["key"]) for side in sides]
    part = parting(*steps)
    start = max(1, number(query, "step", part))
    length = max(map(len, steps))
    shown = range(start, min(length, start + STEPS // 2 - 1) + 1)
    return {
        "task": key.task,
        "link": task_link(runs[0].index, key.task),
        "parting": part if part <= length else None,
        "start": start,
        "length": length,
        "shown": STEPS // 2,
        "sides": [
            {
                **{name: value for name, value in side.items() if name not in ("store", "key")},
                "step_count": len(taken),
                "steps": [step_data(taken, n) if n <= len(taken) else None for n in shown],
            }
            for side, taken in zip(sides, steps, strict=True)
        ],
    }


def _side(run: Run, key: TrialKey) -> dict[str, JSON]:
    store = run.store
    record = store.record_head(*key)
    return {
        "store": store,
        "key": key,
        "run": run.name,
        "link": trial_link(run, key),
        "model": str(store.manifest().get("model")),
        "sample": key.sample,
        "status": record.status,
        "why": record.why[:2000],
        "cost": record.cost,
        "seconds": record.duration,
    }
