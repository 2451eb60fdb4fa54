"""One item of a SELECT list: `*`, a column or an aggregate of a column, with or without an alias."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from prosem.language.syntax import Aggregate, SelectedColumn, Star
from prosem.language.tree import (
    Node,
    alias_name,
    bare,
    column_name,
    construct,
    function_name,
    refuse,
    settings,
    unsupported,
)

AGGREGATES: dict[type[Node], str] = {
    exp.Min: "min",
    exp.Max: "max",
    exp.Sum: "sum",
    exp.Count: "count",
    exp.Avg: "avg",
}
INSTEAD = "select *, columns, or MIN, MAX, SUM, COUNT and AVG of a column"
Item = Star | SelectedColumn | Aggregate


def read_item(sql: str, node: Node) -> Item:
    """The item a node stands for, or LanguageError."""
    node, alias = bare(node), None
    if isinstance(node, exp.Alias):
        alias, node = read_alias(sql, node), bare(node.this)
    if isinstance(node, exp.Star):
        if alias is not None or settings(node):
            refuse("* with EXCEPT, REPLACE, RENAME or AS is not supported; name the columns", sql, node)
        return Star()
    if isinstance(node, exp.Column):
        return SelectedColumn(column_name(sql, node), alias)
    if type(node) in AGGREGATES:
        return read_aggregate(sql, node, alias)
    if isinstance(node, exp.Window):
        refuse("a window (OVER) is not supported; aggregate the whole selection, or use GROUP BY", sql, node)
    if isinstance(node, exp.Filter):
        refuse("FILTER is not supported; write its condition in WHERE", sql, node)
    if isinstance(node, exp.Func) and not isinstance(node, exp.Cast | exp.Case | exp.Connector):
        unsupported(sql, node, "the aggregates are MIN, MAX, SUM, COUNT and AVG of one column")
    refuse(f"{construct(sql, node)} is not a column; {INSTEAD}", sql, node)


def read_alias(sql: str, node: exp.Alias) -> str:
    """The name after AS."""
    return alias_name(sql, node.args.get("alias"), node, takes_keywords=True)


def read_aggregate(sql: str, node: Node, alias: str | None = None) -> Aggregate:
    """MIN, MAX, SUM, COUNT or AVG of a column, or COUNT(*)."""
    assert isinstance(node, exp.Func)
    name, label = AGGREGATES[type(node)], function_name(sql, node)
    argument = node.args.get("this")
    if isinstance(argument, exp.Distinct):
        refuse(
            f"DISTINCT in {label} is not supported; select DISTINCT of the column and aggregate its values",
            sql,
            node,
        )
    if isinstance(argument, exp.Order):
        refuse(f"ORDER BY in {label} is not supported; leave it out", sql, node)
    if node.args.get("expressions") or argument is None:
        refuse(f"{label} takes exactly one column", sql, node)
    argument = bare(argument)
    if isinstance(argument, exp.Star) and name == "count":
        return Aggregate(name, None, alias)
    if not isinstance(argument, exp.Column) or isinstance(argument.this, exp.Star):
        refuse(f"{label} of an expression is not supported; it takes one column", sql, argument)
    return Aggregate(name, column_name(sql, argument), alias)


def check_names(sql: str, nodes: Sequence[Node], items: Sequence[SelectedColumn | Aggregate]) -> None:
    """Whether the columns of the result have different names."""
    found: dict[str, SelectedColumn | Aggregate] = {}
    for node, item in zip(nodes, items, strict=True):
        first = found.setdefault(item.name, item)
        if first is item:
            continue
        if isinstance(item, SelectedColumn) and first == item:
            refuse(f"the column {item.name} is selected twice", sql, node)
        refuse(
            f"two columns of the result are named {item.name}; give one of them another name, like AS {item.name}_2",
            sql,
            node,
        )
