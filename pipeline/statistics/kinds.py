"""How the JSON values of a column become an Arrow array in the order of the column's type, and back.

The event log holds values as the API shows them: numerics and dates as texts, bytes in base64. Integers and numerics of
up to 18 digits stay exact; wider numerics are compared as doubles, which moves no bound of a histogram by more than
1e-15 of its value. `jsonb` has no order: its values are only counted.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")


@dataclass(frozen=True)
class Kind:
    """One column type: `code` turns a JSON value into one that Arrow takes, `show` turns it back."""

    arrow: Any
    code: Callable[[Any], Any] | None = None
    show: Callable[[Any], Any] | None = None
    ordered: bool = True

    def array(self, values: Sequence[Any]) -> Any:
        """The array of values of which none is NULL."""
        code = self.code
        return pa.array(values if code is None else [code(value) for value in values], self.arrow)

    def shown(self, values: Any) -> list[Any]:
        """The values of an array as the API shows them."""
        show = self.show
        return [value if show is None else show(value) for value in values.to_pylist()]


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _scaled(scale: int) -> Callable[[Any], int]:
    def code(value: Any) -> int:
        if type(value) is str and "E" not in value and value[-scale - 1 : -scale] == ".":
            return int(value[: -scale - 1] + value[-scale:])
        return int(Decimal(str(value)).scaleb(scale))

    return code


def _unscaled(scale: int) -> Callable[[int], str]:
    return lambda code: format(Decimal(code).scaleb(-scale), "f")


_SIMPLE = {
    "boolean": Kind(pa.int64(), int, bool),
    "integer": Kind(pa.int64()),
    "bigint": Kind(pa.int64()),
    "double precision": Kind(pa.float64(), float),
    "text": Kind(pa.large_string()),
    "date": Kind(pa.date32(), date.fromisoformat, date.isoformat),
    "timestamptz": Kind(
        pa.timestamp("us", "UTC"), _moment, lambda moment: moment.isoformat().replace("+00:00", "Z")
    ),
    "bytea": Kind(pa.large_binary(), base64.b64decode, lambda data: base64.b64encode(data).decode()),
    "jsonb": Kind(pa.large_string(), lambda value: msgspec.json.encode(value, order="sorted").decode(), ordered=False),
}  # fmt: skip
POINT = "point"  # of coordinates: every number is a double


@cache
def kind(name: str) -> Kind:
    """The kind of a column type.

    >>> amount = kind("numeric(12,2)")
    >>> amount.array(["12.50", "-0.01", "1E+1"]).to_pylist()
    [1250, -1, 1000]
    >>> amount.shown(amount.array(["12.50"]))
    ['12.50']
    """
    if name in _SIMPLE:
        return _SIMPLE[name]
    if name == POINT:
        return Kind(pa.float64(), float)
    found = _NUMERIC.fullmatch(name)
    if found is None:
        return _SIMPLE["jsonb"]  # a type this job does not know is counted
    precision, scale = int(found[1]), int(found[2])
    if precision > 18:
        return Kind(pa.float64(), float)
    return Kind(pa.int64(), _scaled(scale) if scale else int, _unscaled(scale) if scale else str)


def point_kind(name: str) -> str:
    """The name of the kind in which constants compared with a column of this type are ordered."""
    is_number = name in ("integer", "bigint", "double precision") or name.startswith("numeric")
    return POINT if is_number else name
