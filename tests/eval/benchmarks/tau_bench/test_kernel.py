"""What every domain shares: wrong arguments, rendering, states, arithmetic."""

from __future__ import annotations

import hashlib
import json

import pytest

from chimera.eval.benchmarks._tau_bench.kernel import (
    Call,
    Record,
    Table,
    Toolkit,
    World,
    calculate,
    deep_update,
    fresh,
    model,
    render,
    same_state,
    tool,
)


class ShopTools(Toolkit):
    official = "OfficialShop"
    database = model("Shop", shelves=dict[str, dict[str, float]])

    @tool("read")
    def look(self, shelf: str, row: int = 1) -> Record:
        """Look at a shelf.

        Not shown to the model.
        """
        return Record(self.db["shelves"][shelf], row=row)

    @tool("write")
    def put(self, shelf: str, thing: str, count: float) -> dict[str, object]:
        """Put something on a shelf."""
        self.db["shelves"][shelf][thing] = count
        return {"message": "done", "count": count, "shelf": Record(self.db["shelves"][shelf])}

    def set_up(self, shelf: str) -> None:
        self.db["shelves"][shelf] = {}

    def _inner(self) -> str:
        return "never"


@pytest.fixture
def world() -> World:
    return World(ShopTools({"shelves": {"a": {"nails": 3}}}))


@pytest.mark.parametrize(
    ("name", "arguments", "content"),
    [
        ("look", {"shelf": "a"}, '{"nails": 3, "row": 1}'),
        ("look", {"shelf": "b"}, "Error: 'b'"),
        (
            "look",
            {"shelf": "a", "tool_name": "x"},
            "Error: Environment.make_tool_call() got multiple values for argument 'tool_name'",
        ),
        (
            "no_such",
            {"self": 1, "requestor": "user"},
            "Error: tau2.environment.environment.Environment.make_tool_call() got multiple values "
            "for keyword argument 'requestor'",
        ),
        ("look", {}, "Error: OfficialShop.look() missing 1 required positional argument: 'shelf'"),
        (
            "put",
            {},
            "Error: OfficialShop.put() missing 3 required positional arguments: "
            "'shelf', 'thing', and 'count'",
        ),
        (
            "put",
            {"shelf": "a"},
            "Error: OfficialShop.put() missing 2 required positional arguments: "
            "'thing' and 'count'",
        ),
        (
            "look",
            {"shelf": "a", "colour": 1},
            "Error: OfficialShop.look() got an unexpected keyword argument 'colour'",
        ),
        ("paint", {}, "Error: Tool 'paint' not found."),
        ("_inner", {}, "Error: Tool '_inner' not found."),
        ("set_up", {"shelf": "x"}, "Error: Tool 'set_up' not found."),
        ("run_function", {"name": "set_up"}, "Error: Tool 'run_function' not found."),
    ],
)
def test_calls_answer_as_the_official_classes_do(world, name, arguments, content):
    reply = world.respond(Call(name, arguments))

    assert reply.content == content
    assert reply.error is content.startswith("Error: ")


def test_scalars_of_plain_results_become_text_but_not_those_of_records(world):
    reply = world.respond(Call("put", {"shelf": "a", "thing": "screws", "count": 2.5}))

    assert reply.content == (
        '{"message": "done", "count": "2.5", "shelf": {"nails": 3, "screws": 2.5}}'
    )
    assert render(["x", 1, True, None, (2,)]) == '["x", "1", "True", null, ["2"]]'
    assert render("as it is") == "as it is"


def test_the_schema_shows_types_defaults_and_only_the_first_paragraph():
    known = ShopTools.tools["look"]

    assert known.description == "Look at a shelf."
    assert known.parameters == {
        "type": "object",
        "properties": {
            "shelf": {"type": "string"},
            "row": {"type": "integer", "default": 1},
        },
        "required": ["shelf"],
    }


@pytest.mark.parametrize("name", ["_inner", "call", "update_db", "db", "__class__", "no_such"])
def test_set_up_functions_reach_public_methods_only(world, name):
    with pytest.raises(AttributeError):
        world.run_function("assistant", name, {})


def test_a_table_copies_a_record_when_it_is_taken():
    shared = {"people": {"ann": {"age": 5}, "bob": {"age": 6}}}
    one, other = fresh(shared), fresh(shared)

    one["people"]["ann"]["age"] = 7
    one["people"]["cid"] = {"age": 1}

    assert shared["people"] == {"ann": {"age": 5}, "bob": {"age": 6}}
    assert other["people"]["ann"] == {"age": 5}
    assert isinstance(one["people"], Table)
    assert not same_state(one, other)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": [1, 2]}, {"a": [1, 2]}, True),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": 5}, {"a": 5.0}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": None}, {}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    ],
)
def test_states_are_the_same_exactly_when_their_official_hashes_are(one, other, same):
    def official_hash(db):
        return hashlib.sha256(json.dumps(db, sort_keys=True, default=str).encode()).hexdigest()

    assert same_state(one, other) is same
    assert (official_hash(one) == official_hash(other)) is same


def test_a_tasks_data_are_checked_and_copied_when_they_are_laid_over_a_database():
    changes = {"shelves": {"b": {"nails": 1}}}
    shared = {"a": {"nails": 3.0}}
    tools = ShopTools(fresh({"shelves": shared}))

    tools.update_db(changes)
    converted = repr(tools.db["shelves"]["b"])
    for shelf in ("a", "b"):
        tools.call("put", {"shelf": shelf, "thing": "nails", "count": 9})

    assert converted == "{'nails': 1.0}"
    assert changes == {"shelves": {"b": {"nails": 1}}}
    assert shared == {"a": {"nails": 3.0}}
    with pytest.raises(ValueError, match="1 validation error for Shop"):
        tools.update_db({"shelves": {"b": "nails"}})
    assert deep_update({"a": {"b": 1}}, {"a": {"c": 2}}) == {"a": {"b": 1, "c": 2}}


@pytest.mark.parametrize(
    ("expression", "value"),
    [("2 + 2", "4.0"), (" (1.5 - 3) * 2", "-3.0"), ("7 // 2", "3.0"), ("2 ** 3", "8.0")],
)
def test_calculate(expression, value):
    assert calculate(expression) == value


@pytest.mark.parametrize(
    ("expression", "kind", "text"),
    [
        ("1 / 0", ZeroDivisionError, "division by zero"),
        ("2 (3)", TypeError, "'int' object is not callable"),
        ("2 +", SyntaxError, "invalid syntax (<string>, line 1)"),
        ("9 ** 9 ** 9", OverflowError, "int too large to convert to float"),
    ],
)
def test_calculate_refuses_in_pythons_words(expression, kind, text):
    with pytest.raises(kind) as caught:
        calculate(expression)

    assert str(caught.value) == text
