"""The picture of an event in a group of range minima or maxima: rows, maximum affected range, regions, points.

It shows what [ProSem thesis] 3.1–3.2 draws: the rows as points (x, y), the subscriptions as points (lo, hi), and the event
as regions of that space, each with the new extreme of all subscriptions in it. They are those the event would be
reformulated into. Nothing is applied: the tree loses the row, is asked, and gets it back.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, cast

from cn.model.geometry import Interval
from prosem.engine.describe import end_value, equal_values
from prosem.engine.state import EngineState
from prosem.engine.validate import Effect, effect
from prosem.index.ranges.a2b_tree import A2BTree
from prosem.language.parse import parse
from prosem.types.base import Rows
from prosem.types.extreme.form import ExtremeForm, ExtremeSpace
from prosem.types.extreme.rule import Piece, pieces
from prosem.values.columns import ColumnType
from prosem.values.errors import InputError, NotFoundError
from prosem.values.model import DEFAULT_TENANT, Group, JsonObject, Key, Row

MOST_SHOWN = 1_500  # rows, and points
MOST_SEEN = 20_000  # that are looked at to find those to show

Placed = tuple[bytes, tuple[Any, ...], Any]


def picture(state: EngineState, group_name: str, event: Any, tenant: str = DEFAULT_TENANT) -> JsonObject:
    """The picture; one panel for each combination of equality values that the event concerns (at most two)."""
    group, form, space = _range_group(state, group_name, tenant)
    table = form.tables[0]
    found = effect(table, state.rows[table.id], event, "/event", state.table_store.family(table))
    place = form.placer()
    old, new = place(found.old), place(found.new)
    topics = list(dict.fromkeys(placed[0] for placed in (old, new) if placed is not None))
    x, y = table.columns[form.shape.ranged[0]], table.columns[form.y]
    drawing = _Drawing(state, form, space, place, found)
    return {
        "group": group.name,
        "type": group.type,
        "table": table.name,
        "x": {"name": x.name, "type": x.type.name},
        "y": {"name": y.name, "type": y.type.name},
        "key": table.key_object(found.key),
        "panels": [
            drawing.panel(topic, *(p if p and p[0] == topic else None for p in (old, new)))
            for topic in topics
        ],
    }


def _range_group(state: EngineState, name: str, tenant: str) -> tuple[Group, ExtremeForm, ExtremeSpace]:
    group = next((g for g in state.groups.values() if (g.tenant, g.name) == (tenant, name)), None)
    if group is None:
        raise NotFoundError(f"there is no group {name[:100]!r}; GET /v1/groups lists them")
    form = state.group_store.recognise(parse(group.sample_sql), group.sample_notify, tenant)
    if not isinstance(form, ExtremeForm) or len(form.shape.ranged) != 1:
        what = f"{name[:100]} is of type {group.type}"
        raise InputError(
            f"only a MIN or MAX over one range has a picture in two dimensions; {what}", "/group"
        )
    return group, form, cast(ExtremeSpace, state.group_store.space(form, group))


class _Drawing:
    def __init__(
        self,
        state: EngineState,
        form: ExtremeForm,
        space: ExtremeSpace,
        place: Callable[[Row | None], Placed | None],
        effect: Effect,
    ) -> None:
        self._state, self._form, self._space, self._place, self._effect = state, form, space, place, effect
        self._rows: Rows = state.table_store.visible[form.tables[0].id]
        self._x: ColumnType = form.tables[0].columns[form.shape.ranged[0]].type

    def panel(self, topic: bytes, old: Placed | None, new: Placed | None) -> JsonObject:
        tree = self._space.tree(topic) or A2BTree()
        key = self._effect.key
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
            "before": None if old is None else self._xy(self._effect.old),
            "after": None if new is None else self._xy(self._effect.new),
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
        for key, row in islice(self._rows.items(), MOST_SEEN):
            placed = self._place(row)
            if placed is not None and placed[0] == topic and len(found) < MOST_SHOWN:
                found.append([*self._xy(row), list(key)])
        return found

    def _piece(self, topic: bytes, piece: Piece) -> JsonObject:
        row = None
        if piece.ref is not None:
            key = cast(Key, piece.ref)
            row = self._effect.new if key == self._effect.key else self._rows[key]
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
        """Some points, each with the number of its piece (None: the event does not concern it), affected ones first."""
        ids: dict[int, int | None] = {}
        for number, piece in enumerate(found):
            for sid in self._space.points.find(topic, piece.region)[: MOST_SHOWN - len(ids)].tolist():
                ids[sid] = number
        places = {}
        in_all = 0
        for sid, where, place in islice(self._space.points.items(), MOST_SEEN):
            in_all += where == topic
            if where == topic and (sid in ids or len(ids) < MOST_SHOWN):
                ids.setdefault(sid, None)
                places[sid] = place
        points = [
            [*(end_value(self._x, code) for code in place), self._state.registry.id(sid), ids[sid]]
            for sid, place in places.items()
        ]
        return {"points": points, "points_in_all": max(in_all, len(points))}
