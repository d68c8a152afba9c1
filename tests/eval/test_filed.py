"""Lists in files are the lists that they stand for."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from chimera.eval import filed
from chimera.eval.filed import ById, Coded, Counts, Filed, Names, Picked, gathered, those


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(filed, "FEW", 50)


@pytest.mark.parametrize("count", [0, 1, 50, 51, 250, 251, 700])
def test_a_filed_list_is_read_as_one_in_memory(count):
    values = [{"id": f"task/{number}", "tuple": (number, b"\0", None)} for number in range(count)]
    kept = Filed(values)

    assert len(kept) == count
    assert list(kept) == values
    assert [kept[place] for place in range(count)] == values
    assert list(kept[3:count:7]) == values[3::7]
    assert list(kept[::-1][:5]) == values[::-1][:5]
    assert not count or kept[-1] == values[-1]
    with pytest.raises(IndexError):
        kept[count]


def test_values_that_cannot_be_filed_stay_in_memory():
    class Own:
        pass

    values = [Own() for _ in range(600)]
    assert gathered(iter(values)) == values


def test_few_values_are_a_plain_list():
    assert gathered(iter("abc")) == ["a", "b", "c"]
    assert isinstance(gathered(range(51)), Filed)


@pytest.mark.parametrize("values", [list(range(300)), Filed(range(300))])
def test_those_that_are_wanted(values):
    assert list(those(values, lambda value: value % 7 == 0)) == list(range(0, 300, 7))


def test_values_by_their_codes():
    values = random.Random(1).choices([0.0, 1 / 3, 1.0], k=500)
    coded = Coded.of(values)

    assert list(coded) == values
    assert (len(coded), coded[7], list(coded[5:9])) == (500, values[7], values[5:9])
    assert sorted(coded.values) == [0.0, 1 / 3, 1.0]
    assert list(coded.mapped(lambda value: 1 - value)) == [1 - value for value in values]


def test_picked_values():
    picked = Picked("abcdef", [5, 0, 2])

    assert (list(picked), len(picked), picked[0], list(picked[1:])) == (
        ["f", "a", "c"], 3, "f", ["a", "c"],
    )  # fmt: skip


def test_names_are_known_wherever_they_lie():
    names = Names()

    assert all(names.add(f"n{number}", number) for number in range(500))
    assert not any(names.add(f"n{number}", 1000) for number in range(500))
    assert [names.place(f"n{number}") for number in range(500)] == list(range(500))
    assert names.place("n500") is None


def test_counts_are_those_of_a_counter():
    generator = random.Random(2)
    texts = [f"why {int(generator.expovariate(0.02))}" for _ in range(3000)]
    counts = Counts()
    for text in texts:
        counts.add(text)

    assert len(set(texts)) > 150
    assert counts.most_common(20) == Counter(texts).most_common(20)


def test_tasks_by_their_ids():
    tasks = [{"id": f"task/{number}", "prompt": str(number)} for number in range(300)]
    for given in (tasks, Filed(tasks)):
        found = ById(given)
        assert dict(found) == {task["id"]: task for task in tasks}
        assert len(found) == 300
        assert "task/300" not in found
