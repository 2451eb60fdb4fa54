"""Range types by brute force: with `IN`, over composed spaces, under both plans, folded at an edge of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.model.message import Message
from prosem.language.parse import parse
from prosem.language.syntax import Query
from prosem.types.base import SpaceContext
from prosem.types.registry import recognise
from prosem.values.columns import column_type
from prosem.values.model import Column, Delta, JsonObject, Key, Row, View
from prosem.values.numerics import unconstrained_numeric
from prosem.values.wire import decode, encode
from tests.support.effort import examples
from tests.support.folded import FoldedSpace, table_of

COLUMNS = {"k": "integer", "x": "integer", "z": "integer", "y": "integer", "e": "text", "w": "text"}
Batches = Sequence[Sequence[tuple[Key, Row | None]]]


# -- what happens --------------------------------------------------------------------------------------------------
def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(values, values, values, st.none())


row_values = st.tuples(
    maybe(st.integers(0, 4)),
    maybe(st.integers(0, 2)),
    maybe(st.integers(0, 3)),
    maybe(st.sampled_from("abc")),
    st.sampled_from("pq"),
)
changes = st.dictionaries(
    st.integers(0, 7), st.one_of(row_values, row_values, st.none()), min_size=1, max_size=5
)
ends = st.integers(0, 4)
subscriptions = st.fixed_dictionaries(
    {
        "xl": st.integers(0, 2), "xh": st.integers(1, 4), "zl": st.integers(0, 1), "zh": st.integers(0, 2),
        "e0": st.sampled_from("abc"), "e1": maybe(st.sampled_from("abd")), "e2": st.sampled_from("abc"),
    }
)  # fmt: skip
steps = st.lists(
    st.one_of(changes, changes, changes, st.tuples(st.integers(0, 3), subscriptions)), max_size=14
)
history = st.tuples(changes, st.lists(subscriptions, min_size=4, max_size=4), steps, st.integers(0, 99))


def query(function: str, ranges: int, listed: bool, per: str) -> Query:
    where = [f"{name} BETWEEN :{name}l AND :{name}h" for name in ("x", "z")[:ranges]]
    where += ["e IN (:e0, :e1, :e2)"] if listed else []
    made = parse(f"SELECT {function} FROM t" + (f" WHERE {' AND '.join(where)}" if where else ""))
    return replace(made, per=per)


def selects(row: JsonObject, params: Mapping[str, Any]) -> bool:
    for name in ("x", "z"):
        if f"{name}l" in params:
            low, high = params[f"{name}l"], params[f"{name}h"]
            if row[name] is None or not low <= row[name] <= high:
                return False
    return "e0" not in params or (row["e"] is not None and row["e"] in [params[f"e{n}"] for n in range(3)])


def play(
    query: Query,
    answer: Callable[[list[JsonObject], Mapping[str, Any]], JsonObject],
    history: Any,
    max_boxes: int = 128,
    select: Callable[[JsonObject, Mapping[str, Any]], bool] = selects,
    key: Sequence[str] = ("k",),
    view: bool = False,
) -> None:
    """Several deltas share a seq where the space is composed; else each has one of its own."""
    first, asked, later, seed = history
    table = table_of(COLUMNS, kind=View) if view else table_of(COLUMNS)
    is_composed = view or query.per == "transaction"
    rows = {(key,): (key, *row) for key, row in first.items() if row is not None}
    space = FoldedSpace(query, table, rows, select, answer, key, seed, max_boxes)
    params = [{name: one[name] for name in query.parameters} for one in asked]
    for sid, one in enumerate(params):
        space.subscribe(sid, one)
    for step in later:
        if isinstance(step, tuple):
            sid, moved = step
            space.move(sid, {name: moved[name] for name in query.parameters})
            continue
        batch = [((key,), None if row is None else (key, *row)) for key, row in step.items()]
        for some in [batch] if is_composed else [[one] for one in batch]:
            space.apply(some)
    for sid in range(len(params)):
        space.remove(sid)
    assert not len(getattr(space.space, "points", ()))


def values(rows: Sequence[JsonObject]) -> list[Any]:
    return [row["y"] for row in rows if row["y"] is not None]


ANSWERS: dict[str, Callable[[list[JsonObject], Mapping[str, Any]], JsonObject]] = {
    "MIN(y)": lambda rows, _: {"value": min(values(rows), default=None)},
    "MAX(y)": lambda rows, _: {"value": max(values(rows), default=None)},
    "COUNT(*)": lambda rows, _: {"value": len(rows)},
    "COUNT(y)": lambda rows, _: {"value": len(values(rows))},
    "SUM(y)": lambda rows, _: {"value": sum(values(rows)) if values(rows) else None},
    "MAX(w)": lambda rows, _: {"value": max((row["w"] for row in rows), default=None)},
}


@pytest.mark.parametrize("function", ANSWERS)
@pytest.mark.parametrize(("ranges", "listed", "per"), [(0, True, "event"), (1, True, "event"), (2, True, "event"),
    (1, True, "transaction"), (2, True, "transaction"), (0, False, "transaction"), (1, False, "transaction"),
    (2, False, "transaction"), (1, False, "event"), (2, False, "event")])  # fmt: skip
@given(history=history, max_boxes=st.sampled_from([0, 128]))
@settings(max_examples=examples(20), deadline=None)
def test_aggregates(function: str, ranges: int, listed: bool, per: str, history: Any, max_boxes: int) -> None:
    play(query(function, ranges, listed, per), ANSWERS[function], history, max_boxes)


def distinct(rows: Sequence[JsonObject], _: Mapping[str, Any]) -> JsonObject:
    found = {row["y"] for row in rows}
    return {"values": sorted(found, key=lambda value: (value is None, value))}


@pytest.mark.parametrize("view", [False, True])
@given(history=history)
@settings(max_examples=examples(60), deadline=None)
def test_distinct_in_composed_spaces(view: bool, history: Any) -> None:
    per = "event" if view else "transaction"
    play(query("DISTINCT y", 1, False, per), distinct, history, view=view)


def all_rows(rows: Sequence[JsonObject], _: Mapping[str, Any]) -> JsonObject:
    return {"rows": list(rows)}


def some_columns(rows: Sequence[JsonObject], _: Mapping[str, Any]) -> JsonObject:
    return {"rows": [{"k": row["k"], "w": row["w"]} for row in rows]}


@pytest.mark.parametrize(("what", "answer"), [("*", all_rows), ("k, w", some_columns)])
@pytest.mark.parametrize("view", [False, True])
@given(history=history)
@settings(max_examples=examples(40), deadline=None)
def test_filters_in_composed_spaces(what: str, answer: Any, view: bool, history: Any) -> None:
    play(query(what, 1, True, "event" if view else "transaction"), answer, history, view=view)


def test_keys_with_nulls_are_found_again() -> None:
    """The key of a view may be NULL: an update and a removal of such a row in one seq with others."""
    table = table_of({"k": "integer", "x": "integer"}, kind=View)
    made = parse("SELECT * FROM t WHERE x BETWEEN :xl AND :xh")
    rows = {(None,): (None, 1), (2,): (2, 2)}
    space = FoldedSpace(made, table, rows, lambda row, _: 0 <= row["x"] <= 5, all_rows)
    space.subscribe(1, {"xl": 0, "xh": 5})
    space.apply([((None,), (None, 3)), ((2,), (2, 9)), ((4,), (4, 4))])
    space.apply([((None,), None), ((2,), (2, 1))])
    assert space.answers[1] == {"rows": [{"k": 4, "x": 4}, {"k": 2, "x": 1}]}
    opened = space.form.opening(b'{"rows":[{"k":null,"x":1}]}', None)
    assert opened["rows"][0]["key"] == "null"


@pytest.mark.parametrize("sql", ["SELECT MIN(y) FROM t", "SELECT DISTINCT y FROM t", "SELECT k, y FROM t"])
def test_numerics_that_differ_in_their_decimals_alone(sql: str) -> None:
    """1.5 and 1.50 of a view are one value: nothing is notified."""
    kind = unconstrained_numeric(9, 4)
    columns = (Column("k", column_type("integer")), Column("y", kind), Column("w", column_type("integer")))
    table = View(7, "t", columns, ("k",))
    one, other = (1, Decimal("1.5"), 0), (1, Decimal("1.50"), 1)
    form, rows = recognise(parse(sql), [table], None), {(1,): one}
    bound = form.bind({})
    space = form.open_space(1, SpaceContext((rows,), lambda sid: bound, 8))
    space.add([1], [bound])
    before, state = form.snapshot(space, rows, bound), form.state(space, bound)
    rows[(1,)] = other
    outcomes = space.take([Delta(1, table, (1,), one, other)], lambda space, _: space.plans[0])
    drafts = [draft for outcome in outcomes for draft in outcome.drafts]
    messages = [Message(1, part, 1, *draft) for part, draft in enumerate(drafts)]
    assert not messages or form.change(messages, bound, state)[0] is None
    after = form.snapshot(space, rows, bound)
    assert form.difference(decode(encode(before)), decode(encode(after))) is None
