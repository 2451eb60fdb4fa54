"""Range MIN and MAX: `SELECT MIN(y) FROM t WHERE x BETWEEN a AND b [AND e = c …]`.

The space is (lo, hi); a message says "your extreme is now this value" to a region of it ([ProSem thesis] 3).
One A2B-tree for each combination of equality values. MAX is MIN over reversed codes. An event costs O((1 + k) log N) for
k messages, whatever the number of subscriptions. Ranges on several columns are in `several_ranges`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from cn.model.geometry import Region
from cn.model.message import Message
from prosem.index.ranges.a2b_tree import A2BTree
from prosem.language.syntax import Query
from prosem.types.base import Bound, Draft, Rows, Scene, Space, SpaceContext, described_columns
from prosem.types.extreme.heights import height
from prosem.types.extreme.picture import picture
from prosem.types.extreme.rule import Piece
from prosem.types.extreme.several_ranges import BoxesSpace
from prosem.types.extreme.trees import (
    CompiledMinima,
    RangeMinima,
    compiled_drafts,
    compiled_minima,
    range_minima,
)
from prosem.types.shared.ranges import Codes as Place
from prosem.types.shared.ranges import RangeForm, Ranges, reader
from prosem.types.shared.rewound import RowLookingSpace
from prosem.types.shared.rules import fields
from prosem.values.columns import ColumnType
from prosem.values.model import Delta, JsonObject, Key, Row
from prosem.values.narrow_rows import answer_rows, are_whole
from prosem.values.packed_columns import Codes
from prosem.values.packed_rows import codes_of
from prosem.values.wire import encode

Placed = tuple[bytes, Place, Any]  # topic, coordinates, height
_Description = list[tuple[bytes, Piece]]
_new = tuple.__new__  # a third quicker than calling the class of a named tuple


@dataclass(frozen=True)
class ExtremeForm(RangeForm):
    """`maximum`: MAX instead of MIN; `y` is the position of the aggregated column."""

    type: str
    query: Query
    shape: Ranges
    maximum: bool
    y: int

    @property
    def label(self) -> str:
        function = "MAX" if self.maximum else "MIN"
        return (
            f"{function}({self.shape.table.names[self.y]!r}) FROM {self.shape.source()}{self.shape.where()}"
        )

    @property
    def folding(self) -> JsonObject:
        columns = self.shape.table.columns
        return {"type": self._kind.name, "row": described_columns((one.name, one.type) for one in columns)}

    @property
    def columns_read(self) -> frozenset[int] | None:
        return self.shape.reads(self.y)

    def open_space(self, space_id: int, context: SpaceContext) -> Space:
        if len(self.shape.ranged) > 1:
            return BoxesSpace(self, space_id, context)
        return ExtremeSpace(self, space_id, context.rows[0])

    def snapshot(self, space: Space, rows: Rows, bound: Bound) -> JsonObject:
        best = None if bound.place is None else cast(Any, space).lowest(bound.topic, bound.place)
        return self.result(None if best is None else answer_rows(rows, (best,))[best])

    def result(self, row: Row | None) -> JsonObject:
        if row is None:
            return {"value": None, "row": None}
        return {"value": row[self.y], "row": self.shape.table.record(*row)}

    def answer(self, row: Row | None) -> bytes:
        """The result as it is sent."""
        return encode(self.result(row))

    def difference(self, before: JsonObject, after: JsonObject) -> JsonObject | None:
        """Numerics of a view may have other decimals and still be the same number."""
        one, other = before["value"], after["value"]
        if one == other:
            return None
        if one is not None and other is not None and self._kind.numeric:
            read, code = self._kind.read, self._kind.code
            return None if code(read(one)) == code(read(other)) else after
        return after

    def state(self, space: Space, bound: Bound) -> Any | None:
        return None

    def change(self, messages: Sequence[Message], bound: Bound, state: Any) -> tuple[bytes | None, Any]:
        return messages[-1].payload, None

    def opening(self, snapshot: bytes, state: Any) -> JsonObject:
        return {"message": "state", **fields(snapshot)}

    def raw(self, messages: Sequence[Message], bound: Bound, change: bytes | None) -> list[JsonObject]:
        return [] if change is None else [{"message": "change", **fields(change)}]

    @property
    def has_picture(self) -> bool:
        return len(self.shape.ranged) == 1

    def picture(self, space: Any, scene: Scene) -> JsonObject:
        return picture(self, space, scene)

    def placer(self) -> Callable[[Row | None], Placed | None]:
        """A function that gives topic, coordinates and height of a row; None if a NULL keeps it out."""
        at, place, encode = self.y, self.shape.placer(), height(self._kind, self.maximum)

        def placed(row: Row | None) -> Placed | None:
            if row is None or row[at] is None:
                return None
            found = place(row)
            return None if found is None else (*found, encode(row[at]))

        return placed

    def heights(self, rows: Collection[Row]) -> list[Any]:
        """The height of every row, None for NULL."""
        encode = height(self._kind, self.maximum)
        return [None if row[self.y] is None else encode(row[self.y]) for row in rows]

    def columns(self, rows: Rows) -> tuple[Codes, Codes, Codes] | None:
        """x, height and key of all rows as columns, where there is no equality and the key is one integer."""
        shape = self.shape
        kinds = [shape.table.columns[at].type.name for at in shape.table.key_positions]
        if shape.equal or len(shape.ranged) > 1 or kinds not in (["integer"], ["bigint"]):
            return None
        found = codes_of(rows, [*shape.ranged, self.y, *shape.table.key_positions])
        if found is None:
            return None
        *xs, ys, keys = found
        return xs[0] if xs else np.zeros_like(ys), ~ys if self.maximum else ys, keys

    @property
    def height_is_int64(self) -> bool:
        return self._kind.int64

    @property
    def _kind(self) -> ColumnType:
        return self.shape.table.columns[self.y].type


class ExtremeSpace(RowLookingSpace):
    """The trees over the rows, and the points, of one group with at most one range."""

    kind: ClassVar[str] = "change"  # of its messages
    is_tracked: ClassVar[bool] = False  # by which rule: see `tracked_rule`

    def __init__(self, form: ExtremeForm, space_id: int, rows: Rows) -> None:
        super().__init__(form.shape, space_id)
        self._form, self._place = form, form.placer()
        self.reads = None if self.is_tracked else form.shape.reads(form.y)
        self._rows: Rows = rows
        self._trees, self._compiled = self._minima()
        self._compiled_drafts = compiled_drafts(self.kind, form.shape.table.names, form.y, form.answer)
        columns = form.columns(rows)
        if columns is not None:
            self._trees.build_columns(b"", *columns)
        else:
            self._trees.build(self._entries(rows))

    def _entries(self, rows: Rows) -> dict[Hashable, list[tuple[Any, Any, Any]]]:
        """x, y and key of the rows by topic."""
        form = self._form
        codes = form.shape.flat_codes(rows.values())
        entries: dict[Hashable, list[tuple[Any, Any, Any]]] = {}
        if codes is not None:
            placed_all = zip(codes, form.heights(rows.values()), rows, strict=True)
            flat = [entry for entry in placed_all if entry[0] is not None and entry[1] is not None]
            if flat:
                entries[b""] = flat
        else:
            for key, row in rows.items():
                placed = self._place(row)
                if placed is not None:
                    topic, (x,), y = placed
                    entries.setdefault(topic, []).append((x, y, key))
        return entries

    def _minima(self) -> tuple[RangeMinima, CompiledMinima | None]:
        """The trees; and again if they take whole rows: compiled ones, where there are no equality values."""
        shape, form = self._form.shape, self._form
        y, int64 = shape.table.columns[form.y].type, shape.int64 and form.height_is_int64
        compiled = compiled_minima(self.points, int64, self.is_tracked)
        if compiled is None or shape.equal:
            return compiled or range_minima(self.points, int64, self.is_tracked), None
        x = shape.table.columns[shape.ranged[0]].type if shape.ranged else y
        compiled.read_rows(
            shape.ranged[0] if shape.ranged else -1, reader(x), form.y, reader(y), form.maximum
        )
        return compiled, compiled

    @property
    def visits(self) -> int:
        return self.points.visits + self._trees.visits

    def tree(self, topic: bytes) -> A2BTree | None:
        """The rows with these equality values."""
        return self._trees.get(topic)

    def lowest(self, topic: bytes, place: Place) -> Key | None:
        """The key of a row that attains the extreme in the range; O(log N)."""
        found = self._trees.lowest(topic, self._form.shape.data_box(place))
        return None if found is None else cast(Key, found[1])

    def step_all(self, deltas: Sequence[Delta]) -> Sequence[_Description | None] | None:
        return None if self._compiled is None else self._compiled.step_rows(deltas)

    def step(self, delta: Delta) -> _Description | None:
        if self._compiled is not None:
            return self._compiled.step_row(delta.key, delta.old, delta.new)
        old, new = self._place(delta.old), self._place(delta.new)
        return None if old == new else self._stepped(delta.key, old, new)

    def _stepped(self, key: Key, old: Placed | None, new: Placed | None) -> _Description | None:
        if old is not None and new is not None and old[0] == new[0]:
            return self._moved(key, old[0], old, new) or None
        out: _Description = []
        if old is not None:
            out += self._moved(key, old[0], old, None)
        if new is not None:
            out += self._moved(key, new[0], None, new)
        return out or None

    def _moved(self, key: Key, topic: bytes, old: Placed | None, new: Placed | None) -> _Description:
        was = None if old is None else (old[1][0], old[2])
        now = None if new is None else (new[1][0], new[2])
        return [(topic, piece) for piece in self._trees.step(topic, topic, was, now, key)]

    def regions(self, description: _Description) -> list[tuple[bytes, Region]]:
        return [(topic, piece.region) for topic, piece in description]

    def drafts(self, description: _Description) -> list[Draft]:
        rows = self._rows
        if not are_whole(rows):
            rows = answer_rows(
                rows, [cast(Key, piece.ref) for _, piece in description if piece.ref is not None]
            )
        if self._compiled_drafts is not None:
            return self._compiled_drafts.make(description, rows)
        kind, answer = self.kind, self._form.answer
        return [
            _new(
                Draft,
                (
                    kind,
                    topic,
                    region,
                    None,
                    None,
                    answer(None if ref is None else rows[cast(Key, ref)]),
                    (),
                    (),
                ),
            )
            for topic, (region, _, ref) in description
        ]
