"""Items become rows of a table: which field is which column, and texts in the column's type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from api.poll.formats import Item
from api.poll.paths import Path, find, parse_path
from prosem.values.columns import column_type
from prosem.values.errors import SetupError
from prosem.values.wire import decode_exact, encode_exact

Row = dict[str, Any]
_YES, _NO = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


class Fields:
    """For each column of a table the field that it is read from: the one of its name, unless `chosen` says another."""

    def __init__(self, definition: Mapping[str, Any], chosen: Mapping[str, str]) -> None:
        self.table: str = definition["name"]
        self.key: list[str] = definition["primary_key"]
        self._types = {column["name"]: column["type"] for column in definition["columns"]}
        self._needed = {
            column["name"] for column in definition["columns"] if not column.get("nullable", True)
        } | set(self.key)
        for column in chosen:
            if column not in self._types:
                raise SetupError(
                    f"--map {column}=…: the table {self.table} has no such column; it has {', '.join(self._types)}"
                )
        self._names = {column: chosen.get(column, column) for column in self._types}
        self._paths = {column: path for column, name in chosen.items() if (path := _path(name)) is not None}
        self._given = set(chosen)

    def check(self, items: Sequence[Item]) -> None:
        """SetupError if no item has a field that every row needs, or that was asked for."""
        if not items:
            return
        for column in sorted(self._needed | self._given):
            if not any(self._has(item, column) for item in items):
                known = ", ".join(dict.fromkeys(name for item in items[:10] for name in item))
                raise SetupError(
                    f"no item of the feed has a field for the column {column}; --map {column}=field names one of: {known}"
                )

    def row(self, item: Item) -> Row:
        """ValueError says which field does not fit its column."""
        row: Row = {}
        for column, kind in self._types.items():
            value = self._value(item, column)
            if value is None and column in self._needed:
                raise ValueError(f"{column} is missing")
            try:
                row[column] = None if value is None else cell(value, kind)
            except (ValueError, ArithmeticError) as error:
                raise ValueError(f"{column}: {error}") from None
        return row

    def key_of(self, row: Row) -> Row:
        return {column: row[column] for column in self.key}

    def _has(self, item: Item, column: str) -> bool:
        return self._value(item, column) is not None

    def _value(self, item: Item, column: str) -> Any:
        name = self._names[column]
        if name in item:
            return item[name]
        try:
            return find(item, self._paths[column]) if column in self._paths else None
        except LookupError:
            return None


def _path(name: str) -> Path | None:
    """A field that is written as a path; None if it can only be a name."""
    if name.startswith("$"):
        return parse_path(name)
    try:
        return parse_path(name)
    except SetupError:
        return None


def cell(value: Any, kind: str) -> Any:
    """A value as the column's type travels in JSON; ValueError if it cannot be one.

    >>> cell("12", "integer"), cell("1.50", "numeric(9,2)"), cell("yes", "boolean"), cell(7, "text")
    (12, '1.50', True, '7')
    """
    if kind == "text":
        value = value if isinstance(value, str) else encode_exact(value).decode()
    elif isinstance(value, str):
        value = _of_text(value, kind)
    checked = column_type(kind).read(value)
    if kind.startswith("numeric"):
        return str(checked)
    return checked if kind in ("double precision", "jsonb") else value


def _of_text(text: str, kind: str) -> Any:
    text = text.strip()
    if kind == "boolean":
        if text.lower() in (*_YES, *_NO):
            return text.lower() in _YES
        raise ValueError(f"expected true or false, got {text[:60]!r}")
    if kind in ("integer", "bigint", "double precision"):
        if "_" in text:  # Python reads it, no feed writes it
            raise ValueError(f"expected a number, got {text[:60]!r}")
        try:
            return int(text)
        except ValueError:
            return float(text)
    if kind == "jsonb":
        try:
            return decode_exact(text)
        except (msgspec.DecodeError, ArithmeticError):
            return text
    return text
