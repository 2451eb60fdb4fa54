"""The history of points, and the marks of those whose places a space gives.

A mark holds the place of a subscription and its last notified value; later notifications are in the outbox. So
nothing is written when a million subscriptions are notified. The oldest marks are written anew, some with each batch:
no replay looks back further than `seqs`, or four seqs for each mark.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence, Set
from typing import cast

from prosem.engine.batch import Batch
from prosem.engine.commands import Moved
from prosem.engine.subscriptions import SubscriptionRegistry
from prosem.types.base import Bound, Form, MarkedSpace, Space
from prosem.values.model import PlaceMark
from prosem.values.undo import NO_UNDO, UndoLog
from prosem.values.wire import encode

MARK_SEQS = 500_000  # a recovery looks back so far; with many marks, until there are four seqs to each
MARKS_PER_BATCH = 200
Unmarked = tuple[Space, list[int], list[Bound]]


class Marks:
    """Owned by the engine thread, beside the registry. `moves` numbers the history, whose seq may stay the same.

    What was not committed is taken back by `undo`.
    """

    def __init__(self, registry: SubscriptionRegistry, undo: UndoLog = NO_UNDO) -> None:
        self._registry, self._undo = registry, undo
        self.moves = 0
        self.seqs = MARK_SEQS
        self._marked: OrderedDict[int, int] = OrderedDict()  # sid → seq of its last mark, oldest first
        self._unmarked: dict[int, Unmarked] = {}

    # -- the history ---------------------------------------------------------------------------------------------
    def moved(
        self,
        batch: Batch,
        seq: int,
        sid: int,
        kind: str,
        params: bytes,
        state: bytes | None,
        space: Space,
    ) -> None:
        """A subscription was patched, suspended or resumed."""
        is_active = kind != "suspended"
        mark = self._mark(space, sid if is_active else None)
        self._count()
        batch.writes.history.append((sid, seq, self.moves, kind, params, state, mark))
        self.forget(sid)
        if is_active and isinstance(space, MarkedSpace) and space.looks_back:
            self._marked[sid] = seq

    def _mark(self, space: Space, sid: int | None) -> bytes | None:
        """The current place of a subscription (None: nowhere) and its last notified value, if its space gives places."""
        if not isinstance(space, MarkedSpace):
            return None
        return encode(PlaceMark(b"", None) if sid is None else space.mark(sid))

    def created(self, batch: Batch, seq: int, sids: Sequence[int], form: Form, space: MarkedSpace) -> None:
        """Subscriptions are new."""
        params = self._registry.params
        batch.writes.history += [
            (sid, seq, 0, "created", params(sid), None, encode(space.mark(sid))) for sid in sids
        ]
        if space.looks_back:
            self._marked.update(dict.fromkeys(sids, seq))
            self._undo.add(self._unmark, sids)
        self.relabelled(batch, seq, set(sids), form, space)

    def relabelled(self, batch: Batch, seq: int, known: Set[int], form: Form, space: MarkedSpace) -> None:
        """Subscriptions that were moved to make room have another place from here on in the order."""
        for sid in space.relabelled():
            if sid in known:
                continue
            bound = space.locate(sid)
            batch.frames.append(Moved(sid, bound, form.state(cast(Space, space), bound)))
            self._again(batch, seq, sid, space)

    def renew(self, batch: Batch, seq: int, space_of: Callable[[int], Space]) -> None:
        """Write the oldest marks anew, so that no replay looks back far for the last notification."""
        latest = seq - max(self.seqs, 4 * len(self._marked))
        for _ in range(MARKS_PER_BATCH):
            sid, marked = next(iter(self._marked.items()), (0, seq))
            if marked >= latest:
                return
            self._again(batch, seq, sid, cast(MarkedSpace, space_of(sid)))

    def _count(self) -> None:
        self._undo.keep_attribute(self, "moves")
        self.moves += 1

    def _again(self, batch: Batch, seq: int, sid: int, space: MarkedSpace) -> None:
        self._count()
        entry = (sid, seq, self.moves, "marked", self._registry.params(sid), None)
        batch.writes.history.append((*entry, encode(space.mark(sid))))
        self.forget(sid)
        self._marked[sid] = seq

    def forget(self, sid: int) -> None:
        """A subscription is gone, or marked anew."""
        self._undo.add(self._remark, sid, self._marked.pop(sid, None))

    def _unmark(self, sids: Sequence[int]) -> None:
        for sid in sids:
            self._marked.pop(sid, None)

    def _remark(self, sid: int, seq: int | None) -> None:
        """The mark before the last one counts again: no newer than the oldest, so that it is renewed no later."""
        self._marked.pop(sid, None)
        if seq is not None:
            self._marked[sid] = min(seq, next(iter(self._marked.values()), seq))
            self._marked.move_to_end(sid, last=False)

    # -- recovery ------------------------------------------------------------------------------------------------
    def expect(self, space: Space, sids: Sequence[int], bounds: Sequence[Bound]) -> None:
        """Stored subscriptions of a space that gives places: they wait for their marks."""
        _, all_sids, all_bounds = self._unmarked.setdefault(space.network.id, (space, [], []))
        all_sids += sids
        all_bounds += bounds

    def restore(self, marks: Mapping[int, tuple[int, PlaceMark]]) -> None:
        """All subscriptions are known: those that wait return to their places.

        Each mark comes with the seq from which on it was brought up to date.
        """
        for space, sids, bounds in self._unmarked.values():
            marked = cast(MarkedSpace, space)
            marked.restore(sids, bounds, [marks[sid][1] for sid in sids])
            if marked.looks_back:
                self._marked.update((sid, marks[sid][0]) for sid in sids)
        self._marked = OrderedDict(sorted(self._marked.items(), key=lambda item: item[1]))
        self._unmarked = {}
