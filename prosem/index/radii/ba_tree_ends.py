"""The forms of a value notification: where the interval around the last notified value ends."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Value = Any  # int or float
Radius = Any  # int or float; exact relative forms also take a Fraction
Array = NDArray[Any]
SMALL = 1 << 62  # 64-bit arrays are used while everything stays below


class Ends(ABC):
    """The two ends of a subscription with centre `c` and radius `r`: it fires iff `d <= left` or `d >= right`.

    The centre is the last notified value.
    Ends lie strictly on either side of `c`, so an equal value never fires. Exact forms take and give integers (an end
    between two integers is rounded away from `c`, which no integer notices); the others take doubles and end where
    IEEE arithmetic says, operation by operation. For one `c` the ends move outward as `r` grows.

    `circular` says whether theorem 3 holds: centres of one radius keep their circular order. [ProSem thesis] 4.2.1, 4.6.2.
    """

    name: ClassVar[str]  # of the form, as compiled structures know it
    circular: ClassVar[bool] = True
    loose: ClassVar[bool] = False  # whether a radius leaves a choice, see `MayMust`

    scale: int = 1  # of the radii of exact relative forms

    def __init__(self, *, exact: bool = True) -> None:
        self.exact = exact

    @abstractmethod
    def right(self, c: Value, r: Radius) -> Value: ...
    @abstractmethod
    def left(self, c: Value, r: Radius) -> Value: ...
    @abstractmethod
    def reach(self, c: Value, d: Value) -> Radius:
        """About the largest radius around `c` that fires when `d` comes; some radius does, and not every one."""

    @abstractmethod
    def fits(self, c: Value, r: Radius) -> bool:
        """Whether 64-bit integers hold everything that is computed at `c` for radii up to `r`."""

    @abstractmethod
    def _outward(self, c: Any, radii: Array) -> tuple[Array, Array]:
        """Right ends and negated left ends, perhaps not yet beyond `c`."""

    def arrays(self, c: Any, radii: Array) -> tuple[Array, Array]:
        """Right ends and negated left ends of many ascending radii; `c` is one value, or one for each."""
        right, minus_left = self._outward(c, radii)
        if not isinstance(c, np.ndarray) and (not len(radii) or (right[0] > c and minus_left[0] > -c)):
            return right, minus_left  # the nearest ends are beyond c, hence all
        if self.exact:
            return np.maximum(right, c + 1), np.maximum(minus_left, 1 - c)
        above, below = np.nextafter(c, np.inf), np.nextafter(-c, np.inf)
        return np.maximum(right, above), np.maximum(minus_left, below)

    def _above(self, c: Value) -> Value:
        """The next value."""
        return c + 1 if self.exact else math.nextafter(c, math.inf)

    def _below(self, c: Value) -> Value:
        return c - 1 if self.exact else math.nextafter(c, -math.inf)

    def calm(self, c: float, r: float) -> bool:
        """Whether no double overflows at `c` for radii up to `r`."""
        return bool(self.right(c, r) < math.inf and self.left(c, r) > -math.inf)


class Change(Ends):
    """Absolute: `c ± r`.

    >>> Change().right(10, 3), Change().left(10, 0), Change(exact=False).right(0.1, 0.2)
    (13, 9, 0.30000000000000004)
    """

    name = "change"

    def right(self, c: Value, r: Radius) -> Value:
        end = c + r
        return end if end > c else self._above(c)

    def left(self, c: Value, r: Radius) -> Value:
        end = c - r
        return end if end < c else self._below(c)

    def reach(self, c: Value, d: Value) -> Radius:
        return abs(d - c)

    def fits(self, c: Value, r: Radius) -> bool:
        return bool(abs(c) + r < SMALL)

    def _outward(self, c: Any, radii: Array) -> tuple[Array, Array]:
        return radii + c, radii - c


class MayMust(Change):
    """A radius is a pair: at `must` a subscription is always notified, below `may` never. [ProSem thesis] 4.6.1.

    The ends are those of `must`: a value inside all of them fires none. `may` says whether others can be notified.

    >>> ends = MayMust()
    >>> ends.right(10, (2, 5)), ends.left(10, (2, 5)), [ends.may(10, (2, 5), d) for d in (10, 11, 12, 8)]
    (15, 5, [False, False, True, True])
    """

    loose = True

    def right(self, c: Value, r: Radius) -> Value:
        end = c + r[1]
        return end if end > c else self._above(c)

    def left(self, c: Value, r: Radius) -> Value:
        end = c - r[1]
        return end if end < c else self._below(c)

    def may(self, c: Value, r: Radius, d: Value) -> bool:
        """Whether one with centre `c` may be notified of `d`, in either direction."""
        if d > c:
            return bool(d >= c + r[0])
        return d < c and bool(d <= c - r[0])


class Percent(Ends):
    """Relative to the size of the centre: `c ± |c|·p/100`. A radius of an exact form means `p = radius / scale`.

    Two centres of one radius have intervals of different lengths, so theorem 3 does not hold.

    >>> from fractions import Fraction
    >>> Percent().right(-30, 25), Percent(scale=10).left(30, 125), Percent().right(7, Fraction(1, 3))
    (-22, 26, 8)
    """

    name = "percent"
    circular = False

    def __init__(self, *, exact: bool = True, scale: int = 1) -> None:
        super().__init__(exact=exact)
        self.scale = scale

    def _part(self, c: Value, p: Radius) -> Value:
        if not self.exact:
            return abs(c) * p / 100
        return -(-abs(c) * p.numerator // (100 * self.scale * p.denominator))

    def right(self, c: Value, r: Radius) -> Value:
        end = c + self._part(c, r)
        return end if end > c else self._above(c)

    def left(self, c: Value, r: Radius) -> Value:
        end = c - self._part(c, r)
        return end if end < c else self._below(c)

    def reach(self, c: Value, d: Value) -> Radius:
        part = abs(d - c) * 100
        return part * self.scale // abs(c) if self.exact else part / abs(c)

    def fits(self, c: Value, r: Radius) -> bool:
        return bool(abs(c) * (r + 1) < SMALL and 100 * self.scale < SMALL and r < SMALL)

    def _outward(self, c: Any, radii: Array) -> tuple[Array, Array]:
        size = abs(c)
        reach = -((-size * radii) // (100 * self.scale)) if self.exact else radii * size / 100
        return c + reach, reach - c


class Factor(Ends):
    """Multiplicative: `c·f` and `c/f`. A radius of an exact form means `f = radius / scale`.

    A centre at or below zero: every change fires; a new one there is beyond every `c/f`, so it fires all.

    >>> Factor().right(10, 2), Factor(scale=2).left(10, 3), Factor().right(-4, 2)
    (20, 6, -3)
    """

    name = "factor"

    def __init__(self, *, exact: bool = True, scale: int = 1) -> None:
        super().__init__(exact=exact)
        self.scale = scale

    def right(self, c: Value, r: Radius) -> Value:
        end = c
        if c > 0:
            end = -(-c * r.numerator // (r.denominator * self.scale)) if self.exact else c * r
        return end if end > c else self._above(c)

    def left(self, c: Value, r: Radius) -> Value:
        end = c
        if c > 0:
            end = c * r.denominator * self.scale // r.numerator if self.exact else c / r
        return end if end < c else self._below(c)

    def reach(self, c: Value, d: Value) -> Radius:
        low, high = min(c, d), max(c, d)
        return high * self.scale // low if self.exact else high / low

    def fits(self, c: Value, r: Radius) -> bool:
        return bool((abs(c) + 1) * max(r, self.scale) < SMALL)

    def _outward(self, c: Any, radii: Array) -> tuple[Array, Array]:
        positive = np.maximum(c, 0)  # at zero both ends are 0: not beyond c, hence moved next to it
        if self.exact:
            right, left = -((-positive * radii) // self.scale), positive * self.scale // radii
        else:
            right, left = positive * radii, positive / radii
        return np.where(c > 0, right, c), np.where(c > 0, -left, -c)
