"""Everything of one trial, in parts that a page can hold; two trajectories side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from itertools import zip_longest

import msgspec

from chimera.eval.runs.store import RunStore
from chimera.eval.values import Control, TrialRecord
from chimera.text import printable, shortened
from chimera.types import JSON, Step
from chimera.view.grid import TrialKey
from chimera.view.index import ground_of

#: Steps on a page, and characters of a text on it; what is longer has a page of its own.
STEPS = 40
PREVIEW = 1500
EVIDENCE = 4000
ANSWER = 16_000
PICTURES = {".png": b"\x89PNG\r\n\x1a\n", ".jpg": b"\xff\xd8\xff", ".jpeg": b"\xff\xd8\xff",
            ".gif": b"GIF8", ".webp": b"RIFF"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Text:
    """Some of a text, with its whole length; `part` is the name it has in `parts`."""

    part: str
    shown: str
    length: int
    is_cut: bool
    language: str = ""


def cut(part: str, text: str, most: int, language: str = "") -> Text:
    """The start and the end of a text; of one that grows where it is escaped, less."""
    shown = shortened(text, most)
    if len(escape(printable(shown))) > 2 * most:
        shown = shortened(text, most // 3)
    return Text(part, shown, len(text), shown != text, language)


def trial_data(store: RunStore, key: TrialKey, first_step: int = 1) -> dict[str, JSON]:
    """What the page of a trial shows; texts are cut, and say so."""
    record = store.record_head(*key)
    verdict, submission = record.verdict, record.submission
    evidence = store.evidence(*key) if verdict is not None else {}
    steps = steps_of(store, key)
    return {
        "task": key.task,
        "sample": key.sample,
        "status": record.status,
        "why": shortened(record.why, EVIDENCE),
        "boundary": record.error.boundary if record.error else None,
        "retryable": record.error.retryable if record.error else None,
        "score": verdict.value if verdict else None,
        "metrics": dict(verdict.metrics) if verdict else {},
        "corrected": _corrected(record),
        "controls": controls_of(store, record),
        "evidence": [cut(f"evidence:{name}", _plain(value), EVIDENCE)
                     for name, value in evidence.items()],
        "pictures": [{"kind": kind, "name": name}
                     for kind, name in _files(store, key) if _is_picture(name)],
        "files": [{"kind": kind, "name": name} for kind, name in _files(store, key)],
        "prompt": cut("prompt", store.task_prompt(key.task), PREVIEW),
        "answer": cut("answer", submission.text, ANSWER, language_of(submission.text))
        if submission else None,
        "reply": cut("reply", submission.raw, PREVIEW)
        if submission and submission.raw not in (None, submission.text) else None,
        "form": submission.form if submission else None,
        "cost": record.cost,
        "usage": msgspec.to_builtins(record.usage),
        "seconds": record.duration,
        "started": record.started,
        "attempts": record.attempts,
        "stop_reason": record.stop_reason,
        "calls": [msgspec.to_builtins(call) for call in store.calls(*key)[:100]],
        "step_count": len(steps),
        "kinds": _kinds(steps),
        "first_step": first_step,
        "steps": [
            step_data(steps, number)
            for number in range(first_step, min(len(steps), first_step + STEPS - 1) + 1)
        ],
    }  # fmt: skip


#: What is said of a verdict by what stands behind it, for a pass and for a fail.
_SUPPORT = {
    "held": ("Doing nothing fails here: this pass counts.",
             "The reference answer passes here: this fail counts."),
    "uninformative": ("This pass is uninformative: doing nothing passes here too.", ""),
    "uncontrolled": ("This pass is uncontrolled: doing nothing was not graded here.",
                     "This fail is uncontrolled: no reference answer was graded here."),
    "unneeded": ("No control stands behind this pass.",
                 "Nothing was handed in: that this solves nothing needs no control."),
    "contrary": ("What doing nothing comes to here is not known.",
                 "The reference answer does not pass here: this fail says nothing."),
    "withheld": ("The verdict was withheld: a known answer did not come out as it must.",) * 2,
}  # fmt: skip


def controls_of(store: RunStore, record: TrialRecord) -> dict[str, JSON] | None:
    """What the reference and an empty answer came to where this one was graded."""
    found = record.control
    ground = ground_of(
        record.status, found.positive if found else None, found.negative if found else None
    )
    if not ground:
        return None
    identity = found.identity if found else ""
    return {
        "ground": ground,
        "sentence": _SUPPORT[ground][not record.passed],
        "positive": found.positive if found else "off",
        "negative": found.negative if found else "off",
        "identity": identity,
        "made": [control_data(control) for control in store.controls(identity)[:4]]
        if identity else [],
    }  # fmt: skip


def control_data(control: Control, most: int = EVIDENCE) -> dict[str, JSON]:
    """A known answer: what it came to, when and where."""
    return {
        "answer": control.answer,
        "task": control.task_id,
        "identity": control.identity,
        "status": control.status,
        "holds": control.holds,
        "why": control.why[:1000],
        "made": control.made,
        "seconds": control.seconds,
        "log": cut(f"control:{control.answer}", control.log, most),
        "details": cut("details", control.details, most),
    }


def steps_of(store: RunStore, key: TrialKey) -> Sequence[Step]:
    return store.steps(*key)


def step_data(steps: Sequence[Step], number: int, most: int = PREVIEW) -> dict[str, JSON]:
    """One step, counted from 1: what was said, asked of tools or seen, when and for how much."""
    step = steps[number - 1]
    message = step.message
    began = steps[0].timestamp
    return {
        "number": number,
        "kind": message.role,
        "text": cut(f"step:{number}", message.content, most),
        "reasoning": cut(f"reasoning:{number}", message.reasoning, most)
        if message.reasoning else None,
        "calls": [
            {"name": call.name, "arguments": cut(f"call:{number}:{place}", _arguments(call), most)}
            for place, call in enumerate(message.tool_calls[:20])
        ],
        "seconds": step.timestamp - began if step.timestamp and began else None,
        "tokens": step.usage.total_tokens or None,
        "cost": step.cost,
        "metadata": cut(f"metadata:{number}", _plain(step.metadata), 600)
        if step.metadata else None,
    }  # fmt: skip


def part_of(store: RunStore, key: TrialKey, part: str) -> str | None:
    """A text of a trial by its name, whole; None where there is none."""
    kind, _, name = part.partition(":")
    if kind == "prompt":
        return store.task_prompt(key.task)
    if kind in ("answer", "reply"):
        submission = store.record_head(*key).submission
        return (
            None if submission is None else submission.text if kind == "answer" else submission.raw
        )
    if kind == "control":
        grounds = store.record_head(*key).control
        made = store.controls(grounds.identity) if grounds and grounds.identity else []
        return next((control.log for control in made if control.answer == name), None)
    if kind == "evidence":
        evidence = store.evidence(*key)
        return _plain(evidence[name]) if name in evidence else None
    number, _, place = name.partition(":")
    return _part_of_step(steps_of(store, key), kind, number, place)


def _part_of_step(steps: Sequence[Step], kind: str, number: str, place: str) -> str | None:
    if not (number.isdecimal() and 1 <= int(number) <= len(steps)):
        return None
    step = steps[int(number) - 1]
    calls = step.message.tool_calls
    if kind == "step":
        return step.message.content
    if kind == "reasoning":
        return step.message.reasoning
    if kind == "metadata":
        return _plain(step.metadata)
    if kind == "call" and place.isdecimal() and int(place) < len(calls):
        return _arguments(calls[int(place)])
    return None


def parting(first: Sequence[Step], second: Sequence[Step]) -> int:
    """The first step, counted from 1, in which two trajectories say or do another thing."""
    for number, (a, b) in enumerate(zip_longest(first, second), 1):
        if a is None or b is None or _said(a) != _said(b):
            return number
    return len(first) + 1


def _said(step: Step) -> JSON:
    calls = [(call.name, _arguments(call)) for call in step.message.tool_calls]
    return step.message.role, step.message.content, calls


def _kinds(steps: Sequence[Step]) -> dict[str, int]:
    found: dict[str, int] = {}
    for step in steps:
        found[step.message.role] = found.get(step.message.role, 0) + 1
    return found


def _corrected(record: TrialRecord) -> bool | None:
    value = record.verdict.metrics.get("corrected") if record.verdict else None
    return value if isinstance(value, bool) else None


def _files(store: RunStore, key: TrialKey) -> Iterator[tuple[str, str]]:
    for kind in ("evidence", "submission"):
        for name in store.artifact_sizes(*key, kind):
            yield kind, name


def _is_picture(name: str) -> bool:
    return name.lower().endswith(tuple(PICTURES))


def picture_type(name: str, content: bytes) -> str | None:
    """The media type of a picture by its first bytes; its name alone is a stranger's word."""
    for suffix, start in PICTURES.items():
        if name.lower().endswith(suffix) and content.startswith(start):
            return f"image/{suffix[1:].replace('jpg', 'jpeg')}"
    return None


def _arguments(call: JSON) -> str:
    if call.arguments is None:
        return str(call.raw_arguments)
    single = list(call.arguments.values())
    if len(single) == 1 and isinstance(single[0], str):
        return single[0]
    return _plain(call.arguments)


def _plain(value: JSON) -> str:
    """A value as people read it: texts as they are, everything else as indented JSON."""
    if isinstance(value, str):
        return value
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


@lru_cache(maxsize=1)
def _languages() -> Mapping[str, tuple[str, ...]]:
    return {
        "diff": ("diff --git ", "--- a/", "Index: "),
        "python": ("def ", "import ", "from ", "class ", "async def "),
        "java": ("package ", "public class ", "import java"),
        "cpp": ("#include",),
        "go": ("package main", "package "),
        "rust": ("use std", "pub fn", "fn "),
        "json": ("{", "["),
    }


def language_of(text: str) -> str:
    """What a text is written in, as far as its first lines show; "" for prose."""
    for line in text[:4000].splitlines()[:40]:
        for language, starts in _languages().items():
            if line.startswith(starts):
                return language
    return ""
