"""Rows of tables as typed columns: what a column type is in Parquet, and how values get from JSON there and to the server.

    boolean, integer, bigint, double precision, text, date, bytea   the same in Parquet
    timestamptz       timestamp of microseconds, UTC
    numeric(p,s)      decimal(p,s); text beyond 38 digits, the most that Spark and Parquet readers hold
    jsonb             text: JSON in one line, members ordered as PostgreSQL orders them

The event log holds rows as JSON arrays. They are parsed once, when a segment is written.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from datetime import UTC
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

from prosem.values.columns import column_type
from prosem.values.model import Row, Table

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Columns = tuple[tuple[str, str], ...]  # of a table in their order: names and types
MAX_DIGITS = 38
MOMENT = pa.timestamp("us", "UTC")
_STORED = {
    "boolean": pa.bool_(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "double precision": pa.float64(),
    "text": pa.string(),
    "date": pa.date32(),
    "timestamptz": MOMENT,
    "bytea": pa.binary(),
    "jsonb": pa.string(),
}
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")
_TEXTS = ("date", "timestamptz")  # texts in JSON, which Arrow reads


def columns_of(table: Table) -> Columns:
    return tuple((column.name, column.type.name) for column in table.columns)


@cache
def stored(name: str) -> Any:
    """The Arrow type of a column type.

    >>> stored("numeric(12,2)"), stored("numeric(40,2)")
    (Decimal128Type(decimal128(12, 2)), DataType(string))
    """
    found = _STORED.get(name)
    if found is None:
        size = _NUMERIC.fullmatch(name)
        assert size is not None, f"the server has no type {name}"
        found = pa.decimal128(int(size[1]), int(size[2])) if int(size[1]) <= MAX_DIGITS else pa.string()
    return found


def struct(columns: Columns) -> Any:
    return pa.struct([(name, stored(kind)) for name, kind in columns])


# -- the files ---------------------------------------------------------------------------------------------------
def schema(name: str, columns: Columns) -> Any:
    """The columns of the files of `event_log` or `base`, for a table with these columns."""
    row = struct(columns)
    if name == "base":
        return pa.schema([("row", row)])
    fields = [("seq", pa.int64()), ("op", pa.string()), ("at", MOMENT), ("request_end", pa.int64())]
    return pa.schema([*fields, ("old", row), ("new", row), ("day", pa.string())])


def raw(typed: Any) -> Any:
    """The schema of the same rows as they are read: rows as JSON, moments in microseconds since 1970."""
    made = []
    for field in typed:
        kind = pa.string() if pa.types.is_struct(field.type) else field.type
        made.append((field.name, pa.int64() if pa.types.is_timestamp(kind) else kind))
    return pa.schema(made)


def spark_schema(typed: Any) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(typed)


def convert(batch: Any, typed: Any, columns: Columns) -> Any:
    """A batch of the raw schema in the typed one."""
    arrays = []
    for field, values in zip(typed, batch.columns, strict=True):
        if pa.types.is_struct(field.type):
            values = rows_from_json(values.to_pylist(), columns)
        arrays.append(values.cast(field.type) if values.type != field.type else values)
    return pa.record_batch(arrays, schema=typed)


# -- from JSON -----------------------------------------------------------------------------------------------------
def rows_from_json(texts: Sequence[str | None], columns: Columns) -> Any:
    """JSON arrays as an array of structs; a row that is None is none. Values that a short row lacks are NULL.

    >>> rows_from_json(['[1, "2.50"]', None], (("k", "integer"), ("p", "numeric(6,2)"))).to_pylist()
    [{'k': 1, 'p': Decimal('2.50')}, None]
    """
    decoded: list[list[Any] | None] = msgspec.json.decode(  # at once: several times as quick as one by one
        "[" + ",".join([text or "null" for text in texts]) + "]"
    )
    width = len(columns)
    nothing: list[Any] = [None] * width
    rows = [
        nothing if row is None else row if len(row) == width else (row + nothing)[:width] for row in decoded
    ]
    values: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * width
    arrays = [array(kind, some) for (_, kind), some in zip(columns, values, strict=True)]
    is_absent = pa.array([row is None for row in decoded], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=list(struct(columns)), mask=is_absent)


def array(name: str, values: Sequence[Any]) -> Any:
    """Values as the API shows them, as an array of their stored type."""
    to, code = stored(name), _CODES.get(name)
    if pa.types.is_decimal(to) or (name not in _STORED):
        texts = [value if value is None or type(value) is str else str(value) for value in values]
        return pa.array(texts, pa.string()).cast(to)
    if code is not None:
        return pa.array([None if value is None else code(value) for value in values], to)
    if name not in _TEXTS:
        return pa.array(values, to)
    try:
        return pa.array(values, pa.string()).cast(to)
    except pa.ArrowInvalid:  # another of the ways to write ISO 8601
        read = column_type(name).read
        return pa.array([None if value is None else read(value) for value in values], to)


def _json_text(value: Any) -> str:
    return msgspec.json.encode(column_type("jsonb").read(value)).decode()


_CODES: dict[str, Callable[[Any], Any]] = {
    "double precision": float,
    "bytea": base64.b64decode,
    "jsonb": _json_text,
}


# -- to the server -------------------------------------------------------------------------------------------------
def rows(structs: Any, columns: Columns) -> list[Row | None]:
    """The rows of an array of structs as the server holds them."""
    lists = [_values(kind, structs.field(at)) for at, (_, kind) in enumerate(columns)]
    whole = zip(*lists, strict=True)
    return [row if there else None for row, there in zip(whole, structs.is_valid().to_pylist(), strict=True)]


def _values(name: str, values: Any) -> list[Any]:
    found: list[Any] = values.to_pylist()
    show: Callable[[Any], Any] | None = None
    if name == "timestamptz":
        show = _in_utc
    elif name == "jsonb":
        show = msgspec.json.decode
    elif name not in _STORED and pa.types.is_string(stored(name)):
        show = Decimal
    return found if show is None else [None if value is None else show(value) for value in found]


def _in_utc(value: Any) -> Any:
    return value.astimezone(UTC)
