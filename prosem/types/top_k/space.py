"""The server's side of a top-k: which subscriptions an event affects, and the rows they need.

The rule looks at the table without the event's row. `A` are the ranges that had it among their first k, `B` those that have
it now, each a staircase of the (lo, hi) space. To `B` goes `put` with the row. To `A` without `B` goes `take` with the
candidates, by rank: the row that comes in for a range is the first one inside it that the edge does not hold.
See docs/explanation.md.

An event costs O(k log N) whatever the number of subscriptions. Random rows have about 2k ln(N/k) candidates; beyond
`MOST_CANDIDATES` the subscriptions of `A` without `B` are looked up, and each is sent its own row. It loses where k is large
and few subscriptions are affected: then enumeration is the cheaper plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, cast

from cn.model.geometry import Region
from prosem.index.ranges.rank_tree import Ranked, RankTree
from prosem.types.base import SID_MASK, Draft, Rows, SpaceContext, Storage
from prosem.types.shared.ranges import Codes
from prosem.types.shared.rewound import RowLookingSpace
from prosem.types.top_k.members import Members, members, nth_inside
from prosem.types.top_k.shape import Entry, Placed, TopKShape
from prosem.types.top_k.staircase import Staircase, hull, without
from prosem.types.top_k.state import write_put, write_take
from prosem.values.equality import are_equal
from prosem.values.model import Delta, Key, Row

MOST_CANDIDATES = 100  # in one message
MOST_BOXES = 16  # of one region; a staircase with more steps travels as a superset, which edges see through
FEW = 4  # subscriptions up to which the row of each is looked up on its own
ASKED = 8  # boxes that are searched for a point one by one


class Part(NamedTuple):
    """The points of one staircase that are not in the other (None: all of them), and a region around them.

    `is_exact`: the region holds no others. `found`: the points themselves, if they had to be looked up.
    """

    topic: bytes
    stairs: Staircase
    other: Staircase | None
    region: Region
    is_exact: bool
    found: Members | None = None


class Reranked(NamedTuple):
    """One event: where its row was and is, and the parts that are sent `take` and `put`."""

    key: Key
    row: Row | None
    old: Placed | None
    new: Placed | None
    take: Part | None
    put: Part | None


class TopKSpace(RowLookingSpace):
    """One rank tree for each combination of equality values, and the points of one group."""

    storage: ClassVar[Mapping[str, Storage]] = dict.fromkeys(("put", "take"), Storage.SENT_ONLY)

    def __init__(self, shape: TopKShape, space_id: int, context: SpaceContext) -> None:
        super().__init__(shape.ranges, space_id)
        self.reads = shape.reads
        self._shape, self._place, self._count = shape, shape.placer, shape.count
        self._max_boxes = min(MOST_BOXES, context.max_boxes)
        self._rows: Rows = context.rows[0]
        self._trees: dict[bytes, RankTree] = {}
        entries: dict[bytes, list[tuple[Any, bytes, Key]]] = {}
        for key, row in self._rows.items():
            placed = self._place(row)
            if placed is not None:
                entries.setdefault(placed[0], []).append((placed[1], placed[2], key))
        for topic, some in entries.items():
            self._tree(topic).build(some)

    @property
    def visits(self) -> int:
        return self.points.visits + sum(tree.visits for tree in list(self._trees.values()))

    def _tree(self, topic: bytes) -> RankTree:
        tree = self._trees.get(topic)
        if tree is None:
            tree = self._trees[topic] = RankTree()
        return tree

    def first(self, topic: bytes, place: Codes) -> tuple[Entry, ...]:
        """The first k rows of a range; O(k log N)."""
        tree = self._trees.get(topic)
        if tree is None:
            return ()
        (interval,) = self._shape.ranges.data_box(place)
        rows, values = self._rows, self._shape.values
        found = tree.first(interval.low, interval.high, self._count)
        return tuple([(rank, values(rows[key])) for rank, _, key in found])

    # -- events ----------------------------------------------------------------------------------------------------
    def step(self, delta: Delta) -> Reranked | None:
        old, new = self._place(delta.old), self._place(delta.new)
        if old is None and new is None:
            return None
        has_changed = old is None or new is None or old[2] != new[2] or not self._is_same(delta)
        if old == new and not has_changed:
            return None
        if old is not None and old != new:
            self._remove(old)
        was, now = self._staircases(old, new)
        if new is not None and old != new:
            self._tree(new[0]).add(new[1], new[2], delta.key)
        take, put = self._parts(old, new, was, now, has_changed)
        return Reranked(delta.key, delta.new, old, new, take, put) if take or put else None

    def _is_same(self, delta: Delta) -> bool:
        """Whether the selected columns stay; the rank is made of some of them."""
        values = self._shape.values
        return are_equal(values(cast(Row, delta.old)), values(cast(Row, delta.new)))

    def _remove(self, placed: Placed) -> None:
        tree = self._trees[placed[0]]
        tree.remove(placed[1], placed[2])
        if not len(tree):
            del self._trees[placed[0]]

    def _staircases(
        self, old: Placed | None, new: Placed | None
    ) -> tuple[Staircase | None, Staircase | None]:
        """Those around both places, by the trees without the row; None where no point is in the box around one.

        Where x stays, the staircase of the higher rank lies within that of the lower one.
        """
        if old == new:
            now = self._staircase(new)
            return now, now
        if old is not None and new is not None and old[:2] == new[:2]:
            outer, inner = (old, new) if old[2] < new[2] else (new, old)
            wide = self._staircase(outer)
            narrow = None if wide is None else self._staircase(inner)
            return (wide, narrow) if outer is old else (narrow, wide)
        return self._staircase(old), self._staircase(new)

    def _staircase(self, placed: Placed | None) -> Staircase | None:
        if placed is None or not self.points.population(placed[0]):
            return None
        topic, x, rank = placed
        tree, count = self._trees.get(topic), self._count
        if tree is None:
            stairs = Staircase(x, [], [], count)
            return stairs if self.points.any(topic, (stairs.hull,)) else None
        left, right = tree.lower(x, rank, count)
        if not self.points.any(topic, (hull(x, left.end, right.end),)):
            return None
        return Staircase(x, left.xs(), right.xs(), count)

    def _parts(
        self,
        old: Placed | None,
        new: Placed | None,
        was: Staircase | None,
        now: Staircase | None,
        has_changed: bool,
    ) -> tuple[Part | None, Part | None]:
        """The parts that are sent `take` and `put`; None where they hold no point, as far as that is seen cheaply.

        A row whose selected columns stayed is sent only where it comes in, unless some that had it may lose it by a region
        that is too wide.
        """
        take = put = None
        is_one_topic = old is not None and new is not None and old[0] == new[0]
        if was is not None and old is not None and old != new:
            take = self._part(old[0], was, now if is_one_topic else None)
        if now is not None and new is not None:
            is_kept = is_one_topic and not has_changed and (take is None or take.is_exact)
            put = self._part(new[0], now, was if is_kept else None)
        return take, put

    def _part(self, topic: bytes, stairs: Staircase, other: Staircase | None) -> Part | None:
        limit = self._max_boxes
        is_exact = self._count <= limit
        if other is None:
            return Part(topic, stairs, None, stairs.region(limit), is_exact)
        region = without(stairs, other) if is_exact else stairs.region(limit)
        if is_exact and len(region) <= ASKED:
            return Part(topic, stairs, other, region, True) if self.points.any(topic, region) else None
        found = members(self.points, topic, stairs, other)
        return Part(topic, stairs, other, region, is_exact, found) if found.ids else None

    # -- messages --------------------------------------------------------------------------------------------------
    def regions(self, description: Reranked) -> list[tuple[bytes, Region]]:
        parts = (description.take, description.put)
        return [(part.topic, part.region) for part in parts if part is not None]

    def affected(self, description: Reranked) -> int:
        parts = (description.take, description.put)
        found = [self._members(part).ids for part in parts if part is not None]
        return len({id & SID_MASK for some in found for id in some})

    def _members(self, part: Part) -> Members:
        return part.found or members(self.points, part.topic, part.stairs, part.other)

    def messages(self, description: Reranked, plan: str) -> list[Draft]:
        if plan == "reformulate":
            return self.drafts(description)
        drafts = self._addressed_take(description)
        put = description.put
        if put is not None:
            targets = _targets(self._members(put).ids)
            if targets:
                drafts.append(self._put(description, put, (), targets))
        return drafts

    def drafts(self, description: Reranked) -> list[Draft]:
        """`take` stands before `put`: a row that is in both was taken from its old place first."""
        drafts = []
        if description.take is not None:
            drafts = self._take(description, description.take)
        if description.put is not None:
            drafts.append(self._put(description, description.put, description.put.region, None))
        return drafts

    def _put(
        self, description: Reranked, part: Part, region: Region, targets: tuple[int, ...] | None
    ) -> Draft:
        old, row = description.old, cast(Row, description.row)
        before = old[2] if old is not None and old[0] == part.topic else None
        return Draft("put", part.topic, region, targets, None, write_put(before, self._shape.values(row)))

    def _take(self, description: Reranked, part: Part) -> list[Draft]:
        """One message with all candidates, or, where there are too many, each subscription's own."""
        found = self._candidates(description, part, MOST_CANDIDATES)
        if found is None:
            return self._addressed_take(description)
        return [Draft("take", part.topic, part.region, payload=self._taken(description, found))]

    def _candidates(self, description: Reranked, part: Part, limit: int) -> list[Ranked] | None:
        """The candidates in the box around the staircase; None if there are more than `limit`."""
        tree = self._trees.get(part.topic)
        if tree is None:
            return []
        old, new = cast(Placed, description.old), description.new
        but = new[2] if new is not None and new[0] == part.topic else None
        lo, hi = part.stairs.hull
        return tree.candidates(old[1], old[2], self._count, lo.low, hi.high, limit, but)

    def _taken(self, description: Reranked, found: Sequence[Ranked]) -> bytes:
        rows, values = self._rows, self._shape.values
        return write_take(cast(Placed, description.old)[2], [(x, values(rows[key])) for _, x, key in found])

    def _addressed_take(self, description: Reranked) -> list[Draft]:
        """Each subscription's own row; those that get the same one share a message."""
        part = description.take
        if part is None:
            return []
        found = self._members(part)
        next_rows: dict[Ranked | None, list[int]] = {}
        for id, row in zip(found.ids, self._following(description, part, found), strict=True):
            next_rows.setdefault(row, []).append(id)
        return [
            Draft(
                "take",
                part.topic,
                targets=_targets(ids),
                payload=self._taken(description, [] if row is None else [row]),
            )
            for row, ids in next_rows.items()
        ]

    def _following(self, description: Reranked, part: Part, found: Members) -> list[Ranked | None]:
        """For each subscription the row that comes in: its k-th without the event's row; None if it has fewer."""
        tree, count = self._trees.get(part.topic), self._count
        if tree is None or not found.ids:
            return [None] * len(found.ids)
        new = description.new
        if len(found.ids) <= FEW:
            rows = []
            for low, high in zip(found.lows, found.highs, strict=True):
                (interval,) = self._shape.ranges.data_box((low, high))
                first = tree.first(interval.low, interval.high, count + 1)
                some = [one for one in first if new is None or one[0] != new[2]]
                rows.append(some[count - 1] if len(some) >= count else None)
            return rows
        candidates = self._candidates(description, part, len(tree)) or []
        places = nth_inside([x for _, x, _ in candidates], found, count)
        return [None if place is None else candidates[place] for place in places]


def _targets(ids: Sequence[int]) -> tuple[int, ...]:
    """The subscriptions of points, each once."""
    return tuple(sorted({id & SID_MASK for id in ids}))
