"""Answers as tables for analysis: an Arrow table or a pandas frame, with the types of the columns.

| answer | columns |
| --- | --- |
| rows of a filter or a top-k | the selected columns |
| groups, several aggregates | the selected columns |
| joined rows | `table.column` |
| distinct values | the column |
| values of items | the key's columns, `value` |
| one value | `value`, and of a MIN or MAX `row.column` of the row that has it |

Neither library is needed for anything else, so both are imported when they are asked for.
"""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from prosem_client.query import Selection, Shape
from prosem_client.values import JsonObject

Definitions = Mapping[str, JsonObject]  # of the tables of a query, by name


class Column(NamedTuple):
    """A column of the frame, its SQL type, and its values as Python has them."""

    name: str
    type: str
    values: list[Any]


def described_columns(result: JsonObject, shape: Shape) -> list[Column] | None:
    """The answer, column by column, where the server describes them; None where it does not (joined rows, for example)."""
    if "value" in result or "items" in result:
        return None if shape.type is None else _value_columns(result, shape, shape.type)
    if not shape.columns:
        return None
    if "values" in result:
        ((name, kind),) = shape.columns
        return [_column(name, kind, result["values"])]
    if "columns" in result:
        rows = [result["columns"]]
    elif "rows" in result or "groups" in result:
        rows = result["rows"] if "rows" in result else result["groups"]
    else:
        return None
    return [_column(name, kind, [row[name] for row in rows]) for name, kind in shape.columns]


def _value_columns(result: JsonObject, shape: Shape, kind: str) -> list[Column]:
    if "items" in result:
        items = result["items"]
        keys = [_column(name, of, [item["key"][name] for item in items]) for name, of in shape.columns]
        return [*keys, _column("value", kind, [item["value"] for item in items])]
    row = result.get("row")
    rest = [_column(f"row.{name}", of, [row[name]]) for name, of in shape.row] if row else []
    return [_column("value", kind, [result["value"]]), *rest]


def columns_of(result: JsonObject, selection: Selection, definitions: Definitions) -> list[Column]:
    """The answer, column by column."""
    types = {name: _types(definition) for name, definition in definitions.items()}
    only = types[selection.tables[0]]
    if "values" in result:
        return [_column(selection.columns[0], only[selection.columns[0]], result["values"])]
    if "rows" in result and len(selection.tables) > 1:
        return [
            _column(f"{table}.{name}", kind, [row[table][name] for row in result["rows"]])
            for table, columns in types.items()
            for name, kind in columns.items()
        ]
    if "rows" in result:
        wanted = selection.columns or tuple(only)
        return [_column(name, only[name], [row[name] for row in result["rows"]]) for name in wanted]
    value = _value_type(selection, only)
    if "items" in result:
        keys = definitions[selection.tables[0]]["primary_key"]
        found = [_column(name, only[name], [item["key"][name] for item in result["items"]]) for name in keys]
        return [*found, _column("value", value, [item["value"] for item in result["items"]])]
    row = result.get("row")
    rest = [_column(f"row.{name}", kind, [row[name]]) for name, kind in only.items()] if row else []
    return [_column("value", value, [result["value"]]), *rest]


def to_arrow(columns: list[Column]) -> Any:
    """A pyarrow.Table."""
    arrow = _library("pyarrow", "arrow")
    arrays = [
        arrow.array(column.values, type=None if column.type == "numeric" else _arrow_type(arrow, column.type))
        for column in columns
    ]
    return arrow.table(arrays, names=[column.name for column in columns])


def to_pandas(columns: list[Column]) -> Any:
    """A pandas.DataFrame; NULL is pandas' own missing value, and a numeric stays exact, as a Decimal."""
    pandas = _library("pandas", "pandas")
    return pandas.DataFrame(
        {
            column.name: pandas.Series(column.values, dtype=_PANDAS.get(column.type, "object"))
            for column in columns
        }
    )


def _library(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError(f"{name} is not installed: pip install 'prosem-client[{extra}]'") from None


def _types(definition: JsonObject) -> dict[str, str]:
    return {column["name"]: column["type"] for column in definition["columns"]}


def _value_type(selection: Selection, types: Mapping[str, str]) -> str:
    """The type of an aggregate, as PostgreSQL has it, or of the column told."""
    if selection.function == "count":
        return "bigint"
    kind = types[selection.columns[0]]
    if selection.function not in ("sum", "avg") or kind == "double precision":
        return kind
    return "bigint" if selection.function == "sum" and kind == "integer" else "numeric"


def _column(name: str, kind: str, values: list[Any]) -> Column:
    read = _READ.get(kind.partition("(")[0], lambda value: value)
    return Column(name, kind, [None if value is None else read(value) for value in values])


_READ: dict[str, Callable[[Any], Any]] = {
    "numeric": Decimal,
    "date": date.fromisoformat,
    "timestamptz": datetime.fromisoformat,
    "bytea": base64.b64decode,
    "jsonb": lambda value: json.dumps(value, ensure_ascii=False),
}
_PANDAS = {
    "boolean": "boolean",
    "integer": "Int32",
    "bigint": "Int64",
    "double precision": "Float64",
    "text": "string",
    "timestamptz": "datetime64[us, UTC]",
}


def _arrow_type(arrow: Any, kind: str) -> Any:
    if kind.startswith("numeric("):
        precision, scale = map(int, kind[len("numeric(") : -1].split(","))
        if precision > 76:
            raise ValueError(f"Arrow has at most 76 digits, and the column is {kind}")
        return arrow.decimal128(precision, scale) if precision <= 38 else arrow.decimal256(precision, scale)
    return {
        "boolean": arrow.bool_(),
        "integer": arrow.int32(),
        "bigint": arrow.int64(),
        "double precision": arrow.float64(),
        "date": arrow.date32(),
        "timestamptz": arrow.timestamp("us", tz="UTC"),
        "bytea": arrow.binary(),
    }.get(kind, arrow.string())
