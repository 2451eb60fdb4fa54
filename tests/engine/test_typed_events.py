"""Typed events against events that are read one by one: the same effects, or the same error."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from prosem.engine.table_structs import structs_of
from prosem.engine.typed_events import typed_events
from prosem.engine.validate import effects, table_definition
from prosem.values.errors import ConflictError, InputError
from prosem.values.model import Key, Row, Table
from prosem.values.wire import decode_exact, encode
from tests.support.event_texts import GOOD, MORE, TYPES, bodies, tables


@given(st.data())
def test_typed_events_do_what_events_read_one_by_one_do(data: st.DataObject) -> None:
    table = data.draw(tables())
    before = data.draw(bodies(table))
    rows: dict[Key, Row] = {}
    try:
        for one in effects(table, {}, decode_exact(before)["events"]):
            rows[one.key] = one.new or ()
    except (InputError, ConflictError):
        rows = {}
    rows = {key: row for key, row in rows.items() if row}
    body = data.draw(bodies(table))
    events = decode_exact(body)["events"]
    typed = typed_events(table, body)
    if typed is None:
        return  # read one by one, by the same code
    assert list(typed) == events
    assert len(typed) == len(events)
    assert repr(typed) == repr(events), "one digest"
    found, expected = typed.effects(rows), outcome(table, rows, events)
    assert outcome(table, rows, typed) == expected
    if found is not None:
        assert written(found) == written(expected), "also where Python calls different values equal"


def written(found: Any) -> Any:
    return [[None if row is None else encode(row) for row in (one.key, one.old, one.new)] for one in found]


def outcome(table: Table, rows: dict[Key, Row], events: Any) -> Any:
    """The effects, or what is wrong."""
    try:
        return effects(table, rows, events)
    except (InputError, ConflictError) as error:
        return type(error), error.at, error.detail


def test_ordinary_events_are_decoded_into_structs() -> None:
    columns = [{"name": f"c{at}", "type": kind} for at, kind in enumerate(TYPES + MORE)]
    table = table_definition({"name": "t", "columns": columns, "primary_key": ["c0"]}, 7)
    row = ",".join(f'"c{at}":{GOOD[kind]}' for at, kind in enumerate(TYPES + MORE))
    body = (
        f'{{"events":[{{"op":"insert","row":{{{row}}}}},{{"op":"update","key":{{"c0":17}},"set":{{"c4":"b"}}}},'
        f'{{"op":"delete","key":{{"c0":17}}}},{{"op":"upsert","row":{{{row}}}}}]}}'
    ).encode()
    typed = typed_events(table, body)
    assert typed is not None
    for number in range(600):  # more tables than structs are kept of
        structs_of(table_definition({"name": "u", "columns": columns[:1], "primary_key": ["c0"]}, number))
    assert typed.effects({}) == effects(table, {}, decode_exact(body)["events"])


def test_events_that_were_typed_by_another_table_are_read_again() -> None:
    one, other = (
        table_definition(
            {"name": "t", "columns": [{"name": "a", "type": kind}, {"name": "b", "type": kind}], "primary_key": ["a"]},
            number,
        )
        for number, kind in enumerate(("integer", "text"))
    )  # fmt: skip
    typed = typed_events(one, b'{"events":[{"op":"insert","row":{"a":1,"b":2}}]}')
    assert typed is not None
    assert outcome(other, {}, typed) == (InputError, "/events/0/row/a", "expected a text, got 1")
