"""Requests as JSON, for tests that read them in more than one way: good ones, and such that are wrong anywhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from prosem.engine.validate import table_definition
from prosem.values.model import Table

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


OTHER = {  # values that differ from those
    "integer": "-18", "bigint": "-9007199254740993", "boolean": "false", "double precision": "-1e300", "text": '"b"',
    "numeric(6,2)": "-1.25", "numeric(30,4)": "7", "date": '"0001-01-01"',
    "timestamptz": '"1969-12-31T23:59:59.5+02:00"', "jsonb": "[]", "bytea": '""',
}  # fmt: skip
OPS = ("insert", "upsert", "update", "delete")


def tables(name: str = "t", number: int = 7) -> st.SearchStrategy[Table]:
    columns = st.lists(
        st.tuples(st.sampled_from(NAMES[:4]), st.sampled_from(TYPES + MORE), st.booleans()),
        min_size=1,
        max_size=4,
        unique_by=lambda column: column[0],
    ).filter(lambda columns: any(kind != "jsonb" for _, kind, _ in columns))
    return st.builds(_table, st.just((name, number)), columns, st.integers(1, 2), st.randoms())


def _table(named: tuple[str, int], columns: list[tuple[str, str, bool]], keys: int, chance: Any) -> Table:
    ordered = [name for name, kind, _ in columns if kind != "jsonb"]
    described = [{"name": n, "type": kind, "nullable": nullable} for n, kind, nullable in columns]
    key = chance.sample(ordered, min(keys, len(ordered)))
    return table_definition({"name": named[0], "columns": described, "primary_key": key}, named[1])


@st.composite
def bodies(draw: st.DrawFn, table: Table) -> bytes:
    """A request to one table; most members fit the table, some are wrong in any way."""
    is_wild = draw(st.booleans())
    events = [_event(draw, table, is_wild, OPS) for _ in range(draw(st.integers(1, 5)))]
    return _request(["{" + ",".join(parts) + "}" for parts in events])


@st.composite
def mixed_bodies(draw: st.DrawFn, tables: Sequence[Table]) -> bytes:
    """A request to any of the tables; keys are changed, tables emptied, and some names of tables are wrong too."""
    is_wild = draw(st.booleans())
    texts = []
    for _ in range(draw(st.integers(1, 6))):
        table = draw(st.sampled_from(tables))
        names = [json.dumps(table.name)]
        if is_wild and draw(st.integers(0, 9)) == 0:
            names = draw(st.sampled_from(([], ["1"], ['"no"'], ['"no"', *names], [*names, '"no"'])))
        if draw(st.integers(0, 14)) == 0:
            parts = ['"op":"truncate"']
        else:
            parts = _event(draw, table, is_wild, (*OPS, "move"))
        texts.append("{" + ",".join([*(f'"table":{name}' for name in names), *parts]) + "}")
    return _request(texts, draw(st.sampled_from(("", '"tag":1.50,', '"x":1,'))) if is_wild else "")


def _request(events: Sequence[str], before: str = "") -> bytes:
    return ("{" + before + '"events":[' + ",".join(events) + "]}").encode()


def _event(draw: st.DrawFn, table: Table, is_wild: bool, ops: Sequence[str]) -> list[str]:
    """The members of an event; `move` is an update that sets the key."""

    def value(name: str, other: bool = False) -> str:
        if is_wild and draw(st.integers(0, 9)) == 0:
            return draw(st.sampled_from(LITERALS))
        if name not in table.position:
            return "1"
        column = table.columns[table.position[name]]
        if column.nullable and draw(st.integers(0, 3)) == 0:
            return "null"
        return (OTHER if other else GOOD)[column.type.name]

    def members(names: list[str], fewer: bool, other: bool = False) -> str:
        chosen = draw(st.lists(st.sampled_from(names), unique=True)) if fewer and names else list(names)
        if is_wild and draw(st.integers(0, 9)) == 0:
            chosen.append(draw(st.sampled_from(NAMES)))
        return "{" + ",".join(f"{json.dumps(name)}:{value(name, other)}" for name in chosen) + "}"

    op = draw(st.sampled_from(ops))
    parts = [f'"op":"{"update" if op == "move" else op}"']
    if op in ("insert", "upsert"):
        optional = [column.name for column in table.columns if column.nullable]
        whole = members(list(table.names), fewer=bool(optional) and is_wild, other=draw(st.booleans()))
        parts.append(f'"row":{whole}')
    else:
        parts.append(f'"key":{members(list(table.primary_key), fewer=False, other=draw(st.booleans()))}')
    if op == "update":
        rest = [name for name in table.names if is_wild or name not in table.primary_key]
        parts.append(f'"set":{members(rest, fewer=True)}')
    if op == "move":
        parts.append(f'"set":{members(list(table.names), fewer=True, other=draw(st.booleans()))}')
    if is_wild and draw(st.integers(0, 9)) == 0:
        parts[draw(st.integers(0, len(parts) - 1))] = draw(st.sampled_from(('"x":1', '"op":"no"', '"row":1')))
    if is_wild and draw(st.integers(0, 9)) == 0:
        parts.append(draw(st.sampled_from(parts)))  # a member that comes twice
    return parts
