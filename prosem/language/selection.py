"""What stands between SELECT and FROM."""

from __future__ import annotations

from sqlglot import exp

from prosem.language.syntax import Aggregate, Columns, Distinct, SelectedColumn, Selection, Star
from prosem.language.tree import (
    Node,
    bare,
    column_name,
    construct,
    function_name,
    refuse,
    settings,
    unsupported,
)
from prosem.values.errors import LanguageError

_AGGREGATES: dict[type[Node], str] = {
    exp.Min: "min",
    exp.Max: "max",
    exp.Sum: "sum",
    exp.Count: "count",
    exp.Avg: "avg",
}
_INSTEAD = "select *, columns, or one MIN, MAX, SUM, COUNT or AVG of a column"


def selection(sql: str, items: list[Node], distinct: Node | None) -> Selection:
    """`*`, columns, DISTINCT of a column, or one aggregate of a column."""
    if not items:
        raise LanguageError(f"nothing is selected; {_INSTEAD}")
    nodes = [bare(item) for item in items]
    for node in nodes:
        _check(sql, node)
    aggregates = [node for node in nodes if type(node) in _AGGREGATES]
    if len(aggregates) > 1:
        refuse(
            "two aggregates in one SELECT are not supported; subscribe to each on its own", sql, aggregates[1]
        )
    if aggregates and len(nodes) > 1:
        other = next(node for node in nodes if node is not aggregates[0])
        refuse("an aggregate mixed with columns is not supported; select the aggregate alone", sql, other)
    if distinct is not None:
        return _distinct(sql, nodes, distinct)
    if aggregates:
        return _aggregate(sql, aggregates[0])
    if isinstance(nodes[0], exp.Star) and len(nodes) == 1:
        return Star()
    for node in nodes:
        if isinstance(node, exp.Star):
            refuse("* mixed with columns is not supported; select * alone or name the columns", sql, node)
    names = tuple(column_name(sql, node) for node in nodes if isinstance(node, exp.Column))
    for name, node in zip(names, nodes, strict=True):
        if names.count(name) > 1:
            refuse(f"the column {name.name} is selected twice", sql, node)
    return Columns(tuple(map(SelectedColumn, names)))


def _check(sql: str, node: Node) -> None:
    """Whether the item is a star, a column or an aggregate at all."""
    if isinstance(node, exp.Star):
        if settings(node):
            refuse("* with EXCEPT, REPLACE or RENAME is not supported; name the columns", sql, node)
    elif isinstance(node, exp.Alias):
        refuse("an alias of a column (AS) is not supported; results are named by the columns", sql, node)
    elif isinstance(node, exp.Window):
        refuse("a window (OVER) is not supported; select the aggregate of the whole selection", sql, node)
    elif isinstance(node, exp.Filter):
        refuse("FILTER is not supported; write its condition in WHERE", sql, node)
    elif isinstance(node, exp.Column):
        column_name(sql, node)
    elif type(node) not in _AGGREGATES:
        if isinstance(node, exp.Func) and not isinstance(node, exp.Cast | exp.Case | exp.Connector):
            unsupported(sql, node, "the aggregates are MIN, MAX, SUM, COUNT and AVG of one column")
        refuse(f"{construct(sql, node)} is not a column; {_INSTEAD}", sql, node)


def _distinct(sql: str, nodes: list[Node], distinct: Node) -> Distinct:
    if settings(distinct).get("on"):
        refuse("DISTINCT ON is not supported; select DISTINCT of one column", sql, distinct)
    node = nodes[0]
    if len(nodes) > 1 or not isinstance(node, exp.Column):
        refuse("DISTINCT takes exactly one column", sql, nodes[-1])
    return Distinct(column_name(sql, node))


def _aggregate(sql: str, node: Node) -> Aggregate:
    assert isinstance(node, exp.Func)
    name, label = _AGGREGATES[type(node)], function_name(sql, node)
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
        return Aggregate(name, None)
    if not isinstance(argument, exp.Column) or isinstance(argument.this, exp.Star):
        refuse(f"{label} of an expression is not supported; it takes one column", sql, argument)
    return Aggregate(name, column_name(sql, argument))
