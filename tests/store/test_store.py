"""Tables on a real PostgreSQL: every value and every name comes back as it was."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.store import recovery
from prosem.store.log import Counters, Writer, WriteSet
from prosem.values.columns import column_type
from prosem.values.errors import RefusedError
from prosem.values.model import Column, Key, Row, Table
from tests.support.database import put, rows_in, table_of
from tests.support.effort import examples

TYPES = (
    *("boolean", "integer", "bigint", "double precision", "numeric(12,2)", "numeric(30,10)"),
    *("text", "date", "timestamptz", "jsonb", "bytea"),
)

finite = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | finite | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(alphabet="aé🦊 ", max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
JSON = {
    "boolean": st.booleans(),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double precision": finite,
    "numeric(12,2)": st.decimals(-(10**9), 10**9, places=2).map(str),
    "numeric(30,10)": st.decimals(-(10**18), 10**18, places=10).map(str),
    "text": texts,
    "date": st.dates().map(str),
    "timestamptz": st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat),
    "jsonb": json_values,
    "bytea": st.binary().map(lambda data: msgspec.to_builtins(data)),
}


def test_every_value_comes_back_as_it_was_read(url: str, writer: Writer) -> None:
    table = table_of(["bigint", *TYPES])
    kinds = [column.type for column in table.columns[1:]]
    writer.write(WriteSet(created=table))

    @settings(max_examples=examples(40), deadline=None)
    @given(st.lists(st.tuples(*[st.none() | JSON[kind] for kind in TYPES]), min_size=1, max_size=12))
    def check(data: list[tuple[Any, ...]]) -> None:
        rows: dict[Key, Row | None] = {(at,): None for at in range(len(data), 12)}
        for at, values in enumerate(data):
            read = [None if v is None else kind.read(v) for kind, v in zip(kinds, values, strict=True)]
            rows[(at,)] = (at, *read)
        put(writer, table, rows)
        back = {table.key_of(row): row for row in rows_in(url, table)}
        assert back == {key: row for key, row in rows.items() if row is not None}
        for key, row in back.items():  # equal is not enough: 1 == True == 1.0, and scales differ
            assert _exact(row) == _exact(rows[key])

    check()


def _exact(row: Any) -> str:
    """The row with the types of its values; jsonb keeps neither the order of keys nor the sign of zero."""
    sort = msgspec.json.Encoder(order="deterministic").encode
    return repr([sort(v) if isinstance(v, dict | list) else v for v in row]).replace("-0.0", "0.0")


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind != "jsonb"])
def test_every_type_is_a_key(url: str, writer: Writer, kind: str) -> None:
    samples: dict[str, tuple[Any, Any]] = {
        "boolean": (True, False), "integer": (-5, 7), "bigint": (2**62, -1), "double precision": (0.1, -1e9),
        "numeric(30,10)": (Decimal("12345678901234567890.0123456789"), Decimal("0E-10")),
        "numeric(12,2)": (Decimal("1.20"), Decimal("-0.01")), "text": ("ä\n'\"\\", ""),
        "bytea": (b"\0\xff", b""),
        "date": (date(1, 1, 1), date(9999, 12, 31)),
        "timestamptz": (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 9, tzinfo=UTC)),
    }  # fmt: skip
    table = table_of([kind, "text"])
    writer.write(WriteSet(created=table))
    first, second = samples[kind]
    put(writer, table, {(first,): (first, "a"), (second,): (second, "b")})
    put(writer, table, {(first,): None, (second,): (second, None)})
    assert rows_in(url, table) == [(second, None)]


NAMES = (
    'a"b',
    "Ünï cödé 🦊",
    "select",
    "%s",
    "%",
    "%(x)s",
    "$1",
    "a.b",
    " ",
    "",
    "\\",
    "ctid",
    "tableoid",
    "Aa",
    "aa",
)


def test_any_name_works(url: str, writer: Writer) -> None:
    long = "y" * 80
    for number, name in enumerate((*NAMES, long, long + "z", "key~1", "t_pkey"), 1):
        names = [*NAMES, long, long + "z", long + "🦊"]
        columns = tuple(Column(column, column_type("text")) for column in names)
        table = Table(number, name, columns, (NAMES[0], long))
        writer.write(WriteSet(created=table, counters=Counters(table=number + 1)))
        first, second = tuple(f"v{at}" for at in range(len(names))), tuple("w" for _ in names)
        put(writer, table, {table.key_of(first): first, table.key_of(second): second})
        put(writer, table, {table.key_of(first): (*first[:-1], None), table.key_of(second): None})
        assert rows_in(url, table) == [(*first[:-1], None)]


def test_names_stay_what_they_are_for_psql(url: str, writer: Writer) -> None:
    table = Table(1, "Ünï %s", (Column('a"b', column_type("text")),), ('a"b',))
    writer.write(WriteSet(created=table))
    put(writer, table, {("ß",): ("ß",)})
    with psycopg.connect(url) as connection:
        assert connection.execute('SELECT "a""b" FROM tenant_default."Ünï %s"').fetchall() == [("ß",)]


def test_a_table_of_only_keys(url: str, writer: Writer) -> None:
    table = table_of(["integer", "text"], keys=2)
    writer.write(WriteSet(created=table))
    put(writer, table, {(1, "a"): (1, "a"), (2, "b"): (2, "b")})
    put(writer, table, {(1, "a"): (1, "a"), (2, "b"): None})
    assert rows_in(url, table) == [(1, "a")]


def test_text_compares_by_code_point_and_not_null_holds(url: str, writer: Writer) -> None:
    table = Table(
        1, "t", (Column("k", column_type("text")), Column("n", column_type("integer"), False)), ("k",)
    )
    writer.write(WriteSet(created=table))
    put(writer, table, {(key,): (key, 0) for key in ("b", "A", "ä", "a", "Z")})
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT k FROM tenant_default.t ORDER BY k").fetchall()
    assert "".join(key for (key,) in found) == "AZabä"
    with pytest.raises(RefusedError, match="not-null"):
        put(writer, table, {("x",): ("x", None)})


def test_a_dropped_table_is_gone_and_its_name_free(url: str, writer: Writer) -> None:
    first, second = table_of(["integer", "text"]), table_of(["integer", "text"], number=2)
    for table in (first, second):
        writer.write(WriteSet(created=table))
        put(writer, table, {(1,): (1, table.name + str(table.id))})
        if table is first:
            writer.write(WriteSet(dropped=first))
    with recovery.load(url) as loaded:
        assert loaded.tables == [second]
    assert rows_in(url, second) == [(1, "t2")]
