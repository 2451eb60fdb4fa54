"""The update monitor ([Parametric] 6): few requests for parameters that move often.

    client.subscribe("SELECT * FROM cars WHERE x BETWEEN :lo AND :hi", {...}, monitor=UpdateMonitor())

While an end of a range is assigned more often than `frequency_hz`, the server is given a wider range, one
that holds where the end is expected within the next `window_s`. Assignments within it cost no request: the
client has the rows and shows those of the exact range.

It loses where the wider range catches many more events than the exact one, and where parameters jump at
random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from prosem_client.forecast import History
from prosem_client.held import Limits, Places
from prosem_client.scales import Place
from prosem_client.values import JsonObject, encode


@dataclass(frozen=True, slots=True)
class UpdateMonitor:
    """When a range is widened, and how much.

    `frequency_hz`: assignments a second to a parameter from which its end is widened. `window_s`: the time
    over which they are counted, and how far ahead is looked. `margin`: this share of the expected band is
    added on its outer side. A range that is left alone for `window_s` becomes exact again.
    """

    frequency_hz: float = 5.0
    window_s: float = 1.0
    margin: float = 0.25

    def __post_init__(self) -> None:
        if not (self.frequency_hz > 0 and self.window_s > 0 and self.margin >= 0):
            raise ValueError("an update monitor needs frequency_hz > 0, window_s > 0 and margin >= 0")


class Widening:
    """The histories of all ends, and the range to register for an exact one. No I/O; `now` is any clock's."""

    def __init__(self, monitor: UpdateMonitor, limits: Limits) -> None:
        self._monitor = monitor
        self._limits = limits
        self._histories = [History(monitor.window_s) for _ in limits]
        self._constants: Places | None = None

    def covers(self, wide: JsonObject, exact: JsonObject) -> bool:
        """Whether the answer with the parameters `exact` follows from the rows of `wide`."""
        names = (wide.keys() | exact.keys()) - self._limits.names
        others_agree = all(_same(wide.get(name), exact.get(name)) for name in names)
        return others_agree and self._limits.reach(
            self._limits.constants(wide), self._limits.constants(exact)
        )

    def record(self, now: float, exact: JsonObject) -> None:
        """An assignment; ends that stay where they are count for nothing."""
        constants = self._limits.constants(exact)
        before = self._constants or constants
        self._constants = constants
        for history, old, new in zip(self._histories, before, constants, strict=True):
            if new is not None and new != old and math.isfinite(_float(new)):
                history.record(now, _float(new))

    def widen(self, now: float, exact: JsonObject) -> JsonObject:
        """The parameters to register: every end that moves often is put as far out as it is expected."""
        wide = dict(exact)
        constants = self._limits.constants(exact)
        for limit, history, constant in zip(self._limits, self._histories, constants, strict=True):
            if constant is None or history.frequency(now) < self._monitor.frequency_hz:
                continue
            band = history.band()
            if band is None:
                continue
            low, high = band
            added = self._monitor.margin * (high - low)
            place = low - added if limit.end.is_lower else high + added
            if not math.isfinite(place):
                continue
            value = limit.scale.beyond(place, not limit.end.is_lower)
            if limit.reaches(limit.scale.constant(value), constant):
                wide[limit.end.parameter] = value
        return wide

    def is_loose(self, now: float, registered: JsonObject, exact: JsonObject) -> bool:
        """Whether an end stands much farther out than it would be put now, as after a trend inward."""
        there = self._limits.constants(registered)
        wanted = self._limits.constants(self.widen(now, exact))
        for history, far, near in zip(self._histories, there, wanted, strict=True):
            if far is not None and near is not None and abs(_float(far) - _float(near)) > history.span > 0:
                return True
        return False


def _float(place: Place) -> float:
    try:
        return float(place)
    except OverflowError:
        return math.inf if place > 0 else -math.inf


def _same(one: Any, other: Any) -> bool:
    """Whether two parameters are the same to the server: 1 and True are not."""
    return one is other or encode(one) == encode(other)
