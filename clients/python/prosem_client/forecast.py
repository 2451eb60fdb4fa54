"""Where a parameter will be: how often it is assigned, and in which band it is likely to stay.

The history of the last `window_s` is drawn as a cubic spline ([Parametric] 6.3).
Through single values of a jittery parameter a spline swings wildly, so its knots are the means of a few
equal slices of time, [Parametric]'s smoothing, and the farthest any value lies from the curve is added to the
band.

It loses on jumps to places never seen: then the band is wrong and the assignment costs what it costs without.
"""

from __future__ import annotations

from collections import deque

from prosem_client.spline import Spline

SLICES = 8  # knots of a spline
FEWEST = 4  # values from which something is foretold
FARTHEST = 2.0  # a trend is carried on by at most so many times the span of the history


class History:
    """The values of one parameter within the last `window_s`, at most `limit` of them.

    Invariant: times increase strictly; values assigned at the same time are one, the last.

    >>> history = History(window_s=1.0)
    >>> for tick in range(20):
    ...     history.record(tick / 20, 10.0 * tick)
    >>> history.frequency(0.95), [round(end) for end in history.band()]
    (20.0, [190, 390])
    """

    def __init__(self, window_s: float, limit: int = 256) -> None:
        self.window_s = window_s
        self._limit = limit
        self._values: deque[tuple[float, float]] = deque()

    def __len__(self) -> int:
        return len(self._values)

    def record(self, time: float, value: float) -> None:
        """An assignment."""
        if self._values and self._values[-1][0] >= time:
            time = self._values.pop()[0]
        self._values.append((time, value))
        if len(self._values) > self._limit:
            self._values.popleft()
        self._forget(time)

    def frequency(self, now: float) -> float:
        """Assignments a second within the last `window_s`."""
        self._forget(now)
        return len(self._values) / self.window_s

    @property
    def span(self) -> float:
        """How far apart the values lie."""
        values = [value for _, value in self._values]
        return max(values) - min(values) if values else 0.0

    def band(self) -> tuple[float, float] | None:
        """The least and the greatest value expected within the next `window_s`; None if too little is known.

        Oscillating, that is with two turning points or more: what the curve spans. Else trending: from the
        last value to where the curve leads. O(n) in the values kept.
        """
        if len(self._values) < FEWEST:
            return None
        curve = Spline(*self._knots())
        error = max(abs(value - curve.at(time)) for time, value in self._values)
        if len(curve.turning_points()) >= 2:
            low, high = curve.extremes()
        else:
            farthest = FARTHEST * self.span
            last = self._values[-1][1]
            ahead = last + max(-farthest, min(farthest, curve.end_slope * self.window_s))
            low, high = min(last, ahead), max(last, ahead)
        return low - error, high + error

    def check(self) -> None:
        """Times increase, and none is older than the window."""
        times = [time for time, _ in self._values]
        assert times == sorted(set(times))
        assert len(times) <= self._limit
        assert not times or times[-1] - times[0] <= self.window_s

    def _forget(self, now: float) -> None:
        while self._values and self._values[0][0] < now - self.window_s:
            self._values.popleft()

    def _knots(self) -> tuple[list[float], list[float]]:
        """The mean time and value of each slice; at least the first and the last value, if slices are few."""
        first, last = self._values[0][0], self._values[-1][0]
        slices: list[list[tuple[float, float]]] = [[] for _ in range(SLICES)]
        for time, value in self._values:
            slices[min(SLICES - 1, int((time - first) / (last - first) * SLICES))].append((time, value))
        filled = [part for part in slices if part]
        return (
            [sum(time for time, _ in part) / len(part) for part in filled],
            [sum(value for _, value in part) / len(part) for part in filled],
        )
