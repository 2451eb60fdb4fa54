"""Subscriptions over joins: which of them share an unnamed view."""

from __future__ import annotations

from prosem.language.parse import parse
from prosem.values.columns import column_type
from prosem.values.model import Column, Table
from prosem.views.subscription import recognise

CATALOG = {
    name: Table(number, name, tuple(Column(one, column_type("integer")) for one in ("k", "x", "y")), ("k",))
    for number, name in enumerate("tu")
}
JOIN = "FROM t a JOIN u b ON a.x = b.x"


def test_statements_of_one_join_share_its_view() -> None:
    """Whatever their conditions: one view in the graph, or its changes would be counted once for each of them."""
    one, other = (
        recognise(parse(sql), CATALOG, None)
        for sql in (
            f"SELECT a.y, COUNT(*) {JOIN} WHERE b.y > 3 GROUP BY a.y",
            f"SELECT a.y, COUNT(*) AS n {JOIN} WHERE b.y > :y GROUP BY a.y HAVING COUNT(*) > 2",
        )
    )
    assert one.label != other.label
    assert one.tables == other.tables
    assert len({*one.tables, *other.tables}) == 1
