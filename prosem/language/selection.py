"""What a SELECT selects: `*`, columns, DISTINCT, aggregates, groups, or the first k rows.

Names of the result are those PostgreSQL gives, and must differ. Whether columns exist is left to the types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from prosem.language.grouping import read_groups
from prosem.language.items import INSTEAD, Item, check_names, read_item
from prosem.language.ordering import read_first_rows
from prosem.language.positions import located
from prosem.language.reading import keyword
from prosem.language.syntax import Aggregate, Aggregates, Columns, Distinct, SelectedColumn, Selection, Star
from prosem.language.tree import Node, refuse, settings
from prosem.values.errors import LanguageError

_WORDS = {"distinct": "DISTINCT", "group": "GROUP BY", "order": "ORDER BY", "limit": "LIMIT"}


def selection(sql: str, tree: exp.Select) -> Selection:
    """The selection of a statement, with its GROUP BY, HAVING, ORDER BY and LIMIT."""
    given = settings(tree)
    nodes: list[Node] = given.get("expressions", [])
    if not nodes:
        raise LanguageError(f"nothing is selected; {INSTEAD}")
    items = [read_item(sql, node) for node in nodes]
    if "having" in given and "group" not in given:
        detail = "HAVING without GROUP BY is not supported; conditions on rows stand in WHERE"
        raise located(detail, sql, *keyword(sql, "HAVING", given["having"]))
    if "distinct" in given:
        return _distinct(sql, nodes, items, given)
    named = [item for item in items if not isinstance(item, Star)]
    if len(named) < len(items):
        return _star(sql, nodes, items, given)
    check_names(sql, nodes, named)
    if "group" in given:
        _refuse_with(
            sql,
            given,
            "GROUP BY",
            "order",
            "limit",
            instead=", or make a view of the groups and select its first rows",
        )
        return read_groups(sql, given["group"], given.get("having"), nodes, named)
    columns = [item for item in named if isinstance(item, SelectedColumn)]
    aggregates = [item for item in named if isinstance(item, Aggregate)]
    if aggregates and columns:
        name = columns[0].column.name
        refuse(
            f"the column {name} is mixed with aggregates; add GROUP BY {name}, or select aggregates alone",
            sql,
            nodes[items.index(columns[0])],
        )
    if aggregates:
        _refuse_with(sql, given, "an aggregate of all rows", "order", "limit")
        return aggregates[0] if len(aggregates) == 1 else Aggregates(tuple(aggregates))
    if "order" in given or "limit" in given:
        return read_first_rows(sql, given.get("order"), given.get("limit"), columns)
    return Columns(tuple(columns))


def _star(sql: str, nodes: Sequence[Node], items: Sequence[Item], given: Mapping[str, Any]) -> Star:
    if len(items) > 1:
        node = nodes[next(at for at, item in enumerate(items) if isinstance(item, Star))]
        refuse("* mixed with columns is not supported; select * alone or name the columns", sql, node)
    if "order" in given and "limit" in given:
        detail = "SELECT * with ORDER BY … LIMIT is not supported; name the columns, with the primary key among them"
        raise located(detail, sql, *keyword(sql, "ORDER", given["order"]))
    if "order" in given or "limit" in given:
        read_first_rows(sql, given.get("order"), given.get("limit"), ())
    _refuse_with(sql, given, "SELECT *", "group")
    return Star()


def _distinct(sql: str, nodes: Sequence[Node], items: Sequence[Item], given: Mapping[str, Any]) -> Distinct:
    if settings(given["distinct"]).get("on"):
        refuse("DISTINCT ON is not supported; select DISTINCT of one column", sql, given["distinct"])
    item = items[0]
    if len(items) > 1 or not isinstance(item, SelectedColumn):
        refuse("DISTINCT takes exactly one column", sql, nodes[-1])
    _refuse_with(sql, given, "SELECT DISTINCT", "group", "order", "limit")
    return Distinct(item.column)


def _refuse_with(sql: str, given: Mapping[str, Any], what: str, *clauses: str, instead: str = "") -> None:
    for clause in clauses:
        if clause in given:
            word = _WORDS[clause]
            place = keyword(sql, word.split()[0], given[clause])
            raise located(f"{word} with {what} is not supported; leave {word} out{instead}", sql, *place)
