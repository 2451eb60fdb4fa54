"""How the values of a column type become an Arrow array in the order of the type, and back to JSON.

The event log holds values as the API shows them: numerics and dates as texts, bytes in base64. Integers and numerics of
up to 18 digits stay exact; wider numerics are compared as doubles, which moves no bound of a histogram by more than
1e-15 of its value. `jsonb` has no order: its values are only counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

from prosem.values.columns import column_type

POINT = "point"  # of coordinates: every number is a double


@dataclass(frozen=True)
class Kind:
    """One column type in Arrow: `code` turns a JSON value into one that Arrow takes, `show` turns it back."""

    arrow: Any
    code: Callable[[Any], Any] | None = None
    show: Callable[[Any], Any] = msgspec.to_builtins
    ordered: bool = True

    def array(self, values: Sequence[Any]) -> Any:
        """The array of values of which none is NULL."""
        code = self.code
        return pa.array(values if code is None else [code(value) for value in values], self.arrow)

    def shown(self, values: Any) -> list[Any]:
        """The values of an array as the API shows them."""
        return [self.show(value) for value in values.to_pylist()]


def _scaled(scale: int) -> Callable[[Any], int]:
    """Several times as quick as reading a Decimal, for a numeric as the log holds it."""

    def code(value: Any) -> int:
        if type(value) is str and "E" not in value and value[-scale - 1 : -scale] == ".":
            return int(value[: -scale - 1] + value[-scale:])
        return int(Decimal(str(value)).scaleb(scale))

    return code


def _unscaled(scale: int) -> Callable[[int], str]:
    return lambda code: format(Decimal(code).scaleb(-scale), "f")


_ARROW = {
    "boolean": pa.int64(),
    "integer": pa.int64(),
    "bigint": pa.int64(),
    "text": pa.large_string(),
    "date": pa.date32(),
    "timestamptz": pa.timestamp("us", "UTC"),
    "bytea": pa.large_binary(),
}
_AS_LOGGED = ("integer", "bigint", "text")  # Arrow takes the JSON value itself


@cache
def kind(name: str) -> Kind:
    """The kind of the column type of this name.

    >>> amount = kind("numeric(12,2)")
    >>> amount.array(["12.50", "-0.01", "1E+1"]).to_pylist()
    [1250, -1, 1000]
    >>> amount.shown(amount.array(["12.50"]))
    ['12.50']
    """
    if name == POINT:
        return Kind(pa.float64(), float)
    column = column_type(name)
    if not column.ordered:
        return Kind(
            pa.large_string(),
            lambda value: msgspec.json.encode(value, order="sorted").decode(),
            ordered=False,
        )
    if name == "boolean":
        return Kind(_ARROW[name], int, bool)
    if name in _ARROW:
        return Kind(_ARROW[name], None if name in _AS_LOGGED else column.read)
    if not column.int64 or name == "double precision":
        return Kind(pa.float64(), float)
    return Kind(pa.int64(), _scaled(column.scale) if column.scale else int, _unscaled(column.scale))


def point_kind(name: str) -> str:
    """The name of the kind in which constants compared with a column of this type are ordered."""
    return POINT if column_type(name).numeric else name
