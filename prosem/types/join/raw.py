"""The messages of a select-join as a raw stream gets them: rows by name, with the values by which they join.

A client holds rows and joins them by the rules of `client_rules.py`. The network brings rows to all subscriptions in their
region; whether a subscription's own conditions admit one is decided here, so an `upsert` it does not admit is a `drop`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cn.model.geometry import Point
from cn.model.message import Message
from prosem.types.join.message import Lose, Remove, Upsert
from prosem.types.join.state import JoinFold, JoinState
from prosem.types.shared.rules import fields, identity, listed, written
from prosem.values.model import JsonObject, Row


class RawJoinMessages:
    """Of one shape. A class of equal columns is called c0, c1, …; its values are texts."""

    def __init__(self, fold: JoinFold) -> None:
        self._fold, self._shape = fold, fold.shape

    def opening(self, snapshot: bytes, state: JoinState | None) -> JsonObject:
        """Without a state (joined rows travel, or the subscription is suspended) the answer itself is held."""
        shape = self._shape
        before: list[set[int]] = [
            set().union(*map(shape.classes_of, range(at))) for at in range(len(shape.tables))
        ]
        sources = [
            {"name": table.name, "classes": [f"c{one}" for one in shape.classes_of(at) if one in before[at]]}
            for at, table in enumerate(shape.tables)
        ]
        held = (
            []
            if state is None
            else [self._row(table, row) for table, rows in enumerate(state.rows) for row in rows.values()]
        )
        joined = self._joined(snapshot, "rows") if state is None else []
        return {"message": "state", "sources": sources, "held": held, "joined": joined}

    def raw(self, messages: Sequence[Message], point: Point, change: bytes | None) -> list[JsonObject]:
        if messages[-1].kind == "joined":
            if change is None:
                return []
            gone = [one["key"] for one in self._joined(change, "remove")]
            return [{"message": "joined", "remove": gone, "add": self._joined(change, "add")}]
        return [self._raw_message(message, point) for message in messages if message.kind != "change"]

    def _raw_message(self, message: Message, point: Point) -> JsonObject:
        content = self._fold.codec.read(message.kind, message.payload, message.contents)
        if isinstance(content, Upsert) and self._fold.holds(content.table, point, content.row):
            return {"message": "upsert", **self._row(content.table, content.row)}
        if isinstance(content, Upsert | Remove):
            return {"message": "drop", "table": content.table, "key": _key(content.key)}
        assert isinstance(content, Lose), "joined rows come alone"
        lost = zip(content.classes, content.values, strict=True)
        return {
            "message": "lose",
            "table": content.table,
            "classes": {f"c{one}": written(value) for one, value in lost},
        }

    def _row(self, table: int, row: Row) -> JsonObject:
        own, classes = self._shape.tables[table], self._shape.classes_of(table)
        values = self._shape.key_of(table, classes)(row)
        return {
            "table": table,
            "key": _key(own.key_of(row)),
            "classes": {f"c{one}": written(value) for one, value in zip(classes, values, strict=True)},
            "row": own.record(*row),
        }

    def _joined(self, answer: bytes, part: str) -> list[JsonObject]:
        """Joined rows with their keys."""
        return [
            {
                "key": ";".join([identity(table, fields(row[table.name])) for table in self._shape.tables]),
                "row": row,
            }
            for row in listed(answer)[part]
        ]


def _key(key: Sequence[Any]) -> str:
    return ",".join(map(written, key))
