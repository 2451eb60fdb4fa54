"""The picture of an event in a group of range minima or maxima: rows, maximum affected range, regions, points.

It shows the rows as points (x, y), the subscriptions as points (lo, hi), and the event as regions of that space, each with
the new extreme of all subscriptions in it ([ProSem thesis] 3.1–3.2). They are those the event would be
reformulated into. Nothing is applied: the tree loses the row, is asked, and gets it back.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from cn.model.geometry import Interval
from prosem.index.ranges.a2b_tree import A2BTree
from prosem.types.base import SID_MASK, Scene
from prosem.types.extreme.rule import Piece, pieces
from prosem.types.shared.words import end_value, equal_values
from prosem.values.columns import ColumnType
from prosem.values.model import JsonObject, Key, Row

if TYPE_CHECKING:
    from prosem.types.extreme.form import ExtremeForm, ExtremeSpace

MOST_SHOWN = 1_500  # rows, and points
MOST_SEEN = 20_000  # that are looked at to find those to show

Placed = tuple[bytes, tuple[Any, ...], Any]


def picture(form: ExtremeForm, space: ExtremeSpace, scene: Scene) -> JsonObject:
    """One panel for each combination of equality values that the event concerns (at most two)."""
    table, place = form.tables[0], form.placer()
    old, new = place(scene.old), place(scene.new)
    topics = list(dict.fromkeys(placed[0] for placed in (old, new) if placed is not None))
    x, y = table.columns[form.shape.ranged[0]], table.columns[form.y]
    drawing = _Drawing(form, space, scene)
    return {
        "x": {"name": x.name, "type": x.type.name},
        "y": {"name": y.name, "type": y.type.name},
        "key": table.key_object(scene.key),
        "panels": [
            drawing.panel(topic, *(p if p and p[0] == topic else None for p in (old, new)))
            for topic in topics
        ],
    }


class _Drawing:
    def __init__(self, form: ExtremeForm, space: ExtremeSpace, scene: Scene) -> None:
        self._form, self._space, self._scene = form, space, scene
        self._place = form.placer()
        self._x: ColumnType = form.tables[0].columns[form.shape.ranged[0]].type

    def panel(self, topic: bytes, old: Placed | None, new: Placed | None) -> JsonObject:
        tree = self._space.tree(topic) or A2BTree()
        key = self._scene.key
        was = None if old is None else (old[1][0], old[2])
        becomes = None if new is None else (new[1][0], new[2], key)
        if was is not None:
            tree.remove(*was, key)
        try:
            found = pieces(tree, was, becomes)
            mars = [None if point is None else tree.mar(*point[:2]) for point in (was, becomes)]
        finally:
            if was is not None:
                tree.add(*was, key)
        form = self._form
        return {
            "equal": equal_values(form.tables[0], form.shape.equal, topic),
            "before": None if old is None else self._xy(self._scene.old),
            "after": None if new is None else self._xy(self._scene.new),
            "mar_before": self._ends(mars[0]),
            "mar_after": self._ends(mars[1]),
            "rows": self._some_rows(topic),
            "rows_in_all": len(tree),
            "pieces": [self._piece(topic, piece) for piece in found],
            **self._points(topic, found),
        }

    def _xy(self, row: Row | None) -> list[Any]:
        assert row is not None
        return [row[self._form.shape.ranged[0]], row[self._form.y]]

    def _ends(self, mar: tuple[Any, Any] | None) -> list[Any] | None:
        return None if mar is None else [end_value(self._x, code) for code in mar]

    def _some_rows(self, topic: bytes) -> list[list[Any]]:
        found: list[list[Any]] = []
        for key, row in islice(self._scene.rows.items(), MOST_SEEN):
            placed = self._place(row)
            if placed is not None and placed[0] == topic and len(found) < MOST_SHOWN:
                found.append([*self._xy(row), list(key)])
        return found

    def _piece(self, topic: bytes, piece: Piece) -> JsonObject:
        row = None
        if piece.ref is not None:
            key = cast(Key, piece.ref)
            row = self._scene.new if key == self._scene.key else self._scene.rows[key]
        return {
            "value": None if row is None else row[self._form.y],
            "row": None if row is None else ", ".join(map(str, cast(Key, piece.ref))),
            "boxes": [{"lo": self._side(box[0]), "hi": self._side(box[1])} for box in piece.region],
            "affected": self._space.points.count(topic, piece.region),
        }

    def _side(self, side: Interval) -> JsonObject:
        return {
            "from": end_value(self._x, side.low),
            "to": end_value(self._x, side.high),
            "from_open": side.low_open,
            "to_open": side.high_open,
        }

    def _points(self, topic: bytes, found: list[Piece]) -> JsonObject:
        """Some points, each with the number of its piece (None: the event does not affect it), affected ones first."""
        ids: dict[int, int | None] = {}
        for number, piece in enumerate(found):
            for id in self._space.points.find(topic, piece.region)[: MOST_SHOWN - len(ids)].tolist():
                ids[id] = number
        places = {}
        in_all = 0
        for id, where, place in islice(self._space.points.items(), MOST_SEEN):
            in_all += where == topic
            if where == topic and (id in ids or len(ids) < MOST_SHOWN):
                ids.setdefault(id, None)
                places[id] = place
        points = [
            [*(end_value(self._x, code) for code in place), self._scene.id_of(id & SID_MASK), ids[id]]
            for id, place in places.items()
        ]
        return {"points": points, "points_in_all": max(in_all, len(points))}
