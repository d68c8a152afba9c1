"""Plain data cross unchanged; anything else is refused on one side or the other."""

from __future__ import annotations

import datetime
from collections import Counter, OrderedDict, deque, namedtuple
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chimera.sandbox.inner.codec import Malformed, NotPlain, dump, load

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.complex_numbers(allow_nan=False),
    st.decimals(allow_nan=False),
    st.fractions(),
    st.datetimes(),
)
hashable = scalars | st.tuples(scalars, scalars) | st.frozensets(scalars, max_size=3)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.sets(hashable, max_size=3)
        | st.dictionaries(hashable, inner, max_size=3)
        | st.lists(inner, max_size=3).map(deque)
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(values)
def test_what_is_plain_arrives_equal_and_of_the_same_type(value: object) -> None:
    arrived = load(dump(value))

    assert arrived == value
    assert type(arrived) is type(value)


def grown(*elements: int) -> set[int]:
    return {element for element in elements}  # noqa: C416  # one after the other, not as one table


@pytest.mark.parametrize(
    "value",
    [
        {1, 2, 3, 4, 5},
        {33, 1, 9, 65, 17, 25},
        {8, 16, 0, 24, 32, 40},
        grown(8, 16, 0),
        grown(65, 1, 33),
    ],
)
def test_a_set_is_iterated_as_it_was_in_the_answers_process(value: set[int]) -> None:
    assert list(load(dump(value))) == list(value)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=100))
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with suppress(Malformed):
        assert dump(load(data))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(10**9000, id="long"),
        pytest.param([1, 10**9000], id="long-in-list"),
        float("inf"),
        -0.0,
        "lone \ud83d \ude00 surrogates",
        range(3, 9, 2),
        slice(1, None),
        OrderedDict(a=1),
        Counter("aab"),
        bytearray(b"ab"),
        datetime.timedelta(days=1, microseconds=2),
        Decimal("1.10"),
        Fraction(1, 3),
        int,
        ...,
    ],
)
def test_rarer_values_arrive(value: object) -> None:
    arrived = load(dump(value))

    assert arrived == value
    assert type(arrived) is type(value)


def test_views_of_dicts_behave_as_views() -> None:
    keys, items, numbers = load(dump([{"a": 1}.keys(), {"a": 1}.items(), {"a": 1}.values()]))

    assert keys == {"a"}
    assert items == {("a", 1)}
    assert numbers != [1]
    assert list(numbers) == [1]


def test_shared_and_self_containing_lists_keep_their_shape() -> None:
    row = [0]
    value = [row, row]
    value.append(value)

    arrived = load(dump(value))

    assert arrived[0] is arrived[1]
    assert arrived[2] is arrived


def test_subclasses_arrive_as_their_base() -> None:
    class Loud(str):
        def __str__(self) -> str:
            return "LOUD"

    class Point(namedtuple("Point", "x y")):
        __slots__ = ()

    arrived = load(dump([Loud("quiet"), Point(1, 2), True]))

    assert arrived == ["quiet", (1, 2), True]
    assert [type(each) for each in arrived] == [str, tuple, bool]


@pytest.mark.parametrize("value", [object(), lambda: 0, iter([1]), Malformed, pytest])
def test_other_objects_do_not_cross(value: object) -> None:
    with pytest.raises(NotPlain):
        dump(value)


@pytest.mark.parametrize(
    "data",
    [
        b'{"r":0}',
        b'{"r":-1}',
        b'{"t":1}',
        b'{"d":[[1]]}',
        b'{"d":[[[],1]]}',
        b'{"i":"zz"}',
        b'{"type":"eval"}',
        b'{"object":[0,"f"]}',
        b'{"fraction":[1,0]}',
        b'{"range":[1,2,0]}',
        b'{"unknown":1}',
        b'{"a":1,"b":2}',
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b'{"t":[' * 5_000, id="deep-tags"),
        pytest.param(b"1" * 10_000, id="digits"),
        b"",
        b"\xff",
    ],
)
def test_malformed_data_are_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        load(data)
