"""Range MIN and MAX: `SELECT MIN(y) FROM t WHERE x BETWEEN a AND b [AND e = c …]`.

The space is (lo, hi); a message says "your extreme is now this value" to a region of it ([ProSem thesis] 3).
One A2B-tree for each combination of equality values. MAX is MIN over reversed codes. An event costs O((1 + k) log N) for
k messages, whatever the number of subscriptions. Ranges on several columns are in `several_ranges`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

from cn.model.geometry import Region
from cn.model.message import Message
from prosem.index.order import Descending
from prosem.index.ranges.a2b_tree import A2BTree
from prosem.language.resolve import column
from prosem.language.syntax import Query
from prosem.types.base import Bound, Draft, Rows, Scene, Space, SpaceContext, SubscriptionType
from prosem.types.extreme.client_rules import RULES
from prosem.types.extreme.picture import picture
from prosem.types.extreme.rule import Piece, step
from prosem.types.extreme.several_ranges import BoxesSpace
from prosem.types.shared.ranges import Codes, RangeForm, Ranges, aggregated, recognise_ranges
from prosem.types.shared.rewound import RowLookingSpace
from prosem.types.shared.rules import fields
from prosem.values.errors import LanguageError
from prosem.values.model import Delta, JsonObject, Key, Row, Table
from prosem.values.wire import encode

_Description = list[tuple[bytes, Piece]]


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

    def open_space(self, space_id: int, surroundings: SpaceContext) -> Space:
        if len(self.shape.ranged) > 1:
            return BoxesSpace(self, space_id, surroundings)
        return ExtremeSpace(self, space_id, surroundings.rows[0])

    def snapshot(self, space: Space, rows: Rows, bound: Bound) -> JsonObject:
        best = None if bound.place is None else cast(Any, space).lowest(bound.topic, bound.place)
        return self.result(None if best is None else rows[best])

    def result(self, row: Row | None) -> JsonObject:
        if row is None:
            return {"value": None, "row": None}
        return {"value": row[self.y], "row": self.shape.table.record(*row)}

    def difference(self, before: JsonObject, after: JsonObject) -> JsonObject | None:
        return None if before["value"] == after["value"] else after

    def state(self, space: Space, bound: Bound) -> None:
        return None

    def change(self, messages: Sequence[Message], bound: Bound, state: None) -> tuple[bytes | None, None]:
        return messages[-1].payload, None

    def opening(self, snapshot: bytes, state: None) -> JsonObject:
        return {"message": "state", **fields(snapshot)}

    def raw(self, messages: Sequence[Message], bound: Bound, change: bytes | None) -> list[JsonObject]:
        return [] if change is None else [{"message": "change", **fields(change)}]

    @property
    def has_picture(self) -> bool:
        return len(self.shape.ranged) == 1

    def picture(self, space: Any, scene: Scene) -> JsonObject:
        return picture(self, space, scene)

    def placer(self) -> Callable[[Row | None], tuple[bytes, Codes, Any] | None]:
        """A function that gives topic, coordinates and height of a row; None if a NULL keeps it out."""
        at, place, encode = self.y, self.shape.placer(), self._height_encoder()

        def placed(row: Row | None) -> tuple[bytes, Codes, Any] | None:
            if row is None or row[at] is None:
                return None
            found = place(row)
            return None if found is None else (*found, encode(row[at]))

        return placed

    def heights(self, rows: Collection[Row]) -> list[Any]:
        """The height of every row, None for NULL."""
        encode = self._height_encoder()
        return [None if row[self.y] is None else encode(row[self.y]) for row in rows]

    def _height_encoder(self) -> Callable[[Any], Any]:
        kind = self.shape.table.columns[self.y].type
        assert kind.encode is not None
        ascending: Callable[[Any], Any] = kind.encode
        if not self.maximum:
            return ascending
        return (lambda v: -ascending(v)) if kind.int64 else (lambda v: Descending(ascending(v)))


class ExtremeSpace(RowLookingSpace):
    """The trees over the rows, and the points, of one group with at most one range."""

    def __init__(self, form: ExtremeForm, space_id: int, rows: Rows) -> None:
        super().__init__(form.shape, space_id)
        self._form, self._place = form, form.placer()
        self._rows: Rows = rows
        self._trees: dict[bytes, A2BTree] = {}
        codes = form.shape.flat_codes(rows.values())
        if codes is not None:
            placed_all = zip(codes, form.heights(rows.values()), rows, strict=True)
            flat = [entry for entry in placed_all if entry[0] is not None and entry[1] is not None]
            if flat:
                self._tree(b"").build(flat)
            return
        entries: dict[bytes, list[tuple[Any, Any, Any]]] = {}
        for key, row in rows.items():
            placed = self._place(row)
            if placed is not None:
                topic, (x,), y = placed
                entries.setdefault(topic, []).append((x, y, key))
        for topic, some in entries.items():
            self._tree(topic).build(some)

    @property
    def visits(self) -> int:
        return self.points.visits + sum(tree.visits for tree in list(self._trees.values()))

    def _tree(self, topic: bytes) -> A2BTree:
        tree = self._trees.get(topic)
        if tree is None:
            tree = self._trees[topic] = A2BTree()
        return tree

    def tree(self, topic: bytes) -> A2BTree | None:
        """The rows with these equality values."""
        return self._trees.get(topic)

    def lowest(self, topic: bytes, place: Codes) -> Key | None:
        """The key of a row that attains the extreme in the range; O(log N)."""
        tree = self._trees.get(topic)
        if tree is None:
            return None
        (interval,) = self._form.shape.data_box(place)
        found = tree.lowest(interval.low, interval.high)
        return None if found is None else cast(Key, found[1])

    def step(self, delta: Delta) -> _Description | None:
        old, new = self._place(delta.old), self._place(delta.new)
        if old == new:
            return None
        if old is not None and new is not None and old[0] == new[0]:
            return self._step(old[0], (old[1][0], old[2]), (new[1][0], new[2]), delta.key)
        out = [] if old is None else self._step(old[0], (old[1][0], old[2]), None, delta.key) or []
        if new is not None:
            out += self._step(new[0], None, (new[1][0], new[2]), delta.key) or []
        return out or None

    def _step(
        self, topic: bytes, old: tuple[Any, Any] | None, new: tuple[Any, Any] | None, key: Key
    ) -> _Description | None:
        tree = self._tree(topic)
        if len(self.points):
            found = [(topic, piece) for piece in step(tree, old, new, key)]
        else:  # nobody to tell
            found = []
            if old is not None:
                tree.remove(*old, key)
            if new is not None:
                tree.add(*new, key)
        if not len(tree):
            del self._trees[topic]
        return found or None

    def regions(self, description: _Description) -> list[tuple[bytes, Region]]:
        return [(topic, piece.region) for topic, piece in description]

    def drafts(self, description: _Description) -> list[Draft]:
        rows, form = self._rows, self._form
        return [
            Draft(
                "change",
                topic,
                piece.region,
                payload=encode(form.result(None if piece.ref is None else rows[cast(Key, piece.ref)])),
            )
            for topic, piece in description
        ]


class ExtremeType(SubscriptionType):
    """`function` is MIN or MAX."""

    pictured = "a MIN or MAX over one range"

    def __init__(self, function: str) -> None:
        self.function = function
        self.name = f"range-{function.lower()}"

    def recognise(
        self, query: Query, tables: Sequence[Table], notify: JsonObject | None
    ) -> ExtremeForm | None:
        selection = aggregated(query, tables, self.function)
        if selection is None:
            return None
        table = tables[0]
        assert selection.column is not None
        y = column(query, table, selection.column)
        if not y.type.ordered:
            raise LanguageError(f"{self.function} needs an ordered column, and {y.name} is {y.type.name}")
        shape = recognise_ranges(query, table)
        return ExtremeForm(self.name, query, shape, self.function == "MAX", table.position[y.name])

    def describe(self) -> JsonObject:
        word = "lowest" if self.function == "MIN" else "highest"
        return {
            "name": self.name,
            "sql": f"SELECT {self.function}(y) FROM t [WHERE x BETWEEN :lo AND :hi …] [AND e = :c …]",
            "notify": [],
            "messages": [
                {
                    "name": "change",
                    "region": "L < lo <= l AND r <= hi < R",
                    "payload": f"the {word} y of the region's subscriptions after the event, and a row that has it",
                }
            ],
            "update": "replace the value and the row by the message's",
            "transform": "the value and the row",
            "rules": RULES.document(),
        }
