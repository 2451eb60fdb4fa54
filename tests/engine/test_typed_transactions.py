"""Requests to several tables that were decoded into structs, against the same events read one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.choose import Chooser
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.engine.tables import Tables
from prosem.engine.transaction import transaction
from prosem.engine.typed_events import typed_events, typed_transaction
from prosem.engine.validate import table_definition
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics
from prosem.values.errors import ProsemError
from prosem.values.model import Row, Table
from prosem.values.wire import decode_exact, encode
from prosem.views.subscription import named_view
from tests.support.event_texts import GOOD, MORE, TYPES, mixed_bodies, tables
from tests.support.makers import kernels_used as kernels_used

pytestmark = pytest.mark.usefixtures("kernels_used")
NAMES = ("t", "u")
INTEGERS = [{"name": name, "type": "integer"} for name in ("k", "x", "y")]


@given(st.data())
def test_typed_transactions_do_what_events_read_one_by_one_do(data: st.DataObject) -> None:
    store = Tables()
    made = [data.draw(tables(name, number)) for number, name in enumerate(NAMES)]
    for table in made:
        store.add(table)
    for _ in range(3):
        body: Any = data.draw(mixed_bodies(made))
        body = body.decode() if data.draw(st.booleans()) else body
        expected = outcome(store, decode_exact(body)["events"])
        events = decode_exact(body)["events"]
        typed = typed_transaction(store.of("default"), body)
        if typed is not None:
            assert list(typed) == events
            assert len(typed) == len(events)
            assert repr(typed) == repr(events), "one digest"
            assert outcome(store, typed) == expected
        if isinstance(expected, list):
            for run in transaction(store, store.of("default"), events):
                for one in run.effects:
                    store.put(run.table, one.key, one.new)


def outcome(store: Tables, events: Any) -> Any:
    """The effects as they are written, each with the place of its event, or what is wrong."""
    try:
        runs = transaction(store, store.of("default"), events)
    except ProsemError as error:
        return type(error), error.at, error.detail
    return [
        (run.table.name, run.at(number), one.op, *map(written, (one.key, one.old, one.new)))
        for run in runs
        for number, one in enumerate(run.effects)
    ]


def written(row: Row | None) -> bytes | None:
    return None if row is None else encode(row)


def engine() -> EngineState:
    state = EngineState(Chooser(share=0), Metrics())
    for name in NAMES:
        state.execute(c.CreateTable({"name": name, "columns": INTEGERS, "primary_key": ["k"]}))
    view = "SELECT k, x * 700000000 AS s FROM t"  # cannot have a row with x = 4
    state.views.open(named_view(view, state.tables("default"), 10, "v", "default"))
    for sql in (
        "SELECT MIN(y) FROM t WHERE x BETWEEN 0 AND 5",
        "SELECT * FROM u WHERE y > 1",
        "SELECT SUM(y) FROM t WHERE x BETWEEN 0 AND 5",
    ):
        for per in ("event", "transaction"):
            query = replace(parse(sql), per=per)
            state.execute(c.Subscribe(query, None, [(None, {})], batch=True))
    return state


@given(st.data())
def test_the_engine_writes_the_same_for_both(data: st.DataObject) -> None:
    one, other = engine(), engine()
    small, names = st.integers(0, 4), st.sampled_from(NAMES)
    row = st.fixed_dictionaries({"k": small, "x": small, "y": small | st.none()})
    key, cells = (
        st.fixed_dictionaries({"k": small}),
        st.fixed_dictionaries({}, optional={"k": small, "y": small}),
    )
    event = st.one_of(
        st.builds(lambda t, op, row: {"table": t, "op": op, "row": row}, names, st.sampled_from(("insert", "upsert")), row),
        st.builds(lambda t, key, cells: {"table": t, "op": "update", "key": key, "set": cells}, names, key, cells),
        st.builds(lambda t, key: {"table": t, "op": "delete", "key": key}, names, key),
    )  # fmt: skip
    for events in data.draw(st.lists(st.lists(event, min_size=1, max_size=5), max_size=8)):
        typed = typed_transaction(one.tables("default"), encode({"events": events}))
        assert typed is not None
        assert answered(one, c.Transact(typed)) == answered(other, c.Transact(events))
    writes, plain = one.begin().writes, other.begin().writes
    assert (writes.rows, writes.events, writes.messages) == (plain.rows, plain.events, plain.messages)


def answered(state: EngineState, command: c.Transact) -> Any:
    try:
        return state.execute(command)
    except ProsemError as error:
        return type(error), error.at, error.detail


def two_tables() -> tuple[Tables, list[Table]]:
    store = Tables()
    columns = [{"name": f"c{at}", "type": kind} for at, kind in enumerate(TYPES + MORE)]
    made = [
        table_definition({"name": name, "columns": columns, "primary_key": ["c0", "c4"]}, number)
        for number, name in enumerate(NAMES)
    ]
    for table in made:
        store.add(table)
    return store, made


def test_ordinary_requests_are_decoded_into_structs_with_changed_keys_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, _ = two_tables()
    row = ",".join(f'"c{at}":{GOOD[kind]}' for at, kind in enumerate(TYPES + MORE))
    key = '{"c0":18,"c4":"a"}'
    events = (
        f'{{"table":"t","op":"insert","row":{{{row}}}}}',
        f'{{"table":"u","op":"upsert","row":{{{row}}}}}',
        '{"table":"t","op":"update","key":{"c0":17,"c4":"a"},"set":{"c0":18,"c1":2}}',
        f'{{"table":"t","op":"delete","key":{key}}}',
    )
    text = f'{{"events":[{",".join(events)}]}}'
    expected = outcome(store, decode_exact(text)["events"])
    typed = typed_transaction(store.of("default"), text)
    assert typed is not None
    monkeypatch.setattr("prosem.engine.transaction._one_by_one", None)
    assert outcome(store, typed) == expected
    assert [(place, op) for _, place, op, *_ in expected] == [
        ("/events/0", "insert"),
        ("/events/1", "upsert"),
        ("/events/2", "delete"),
        ("/events/2", "insert"),
        ("/events/3", "delete"),
    ]


def test_a_request_that_was_typed_by_another_table_is_read_again() -> None:
    store, made = two_tables()
    typed = typed_transaction(
        {"t": made[0]}, '{"events":[{"table":"t","op":"delete","key":{"c0":1,"c4":"a"}}]}'
    )
    assert typed is not None
    store.drop(made[0])
    columns = [{"name": "a", "type": "text"}]
    store.add(table_definition({"name": "t", "columns": columns, "primary_key": ["a"]}, 9))
    assert outcome(store, typed)[1:] == ("/events/0/key/c0", "'c0' is no key column; the key is a")


def test_a_column_whose_name_no_struct_can_have_is_read_one_by_one() -> None:
    columns = [{"name": name, "type": "integer"} for name in ("k", 'a"b')]
    table = table_definition({"name": "odd", "columns": columns, "primary_key": ["k"]}, 1)
    row = {"k": 1, 'a"b': 2}
    assert typed_events(table, encode({"events": [{"op": "insert", "row": row}]})) is None
    assert (
        typed_transaction({"odd": table}, encode({"events": [{"table": "odd", "op": "insert", "row": row}]}))
        is None
    )
