"""The server's side of notify on an aggregate: the last notified value of each subscription.

Deltas of one seq are taken together: subscriptions are compared once, with the aggregate after the last of them. A
subscription that was given smaller radii may be *due*: its value lies beyond an end already, and it is notified by the next
event of a row in its ranges, whether that changes the value or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import msgspec

from cn.match.kernels import point_index
from cn.model.network import Space as NetworkSpace
from prosem.types.base import (
    SID_MASK,
    UNAFFECTED,
    Bound,
    Choose,
    Draft,
    Outcome,
    Rows,
    SpaceContext,
    SteppedSpace,
    placements,
)
from prosem.types.notified.columns import NotifiedColumns
from prosem.types.notified.condition import Number
from prosem.types.notified.values import LastNotified, NotifiedValues
from prosem.types.notified.watched import Answer, found
from prosem.types.shared.ranges import around
from prosem.types.shared.rewound import RewoundRows
from prosem.values.model import Delta, PlaceMark
from prosem.values.undo import NO_UNDO, UndoLog, opposite
from prosem.values.wire import encode

NOTIFIED = "notified"  # kind of the messages
Description = list[tuple[bytes, list[int]]]  # changes, and the subscriptions that each affects


class NotifiedSpace(SteppedSpace):
    """In the network a subscription is the point (sid); messages name those that are notified. The radius of a subscription
    is the constant of its `Bound`.

    An event costs what it does in the aggregate, a search for the affected points, and O(log N) for each subscription that
    is looked at: those whose MIN or MAX changes, or whose `Slack` is used up.

    Taking an event back restores the rows' trees and the notified values, and looks again at what it had looked at. Slack
    that it took off others stays off: less than there is notifies no later.
    """

    plans: tuple[str, ...] = ("enumerate",)
    looks_back: ClassVar[bool] = True

    def __init__(self, values: NotifiedValues, space_id: int, context: SpaceContext) -> None:
        self.network = NetworkSpace(space_id, 1, True)
        self.undo: UndoLog = NO_UNDO
        self._values, self._rows = values, context.rows[0]
        self._columns = NotifiedColumns()
        located = context._replace(locate=lambda slot: self._columns.bounds[slot])
        self._watched = values.watched(space_id, located)
        shape = values.aggregate.shape
        self._place = shape.placer()
        self._due = point_index(shape.dimensions, shape.int64)
        self._is_due: set[int] = set()
        self._looked_at: set[int] = (
            set()
        )  # slots that the deltas of the present seq have made worth looking at

    @property
    def visits(self) -> int:
        return self._watched.visits + self._due.visits

    # -- subscriptions -------------------------------------------------------------------------------------------
    def add(self, sids: Sequence[int], bounds: Sequence[Bound]) -> None:
        """They are notified of the present value."""
        self.undo.add(self._take_out, sids)
        for slot in self._put(sids, bounds):
            answer = self._watched.answer(self._columns.bounds[slot], self._rows)
            self._columns.last_notified[slot] = LastNotified(answer.value, answer.row)
            self._renew(slot, answer)

    def _put(self, sids: Sequence[int], bounds: Sequence[Bound]) -> list[int]:
        columns, slots = self._columns, []
        for sid, bound in zip(sids, bounds, strict=True):
            (radius,) = bound.constants
            slots.append(columns.add(sid, bound._replace(constants=()), radius))
        if slots:
            self._watched.add(slots, [columns.bounds[slot] for slot in slots])
        return slots

    def _renew(self, slot: int, answer: Answer) -> None:
        """A subscription was looked at: it is due, or the aggregate knows how far it is from being notified."""
        columns, number = self._columns, self._values.number
        last, now, radius = (
            number(columns.last_notified[slot].value),
            number(answer.value),
            columns.radii[slot],
        )
        is_due = self._values.condition.is_far(radius, last, now)
        if is_due != (slot in self._is_due):
            self._turn(slot, is_due)
        self._watched.renew(slot, radius, last, now, answer)

    def _turn(self, slot: int, is_due: bool) -> None:
        bound = self._columns.bounds[slot]
        (self._is_due.add if is_due else self._is_due.discard)(slot)
        for id, topic, place in placements(slot, bound) if bound.place is not None else ():
            assert place is not None
            (self._due.insert if is_due else self._due.remove)(id, topic, place)

    def remove(self, sid: int, bound: Bound) -> None:
        columns, slot = self._columns, self._columns.slot(sid)
        self.undo.add(
            self._put_back, sid, columns.bounds[slot], columns.radii[slot], columns.last_notified[slot]
        )
        if slot in self._is_due:
            self._turn(slot, False)
        self._watched.remove(slot, self._columns.bounds[slot])
        self._columns.remove(sid)

    def retune(self, sid: int, bound: Bound) -> None:
        (radius,) = bound.constants
        self.undo.add(self._set_radius, sid, self._columns.radii[self._columns.slot(sid)])
        self._set_radius(sid, radius)

    def _set_radius(self, sid: int, radius: Number) -> None:
        slot = self._columns.slot(sid)
        self._columns.radii[slot] = radius
        self._look_again(slot)

    def _look_again(self, slot: int) -> None:
        self._renew(slot, self._watched.answer(self._columns.bounds[slot], self._rows))

    # -- what is taken back --------------------------------------------------------------------------------------
    def _take_out(self, sids: Sequence[int]) -> None:
        for sid in sids:
            self.remove(sid, self._columns.bounds[self._columns.slot(sid)])

    def _put_back(self, sid: int, bound: Bound, radius: Number, last: LastNotified) -> None:
        (slot,) = self._put([sid], [bound._replace(constants=(radius,))])
        self._columns.last_notified[slot] = last
        self._look_again(slot)

    def _take_back(
        self, deltas: Sequence[Delta], before: Sequence[tuple[int, LastNotified]], sids: set[int]
    ) -> None:
        """Undo a request. `before`: the last notified values before it, in the order of the changes."""
        for delta in opposite(deltas):
            self._watched.rehearse(delta)
        columns = self._columns
        for sid, last in reversed(before):
            columns.last_notified[columns.slot(sid)] = last
        for sid in sids:
            self._look_again(columns.slot(sid))

    # -- what was notified ---------------------------------------------------------------------------------------
    def present(self, bound: Bound) -> Answer:
        """The present answer at a place."""
        return self._watched.answer(bound, self._rows)

    def last_notified(self, sid: int) -> LastNotified:
        return self._columns.last_notified[self._columns.slot(sid)]

    def locate(self, sid: int) -> Bound:
        return Bound(b"", (sid,))

    def mark(self, sid: int) -> PlaceMark:
        return PlaceMark(b"", (sid,), msgspec.Raw(encode(self._values.result(self.last_notified(sid)))))

    def relabelled(self) -> list[int]:
        return []

    def restore(self, sids: Sequence[int], bounds: Sequence[Bound], marks: Sequence[PlaceMark]) -> None:
        for slot, mark in zip(self._put(sids, bounds), marks, strict=True):
            self._columns.last_notified[slot] = self._values.read(bytes(mark.last_notified))
            self._look_again(slot)

    # -- events --------------------------------------------------------------------------------------------------
    def take(self, deltas: Sequence[Delta], choose: Choose, among: Sequence[Delta] = ()) -> Iterator[Outcome]:
        rows = self._rows if len(deltas) == 1 else RewoundRows(self._rows, deltas)
        before: list[tuple[int, LastNotified]] = []
        looked_at: set[int] = set()
        self.undo.add(self._take_back, deltas, before, looked_at)
        for at, delta in enumerate(deltas):
            if isinstance(rows, RewoundRows):
                rows.advance(at + 1)
            self._look_at(delta)
            is_last = at + 1 == len(deltas) or deltas[at + 1].seq != delta.seq
            description = self._notify(rows, before, looked_at) if is_last else None
            if not description:
                yield UNAFFECTED
                continue
            plan = choose(self, description)
            yield Outcome(description, plan, self.messages(description, plan))

    def step(self, delta: Delta) -> Description | None:
        self._look_at(delta)
        return self._notify(self._rows, [], set()) or None

    def _look_at(self, delta: Delta) -> None:
        self._looked_at |= self._watched.step(delta)
        if self._is_due:
            self._looked_at |= self._touched(delta)

    def _touched(self, delta: Delta) -> set[int]:
        """Those that are due and have the row in their ranges."""
        places = [self._place(row) for row in (delta.old, delta.new) if row is not None]
        return found(self._due, [(place[0], (around(place[1]),)) for place in places if place is not None])

    def _notify(self, rows: Rows, before: list[tuple[int, LastNotified]], looked_at: set[int]) -> Description:
        """Look at what the deltas of a seq have left; those that are far from their last notified value are notified.

        What they were notified of before is added to `before`, and what was looked at to `looked_at`.
        """
        slots, self._looked_at = self._looked_at, set()
        changes, columns, watched = [], self._columns, self._watched
        sids, bounds, radii, last_notified = (
            columns.sids,
            columns.bounds,
            columns.radii,
            columns.last_notified,
        )
        number, is_far = self._values.number, self._values.condition.is_far
        looked_at.update([sids[slot] for slot in slots])
        for slot in slots:
            answer, radius, last = watched.answer(bounds[slot], rows), radii[slot], last_notified[slot]
            was, now = number(last.value), number(answer.value)
            if is_far(radius, was, now):
                notified = last_notified[slot] = LastNotified(answer.value, answer.row)
                before.append((sids[slot], last))
                changes.append((slot, last, notified))
                was = now
            if slot in self._is_due:
                self._turn(slot, False)
            watched.renew(slot, radius, was, now, answer)
        return self._described(changes)

    def _is_far(self, slot: int, answer: Answer) -> bool:
        return self._values.is_far(self._columns.radii[slot], self._columns.last_notified[slot], answer)

    def _described(self, changes: Iterable[tuple[int, LastNotified, LastNotified]]) -> Description:
        """The changes as they travel; subscriptions that are notified of the same share one."""
        sids: dict[bytes, list[int]] = {}
        values = self._values
        for slot, before, now in changes:
            payload = encode(values.change(values.result(before), values.result(now)))
            sids.setdefault(payload, []).append(self._columns.sids[slot])
        return [(payload, sorted(some)) for payload, some in sids.items()]

    @contextmanager
    def rehearsal(self, delta: Delta) -> Iterator[Description | None]:
        """What an event would notify; it is taken back, and no subscription is notified."""
        slots = self._watched.rehearse(delta) | self._touched(delta)
        try:
            answers = [(slot, self._watched.answer(self._columns.bounds[slot], self._rows)) for slot in slots]
            yield (
                self._described(
                    (slot, self._columns.last_notified[slot], LastNotified(answer.value, answer.row))
                    for slot, answer in answers
                    if self._is_far(slot, answer)
                )
                or None
            )
        finally:
            self._watched.rehearse(delta._replace(old=delta.new, new=delta.old))

    def messages(self, description: Description, plan: str) -> list[Draft]:
        return [Draft(NOTIFIED, targets=tuple(sids), payload=payload) for payload, sids in description]

    def check(self) -> None:
        """The invariants, in O(N)."""
        columns = self._columns
        slots = dict(columns.items())
        placed = {
            (id, topic, place)
            for sid, slot in slots.items()
            for id, topic, place in placements(slot, columns.bounds[slot])
            if place is not None
        }
        assert set(self._watched.points.items()) == placed, "the aggregate holds the points"
        assert not self._looked_at, "nothing is left over from an event"
        for slot in slots.values():
            answer = self._watched.answer(columns.bounds[slot], self._rows)
            assert self._is_far(slot, answer) == (slot in self._is_due), "those that are far are due"
        due = {entry for entry in placed if entry[0] & SID_MASK in self._is_due}
        assert set(self._due.items()) == due, "they are found"
