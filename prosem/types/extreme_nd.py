"""Range MIN and MAX with ranges on two or more columns.

The regions of one range generalise to unions of boxes of (lo₁, hi₁, lo₂, hi₂, …), found by cutting with the points of a
k-d tree (`extreme_boxes`). Usually they are few and travel as they are. Beyond `MAX_BOXES` boxes the rest is enumerated:
the subscriptions in the unresolved boxes are answered one by one from the tree and addressed. The subscriber sees no difference;
the event costs more: O(s √N) for s subscriptions in those boxes. It loses on events that expose many rows at once
in groups with many subscriptions: there a scan of arrays would do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import msgspec

from cn.geometry import Box
from prosem.index.kd_tree import MinKdTree
from prosem.model import Delta, Key
from prosem.types.base import Bound, Draft, Rows
from prosem.types.extreme_boxes import MAX_BOXES, step
from prosem.types.extreme_rule import Piece
from prosem.types.point_space import PointSpace
from prosem.types.ranges import Codes

_encode = msgspec.json.encode
_Spot = tuple[Codes, Any]  # coordinates, y


class Told(NamedTuple):
    """Regions that travel, and single subscriptions with the key of the row that is their extreme now."""

    pieces: list[tuple[bytes, Piece]]
    single: list[tuple[int, Key | None]]


class BoxesSpace(PointSpace):
    """One k-d tree for each combination of equality values."""

    def __init__(self, form: Any, space_id: int, rows: Rows, locate: Callable[[int], Bound]) -> None:
        super().__init__(form.shape, space_id)
        self._form, self._rows, self._place, self._locate = form, rows, form.placer(), locate
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

    def step(self, delta: Delta) -> Told | None:
        old, new = self._place(delta.old), self._place(delta.new)
        if old == new:
            return None
        told = Told([], [])
        if old is not None and new is not None and old[0] == new[0]:
            self._step(old[0], old[1:], new[1:], delta.key, told)
        else:
            if old is not None:
                self._step(old[0], old[1:], None, delta.key, told)
            if new is not None:
                self._step(new[0], None, new[1:], delta.key, told)
        return told if told.pieces or told.single else None

    def _step(self, topic: bytes, old: _Spot | None, new: _Spot | None, key: Key, told: Told) -> None:
        tree = self._tree(topic)
        if len(self.points):
            found, unresolved = step(tree, old, new, key, MAX_BOXES)
            told.pieces.extend((topic, piece) for piece in found)
            if unresolved:
                self._enumerate(tree, topic, unresolved, old, new, key, told)
        else:
            if old is not None:
                tree.remove(*old, key)
            if new is not None:
                tree.add(*new, key)
        if not len(tree):
            del self._trees[topic]

    def _enumerate(
        self,
        tree: MinKdTree,
        topic: bytes,
        boxes: list[Box],
        old: _Spot | None,
        new: _Spot | None,
        key: Key,
        told: Told,
    ) -> None:
        """Compare the extreme before and after for every subscription in the boxes, by the tree without the row."""
        if new is not None:
            tree.remove(*new, key)
        for sid in self.points.find(topic, tuple(boxes)).tolist():
            place = self._locate(sid).place
            assert place is not None
            box = self._form.shape.data_box(place)
            rest = tree.lowest(box)
            before, after = (self._better(rest, spot, box, key) for spot in (old, new))
            if (before and before[0]) != (after and after[0]):
                told.single.append((sid, None if after is None else after[1]))
        if new is not None:
            tree.add(*new, key)

    @staticmethod
    def _better(rest: Any, spot: _Spot | None, box: Any, key: Key) -> tuple[Any, Key] | None:
        """Height and key of the extreme of the other rows and this one, if it lies in the box."""
        found = None if rest is None else (rest[0], rest[2])
        if spot is None or not all(code in side for code, side in zip(spot[0], box, strict=True)):
            return found
        return (spot[1], key) if found is None or spot[1] < found[0] else found

    def drafts(self, description: Told) -> list[Draft]:
        drafts = [
            Draft("change", topic, p.region, payload=self._payload(p.ref)) for topic, p in description.pieces
        ]
        return drafts + [
            Draft("change", targets=(sid,), payload=self._payload(key)) for sid, key in description.single
        ]

    def _payload(self, key: Any) -> bytes:
        return _encode(self._form.result(None if key is None else self._rows[key]))
