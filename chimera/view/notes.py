"""What people wrote down about trials: notes and labels in a file beside the run, never in it."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from chimera.cache import write_atomically
from chimera.errors import UsageError
from chimera.text import storable
from chimera.view.grid import TrialKey

MOST_BYTES = 16 * 1024**2
MOST_CHARACTERS = 20_000
MOST_LABELS = 20


class Note(msgspec.Struct, frozen=True):
    """What somebody wrote about one trial."""

    task: str
    sample: int
    text: str = ""
    labels: tuple[str, ...] = ()
    written: float = 0.0

    @property
    def key(self) -> TrialKey:
        return TrialKey(self.task, self.sample)


def notes_file(run: Path) -> Path:
    return run.with_name(f"{run.name}.notes.json")


def read_notes(run: Path) -> dict[TrialKey, Note]:
    """All notes on a run; a file that is not one of notes is said to be so."""
    file = notes_file(run)
    try:
        if file.exists() and not file.is_file():  # a pipe has no end, and a device neither
            raise UsageError(f"{file} is no file")
        if file.stat().st_size > MOST_BYTES:
            raise UsageError(f"{file} is too large for notes")
        notes = msgspec.json.decode(file.read_bytes(), type=list[Note])
    except FileNotFoundError:
        return {}
    except (msgspec.MsgspecError, RecursionError, UnicodeError, OSError) as error:
        raise UsageError(f"{file} does not hold notes: {error}") from None
    return {note.key: note for note in notes}


def write_note(run: Path, key: TrialKey, text: str, labels: str) -> Note:
    """Keep a note; an empty one without labels takes it away."""
    words = [word.strip().lower()[:40] for word in re.split(r"[,\n]", storable(labels))]
    chosen = tuple(dict.fromkeys(word for word in words if word))[:MOST_LABELS]
    plain = storable(text.replace("\r\n", "\n").strip())[:MOST_CHARACTERS]
    note = Note(*key, text=plain, labels=chosen, written=time.time())
    try:
        with _alone(run.parent):
            notes = read_notes(run)
            if note.text or note.labels:
                notes[key] = note
            else:
                notes.pop(key, None)
            content = msgspec.json.format(msgspec.json.encode(list(notes.values())), indent=1)
            write_atomically(notes_file(run), content)
    except OSError as error:
        raise UsageError(f"{notes_file(run)} cannot be written: {error.strerror}") from None
    return note


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold off others who would write a note of theirs into what was read before ours."""
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        yield
    finally:
        os.close(place)
