"""Events go to the spaces that read a column they change, to no other; and those see the rows as of each event."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.choose import Chooser
from prosem.engine import commands as c
from prosem.engine.routes import Routes
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics
from prosem.types.base import SpaceContext
from prosem.types.registry import recognise
from prosem.values.model import Delta, Row
from prosem.values.wire import changed_columns, decode, is_same
from tests.support.folded import table_of

COLUMNS = {"k": "integer", "x": "integer", "y": "integer", "e": "text", "j": "jsonb", "d": "double precision"}
TABLE = table_of(COLUMNS)
RANGE = "x BETWEEN :lo AND :hi"
STATEMENTS = (
    f"SELECT MIN(y) FROM t WHERE {RANGE}",
    f"SELECT MAX(d) FROM t WHERE {RANGE} AND e = :e",
    f"SELECT MIN(y) FROM t WHERE {RANGE} AND y BETWEEN :lo AND :hi",
    f"SELECT COUNT(*) FROM t WHERE {RANGE}",
    f"SELECT AVG(d) FROM t WHERE {RANGE}",
    f"SELECT DISTINCT e FROM t WHERE {RANGE}",
    f"SELECT MIN(y), COUNT(d) FROM t WHERE {RANGE}",
    f"SELECT e, SUM(y) FROM t WHERE {RANGE} GROUP BY e",
    f"SELECT k, y, j FROM t WHERE {RANGE} ORDER BY y LIMIT 2",
)
values = st.tuples(
    st.just(1),
    st.none() | st.integers(0, 4),
    st.none() | st.integers(0, 4),
    st.none() | st.sampled_from("pq"),
    st.sampled_from([None, 1, True, 1.5, [1], [True]]),
    st.none() | st.sampled_from([0.0, -0.0, 1.0]),
)


@given(values, values, st.lists(st.none() | st.sets(st.integers(0, 5)), max_size=6))
def test_an_update_goes_to_those_that_read_what_it_changes(
    old: Row, new: Row, reads: list[set[int] | None]
) -> None:
    spaces: list[Any] = [
        SimpleNamespace(network=SimpleNamespace(id=number), reads=one) for number, one in enumerate(reads)
    ]
    routes = Routes(spaces)
    differing = {at for at in range(len(old)) if not is_same(old[at], new[at])}
    assert set(changed_columns(old, new)) == differing
    needed = {number for number, one in enumerate(reads) if one is None or one & differing}
    found = [number for number, _ in routes.concerned(old, new)]
    assert needed <= set(found)
    assert found == sorted(set(found))
    if sum(one is not None for one in reads) > 1:
        assert set(found) == needed
    assert len(routes.concerned(old, None)) == len(routes.concerned(None, new)) == len(reads)


@pytest.mark.parametrize("sql", STATEMENTS)
@given(st.lists(values, min_size=1, max_size=5), st.data())
def test_columns_that_are_not_read_affect_nobody(sql: str, some: list[Row], data: st.DataObject) -> None:
    rows = {(number,): (number, *row[1:]) for number, row in enumerate(some)}
    form = recognise(parse(sql), [TABLE], None)
    bound = form.bind({"lo": 0, "hi": 4, "e": "p"})
    space = form.open_space(1, SpaceContext((rows,), lambda sid: bound, 128))
    space.add([1], [bound])
    assert space.reads is not None
    key = data.draw(st.sampled_from(sorted(rows)))
    other = data.draw(values)
    old = rows[key]
    new = tuple(old[at] if at in space.reads or at == 0 else other[at] for at in range(len(old)))
    before = form.snapshot(space, rows, bound)
    rows[key] = new
    assert space.step(Delta(1, TABLE, key, old, new)) is None
    after = form.snapshot(space, rows, bound)
    assert {name: one for name, one in before.items() if name != "row"} == {
        name: one for name, one in after.items() if name != "row"
    }


def served(*statements: str) -> EngineState:
    state = EngineState(Chooser(), Metrics())
    columns = [{"name": name, "type": kind} for name, kind in COLUMNS.items()]
    state.execute(c.CreateTable({"name": "t", "columns": columns, "primary_key": ["k"]}))
    state.begin()
    for sql in statements:
        state.execute(c.Subscribe(parse(sql), None, [(None, {"lo": 0, "hi": 9})]))
    state.begin()
    return state


def row(k: int, x: int = 1, y: int = 1, **more: Any) -> dict[str, Any]:
    return {"op": "upsert", "row": {"k": k, "x": x, "y": y, "e": None, "j": None, "d": None, **more}}


def sent(state: EngineState, events: list[Any]) -> list[tuple[int, Any]]:
    """The messages of one request, with their seqs counted from the request's first."""
    first = state.execute(c.Publish("t", events))["first_seq"]
    found = [(frame.seq - first, decode(frame.payload)) for frame in state.batch.frames]
    state.begin()
    return found


def test_rows_in_messages_are_those_of_their_event() -> None:
    state = served(*(f"SELECT {what} FROM t WHERE {RANGE}" for what in ("MIN(y)", "SUM(d)", "DISTINCT e")))
    sent(state, [row(1, y=5), row(2, y=3)])
    found = sent(
        state,
        [
            row(1, y=5, j="first"),  # read by none of them
            {"op": "delete", "key": {"k": 2}},
            row(1, y=5, j="second"),
            row(1, y=4, j="third"),
            row(1, y=4, j="fourth"),
        ],
    )
    assert [(seq, one["row"]["j"]) for seq, one in found if "row" in one] == [(1, "first"), (3, "third")]


def test_only_those_that_read_a_column_take_its_updates() -> None:
    state = served(*(f"SELECT {what} FROM t WHERE {RANGE}" for what in ("MIN(y)", "SUM(d)", "DISTINCT e")))
    sent(state, [row(k, y=k) for k in range(5)])
    taken = []
    for at, space in state.group_store.spaces.items():
        take = space.take

        def counted(deltas: Any, choose: Any, among: Any = (), at: int = at, take: Any = take) -> Any:
            taken.append((at, len(deltas), len(among)))
            return take(deltas, choose, among)

        space.take = counted  # type: ignore[method-assign]
    chance = random.Random(1)
    sent(state, [row(1, y=1, d=float(chance.randrange(1, 9))), row(2, y=9), row(2, y=9, j=1)])
    assert sorted(sizes for _, *sizes in taken) == [[1, 3], [1, 3]], "of MIN and of SUM"
