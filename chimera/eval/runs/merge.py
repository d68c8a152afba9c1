"""Several runs of one plan made one: the shards of a cluster's job array or of a CI matrix."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from chimera.errors import UsageError
from chimera.eval.runs.comparison import basis_of
from chimera.eval.runs.seal import is_own, seal
from chimera.eval.runs.store import RunStore
from chimera.eval.values import TrialRecord
from chimera.types import JSON

#: Trials that are stored together.
AT_ONCE = 32
#: What runs must have in common for their trials to be of one run.
_SAME = ("identity", "samples", "model", "agent", "environment")


def merge(target: Path, sources: Sequence[Path]) -> int:
    """Write a run with every trial of the others and return how many; made whole or not at all.

    Raises `UsageError` where they differ in what could change an outcome, or have a verdict each
    for one trial.
    """
    if target.exists():
        raise UsageError(f"{target} is there already")
    if len({source.resolve() for source in sources}) < max(2, len(sources)):
        raise UsageError("give at least two runs, each once")
    manifests = [_manifest(source) for source in sources]
    for source, manifest in zip(sources[1:], manifests[1:], strict=True):
        _compare(sources[0], manifests[0], source, manifest)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with RunStore(partial, create=True) as store:
            for source in sources:
                _copy(source, store)
            store.set_manifest(_merged(manifests, sources))
            count = store.trial_count()
        partial.rename(target)
    finally:
        for leftover in target.parent.glob(f"{partial.name}*"):
            leftover.unlink()
    return count


def _manifest(source: Path) -> dict[str, JSON]:
    with RunStore(source) as store:
        return store.manifest()


def _compare(first: Path, one: dict[str, JSON], second: Path, other: dict[str, JSON]) -> None:
    for key in _SAME:
        if one.get(key) != other.get(key):
            raise UsageError(
                f"{second.name} is no part of the same run as {first.name}: "
                f"its {key} is {other.get(key)!r:.300}, not {one.get(key)!r:.300}"
            )
    digests = [(manifest.get("dataset") or {}).get("sha256") for manifest in (one, other)]
    if digests[0] != digests[1]:
        raise UsageError(f"{second.name} was run on another data set than {first.name}")
    if basis_of(one) != basis_of(other):
        raise UsageError(
            f"{second.name} was graded again by another grader, other options or another data set "
            f"than {first.name}: grade both alike first, with chimera grade"
        )


def _copy(source: Path, store: RunStore) -> None:
    with RunStore(source) as part:
        store.add_tasks(part.tasks())
        wanted = _wanted(part.records(whole=True), source, store)
        while page := list(islice(wanted, AT_ONCE)):
            if len({(each.task_id, each.sample) for each in page}) < len(page):
                raise UsageError(f"{source} is damaged: it has a trial twice")
            for _ in store.write_all(page):
                pass
        for control in part.each_control():
            store.add_control_soon(control)
        store.flush()
        store.spend(part.spent())


def _wanted(records: Iterable[TrialRecord], source: Path, store: RunStore) -> Iterator[TrialRecord]:
    """Those that are not there yet, or are without the verdict, or the answer, that these have."""
    for record in records:
        known = store.state(record.task_id, record.sample)
        if known is not None and known[1] and record.verdict is not None:
            raise UsageError(
                f"{source.name} has a verdict for task {record.task_id!r}, sample "
                f"{record.sample}, which another run has too"
            )
        if known is None or record.verdict is not None:
            yield record
        elif not known[1] and _asked(record):
            there = store.record(record.task_id, record.sample)
            if there is None or not _asked(there):
                yield record


def _asked(record: TrialRecord) -> bool:
    """Whether an agent was paid for it."""
    return record.submission is not None or bool(record.calls)


def _merged(manifests: Sequence[dict[str, JSON]], sources: Sequence[Path]) -> dict[str, JSON]:
    """The manifest of the whole; sealed only if every part is this user's own."""
    first = manifests[0]
    settings = {**(first.get("settings") or {}), "shard": None}
    merged: dict[str, JSON] = {
        **first,
        "settings": settings,
        "planned": sum(manifest.get("planned", 0) for manifest in manifests),
        "started": min(manifest.get("started", 0.0) for manifest in manifests),
        "merged": [source.name for source in sources],
    }
    own = all(is_own(manifest) for manifest in manifests)
    return {**merged, "seal": seal(merged) if own else None}
