"""How much the aggregates of subscriptions may change before they must be looked at, in arrays.

An event in a wide range changes the sum of nearly every subscription, and few of these changes are notified. For each
subscription the *slack* is a lower bound of what its value may still change. What an event adds is taken off, whatever its
sign; only subscriptions whose slack is used up are evaluated, and then given a new one. Rounding is always down, so that
none is missed.

Taking off costs a few vector operations for all affected subscriptions of an event. It loses where values stay close to
an end: then each event is evaluated.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from prosem.types.notified.condition import Condition, Number, room, rounded_down
from prosem.types.shared.exact import units_of_one
from prosem.types.sums.form import SumState
from prosem.values.columns import ColumnType

Slots = NDArray[np.int64]
_FIRST = 64  # slots
_NEAR = Fraction(1, 10**14)  # the answered average differs from the exact one by less than this part of it
_TINY = Fraction(1, 10**290)
_HUGE = 1e300  # ends beyond are not computed with
_ROUNDING = 1e-15  # of one step of the vector operations, relative to its largest term


class Slack:
    """`kind` is that of the summed values, None for COUNT; `is_average`: AVG, else SUM or COUNT.

    With AVG the slack is that of `end * count - total` at the nearer end, since a row changes it by `end - value`.
    """

    def __init__(self, condition: Condition, kind: ColumnType | None, is_average: bool) -> None:
        self._condition, self._kind, self._is_average = condition, kind, is_average
        self._one = 1 if kind is None else units_of_one(kind)
        self._slack = np.zeros(_FIRST)
        self._left = np.zeros(_FIRST if is_average else 0)
        self._right = np.zeros(_FIRST if is_average else 0)
        self._count = np.zeros(
            0 if kind is None else _FIRST, np.int64
        )  # rows that may go before none is left

    def grow(self, slots: int) -> None:
        """Make room for so many slots."""
        while slots > len(self._slack):
            self._slack, self._left, self._right, self._count = (
                np.concatenate([array, np.zeros_like(array)])
                for array in (self._slack, self._left, self._right, self._count)
            )

    def spent(self, slots: Slots, count: int, total: int) -> Slots:
        """Those whose slack is used up when so many rows and units are added to all of these."""
        exact = self._added(count if self._kind is None else total)
        size = math.nextafter(abs(exact), math.inf)
        with np.errstate(over="ignore", invalid="ignore"):
            taken = np.full(len(slots), size)
            if self._is_average:
                left, right = self._left[slots] * count, self._right[slots] * count
                taken = np.maximum(np.abs(left - exact), np.abs(right - exact))
                taken += (np.maximum(np.abs(left), np.abs(right)) + size) * _ROUNDING
            slack = np.nextafter(self._slack[slots] - taken, -np.inf)
        self._slack[slots] = slack
        is_spent = ~(slack > 0)  # also if it is not a number
        if self._kind is not None and count:
            rest = self._count[slots] - abs(count)
            self._count[slots] = rest
            is_spent |= rest <= 0
        spent: Slots = slots[is_spent]
        return spent

    def _added(self, units: int) -> float:
        try:
            return units / self._one
        except OverflowError:
            return math.inf if units > 0 else -math.inf

    def renew(
        self, slot: int, radius: Number, last_notified: Number | None, now: Number | None, state: SumState
    ) -> None:
        """The value is `now`, by this state; a subscription with this last notified value was looked at."""
        self._slack[slot] = 0.0
        if now is None or last_notified is None:
            return
        if self._kind is not None:
            self._count[slot] = state.number
        if not self._is_average:
            self._slack[slot] = room(self._condition, radius, last_notified, now)
            return
        left, right = self._condition.ends(last_notified, radius)
        if max(abs(left), abs(right)) > _HUGE:
            return
        left, right = Fraction(left), Fraction(right)
        left += abs(left) * _NEAR + _TINY
        right -= abs(right) * _NEAR + _TINY
        total = Fraction(state.total, self._one)
        self._slack[slot] = rounded_down(min(right * state.number - total, total - left * state.number))
        self._left[slot], self._right[slot] = float(left), float(right)
