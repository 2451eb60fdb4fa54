"""One subscription of every type over two small tables, for tests that want all kinds of spaces at once."""

from __future__ import annotations

from typing import Any

from api.server.running import RunningServer
from prosem.engine import commands as c
from prosem.language.parse import parse
from prosem.values.wire import decode
from tests.support.running import TABLE

OTHER = {
    "name": "u",
    "columns": [{"name": "k", "type": "integer"}, {"name": "x", "type": "integer"}, {"name": "z", "type": "integer"}],
    "primary_key": ["k"],
}  # fmt: skip
EVERY_TYPE: tuple[tuple[str, dict[str, Any], dict[str, Any] | None], ...] = (
    ("SELECT MIN(y) FROM t WHERE x BETWEEN :a AND :b", {"a": 0, "b": 60}, None),
    ("SELECT MAX(y) FROM t WHERE x BETWEEN :a AND :b AND k >= :c", {"a": 0, "b": 60, "c": 0}, None),
    ("SELECT SUM(y) FROM t WHERE x >= :a", {"a": 0}, None),
    ("SELECT COUNT(*) FROM t WHERE x >= :a AND y < :b", {"a": 0, "b": 50}, None),
    ("SELECT AVG(y) FROM t WHERE x <= :b", {"b": 40}, None),
    ("SELECT DISTINCT y FROM t WHERE x BETWEEN :a AND :b", {"a": 0, "b": 50}, None),
    ("SELECT * FROM t WHERE y < :a OR x = :b", {"a": 50, "b": 2}, None),
    ("SELECT y FROM t WHERE k = :a", {"a": 3}, {"change": 10}),
    ("SELECT y FROM t WHERE k = :a", {"a": 3}, {"percent": 5}),
    ("SELECT y FROM t WHERE k = :a", {"a": 3}, {"may": 10, "must": 20}),
    ("SELECT y FROM t WHERE k = :a", {"a": 3, "r": 10}, {"change": ":r"}),
    ("SELECT MAX(y) FROM t WHERE x BETWEEN :a AND :b", {"a": 0, "b": 60}, {"change": 10}),
    ("SELECT SUM(y) FROM t WHERE x >= :a", {"a": 0, "p": 5}, {"percent": ":p"}),
    ("SELECT * FROM t JOIN u USING (x) WHERE y BETWEEN :a AND :b AND z < :c", {"a": 0, "b": 90, "c": 90}, None),
)  # fmt: skip


async def subscribe_every_type(made: RunningServer, rows: int = 100) -> list[str]:
    """Both tables with rows, and a subscription of each type: their ids."""
    for table in (TABLE, OTHER):
        await made.call(c.CreateTable(table))
    first = [{"op": "insert", "row": {"k": k, "x": k % 97, "y": k % 89}} for k in range(rows)]
    await made.call(c.Publish("t", first))
    await made.call(c.Publish("u", [{"op": "insert", "row": {"k": k, "x": k, "z": k}} for k in range(20)]))
    asked = [c.Subscribe(parse(sql), notify, [(None, params)]) for sql, params, notify in EVERY_TYPE]
    return [(await made.call(one))["id"] for one in asked]


def plain(value: Any) -> Any:
    """What a value says: lists have no order, and the row of a MIN is one of those that attain it."""
    if isinstance(value, bytes):
        try:
            return plain(decode(value))
        except ValueError:
            return value
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items() if name != "row"}
    if isinstance(value, list | tuple):
        return sorted(map(repr, map(plain, value)))
    return value
