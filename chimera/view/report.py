"""Runs as one file to send: HTML that opens from the disk, Markdown, or tables for LaTeX."""

from __future__ import annotations

import base64
import hashlib
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import msgspec

from chimera.errors import UsageError
from chimera.text import code_span, latex, markdown, one_line, printable, shortened
from chimera.types import JSON
from chimera.view import plots
from chimera.view.comparing import Together, comparison
from chimera.view.grid import TrialKey
from chimera.view.library import Known, Library, Run, headline
from chimera.view.markup import asset, log, money, page, percent, points
from chimera.view.pages import cautions
from chimera.view.summary import BUCKETS
from chimera.view.trial import step_data, trial_data

Chosen = Literal["failed", "flipped", "all", "none"]
KINDS = {".html": "html", ".md": "markdown", ".tex": "latex"}

#: What the trials may take of the file: so many bytes for each thousand of them.
BYTES_A_THOUSAND = 4_300_000
#: Characters of a trial that are tried for that, the most first.
LENGTHS = (60_000, 20_000, 8_000, 3_000, 1_000)
BLOCK = 25
MOST_FLIPPED = 200


class Report:
    """One or more runs, all counted, with what a report says of them."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = tuple(runs)
        self.known = [_counted(run) for run in self.runs]
        self.heads = [
            headline(run, known) for run, known in zip(self.runs, self.known, strict=True)
        ]
        self.comparison: dict[str, JSON] | None = None
        self.flipped: dict[str, JSON] | None = None
        if len(self.runs) > 1:
            together = Together([run.index for run in self.runs])
            self.comparison = comparison(together)
            self.flipped = together.tasks("flipped", "", 1, size=MOST_FLIPPED)

    @property
    def names(self) -> list[str]:
        return [chr(ord("A") + place) for place in range(len(self.runs))]

    @property
    def title(self) -> str:
        head = self.heads[0]
        models = ", ".join(
            str(head["model"] or head["agent"] or head["run"]) for head in self.heads
        )
        return f"{head['benchmark']}: {models}"

    @property
    def remarks(self) -> list[str]:
        """What a reader must know before believing the numbers."""
        found = cautions(list(zip(self.heads, self.known, strict=True)))
        for name, head, known in zip(self.names, self.heads, self.known, strict=True):
            summary = known.summary or {}
            if head["errored"]:
                low, high = (percent(bound) for bound in head["bounds"])
                found.append(f"{name}: {head['errored']} without a verdict: {low} to {high}")
            if summary["uninformative"]:
                found.append(
                    f"{name}: {summary['uninformative']} passes that doing nothing gets too"
                )
            if summary["uncontrolled"]:
                found.append(f"{name}: {summary['uncontrolled']} verdicts that rest on no control")
        return found

    def trials(self, chosen: Chosen) -> list[tuple[int, TrialKey]]:
        """Which trials are in the report, as (place of the run, key)."""
        if chosen == "none":
            return []
        if chosen == "flipped":
            rows = self.flipped["rows"] if self.flipped else []
            return [
                (place, TrialKey(row["name"], sample["sample"]))
                for row in rows
                for place, side in enumerate(row["runs"])
                for sample in side["samples"]
            ]
        where = "status > 0" if chosen == "failed" else "true"
        query = (
            f"SELECT name, sample FROM trial JOIN task ON task.id = task WHERE {where} "
            "ORDER BY task, sample"
        )
        return [
            (place, TrialKey(*row))
            for place, run in enumerate(self.runs)
            for row in run.index.rows(query)
        ]

    def html(self, chosen: Chosen) -> str:
        """One file that needs no other, and no network."""
        from markupsafe import Markup

        style, script = asset("view.css"), asset("report.js")
        blocks, rows = self._blocks(self.trials(chosen))
        return page(
            "report.html",
            {
                "title": self.title,
                "made": time.time(),
                "runs": self.heads,
                "names": self.names,
                "known": self.known,
                "comparison": self.comparison,
                "flipped": self.flipped,
                "cautions": cautions(list(zip(self.heads, self.known, strict=True))),
                "complete": True,
                "linked": False,
                "chosen": chosen,
                "trials": rows,
                "blocks": blocks,
                "plots": plots,
                "buckets": BUCKETS,
                "policy": _policy(style, script),
                "style": Markup(style),
                "script": Markup(script),
            },
        )

    def _blocks(self, keys: Sequence[tuple[int, TrialKey]]) -> tuple[list[str], list[JSON]]:
        """The trials, compressed in blocks, as long as fits; and a line for each of them."""
        most = BYTES_A_THOUSAND * max(1.0, len(keys) / 1000)
        for length in LENGTHS:
            blocks, rows, taken = [], [], 0
            for number, block in enumerate(_batches(keys, BLOCK)):
                trials = [self._trial(place, key, length) for place, key in block]
                rows += [
                    {**trial["head"], "block": number, "place": place}
                    for place, trial in enumerate(trials)
                ]
                packed = zlib.compress(msgspec.json.encode([t["body"] for t in trials]), 9)
                blocks.append(base64.b64encode(packed).decode())
                taken += len(blocks[-1])
                if taken > most and length != LENGTHS[-1]:
                    break
            else:
                return blocks, rows
        raise AssertionError("the shortest form is always taken")

    def _trial(self, place: int, key: TrialKey, length: int) -> dict[str, JSON]:
        store = self.runs[place].store
        data = trial_data(store, key)
        steps = store.trajectory(*key)
        texts = [
            {"title": "prompt", "text": data["prompt"].shown},
            *(
                {"title": text.part.partition(":")[2], "text": text.shown}
                for text in data["evidence"]
            ),
            *([{"title": "answer", "text": data["answer"].shown}] if data["answer"] else []),
            *map(_step_text, (step_data(steps, n + 1) for n in _spread(len(steps), length))),
        ]
        share = max(200, length // max(1, len(texts)))
        body = [
            {"title": one_line(t["title"]), "text": printable(log(shortened(t["text"], share)))}
            for t in texts
        ]
        head = {name: data[name] for name in ("task", "sample", "status", "why", "cost", "seconds")}
        return {"head": {**head, "run": place, "why": data["why"][:300]}, "body": body}

    def markdown(self) -> str:
        """For a pull request: the numbers, what can be concluded, and which tasks flipped."""
        lines = [f"## {_code(self.heads[0]['benchmark'])}", ""]
        if self.comparison:
            lines += [pair["sentence"] + "\n" for pair in self.comparison["pairs"]]
        lines += [
            "| | model | agent | passed | 95 % interval | no verdict | cost |",
            "|---|---|---|---:|---|---:|---:|",
        ]
        for name, head in zip(self.names, self.heads, strict=True):
            lines.append(
                f"| {name} | {_code(head['model'])} | {_code(head['agent'])} "
                f"| {head['passed']} of {head['total']}, **{percent(head['pass_rate'])}** "
                f"| {_range(head['interval'])} | {head['errored'] + head['not_run']} "
                f"| {money(head['total_cost'])} |"
            )
        lines += ["", *(f"- {markdown(remark)}." for remark in self.remarks)]
        lines += ["", *self._comparison_lines(), *self._reason_lines()]
        return "\n".join(lines).rstrip() + "\n"

    def _comparison_lines(self) -> Iterator[str]:
        if not self.comparison or not self.flipped:
            return
        yield "| against A | difference | 95 % interval | p | only A | only the other |"
        yield "|---|---:|---|---:|---:|---:|"
        for pair in self.comparison["pairs"]:
            low, high = pair["interval"]
            yield (
                f"| {self.names[pair['second']]} | {points(pair['difference'])} "
                f"| {points(low)} to {points(high)} | {pair['p_adjusted']:.4f} "
                f"| {pair['table']['first']} | {pair['table']['second']} |"
            )
        yield f"\n<details><summary>{self.flipped['found']} flipped tasks</summary>\n"
        yield "| task | " + " | ".join(self.names) + " |"
        yield "|---|" + "---|" * len(self.names)
        for row in self.flipped["rows"]:
            cells = " | ".join(percent(side["rate"], 0) for side in row["runs"])
            yield f"| {_code(row['name'])} | {cells} |"
        yield "\n</details>\n"

    def _reason_lines(self) -> Iterator[str]:
        for name, known in zip(self.names, self.known, strict=True):
            reasons = (known.summary or {})["reasons"][:8]
            if reasons:
                yield f"Why not, {name}:\n"
                yield from (f"- {reason['count']} × {_code(reason['text'])}" for reason in reasons)
                yield ""

    def latex(self) -> str:
        """Tables to be set in a paper; they need no package."""
        rows = [
            f"{latex(str(head['model'] or head['agent'] or head['run']))} & "
            f"{head['passed']} / {head['total']} & "
            f"{latex(percent(head['pass_rate']))} & {latex(_range(head['interval']))} & "
            f"{head['errored'] + head['not_run']} & {latex(money(head['total_cost']))} \\\\"
            for head in self.heads
        ]
        tables = [
            _table("lrrlrr", "model & passed & rate & 95\\,\\% interval & no verdict & cost", rows)
        ]
        if self.comparison:
            pairs = [
                f"{self.names[pair['second']]} $-$ A & {latex(points(pair['difference']))} & "
                f"{latex(points(pair['interval'][0]))} to {latex(points(pair['interval'][1]))} & "
                f"{pair['p_adjusted']:.4f} & {pair['tasks']} \\\\"
                for pair in self.comparison["pairs"]
            ]
            tables.append(_table("lrlrr", "pair & points & 95\\,\\% interval & $p$ & tasks", pairs))
        remarks = "".join(f"\n{latex(remark)}.\n" for remark in self.remarks)
        return f"% {latex(self.title)}\n" + "\n".join(tables) + remarks


def _counted(run: Run) -> Known:
    known = run.known(patience=None)
    if known.fault is not None:
        raise UsageError(known.fault)
    return known


def _batches(keys: Sequence[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(keys)
    while batch := list(islice(rest, size)):
        yield batch


def _spread(steps: int, length: int) -> list[int]:
    """Which steps are told: the first and the last, as many as have room for some words."""
    most = max(4, length // 400)
    if steps <= most:
        return list(range(steps))
    return [*range(most // 2), *range(steps - most // 2, steps)]


def _step_text(step: Mapping[str, JSON]) -> dict[str, str]:
    calls = "".join(f"\n→ {call['name']} {call['arguments'].shown}" for call in step["calls"])
    return {"title": f"{step['number']} · {step['kind']}", "text": step["text"].shown + calls}


def _policy(style: str, script: str) -> str:
    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    return (
        f"default-src 'none'; style-src 'sha256-{digest(style)}'; "
        f"script-src 'sha256-{digest(script)}'; base-uri 'none'; form-action 'none'"
    )


def _range(interval: Sequence[float] | None) -> str:
    return "–" if interval is None else f"{interval[0] * 100:.1f} – {interval[1] * 100:.1f} %"


def _code(text: JSON) -> str:
    return code_span(str(text or "–"))


def _table(columns: str, head: str, rows: Sequence[str]) -> str:
    body = "\n".join(rows)
    return (
        f"\\begin{{tabular}}{{{columns}}}\n\\hline\n{head} \\\\\n\\hline\n{body}\n\\hline\n"
        "\\end{tabular}\n"
    )


def write_report(runs: Sequence[Path], target: Path, chosen: Chosen | None) -> None:
    """Write a report of runs; its kind is that of the file's name."""
    kind = KINDS.get(target.suffix.lower())
    if kind is None:
        raise UsageError(f"{target}: a report is a file of {', '.join(KINDS)}")
    if chosen == "flipped" and len(runs) < 2:
        raise UsageError("--with flipped needs two runs: one alone has no flipped tasks")
    library = Library(runs)
    try:
        by_path = {run.path: run for run in library.runs()}
        report = Report([by_path[path] for path in dict.fromkeys(runs)])
        if kind == "html":
            text = report.html(chosen or ("flipped" if len(report.runs) > 1 else "failed"))
        else:
            text = report.markdown() if kind == "markdown" else report.latex()
    finally:
        library.close()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
