"""The circular tree over labels where subscriptions may be notified before they must."""

from __future__ import annotations

from typing import cast

from prosem.index.radii.ba_tree_ends import MayMust, Value
from prosem.index.radii.bw_tree import BWTree


class LooseBWTree(BWTree):
    """Classes of one pair (may, must). [ProSem thesis] 4.6.1.

    When one must be notified, all that may be are: they become one class, and the circle is kept, because a value
    that some must receive lies beyond all centres (lemma 1 of `must`). When none must be notified, part of the circle
    cannot be notified as filler, since those notified would jump over others; but all together can (`may_all`).

    >>> tree = LooseBWTree(MayMust(), (2, 6))
    >>> a, b, c = (tree.add(value)[0] for value in (10, 12, 15))
    >>> tree.may_all(20), tree.may_all(13), tree.event(16) == tuple(sorted([(a, b)])), tree.centre(b), tree.centre(c)
    (True, False, True, 16, 15)
    """

    __slots__ = ()

    def _fired(self, d: Value) -> tuple[int, int]:
        first, fired = super()._fired(d)
        if not fired:
            return first, 0
        count, rising = len(self.starts), d > self.centres[first]
        step = 1 if rising else -1
        at = first + fired if rising else first - 1
        while fired < count and self._may(at, d):
            at, fired = at + step, fired + 1
        return first if rising else (self.boundary - fired) % count, fired

    def _may(self, at: int, d: Value) -> bool:
        return cast(MayMust, self.ends).may(self.centres[at % len(self.starts)], self.radius, d)

    def may_all(self, d: Value) -> bool:
        """Whether all may be notified of `d`: the nearest below and the nearest above may. O(log N)."""
        below = self._below(d)
        return (not below or self._may(self.boundary + below - 1, d)) and (
            below == len(self.starts) or self._may(self.boundary + below, d)
        )
