"""The server's side of filters: all of them in one index, and two plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from cn.match.block import Ids
from cn.match.kernels import box_index
from cn.model.network import Space as NetworkSpace
from optimizer.plan import Descriptor
from prosem.types.base import Bound, Draft, SteppedSpace, Storage
from prosem.types.filter.message import Vector, draft_with, vectors_of
from prosem.values.model import Delta, Table
from prosem.values.wire import is_same


class Matched(NamedTuple):
    """An event with its row's attribute vectors, and the subscriptions whose filters hold one of them."""

    delta: Delta
    vectors: tuple[Vector | None, Vector | None]
    sids: Ids


class FilterSpace(SteppedSpace):
    """`match` sends the row's attributes, and the network finds the filters; `enumerate` names the subscriptions.

    An event that no filter holds makes no message. The index is searched once for the rows before and after an event
    together. `enumerate` wins while few are affected: no broker searches again. `match` wins where names would be longer
    than attributes.
    """

    plans: ClassVar[tuple[str, ...]] = ("match", "enumerate")
    storage: ClassVar[Mapping[str, Storage]] = {"row": Storage.EVENT}

    def __init__(self, table: Table, space_id: int) -> None:
        self._table = table
        self.filters = box_index()
        self._conditions: Counter[int] = Counter()  # columns → conjunctions with a condition on them
        self.network = NetworkSpace(space_id, 0, False)

    @property
    def visits(self) -> int:
        return self.filters.visits

    def add(self, sids: Sequence[int], bounds: Sequence[Bound]) -> None:
        placed = [
            (sid, bound.place) for sid, bound in zip(sids, bounds, strict=True) if bound.place is not None
        ]
        self.filters.insert_many([sid for sid, _ in placed], [place for _, place in placed])
        for bound in bounds:
            self._conditions.update(_columns(bound))

    def remove(self, sid: int, bound: Bound) -> None:
        if bound.place is None:
            return
        self.filters.remove(sid)
        for at in _columns(bound):
            self._conditions[at] -= 1
            if not self._conditions[at]:
                del self._conditions[at]

    def step(self, delta: Delta) -> Matched | None:
        return self.step_all([delta])[0]

    def step_all(self, deltas: Sequence[Delta]) -> list[Matched | None]:
        """Messages follow from rows and conditions: all rows of a request are matched in one call."""
        found: list[Matched | None] = [None] * len(deltas)
        if not len(self.filters):
            return found
        changed = [at for at, delta in enumerate(deltas) if not is_same(delta.old, delta.new)]
        vectors = [
            vectors_of(self._table, deltas[at].old, deltas[at].new, self._conditions.keys()) for at in changed
        ]
        groups = [[one for one in dict.fromkeys(some) if one is not None] for some in vectors]
        for at, some, sids in zip(changed, vectors, self.filters.match_each(groups), strict=True):
            if len(sids):
                found[at] = Matched(deltas[at], some, sids)
        return found

    def messages(self, description: Matched, plan: str) -> list[Draft]:
        delta, vectors, sids = description
        draft = draft_with(vectors, self._table, delta.old, delta.new, self._conditions.keys())
        return [draft._replace(targets=tuple(sids.tolist())) if plan == "enumerate" else draft]

    # -- for the optimizer ---------------------------------------------------------------------------------------
    def descriptor(self, description: Matched) -> Descriptor:
        """One message and box; how many filters there are, how many of them hold the row."""
        return 1, 1, len(self.filters).bit_length(), len(description.sids).bit_length()

    def expected(self, description: Matched) -> float:
        return len(description.sids)

    def affected(self, description: Matched) -> int:
        return len(description.sids)

    def check(self) -> None:
        """Assert the invariants of the index."""
        self.filters.check()


def _columns(bound: Bound) -> list[int]:
    return [at for conjunction in bound.place or () for at in conjunction]
