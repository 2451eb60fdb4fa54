"""Range MIN and MAX: `SELECT MIN(y) FROM t WHERE x BETWEEN a AND b [AND e = c …]`.

The space is (lo, hi); a message says "your extreme is now this value" to a region of it (algorithms §2, thesis ch. 3).
Equality conditions are the topic: one A2B-tree for each combination of their values. Without a range every row stands at
x = 0 and every subscription at (0, 0). MAX is MIN over reversed codes.

An event costs O((1 + k) log N) for k messages, whatever the number of subscriptions. Enumeration finds the affected
points first and addresses them one by one: it wins only while an event affects about as many subscriptions as there are
regions (two on average), and loses by their ratio beyond.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import msgspec

from cn.geometry import BOTTOM, TOP
from cn.match.point_index import PointIndex
from cn.message import Message
from cn.networks.base import Space as NetworkSpace
from prosem.columns import INT64_MAX, INT64_MIN, ColumnType
from prosem.errors import LanguageError
from prosem.index.a2b_tree import A2BTree
from prosem.index.order import Descending
from prosem.language.resolve import column, conjunction
from prosem.language.syntax import Aggregate, Conjunction, Query
from prosem.model import Delta, JsonObject, Key, Row, Table
from prosem.types.base import Bound, Draft, Rows, Space
from prosem.types.extreme_rule import Piece, pieces

_encode = msgspec.json.encode
_RANGE = {"<", "<=", ">", ">="}
_Place = tuple[bytes, Any, Any]  # topic, x code, y code
_Description = list[tuple[bytes, Piece]]


@dataclass(frozen=True)
class ExtremeForm:
    """`maximum`: MAX instead of MIN; positions are those of the columns in the table."""

    type: str
    label: str
    query: Query
    table: Table
    maximum: bool
    y: int
    x: int | None
    equal: tuple[int, ...]

    @property
    def space_label(self) -> str:
        return self.label

    @property
    def tables(self) -> tuple[Table, ...]:
        return (self.table,)

    def bind(self, params: Mapping[str, Any]) -> Bound:
        extents = conjunction(self.query.where[0], self.table, params, self.query.sql)
        if extents is None:
            return Bound(b"", None)
        codes = [extents[at].intervals[0].low for at in self.equal]
        topic = topic_of(codes) if codes else b""
        if self.x is None:
            return Bound(topic, (0, 0))
        (interval,) = extents[self.x].intervals
        ends = _clamp(interval.low, interval.high, self.table.columns[self.x].type)
        return Bound(topic, ends)

    def open_space(self, space_id: int, rows: Rows) -> Space:
        return ExtremeSpace(self, space_id, rows)

    def snapshot(self, space: Space, rows: Rows, bound: Bound) -> JsonObject:
        assert isinstance(space, ExtremeSpace)
        best = space.lowest(bound)
        if best is None:
            return {"value": None, "row": None}
        row = rows[best]
        return {"value": row[self.y], "row": self.table.as_object(row)}

    def difference(self, before: JsonObject, after: JsonObject) -> JsonObject | None:
        return None if before["value"] == after["value"] else after

    def change(self, messages: Sequence[Message], bound: Bound) -> bytes | None:
        return messages[-1].payload

    def place(self, row: Row | None) -> _Place | None:
        """Where a row stands; a NULL in any of its columns means that it is no point."""
        if row is None or row[self.y] is None:
            return None
        columns = self.table.columns
        y = columns[self.y].type.code(row[self.y])
        if self.maximum:
            y = -y if isinstance(y, int) else Descending(y)  # type: ignore[assignment]
        topic = b""
        if self.equal:
            if any(row[at] is None for at in self.equal):
                return None
            topic = topic_of([columns[at].type.code(row[at]) for at in self.equal])
        if self.x is None:
            return topic, 0, y
        x = row[self.x]
        return None if x is None else (topic, columns[self.x].type.code(x), y)


def topic_of(codes: list[Any]) -> bytes:
    """The equality values of a row or a subscription as one name."""
    return _encode(codes)


class ExtremeSpace:
    """The trees over the rows and the index over the points of one group."""

    plans: ClassVar[tuple[str, ...]] = ("reformulate", "enumerate")

    def __init__(self, form: ExtremeForm, space_id: int, rows: Rows) -> None:
        self._form = form
        self._rows = rows
        int64 = form.x is None or form.table.columns[form.x].type.int64
        self.network = NetworkSpace(space_id, 2, int64)
        self._points = PointIndex(2, int64)
        self._trees: dict[bytes, A2BTree] = {}
        entries: dict[bytes, list[tuple[Any, Any, Any]]] = {}
        for key, row in rows.items():
            place = form.place(row)
            if place is not None:
                entries.setdefault(place[0], []).append((place[1], place[2], key))
        for topic, some in entries.items():
            self._tree(topic).build(some)

    @property
    def visits(self) -> int:
        return self._points.visits + sum(tree.visits for tree in self._trees.values())

    def _tree(self, topic: bytes) -> A2BTree:
        tree = self._trees.get(topic)
        if tree is None:
            tree = self._trees[topic] = A2BTree()
        return tree

    # -- points ----------------------------------------------------------------------------------------------
    def add(self, sids: Sequence[int], bounds: Sequence[Bound]) -> None:
        placed = [(sid, *bound) for sid, bound in zip(sids, bounds, strict=True) if bound.place is not None]
        if len(placed) == 1:
            self._points.insert(*cast("tuple[int, bytes, tuple[Any, Any]]", placed[0]))
        elif placed:
            numbers, topics, places = zip(*placed, strict=True)
            self._points.insert_many(numbers, topics, cast("tuple[tuple[Any, Any], ...]", places))

    def move(self, sid: int, before: Bound, after: Bound) -> None:
        if before.place is None or after.place is None:
            self.remove(sid, before)
            self.add([sid], [after])
        else:
            self._points.move(sid, before.topic, before.place, after.topic, after.place)

    def remove(self, sid: int, bound: Bound) -> None:
        if bound.place is not None:
            self._points.remove(sid, bound.topic, bound.place)

    def lowest(self, bound: Bound) -> Any | None:
        """The key of a row that attains the extreme in the range; O(log N)."""
        if bound.place is None:
            return None
        tree = self._trees.get(bound.topic)
        if tree is None:
            return None
        low, high = bound.place
        if not self.network.int64:
            low, high = None if low is BOTTOM else low, None if high is TOP else high
        found = tree.lowest(low, high)
        return None if found is None else found[1]

    # -- events ----------------------------------------------------------------------------------------------
    def step(self, delta: Delta) -> _Description | None:
        old, new = self._form.place(delta.old), self._form.place(delta.new)
        if old == new:
            return None
        if old is not None and new is not None and old[0] == new[0]:
            return self._step(old[0], old[1:], new[1:], delta) or None
        out = [] if old is None else self._step(old[0], old[1:], None, delta)
        return (out if new is None else out + self._step(new[0], None, new[1:], delta)) or None

    def _step(
        self, topic: bytes, old: tuple[Any, Any] | None, new: tuple[Any, Any] | None, delta: Delta
    ) -> _Description:
        tree, ref = self._tree(topic), delta.key
        if old is not None:
            tree.remove(*old, ref)
        found = pieces(tree, old, None if new is None else (*new, ref)) if len(self._points) else []
        if new is not None:
            tree.add(*new, ref)
        elif not len(tree):
            del self._trees[topic]
        return [(topic, piece) for piece in found]

    def messages(self, description: _Description, plan: str) -> list[Draft]:
        drafts = []
        for topic, piece in description:
            payload = self._payload(piece)
            if plan == "reformulate":
                drafts.append(Draft("change", topic, piece.region, payload=payload))
            else:
                drafts += [
                    Draft("change", targets=(int(sid),), payload=payload)
                    for sid in self._points.find(topic, piece.region)
                ]
        return drafts

    def _payload(self, piece: Piece) -> bytes:
        if piece.ref is None:
            return b'{"value":null,"row":null}'
        row = self._rows[cast(Key, piece.ref)]
        return _encode({"value": row[self._form.y], "row": self._form.table.as_object(row)})


def _clamp(low: Any, high: Any, kind: ColumnType) -> tuple[Any, Any] | None:
    if kind.int64:
        low = INT64_MIN if low is None else max(low, INT64_MIN)
        high = INT64_MAX if high is None else min(high, INT64_MAX)
        return (low, high) if low <= high else None
    return BOTTOM if low is None else low, TOP if high is None else high


class ExtremeType:
    """`function` is MIN or MAX."""

    def __init__(self, function: str) -> None:
        self.function = function
        self.name = f"range-{function.lower()}"

    def recognise(self, query: Query, tables: Sequence[Table], notify: JsonObject | None) -> ExtremeForm | None:
        selection = query.selection
        if not isinstance(selection, Aggregate) or selection.function.upper() != self.function or len(tables) != 1:
            return None
        table = tables[0]
        assert selection.column is not None
        y = column(query, table, selection.column)
        if not y.type.ordered:
            raise LanguageError(f"{self.function} needs an ordered column, and {y.name} is {y.type.name}")
        ranged, equal = range_columns(query, table)
        if len(ranged) > 1:
            raise LanguageError(
                f"a range on more than one column ({', '.join(table.columns[at].name for at in ranged)}) is not served yet; "
                "one range and any number of equality conditions are"
            )
        x = ranged[0] if ranged else None
        parts = [f"{table.columns[at].name!r} IN RANGE" for at in ranged]
        parts += [f"{table.columns[at].name!r} = ?" for at in equal]
        where = " WHERE " + " AND ".join(parts) if parts else ""
        label = f"{self.function}({y.name!r}) FROM {table.tenant}.{table.name!r}#{table.id}{where}"
        return ExtremeForm(
            self.name, label, query, table, self.function == "MAX", table.position[y.name], x, tuple(equal)
        )

    def describe(self) -> JsonObject:
        word = "lowest" if self.function == "MIN" else "highest"
        return {
            "name": self.name,
            "sql": f"SELECT {self.function}(y) FROM t [WHERE x BETWEEN :lo AND :hi] [AND e = :c …]",
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
        }


def range_columns(query: Query, table: Table) -> tuple[list[int], list[int]]:
    """The positions of columns with a range, and of those with equality alone; refuses every other condition."""
    if not query.where:
        raise LanguageError("the condition is never true; drop the subscription, or the condition")
    if len(query.where) != 1:
        raise LanguageError("OR is supported in SELECT * | columns, not in an aggregate; use ranges joined by AND")
    conditions: Conjunction = query.where[0]
    ranged: list[int] = []
    equal: list[int] = []
    for atom in conditions:
        at = table.position[column(query, table, atom.column).name]
        if atom.op not in _RANGE and atom.op != "=":
            raise LanguageError(
                f"{atom.op.upper()} is supported in SELECT * | columns, not in an aggregate; "
                "an aggregate takes =, <, <=, >, >= and BETWEEN joined by AND"
            )
        where = ranged if atom.op in _RANGE else equal
        if at not in where:
            where.append(at)
    return sorted(ranged), sorted(at for at in equal if at not in ranged)
