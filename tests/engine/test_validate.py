"""Events and definitions: what they do against a model, and where an error points."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prosem.engine.validate import MAX_COLUMNS, effects, known_table, table_definition
from prosem.values.errors import ConflictError, InputError, NotFoundError
from prosem.values.model import Row, Table

DEFINITION: dict[str, Any] = {
    "name": "t",
    "columns": [
        {"name": "a", "type": "integer"},
        {"name": "b", "type": "text"},
        {"name": "y", "type": "numeric(6,2)", "nullable": False},
        {"name": "z/~", "type": "double precision"},
    ],
    "primary_key": ["b", "a"],
}
TABLE = table_definition(DEFINITION, 7)


# -- effects against a model -----------------------------------------------------------------------------
KEYS = st.fixed_dictionaries({"a": st.integers(0, 2), "b": st.sampled_from(["x", "y"])})
REST = st.fixed_dictionaries({"y": st.integers(0, 3)}, optional={"z/~": st.none() | st.integers(0, 2)})
EVENTS = st.one_of(
    st.builds(
        lambda op, key, rest: {"op": op, "row": key | rest}, st.sampled_from(["insert", "upsert"]), KEYS, REST
    ),
    st.builds(
        lambda key, some: {"op": "update", "key": key, "set": some},
        KEYS,
        st.fixed_dictionaries({}, optional={"y": st.integers(0, 3), "z/~": st.none() | st.integers(0, 2)}),
    ),
    st.builds(lambda key: {"op": "delete", "key": key}, KEYS),
)


def model_step(rows: dict[tuple[Any, ...], dict[str, Any]], event: dict[str, Any]) -> bool:
    """Apply one event to rows by key, as SQL would; False if it cannot be."""
    given = event.get("row") or event["key"]
    key = (given["b"], given["a"])
    if event["op"] == "insert" and key in rows:
        return False
    if event["op"] in ("insert", "upsert"):
        rows[key] = {"a": None, "b": None, "y": None, "z/~": None} | event["row"]
        return True
    if key not in rows:
        return False
    if event["op"] == "delete":
        del rows[key]
    else:
        rows[key] = rows[key] | event["set"]
    return True


@given(st.lists(EVENTS, max_size=6), st.lists(EVENTS, min_size=1, max_size=8))
def test_effects_are_those_of_the_events_one_after_the_other(before: list[Any], events: list[Any]) -> None:
    model: dict[tuple[Any, ...], dict[str, Any]] = {}
    for event in before:
        model_step(model, event)
    rows: dict[tuple[Any, ...], Row] = {key: tuple(row.values()) for key, row in model.items()}
    untouched = dict(rows)
    states, bad = [dict(rows)], None
    for number, event in enumerate(events):
        if not model_step(model, event):
            bad = number
            break
        states.append({key: tuple(row.values()) for key, row in model.items()})
    if bad is not None:
        with pytest.raises(ConflictError) as caught:
            effects(TABLE, rows, events)
        assert caught.value.at == f"/events/{bad}"
        assert rows == untouched
        return
    found = effects(TABLE, rows, events)
    assert rows == untouched, "nothing is changed yet"
    assert [effect.op for effect in found] == [event["op"] for event in events]
    for effect, was, now in zip(found, states, states[1:], strict=False):
        assert effect.old == was.get(effect.key)
        assert effect.new == now.get(effect.key)
        assert {key for key in was.keys() | now.keys() if was.get(key) != now.get(key)} <= {effect.key}


# -- pointers --------------------------------------------------------------------------------------------
ROW = {"a": 1, "b": "x", "y": 1}
KEY = {"a": 1, "b": "x"}
WRONG = [
    (None, ""),
    ([], ""),
    ("insert", ""),
    ({}, "/op"),
    ({"op": "merge", "row": ROW}, "/op"),
    ({"op": None}, "/op"),
    ({"op": []}, "/op"),
    ({"op": "insert"}, "/row"),
    ({"op": "insert", "row": []}, "/row"),
    ({"op": "insert", "row": ROW, "extra": 1}, "/extra"),
    ({"op": "insert", "row": ROW, "key": KEY}, "/key"),
    ({"op": "delete", "key": KEY, "a/b": 1}, "/a~1b"),
    ({"op": "insert", "row": ROW | {"q": 1}}, "/row/q"),
    ({"op": "insert", "row": ROW | {"q/~": 1}}, "/row/q~1~0"),
    ({"op": "upsert", "row": ROW | {"y": "much"}}, "/row/y"),
    ({"op": "upsert", "row": ROW | {"z/~": "1"}}, "/row/z~1~0"),
    ({"op": "insert", "row": {"a": 1, "b": "x"}}, "/row/y"),
    ({"op": "insert", "row": ROW | {"y": None}}, "/row/y"),
    ({"op": "insert", "row": ROW | {"a": None}}, "/row/a"),
    ({"op": "insert", "row": {"b": "x", "y": 1}}, "/row/a"),
    ({"op": "insert", "row": ROW | {"b": "x" * 5000}}, "/row/b"),
    ({"op": "update", "key": KEY}, "/set"),
    ({"op": "update", "set": {}}, "/key"),
    ({"op": "update", "key": KEY, "set": {"y": True}}, "/set/y"),
    ({"op": "update", "key": KEY, "set": {"q": 1}}, "/set/q"),
    ({"op": "update", "key": KEY, "set": {"a": 2}}, "/set/a"),
    ({"op": "update", "key": KEY, "set": {"y": None}}, "/set/y"),
    ({"op": "delete", "key": {"a": 1}}, "/key"),
    ({"op": "delete", "key": {"a": 1, "b": None}}, "/key/b"),
    ({"op": "delete", "key": KEY | {"y": 1}}, "/key/y"),
    ({"op": "delete", "key": {"a": "1", "b": "x"}}, "/key/a"),
]


@pytest.mark.parametrize(("event", "at"), WRONG)
def test_an_error_points_at_the_first_bad_value(event: Any, at: str) -> None:
    rows: dict[tuple[Any, ...], Row] = {("x", 1): (1, "x", TABLE.columns[2].type.read(1), None)}
    good = {"op": "upsert", "row": {"a": 9, "b": "x", "y": 1}}
    with pytest.raises(InputError) as caught:
        effects(TABLE, rows, [good, good, event, {"op": "merge"}])
    assert caught.value.at == f"/events/2{at}"
    problem = caught.value.problem()
    assert problem["errors"] == [{"at": f"/events/2{at}", "detail": problem["detail"]}]


def test_a_key_may_be_repeated_in_set_unchanged() -> None:
    rows: dict[tuple[Any, ...], Row] = {("x", 1): (1, "x", TABLE.columns[2].type.read(1), None)}
    (effect,) = effects(TABLE, rows, [{"op": "update", "key": KEY, "set": {"a": 1, "b": "x", "z/~": 2}}])
    assert effect.new == (*rows["x", 1][:3], 2.0)


def test_pointers_follow_the_prefix_of_an_ndjson_line() -> None:
    with pytest.raises(InputError) as caught:
        effects(TABLE, {}, [{"op": "insert", "row": ROW}, {"op": "insert", "row": {"a": "1"}}], at="")
    assert caught.value.at == "/1/row/a"


# -- definitions -----------------------------------------------------------------------------------------
def with_columns(*columns: Any) -> dict[str, Any]:
    return {"name": "t", "columns": list(columns), "primary_key": ["a"]}


A = {"name": "a", "type": "integer"}


@pytest.mark.parametrize(
    ("body", "at"),
    [
        (None, ""),
        ([], ""),
        ({}, "/name"),
        (DEFINITION | {"name": ""}, "/name"),
        (DEFINITION | {"name": "n" * 64}, "/name"),
        (DEFINITION | {"name": "é" * 32}, "/name"),
        (DEFINITION | {"name": "a\0"}, "/name"),
        (DEFINITION | {"name": 5}, "/name"),
        (DEFINITION | {"columns": {}}, "/columns"),
        (DEFINITION | {"columns": []}, "/columns"),
        (with_columns(*[{"name": f"c{n}", "type": "text"} for n in range(MAX_COLUMNS + 1)]), "/columns"),
        (with_columns(A, 1), "/columns/1"),
        (with_columns(A, A), "/columns/1/name"),
        (with_columns(A, {"name": "b", "type": "int"}), "/columns/1/type"),
        (with_columns(A, {"name": "b"}), "/columns/1/type"),
        (with_columns(A, {"name": "b", "type": "text", "nullable": 1}), "/columns/1/nullable"),
        (DEFINITION | {"primary_key": []}, "/primary_key"),
        (DEFINITION | {"primary_key": "a"}, "/primary_key"),
        (DEFINITION | {"primary_key": ["a", "q"]}, "/primary_key/1"),
        (DEFINITION | {"primary_key": ["a", 1]}, "/primary_key/1"),
        (DEFINITION | {"primary_key": ["a", "a"]}, "/primary_key"),
        (with_columns({"name": "a", "type": "jsonb"}), "/primary_key/0"),
    ],
)
def test_a_wrong_definition(body: Any, at: str) -> None:
    with pytest.raises(InputError) as caught:
        table_definition(body)
    assert caught.value.at == at


def test_a_definition_travels_there_and_back() -> None:
    assert table_definition(TABLE.definition(), 7) == TABLE
    assert [column.nullable for column in TABLE.columns] == [False, False, False, True], "a key is never NULL"
    assert TABLE.key_of((1, "x", None, None)) == ("x", 1)
    assert known_table({"t": TABLE}, "t") is TABLE
    with pytest.raises(NotFoundError, match="'u'"):
        known_table({"t": TABLE}, "u")


def test_rows_are_in_the_order_of_the_columns_whatever_that_of_the_object() -> None:
    table = Table(1, "t", TABLE.columns, TABLE.primary_key)
    (effect,) = effects(table, {}, [{"op": "insert", "row": {"z/~": 1, "y": "2", "b": "x", "a": 1}}])
    assert effect.new == (1, "x", table.columns[2].type.read("2"), 1.0)
