"""Typed events against events that are read one by one: the same effects, or the same error."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from prosem.engine.typed_events import typed_events
from prosem.engine.validate import effects, table_definition
from prosem.values.errors import ConflictError, InputError
from prosem.values.model import Key, Row, Table
from prosem.values.wire import decode_exact, encode

TYPES = ("integer", "bigint", "boolean", "double precision", "text", "numeric(6,2)", "numeric(30,4)")
MORE = ("date", "timestamptz", "jsonb", "bytea")
NAMES = ("op", "row", "c0", "é/~", "", "set", "key")
LITERALS = (
    "0", "1", "-1", "-0", "0.0", "-0.0", "1.0", "1.5", "1e2", "0.1", "2147483647", "2147483648", "-2147483649",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "1e999",
    "123456789012345678901234567890", "true", "false", "null", '""', '"a"', '"1.5"', '"x\\u0000"', '"2024-12-31"',
    '"2024-12-31T23:59:59Z"', '"YQ=="', "[]", "{}", '{"a":[1.50,true]}', '"\\ud83d\\ude00"',
)  # fmt: skip
GOOD = {
    "integer": "17", "bigint": "9007199254740993", "boolean": "true", "double precision": "0.1", "text": '"a"',
    "numeric(6,2)": "1.25", "numeric(30,4)": '"12345678901234567890.5"', "date": '"2024-12-31"',
    "timestamptz": '"2024-12-31T23:59:59Z"', "jsonb": '{"a":[1.50,1e16]}', "bytea": '"YQ=="',
}  # fmt: skip


def tables() -> st.SearchStrategy[Table]:
    columns = st.lists(
        st.tuples(st.sampled_from(NAMES[:4]), st.sampled_from(TYPES + MORE), st.booleans()),
        min_size=1,
        max_size=4,
        unique_by=lambda column: column[0],
    ).filter(lambda columns: any(kind != "jsonb" for _, kind, _ in columns))
    return st.builds(_table, columns, st.integers(1, 2), st.randoms())


def _table(columns: list[tuple[str, str, bool]], keys: int, chance: Any) -> Table:
    ordered = [name for name, kind, _ in columns if kind != "jsonb"]
    described = [{"name": n, "type": kind, "nullable": nullable} for n, kind, nullable in columns]
    key = chance.sample(ordered, min(keys, len(ordered)))
    return table_definition({"name": "t", "columns": described, "primary_key": key}, 7)


@st.composite
def bodies(draw: st.DrawFn, table: Table) -> bytes:
    """A request; most members fit the table, some are wrong in any way."""
    is_wild = draw(st.booleans())

    def value(name: str) -> str:
        if is_wild and draw(st.integers(0, 9)) == 0:
            return draw(st.sampled_from(LITERALS))
        if name not in table.position:
            return "1"
        column = table.columns[table.position[name]]
        if column.nullable and draw(st.integers(0, 3)) == 0:
            return "null"
        return GOOD[column.type.name]

    def members(names: list[str], fewer: bool) -> str:
        chosen = draw(st.lists(st.sampled_from(names), unique=True)) if fewer and names else list(names)
        if is_wild and draw(st.integers(0, 9)) == 0:
            chosen.append(draw(st.sampled_from(NAMES)))
        return "{" + ",".join(f"{json.dumps(name)}:{value(name)}" for name in chosen) + "}"

    def event() -> str:
        op = draw(st.sampled_from(("insert", "upsert", "update", "delete")))
        parts = [f'"op":"{op}"']
        if op in ("insert", "upsert"):
            optional = [column.name for column in table.columns if column.nullable]
            whole = members(list(table.names), fewer=bool(optional) and is_wild)
            parts.append(f'"row":{whole}')
        else:
            parts.append(f'"key":{members(list(table.primary_key), fewer=False)}')
        if op == "update":
            rest = [name for name in table.names if is_wild or name not in table.primary_key]
            parts.append(f'"set":{members(rest, fewer=True)}')
        if is_wild and draw(st.integers(0, 9)) == 0:
            parts[draw(st.integers(0, len(parts) - 1))] = draw(
                st.sampled_from(('"x":1', '"op":"no"', '"row":1'))
            )
        return "{" + ",".join(parts) + "}"

    return ('{"events":[' + ",".join(event() for _ in range(draw(st.integers(1, 5)))) + "]}").encode()


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
