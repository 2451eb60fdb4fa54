"""Range MIN and MAX with ranges on two or more columns.

The regions of one range generalise to unions of boxes of (lo₁, hi₁, lo₂, hi₂, …), cut out by the points of a k-d tree
(`extreme_boxes`). Usually they are few enough to travel as they are. Beyond the configured number of boxes the rest is
enumerated: the subscriptions in the unresolved boxes are answered one by one from the tree, and addressed. The subscriber
sees no difference; the event costs O(√N) for each of those subscriptions. A group of a few subscriptions is always answered
that way: describing regions for them would be the dearer plan. It loses on events that expose many rows to many
subscriptions at once: there a scan of arrays would do better.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, cast

from cn.match import kernels
from cn.match.point_index import PointIndex
from cn.model.geometry import Box, Interval, Region
from prosem.index.boxes.kd_tree import MinKdTree
from prosem.index.ranges.a2b_tree import Peak
from prosem.index.ranges.lower_tier import Ref
from prosem.types.base import SID_MASK, Bound, Draft, Rows, SpaceContext
from prosem.types.extreme.boxes import Place, settle, step
from prosem.types.extreme.rule import Piece
from prosem.types.shared.ranges import Codes, around
from prosem.types.shared.rewound import RowLookingSpace
from prosem.values.model import Delta, Key
from prosem.values.narrow_rows import answer_rows
from prosem.values.wire import encode

FEW = 64  # subscriptions up to which answering one by one is cheaper than describing regions
SMALL_GROUP = 5_000  # subscriptions up to which it is worth asking how many see a row
MOST_COMPILED = 8  # ranges that a compiled tree takes
Found = tuple[list[Piece], list[tuple[int, Piece]]]  # pieces with regions; and those of single ids


class BoxTrees:
    """The rows of one minimum over several ranges: a k-d tree for each key (a topic, or a topic and a group).

    `points` and `locate` are those of the space, by which subscriptions are found that must be answered one by one.
    """

    def __init__(
        self,
        dimensions: int,
        max_boxes: int,
        points: PointIndex,
        locate: Callable[[int], Bound],
        int64: bool = False,
    ) -> None:
        """`int64`: whether all coordinates and y are 64-bit codes; then trees are compiled if they can be."""
        self._dimensions, self._max_boxes = dimensions, max_boxes
        self._points, self._locate = points, locate
        self._trees: dict[Hashable, MinKdTree] = {}
        module = kernels.compiled_over(points, int64 and dimensions <= MOST_COMPILED)
        self._is_compiled = module is not None
        self._made: Callable[[int], MinKdTree] = MinKdTree if module is None else module.MinKdTree

    def build(self, entries: Mapping[Hashable, Sequence[tuple[Codes, Any, Ref]]]) -> None:
        """Rows (coordinates, y, reference) by key; O(N log N)."""
        for key, some in entries.items():
            self._trees[key] = self._made(self._dimensions).build(some)

    @property
    def visits(self) -> int:
        return sum(tree.visits for tree in list(self._trees.values()))

    def lowest(self, key: Hashable, box: Box) -> Peak | None:
        """The lowest row in a box, and its reference; O(√N) with two ranges."""
        tree = self._trees.get(key)
        found = None if tree is None else tree.lowest(box)
        return None if found is None else (found[0], found[2])

    def step(self, key: Hashable, topic: bytes, old: Place | None, new: Place | None, ref: Ref) -> Found:
        """Take a row from `old` to `new`: what that means to the subscriptions under the topic."""
        tree = self._trees.get(key)
        if tree is None:
            tree = self._trees[key] = self._made(self._dimensions)
        found = self._step(tree, topic, old, new, ref)
        if not len(tree):
            del self._trees[key]
        return found

    def _step(self, tree: MinKdTree, topic: bytes, old: Place | None, new: Place | None, ref: Ref) -> Found:
        pieces: list[Piece] = []
        candidates = self._few(topic, old, new)
        if candidates is None:
            if self._is_compiled:  # pieces without a subscription are left out there
                place = self._max_boxes, Interval, Piece, self._points, topic
                pieces, unresolved = cast(Any, tree).step(old, new, ref, *place)
            else:
                pieces, unresolved = step(tree, old, new, ref, self._max_boxes)
                pieces = [piece for piece in pieces if self._points.any(topic, piece.region)]
            candidates = self._inside(topic, unresolved)
        else:
            exchange(tree, old, new, ref)
        return pieces, self._settled(candidates, lambda place: settle(tree, old, new, ref, place))

    def _settled(
        self, ids: Sequence[int], settled: Callable[[Codes], Piece | None]
    ) -> list[tuple[int, Piece]]:
        found = []
        for id in ids:
            place = self._locate(id & SID_MASK).place
            assert place is not None
            piece = settled(place)
            if piece is not None:
                found.append((id, piece))
        return found

    def _few(self, topic: bytes, old: Place | None, new: Place | None) -> list[int] | None:
        """The subscriptions that see the row at all, if they are few in a group that is not large."""
        if len(self._points) > SMALL_GROUP:
            return None
        found = self._seeing(topic, old, new)
        return found if len(found) <= FEW else None

    def _seeing(self, topic: bytes, old: Place | None, new: Place | None) -> list[int]:
        return self._inside(topic, [around(spot[0]) for spot in (old, new) if spot is not None])

    def _inside(self, topic: bytes, boxes: Sequence[Box]) -> list[int]:
        return sorted({id for box in boxes for id in self._points.find(topic, (box,)).tolist()})


def exchange(tree: MinKdTree, old: Place | None, new: Place | None, ref: Ref) -> None:
    """Take a tuple from `old` to `new`."""
    if old is not None:
        tree.remove(*old, ref)
    if new is not None:
        tree.add(*new, ref)


class NewExtreme(NamedTuple):
    """Regions that travel, and single subscriptions (topic, id) with the key of the row that is their extreme now."""

    pieces: list[tuple[bytes, Piece]]
    single: list[tuple[bytes, int, Key | None]]


class BoxesSpace(RowLookingSpace):
    """One k-d tree for each combination of equality values."""

    kind: ClassVar[str] = "change"  # of its messages
    trees: ClassVar[type[BoxTrees]] = BoxTrees
    is_tracked: ClassVar[bool] = False  # see `tracked`

    def __init__(self, form: Any, space_id: int, context: SpaceContext) -> None:
        super().__init__(form.shape, space_id)
        rows = context.rows[0]
        self._form, self._place = form, form.placer()
        self.reads = None if self.is_tracked else form.shape.reads(form.y)
        self._rows: Rows = rows
        int64 = form.shape.int64 and form.height_is_int64
        self._trees = self.trees(
            len(form.shape.ranged), context.max_boxes, self.points, context.locate, int64
        )
        entries: dict[Hashable, list[tuple[Codes, Any, Any]]] = {}
        for key, row in rows.items():
            placed = self._place(row)
            if placed is not None:
                entries.setdefault(placed[0], []).append((placed[1], placed[2], key))
        self._trees.build(entries)

    @property
    def visits(self) -> int:
        return self.points.visits + self._trees.visits

    def lowest(self, topic: bytes, place: Codes) -> Key | None:
        found = self._trees.lowest(topic, self._form.shape.data_box(place))
        return None if found is None else cast(Key, found[1])

    def step(self, delta: Delta) -> NewExtreme | None:
        old, new = self._place(delta.old), self._place(delta.new)
        return None if old == new else self._stepped(delta.key, old, new)

    def _stepped(self, key: Key, old: Any, new: Any) -> NewExtreme | None:
        found = NewExtreme([], [])
        if old is not None and new is not None and old[0] == new[0]:
            self._step(old[0], old[1:], new[1:], key, found)
        else:
            if old is not None:
                self._step(old[0], old[1:], None, key, found)
            if new is not None:
                self._step(new[0], None, new[1:], key, found)
        return found if found.pieces or found.single else None

    def _step(self, topic: bytes, old: Place | None, new: Place | None, key: Key, found: NewExtreme) -> None:
        pieces, single = self._trees.step(topic, topic, old, new, key)
        found.pieces.extend([(topic, piece) for piece in pieces])
        found.single.extend([(topic, id, cast("Key | None", piece.ref)) for id, piece in single])

    def regions(self, description: NewExtreme) -> list[tuple[bytes, Region]]:
        return [(topic, piece.region) for topic, piece in description.pieces]

    def affected(self, description: NewExtreme) -> int:
        return super().affected(description) + len(description.single)

    def drafts(self, description: NewExtreme) -> list[Draft]:
        kind, pieces, single = self.kind, description.pieces, description.single
        refs = [cast("Key | None", piece.ref) for _, piece in pieces] + [key for _, _, key in single]
        rows = answer_rows(self._rows, [key for key in refs if key is not None])
        drafts = [
            Draft(kind, topic, p.region, payload=self._payload(rows, cast("Key | None", p.ref)))
            for topic, p in pieces
        ]
        return drafts + [
            Draft(kind, topic, targets=(id,), payload=self._payload(rows, key)) for topic, id, key in single
        ]

    def _payload(self, rows: Rows, key: Key | None) -> bytes:
        return encode(self._form.result(None if key is None else rows[key]))
