"""How the values of a column type become an Arrow array in the order of the type, and back to JSON.

Integers and numerics of up to 18 digits stay exact; wider numerics are compared as doubles, which moves no bound of a
histogram by more than 1e-15 of its value. `jsonb` has no order: its values are only counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from prosem.values.columns import column_type

POINT = "point"  # of coordinates: every number is a double


@dataclass(frozen=True)
class Kind:
    """One column type in Arrow: `code` turns a typed array of the archive into an ordered one, `show` a value to JSON."""

    arrow: Any
    code: Callable[[Any], Any] | None = None
    show: Callable[[Any], Any] = msgspec.to_builtins
    ordered: bool = True

    def array(self, values: Any) -> Any:
        """The ordered array of a typed one without NULL."""
        return values.cast(self.arrow) if self.code is None else self.code(values)

    def shown(self, values: Any) -> list[Any]:
        """The values of an array as the API shows them."""
        return [self.show(value) for value in values.to_pylist()]


def _digits(values: Any) -> Any:
    """Decimals of at most 18 digits as whole numbers of their last digit: the lower halves of their 128 bits."""
    halves = np.frombuffer(values.buffers()[1] or b"", "<i8")
    start = 2 * values.offset
    return pa.array(halves[start : start + 2 * len(values) : 2], pa.int64())


def _with_point(scale: int) -> Callable[[int], str]:
    return lambda digits: format(Decimal(digits).scaleb(-scale), "f")


_ARROW = {
    "integer": pa.int64(),
    "bigint": pa.int64(),
    "double precision": pa.float64(),
    "text": pa.large_string(),
    "date": pa.date32(),
    "timestamptz": pa.timestamp("us", "UTC"),
    "bytea": pa.large_binary(),
}


@cache
def kind(name: str) -> Kind:
    """The kind of the column type of this name.

    >>> amount = kind("numeric(12,2)")
    >>> codes = amount.array(pa.array([Decimal("12.50"), Decimal("-0.01")], pa.decimal128(12, 2)))
    >>> codes.to_pylist(), amount.shown(codes)
    ([1250, -1], ['12.50', '-0.01'])
    """
    if name == POINT:
        return Kind(pa.float64())
    column = column_type(name)
    if not column.ordered:
        return Kind(pa.large_string(), ordered=False)
    if name == "boolean":
        return Kind(pa.int64(), show=bool)
    if name in _ARROW:
        return Kind(_ARROW[name])
    if not column.int64:
        return Kind(pa.float64())
    return Kind(pa.int64(), _digits, _with_point(column.scale))


def point_kind(name: str) -> str:
    """The name of the kind in which constants compared with a column of this type are ordered."""
    return POINT if column_type(name).numeric else name
