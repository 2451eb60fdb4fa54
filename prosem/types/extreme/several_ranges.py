"""Range MIN and MAX with ranges on two or more columns.

The regions of one range generalise to unions of boxes of (lo₁, hi₁, lo₂, hi₂, …), cut out by the points of a k-d tree
(`extreme_boxes`). Usually they are few enough to travel as they are. Beyond the configured number of boxes the rest is
enumerated: the subscriptions in the unresolved boxes are answered one by one from the tree, and addressed. The subscriber
sees no difference; the event costs O(√N) for each of those subscriptions. A group of a few subscriptions is always answered
that way: describing regions for them would be the dearer plan. It loses on events that expose many rows to many
subscriptions at once: there a scan of arrays would do better.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from cn.model.geometry import Box, Region
from prosem.index.boxes.kd_tree import MinKdTree
from prosem.types.base import Draft, Rows, SpaceContext
from prosem.types.extreme.boxes import settle, step
from prosem.types.extreme.rule import Piece
from prosem.types.shared.ranges import Codes, around
from prosem.types.shared.rewound import RowLookingSpace
from prosem.values.model import Delta, Key
from prosem.values.wire import encode

FEW = 64  # subscriptions up to which answering one by one is cheaper than describing regions
SMALL_GROUP = 5_000  # subscriptions up to which it is worth asking how many see a row
_Spot = tuple[Codes, Any]  # coordinates, y


class NewExtreme(NamedTuple):
    """Regions that travel, and single subscriptions with the key of the row that is their extreme now."""

    pieces: list[tuple[bytes, Piece]]
    single: list[tuple[int, Key | None]]


class BoxesSpace(RowLookingSpace):
    """One k-d tree for each combination of equality values."""

    def __init__(self, form: Any, space_id: int, surroundings: SpaceContext) -> None:
        super().__init__(form.shape, space_id)
        rows = surroundings.rows[0]
        self._form, self._place, self._locate = form, form.placer(), surroundings.locate
        self._rows: Rows = rows
        self._max_boxes = surroundings.max_boxes
        self._dimensions = len(form.shape.ranged)
        self._trees: dict[bytes, MinKdTree] = {}
        entries: dict[bytes, list[tuple[Codes, Any, Any]]] = {}
        for key, row in rows.items():
            placed = self._place(row)
            if placed is not None:
                entries.setdefault(placed[0], []).append((placed[1], placed[2], key))
        for topic, some in entries.items():
            self._tree(topic).build(some)

    @property
    def visits(self) -> int:
        return self.points.visits + sum(tree.visits for tree in list(self._trees.values()))

    def _tree(self, topic: bytes) -> MinKdTree:
        tree = self._trees.get(topic)
        if tree is None:
            tree = self._trees[topic] = MinKdTree(self._dimensions)
        return tree

    def lowest(self, topic: bytes, place: Codes) -> Key | None:
        tree = self._trees.get(topic)
        found = None if tree is None else tree.lowest(self._form.shape.data_box(place))
        return None if found is None else cast(Key, found[2])

    def step(self, delta: Delta) -> NewExtreme | None:
        old, new = self._place(delta.old), self._place(delta.new)
        if old == new:
            return None
        told = NewExtreme([], [])
        if old is not None and new is not None and old[0] == new[0]:
            self._step(old[0], old[1:], new[1:], delta.key, told)
        else:
            if old is not None:
                self._step(old[0], old[1:], None, delta.key, told)
            if new is not None:
                self._step(new[0], None, new[1:], delta.key, told)
        return told if told.pieces or told.single else None

    def _step(self, topic: bytes, old: _Spot | None, new: _Spot | None, key: Key, told: NewExtreme) -> None:
        tree = self._tree(topic)
        candidates = self._few(topic, old, new)
        if candidates is None:
            found, unresolved = step(tree, old, new, key, self._max_boxes)
            told.pieces.extend((topic, piece) for piece in found)
            candidates = self._inside(topic, unresolved)
        else:
            if old is not None:
                tree.remove(*old, key)
            if new is not None:
                tree.add(*new, key)
        for sid in candidates:
            place = self._locate(sid).place
            assert place is not None
            piece = settle(tree, old, new, key, place)
            if piece is not None:
                told.single.append((sid, cast("Key | None", piece.ref)))
        if not len(tree):
            del self._trees[topic]

    def _few(self, topic: bytes, old: _Spot | None, new: _Spot | None) -> list[int] | None:
        """The subscriptions that see the row at all, if they are few in a group that is not large."""
        if len(self.points) > SMALL_GROUP:
            return None
        found = self._inside(topic, [around(spot[0]) for spot in (old, new) if spot is not None])
        return found if len(found) <= FEW else None

    def _inside(self, topic: bytes, boxes: list[Box]) -> list[int]:
        return sorted({sid for box in boxes for sid in self.points.find(topic, (box,)).tolist()})

    def regions(self, description: NewExtreme) -> list[tuple[bytes, Region]]:
        return [(topic, piece.region) for topic, piece in description.pieces]

    def affected(self, description: NewExtreme) -> int:
        return super().affected(description) + len(description.single)

    def drafts(self, description: NewExtreme) -> list[Draft]:
        drafts = [
            Draft("change", topic, p.region, payload=self._payload(p.ref)) for topic, p in description.pieces
        ]
        return drafts + [
            Draft("change", targets=(sid,), payload=self._payload(key)) for sid, key in description.single
        ]

    def _payload(self, key: Any) -> bytes:
        return encode(self._form.result(None if key is None else self._rows[key]))
