"""How the values of a column are measured: as numbers whose distances count, and radii as coordinates of a space.

Integers and decimals are whole numbers of units (10⁻ˢ of a numeric), dates are days, timestamps microseconds; doubles are
themselves. A radius is a number of the same kind, rounded up to whole units (which no value notices); a percentage or a
factor of an exact column is a number of millionths, and a whole one unless it has more decimals (a *fine* form). What has
no distances (text, boolean, jsonb, bytea) has no measure: every change of it is notified.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from prosem.index.radii.ba_tree_ends import Change, Ends, Factor, MayMust, Percent, Radius
from prosem.language.notify import duration, radius_names, sizes_of
from prosem.values.codes import decimal_of, reduced, value_of
from prosem.values.columns import Code, ColumnType, Value
from prosem.values.errors import InputError, pointer
from prosem.values.numerics import is_unconstrained

MILLION = 10**6  # relative radii of exact columns are counted in millionths
FINE = "fine "  # before the name of a relative form of an exact column with more decimals than that
DIGITS = 30  # of a relative radius, on either side of the point
_FAR = 1 << 62  # farther than two values of a column with 64-bit radii can be apart
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY, _MICROSECOND = timedelta(days=1), timedelta(microseconds=1)
_GREATEST = 1.7976931348623157e308
_TIMES = {"date": _DAY, "timestamptz": _MICROSECOND}


@dataclass(frozen=True)
class Measure:
    """The measure of one column."""

    kind: ColumnType

    @property
    def is_double(self) -> bool:
        return self.kind.name == "double precision"

    @property
    def int64(self) -> bool:
        """Whether radii are 64-bit integers; two bigints may be farther apart, so theirs are texts."""
        return self.kind.int64 and self.kind.name != "bigint"

    @cached_property
    def is_identity(self) -> bool:
        """Whether every value is its own number."""
        return self.kind.name in ("integer", "bigint", "double precision")

    @property
    def unit(self) -> timedelta | None:
        """What counts as one, if values are moments and radii are durations."""
        return _TIMES.get(self.kind.name)

    def number(self, value: Value) -> Any:
        """A value that is not NULL as a number.

        >>> from prosem.values.columns import column_type
        >>> Measure(column_type("numeric(6,2)")).number(Decimal("1.50"))
        150
        """
        if self.is_identity:
            return value
        if self.kind.digits:
            return int(Fraction(value) * 10**self.kind.scale)
        return self.kind.code(value)

    def value(self, number: Any) -> Value:
        """The value that a number stands for."""
        if self.is_identity:
            return number
        if self.kind.digits:
            as_decimal = reduced if is_unconstrained(self.kind) else decimal_of
            return as_decimal(number, self.kind.scale)
        return value_of(self.kind, number)

    # -- radii -------------------------------------------------------------------------------------------------
    def ends(self, form: str) -> Ends:
        if form == "change":
            return Change(exact=not self.is_double)
        if form == "may":
            return MayMust(exact=not self.is_double)
        kind = Percent if form.removeprefix(FINE) == "percent" else Factor
        return kind(exact=False) if self.is_double else kind(scale=MILLION)

    def radius(self, form: str, name: str, size: Any, at: str) -> Radius:
        """The radius that `notify` gives under this name; InputError there if it does not fit the column."""
        if self.unit is not None:
            try:
                return min(_FAR, -(-duration(str(size)) // self.unit))
            except ValueError as error:
                raise InputError(f"{name} of a {self.kind.name} column: {error}", at) from None
        exact = _fraction(name, size, at)
        if self.is_double:
            return float(min(exact, Fraction(_GREATEST)))
        if form == "change":
            far = _FAR if self.int64 else 10 ** (self._width - 1)
            return min(far, math.ceil(exact * 10**self.kind.scale))
        if exact >= 10**DIGITS or 10**DIGITS % exact.denominator:
            raise InputError(f"{name} has at most {DIGITS} digits on either side of the point", at)
        exact *= MILLION
        return int(exact) if exact.denominator == 1 and exact <= _FAR else exact

    def fine_code(self, radius: Radius) -> str:
        """A relative radius of any size and any number of decimals as a coordinate.

        >>> from prosem.values.columns import column_type
        >>> measure = Measure(column_type("integer"))
        >>> radius = measure.radius("percent", "percent", "0.12345678", "/notify")
        >>> measure.fine_code(radius)[-10:], Fraction(measure.fine_code(radius)) == radius
        ('0123456.78', True)
        """
        if type(radius) is int:
            return str(radius).zfill(DIGITS + 6)
        whole, rest = divmod(Fraction(radius), 1)
        decimals = str(int(rest * 10**DIGITS)).zfill(DIGITS).rstrip("0")
        return str(whole).zfill(DIGITS + 6) + ("." + decimals if decimals else "")

    def pair_code(self, radius: Radius) -> str:
        """Two radii, may and must, as one coordinate that keeps their order."""
        return "".join(str(self.code(one)).zfill(self._width) for one in radius)

    def pair_of(self, code: str) -> Radius:
        halves = code[: self._width], code[self._width :]
        return tuple(self.radius_of(int(half) if self.is_double else half) for half in halves)

    def code(self, radius: Radius) -> Code:
        """The radius as a coordinate.

        >>> from prosem.values.columns import column_type
        >>> measure = Measure(column_type("double precision"))
        >>> measure.radius_of(measure.code(0.25)), Measure(column_type("bigint")).code(7)
        (0.25, '000000000000000000007')
        """
        if self.is_double:
            bits: int = struct.unpack("<q", struct.pack("<d", radius))[0]
            return bits
        return int(radius) if self.int64 else str(radius).zfill(self._width)

    def radius_of(self, code: Code) -> Radius:
        if self.is_double:
            return struct.unpack("<d", struct.pack("<q", code))[0]
        return int(code)

    @property
    def _width(self) -> int:
        return max(21, self.kind.digits + 2)


def fine_radius(code: str) -> Radius:
    """The radius of a `fine_code`: an integer if it is whole, since compiled trees take those.

    >>> fine_radius("000123"), fine_radius("000123.5")
    (123, Fraction(247, 2))
    """
    return Fraction(code) if "." in code else int(code)


def measure_of(kind: ColumnType) -> Measure | None:
    """The measure of a column's type; None if its values have no distances."""
    return Measure(kind) if kind.numeric or kind.name in _TIMES else None


@dataclass(frozen=True)
class Radii:
    """How subscriptions of a statement are to be notified: `form` is change (an absolute radius), may (a pair of them),
    percent or factor.

    Without `notify` every change is notified: a radius of zero. A radius is a constant or a parameter. A relative one of an
    exact column that is a parameter may have any number of decimals: its form is a fine one.
    """

    measure: Measure | None
    notify: Mapping[str, Any] | None = field(hash=False)
    form: str

    @property
    def name(self) -> str:
        """The form that was asked for, without the radius."""
        if self.notify is None:
            return "every change"
        return FINE * self.form.startswith(FINE) + " and ".join(sorted(self.notify))

    def radius(self, params: Mapping[str, Any]) -> Radius:
        """The radius of a subscription; InputError at a parameter that is none, or does not fit the column."""
        return self._constant if self._is_constant else self._radius(params)

    @cached_property
    def _is_constant(self) -> bool:
        return not radius_names(self.notify)

    @cached_property
    def _constant(self) -> Radius:
        return self._radius({})

    def _radius(self, params: Mapping[str, Any]) -> Radius:
        measure = self.measure
        if measure is None or self.notify is None:
            return 0.0 if measure is not None and measure.is_double else 0
        sizes = sizes_of(self.notify, params)
        if "may" in sizes:
            return tuple(measure.radius("change", name, *sizes[name]) for name in ("may", "must"))
        ((name, size),) = sizes.items()
        return measure.radius(self.form.removeprefix(FINE), name, *size)


def radii_of(measure: Measure | None, notify: Mapping[str, Any] | None, column: str) -> Radii:
    """The radii of a statement over this column; InputError if a constant does not fit it."""
    if notify is None:
        return Radii(measure, None, "change")
    if measure is None:
        raise InputError(
            f"notify needs a column of numbers, dates or timestamps; leave it out, and every change of {column} is notified",
            "/notify",
        )
    form = "may" if "may" in notify else next(iter(notify))
    is_relative = form in ("percent", "factor")
    if is_relative and measure.unit is not None:
        at = pointer("notify", form)
        raise InputError(f"{form} needs a column of numbers, and this one is {measure.kind.name}", at)
    radii = Radii(measure, notify, form)
    is_fine = is_relative and not measure.is_double
    if not radius_names(notify):
        is_fine &= type(radii.radius({})) is not int
    return Radii(measure, notify, FINE + form) if is_fine else radii


def _fraction(name: str, size: Any, at: str) -> Fraction:
    try:
        return Fraction(Decimal(repr(size) if isinstance(size, float) else size))
    except (ArithmeticError, ValueError, TypeError):
        raise InputError(f"{name} of a column of numbers is a number, not a duration", at) from None
