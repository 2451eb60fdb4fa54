"""When a change of an aggregate is notified: how far its value is from the one notified last.

With `c` the last notified value, a value is notified from `c + r` or `c - r` on, where r is the radius (`change`), or
`|c| * p / 100` (`percent`); with `factor` from `c * f` or `c / f` on; and never an equal one. NULL differs from
every value. Ends are exact for integers and numerics, and those of IEEE arithmetic, operation by operation, for doubles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from prosem.language.notify import Size, duration, radius_names, sizes_of
from prosem.values.errors import InputError, pointer

Number = Any  # int, Fraction or float
GREATEST = 1.7976931348623157e308
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Condition:
    """`form` is change, percent or factor, `size` a constant or the name of a parameter. `unit`: what counts as one if
    values are moments and radii are durations.

    >>> condition = Condition("percent", 25)
    >>> condition.is_far(Fraction(25), 7, 8), condition.is_far(Fraction(25), 7, 9)
    (False, True)
    """

    form: str
    size: Any
    is_double: bool = False
    unit: timedelta | None = None

    def radius(self, params: Mapping[str, Any]) -> Number:
        """The radius of a subscription; InputError at a parameter that is none, or does not fit the values."""
        return self._constant if self._is_constant else self._radius(params)

    @cached_property
    def _is_constant(self) -> bool:
        return not radius_names({self.form: self.size})

    @cached_property
    def _constant(self) -> Number:
        return self._radius({})

    def _radius(self, params: Mapping[str, Any]) -> Number:
        size: Size = sizes_of({self.form: self.size}, params)[self.form]
        value = size.value
        if self.unit is not None:
            try:
                return self._plain(Fraction(duration(str(value)) // _MICROSECOND, self.unit // _MICROSECOND))
            except ValueError as error:
                raise InputError(f"{self.form} of dates and timestamps: {error}", size.at) from None
        try:
            exact = Fraction(Decimal(repr(value) if isinstance(value, float) else value))
        except ArithmeticError:
            raise InputError(f"{self.form} of numbers is a number, not a duration", size.at) from None
        return float(min(exact, Fraction(GREATEST))) if self.is_double else self._plain(exact)

    def _plain(self, exact: Fraction) -> Number:
        """An integer where one suffices: ends are sums then, and a fifth of the time of fractions."""
        return exact.numerator if self.form == "change" and exact.denominator == 1 else exact

    def ends(self, last_notified: Number, radius: Number) -> tuple[Number, Number]:
        """A value at or below the first, or at or above the second, is notified if it differs."""
        if self.form == "factor":
            return last_notified / radius, last_notified * radius
        reach = radius if self.form == "change" else abs(last_notified) * radius / 100
        return last_notified - reach, last_notified + reach

    def is_far(self, radius: Number, last_notified: Number | None, now: Number | None) -> bool:
        """Whether a value is so far from the last notified one that the subscription is notified of it."""
        if last_notified is None or now is None or last_notified == now:
            return last_notified is not now and last_notified != now
        left, right = self.ends(last_notified, radius)
        return bool(now >= right or now <= left)


def condition_of(notify: Mapping[str, Any], is_double: bool, unit: timedelta | None, what: str) -> Condition:
    """The condition of a statement; InputError if `notify` does not fit. `what` are the values, in words."""
    if "may" in notify:
        raise InputError("may and must apply to value notification; an aggregate takes one radius", "/notify")
    ((form, size),) = notify.items()
    if unit is not None and form != "change":
        raise InputError(f"{form} needs numbers, and {what}", pointer("notify", form))
    condition = Condition(form, size, is_double, unit)
    if not radius_names(notify):
        condition.radius({})
    return condition


def room(condition: Condition, radius: Number, last_notified: Number | None, now: Number | None) -> float:
    """How much the exact value behind `now` may change at least before a subscription can be notified of another.

    Never too much: rounded down, and for doubles by the rounding of the answered value too. 0: it must be looked at.

    >>> room(Condition("change", 5), Fraction(5), 10, 12)
    2.9999999999999996
    """
    if last_notified is None or now is None:
        return 0.0
    left, right = condition.ends(last_notified, radius)
    if condition.is_double:
        above, below = math.nextafter(now, math.inf), math.nextafter(now, -math.inf)
        room_right = math.nextafter(right, -math.inf) - above
        room_left = below - math.nextafter(left, math.inf)
        return max(0.0, math.nextafter(min(room_right, room_left), -math.inf))
    return rounded_down(min(right - now, now - left))


def rounded_down(exact: int | Fraction) -> float:
    """A double that is at most this, and not negative."""
    if exact <= 0:
        return 0.0
    try:
        return math.nextafter(float(exact), 0.0)
    except OverflowError:
        return GREATEST
