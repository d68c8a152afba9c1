"""Bounded streams: the beginning and the end are kept, and reading ends in time."""

from __future__ import annotations

import os
import time

from hypothesis import given
from hypothesis import strategies as st

from chimera.environments.streams import Kept, collect


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(2, 100))
def test_no_more_is_kept_than_the_bound(chunks: list[bytes], bound: int) -> None:
    kept = Kept(bound)
    for chunk in chunks:
        kept.add(chunk)
    whole, content = b"".join(chunks), kept.content()

    assert kept.truncated is (len(whole) > bound)
    if not kept.truncated:
        assert content == whole
    else:
        head, tail = bound // 2, bound - bound // 2
        left_out = b"\n[%d bytes left out]\n" % (len(whole) - bound)
        assert content == whole[:head] + left_out + whole[len(whole) - tail :]


def test_reading_ends_at_the_deadline_with_what_came() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"so far")
    kept = Kept(100)

    over, open_still = collect({reader: kept}, deadline=time.monotonic() + 0.05)

    assert (over, open_still, kept.content()) == (False, [reader], b"so far")
    os.close(reader)
    os.close(writer)
