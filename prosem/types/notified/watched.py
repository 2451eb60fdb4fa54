"""The aggregates that notifications are about, with the subscriptions that an event makes worth looking at.

An aggregate keeps the structures of its own type: trees over the rows, and the points of the subscriptions. Here points
are numbered by slots, so that what is known of a subscription stands in arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from cn.match.point_index import PointIndex
from cn.model.geometry import Region
from prosem.types.base import SID_MASK, Bound, Rows, SpaceContext
from prosem.types.extreme.form import ExtremeForm, ExtremeSpace
from prosem.types.extreme.several_ranges import BoxesSpace, NewExtreme
from prosem.types.notified.condition import Condition, Number
from prosem.types.notified.slack import Slack, Slots
from prosem.types.shared.ranges import Codes
from prosem.types.sums.form import SumForm, SumSpace, SumState
from prosem.values.columns import ColumnType
from prosem.values.model import Delta, Row


class Answer(NamedTuple):
    """The value of an aggregate; a row that attains it for MIN and MAX, count and total for the others."""

    value: Any
    row: Row | None = None
    state: SumState = SumState()


class Watched(Protocol):
    """One aggregate of a space, and the points of its subscriptions by slot."""

    @property
    def visits(self) -> int: ...
    @property
    def points(self) -> PointIndex: ...
    def add(self, slots: Sequence[int], bounds: Sequence[Bound]) -> None: ...
    def remove(self, slot: int, bound: Bound) -> None: ...
    def answer(self, bound: Bound, rows: Rows) -> Answer:
        """The present value at a place."""

    def renew(
        self, slot: int, radius: Number, last_notified: Number | None, now: Number | None, answer: Answer
    ) -> None:
        """A slot was looked at, and is not to be notified of the present value."""

    def step(self, delta: Delta) -> set[int]:
        """Take a row's new state; the slots that must be looked at."""

    def rehearse(self, delta: Delta) -> set[int]:
        """The same, of all slots whose value changes, and nothing but the rows' trees changes."""


class WatchedExtreme:
    """MIN or MAX: an event changes the values of few subscriptions, and each of them is looked at."""

    def __init__(self, form: ExtremeForm, space_id: int, context: SpaceContext) -> None:
        self._form = form
        self._space = cast("ExtremeSpace | BoxesSpace", form.open_space(space_id, context))
        self.points = self._space.points
        self.add, self.remove = self._space.add, self._space.remove

    @property
    def visits(self) -> int:
        return self._space.visits

    def answer(self, bound: Bound, rows: Rows) -> Answer:
        """The extreme of all its topics; O(log N) each with one range."""
        y, kind = self._form.y, self._form.shape.table.columns[self._form.y].type
        keys = [self._space.lowest(topic, cast(Codes, bound.place)) for topic in bound.topics]
        some = [rows[key] for key in keys if key is not None]
        if not some:
            return Answer(None)
        best = (max if self._form.maximum else min)(some, key=lambda row: kind.code(row[y]))
        return Answer(best[y], best)

    def renew(
        self, slot: int, radius: Number, last_notified: Number | None, now: Number | None, answer: Answer
    ) -> None:
        pass

    def step(self, delta: Delta) -> set[int]:
        description: Any = self._space.step(delta)
        if description is None:
            return set()
        slots = found(self.points, self._space.regions(description))
        if isinstance(description, NewExtreme):
            slots.update(id & SID_MASK for _, id, _ in description.single)
        return slots

    rehearse = step


class WatchedSum:
    """COUNT, SUM or AVG: an event changes the values of many subscriptions; those are looked at whose slack is used up."""

    def __init__(self, form: SumForm, condition: Condition, space_id: int, context: SpaceContext) -> None:
        self._form = form
        self._space = cast(SumSpace, form.open_space(space_id, context))
        self.points, self.remove = self._space.points, self._space.remove
        kind: ColumnType | None = None
        if form.function != "COUNT":
            assert form.y is not None
            kind = form.shape.table.columns[form.y].type
        self._slack = Slack(condition, kind, form.function == "AVG")

    @property
    def visits(self) -> int:
        return self._space.visits

    def add(self, slots: Sequence[int], bounds: Sequence[Bound]) -> None:
        self._slack.grow(max(slots) + 1)
        self._space.add(slots, bounds)

    def answer(self, bound: Bound, rows: Rows) -> Answer:
        state = self._form.state(self._space, bound)
        return Answer(self._form.value(state), None, state)

    def renew(
        self, slot: int, radius: Number, last_notified: Number | None, now: Number | None, answer: Answer
    ) -> None:
        self._slack.renew(slot, radius, last_notified, now, answer.state)

    def step(self, delta: Delta) -> set[int]:
        slots: set[int] = set()
        for topic, region, count, total in self._space.step(delta) or ():
            affected: Slots = self.points.find(topic, region) & SID_MASK
            if len(affected):
                slots.update(self._slack.spent(affected, count, total).tolist())
        return slots

    def rehearse(self, delta: Delta) -> set[int]:
        return found(self.points, [(topic, region) for topic, region, *_ in self._space.step(delta) or ()])


def found(points: PointIndex, regions: Iterable[tuple[bytes, Region]]) -> set[int]:
    """The slots in some regions."""
    some = [points.find(topic, region) for topic, region in regions]
    return set((np.concatenate(some) & SID_MASK).tolist()) if some else set()
