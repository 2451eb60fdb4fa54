"""The natural cubic spline: the smoothest curve through some points.

Between two knots it is a cubic; at the knots its slope and bend go on without a jump; at both ends the bend
is zero, so beyond them it goes on as a straight line. Building it is one pass of a tridiagonal system,
O(n).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise


class Spline:
    """Through `(times[i], values[i])`, at least two, the times strictly increasing.

    >>> curve = Spline([0, 1, 2, 3], [0, 1, 0, 1])
    >>> curve.at(1), curve.at(2), round(curve.at(4), 3)
    (1.0, 0.0, 2.667)
    >>> len(curve.turning_points())
    2
    """

    def __init__(self, times: Sequence[float], values: Sequence[float]) -> None:
        if len(times) != len(values) or len(times) < 2:
            raise ValueError("a spline needs a value for each time, and at least two")
        self.times = [float(time) for time in times]
        self.values = [float(value) for value in values]
        self._widths = [after - before for before, after in pairwise(self.times)]
        if min(self._widths) <= 0:
            raise ValueError("the times of a spline must increase")
        self._bends = self._solve()

    def at(self, time: float) -> float:
        """The value at a time, also before the first knot and after the last."""
        if time <= self.times[0]:
            return self.values[0] + self._slope(0, 0.0) * (time - self.times[0])
        if time >= self.times[-1]:
            return self.values[-1] + self.end_slope * (time - self.times[-1])
        segment = bisect_right(self.times, time) - 1
        return self._value(segment, time - self.times[segment])

    @property
    def end_slope(self) -> float:
        return self._slope(len(self._widths) - 1, self._widths[-1])

    def turning_points(self) -> list[float]:
        """The times inside at which it stops rising and falls, or the reverse."""
        points: list[float] = []
        for segment, width in enumerate(self._widths):
            points += [self.times[segment] + offset for offset in self._flat(segment, width)]
        marks = [self.times[0], *points, self.times[-1]]
        rises = [self.at(after) > self.at(before) for before, after in pairwise(marks)]
        return [
            point for point, (before, after) in zip(points, pairwise(rises), strict=True) if before != after
        ]

    def extremes(self) -> tuple[float, float]:
        """The least and the greatest value between the first knot and the last."""
        values = [*self.values, *map(self.at, self.turning_points())]
        return min(values), max(values)

    def check(self) -> None:
        """It goes through the knots, and value and slope do not jump there."""
        size = max(map(abs, self.values)) + 1.0
        for segment, width in enumerate(self._widths):
            assert math.isclose(self._value(segment, width), self.values[segment + 1], abs_tol=1e-6 * size)
        steepest = (
            max(abs(b - a) / w for (a, b), w in zip(pairwise(self.values), self._widths, strict=True)) + 1.0
        )
        for segment, width in enumerate(self._widths[:-1]):
            before, after = self._slope(segment, width), self._slope(segment + 1, 0.0)
            assert math.isclose(before, after, abs_tol=1e-6 * steepest), (before, after)

    def _solve(self) -> list[float]:
        """The second derivatives at the knots (Thomas's elimination)."""
        widths, values = self._widths, self.values
        ratios, sums = [0.0], [0.0]
        for at in range(1, len(values) - 1):
            bend = (values[at + 1] - values[at]) / widths[at] - (values[at] - values[at - 1]) / widths[at - 1]
            pivot = 2 * (widths[at - 1] + widths[at]) - widths[at - 1] * ratios[-1]
            ratios.append(widths[at] / pivot)
            sums.append((6 * bend - widths[at - 1] * sums[-1]) / pivot)
        bends = [0.0] * len(values)
        for at in range(len(values) - 2, 0, -1):
            bends[at] = sums[at] - ratios[at] * bends[at + 1]
        return bends

    def _coefficients(self, segment: int) -> tuple[float, float, float]:
        """Of offset, offset² and offset³ within a segment."""
        width, left, right = self._widths[segment], self._bends[segment], self._bends[segment + 1]
        chord = (self.values[segment + 1] - self.values[segment]) / width
        return chord - width * (2 * left + right) / 6, left / 2, (right - left) / (6 * width)

    def _value(self, segment: int, offset: float) -> float:
        first, second, third = self._coefficients(segment)
        return self.values[segment] + offset * (first + offset * (second + offset * third))

    def _slope(self, segment: int, offset: float) -> float:
        first, second, third = self._coefficients(segment)
        return first + offset * (2 * second + offset * 3 * third)

    def _flat(self, segment: int, width: float) -> Iterator[float]:
        """The offsets in (0, width] at which the slope is zero, in ascending order."""
        first, second, third = self._coefficients(segment)
        a, b, c = 3 * third, 2 * second, first
        found: list[float] = []
        if a:
            inner = b * b - 4 * a * c
            if inner >= 0:
                # the form that does not subtract nearly equal numbers
                half = -(b + math.copysign(math.sqrt(inner), b)) / 2
                found = [half / a] + ([c / half] if half else [])
        elif b:
            found = [-c / b]
        yield from sorted({offset for offset in found if 0 < offset <= width})
