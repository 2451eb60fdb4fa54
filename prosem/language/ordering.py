"""ORDER BY … LIMIT: the first k rows."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from prosem.language.grouping import is_alike
from prosem.language.positions import located
from prosem.language.reading import keyword
from prosem.language.syntax import ColumnName, SelectedColumn, TopK
from prosem.language.tree import Node, bare, column_name, construct, refuse, settings

MAX_LIMIT = 1_000
_FORM = f"write ORDER BY column [ASC|DESC] [NULLS FIRST|LAST] LIMIT k, with a constant k of 1 to {MAX_LIMIT}"


def read_first_rows(
    sql: str, order: Node | None, limit: Node | None, items: Sequence[SelectedColumn]
) -> TopK:
    """The first rows in an order; at least one of `order` and `limit` is given."""
    if order is None:
        assert limit is not None
        raise located(
            f"LIMIT without ORDER BY is not supported, it selects any rows; {_FORM}",
            sql,
            *keyword(sql, "LIMIT|FETCH", limit),
        )
    if limit is None:
        raise located(
            f"ORDER BY without LIMIT is not supported; rows are sent as a set, sort them at the client, or {_FORM}",
            sql,
            *keyword(sql, "ORDER", order),
        )
    parts = settings(order).get("expressions", [])
    if len(parts) != 1 or set(settings(order)) - {"expressions"}:
        refuse(f"ORDER BY takes one column, ties are in the order of the primary key; {_FORM}", sql, order)
    (part,) = parts
    if set(settings(part)) - {"this", "desc", "nulls_first"}:
        refuse(f"this ORDER BY is not supported; {_FORM}", sql, part)
    by = _column(sql, bare(part.this), items)
    given = settings(
        part
    )  # sqlglot resolves PostgreSQL's default: NULLs are first if and only if DESC is given
    return TopK(tuple(items), by, bool(given.get("desc")), bool(given.get("nulls_first")), _count(sql, limit))


def _column(sql: str, node: Node, items: Sequence[SelectedColumn]) -> ColumnName:
    """As in PostgreSQL a bare name is first a column of the result, then one of the tables."""
    if not isinstance(node, exp.Column):
        what = "a position" if isinstance(node, exp.Literal) else construct(sql, node)
        refuse(f"{what} in ORDER BY is not supported, name the column; {_FORM}", sql, node)
    name = column_name(sql, node)
    if name.table is None and not node.meta.get("qualified"):
        for item in items:
            if item.name == name.name:
                return item.column
    if not any(is_alike(item.column, name) for item in items):
        refuse(f"the column {name.name} of ORDER BY is not selected; select it too", sql, node)
    return name


def _count(sql: str, limit: Node) -> int:
    given = settings(limit)
    if not isinstance(limit, exp.Limit) or set(given) - {"expression"}:
        refuse(f"FETCH, WITH TIES and the like are not supported; {_FORM}", sql, limit)
    node = bare(limit.args["expression"])
    text = str(node.this) if isinstance(node, exp.Literal) and not node.is_string else ""
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= MAX_LIMIT):
        raise located(
            f"LIMIT takes a constant from 1 to {MAX_LIMIT}, which is part of the template",
            sql,
            *keyword(sql, "LIMIT", limit),
        )
    return int(text)
