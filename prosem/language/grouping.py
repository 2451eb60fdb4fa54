"""GROUP BY and HAVING."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from prosem.language.condition import COMPARISONS, TURNED
from prosem.language.items import AGGREGATES, read_aggregate
from prosem.language.syntax import Aggregate, ColumnName, Grouped, Having, SelectedColumn
from prosem.language.terms import term
from prosem.language.tree import Node, bare, column_name, construct, operands, refuse, settings

_HAVING = (
    "HAVING compares aggregates with constants and :parameters, joined by AND, like HAVING COUNT(*) >= :n"
)


def read_groups(
    sql: str,
    group: Node,
    having: Node | None,
    nodes: Sequence[Node],
    items: Sequence[SelectedColumn | Aggregate],
) -> Grouped:
    """The groups of a selection; `nodes` are those of the items.

    Without a catalog `x` and `t.x` may be one column, so they are taken for one here.
    """
    by = read_columns(sql, group)
    selected = [item.column for item in items if isinstance(item, SelectedColumn)]
    for name, node in by.items():
        if not any(is_alike(name, other) for other in selected):
            refuse(
                f"the column {name.name} of GROUP BY is not selected; select it too{_hint(name, items)}",
                sql,
                node,
            )
    for item, node in zip(items, nodes, strict=True):
        if isinstance(item, SelectedColumn) and not any(is_alike(item.column, name) for name in by):
            refuse(
                f"the column {item.column.name} is selected and not in GROUP BY; group by it, or leave it out",
                sql,
                node,
            )
    return Grouped(tuple(by), tuple(items), tuple(_having(sql, having)) if having is not None else ())


def is_alike(one: ColumnName, other: ColumnName) -> bool:
    """Whether two names may mean the same column, as far as the text says."""
    return one.name == other.name and (one.table == other.table or None in (one.table, other.table))


def read_columns(sql: str, group: Node) -> dict[ColumnName, Node]:
    """The columns of GROUP BY, each once, with their nodes."""
    given = settings(group)
    if group.args.get("all") is not None:  # True is ALL, False is DISTINCT
        refuse("GROUP BY ALL and GROUP BY DISTINCT are not supported; name the columns", sql, group)
    found: dict[ColumnName, Node] = {}
    for node in map(bare, given.get("expressions", [])):
        if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
            name = {exp.Rollup: "ROLLUP", exp.Cube: "CUBE"}.get(type(node), "GROUPING SETS")
            refuse(f"{name} is not supported; GROUP BY takes columns, subscribe to each grouping", sql, node)
        if not isinstance(node, exp.Column):
            refuse(
                f"{construct(sql, node)} in GROUP BY is not supported; GROUP BY takes names of columns",
                sql,
                node,
            )
        found.setdefault(column_name(sql, node), node)
    if not found or set(given) - {"expressions"}:
        refuse("this GROUP BY is not supported; it takes names of columns", sql, group)
    return found


def _hint(name: ColumnName, items: Sequence[SelectedColumn | Aggregate]) -> str:
    for item in items:
        if isinstance(item, SelectedColumn) and item.alias == name.name:
            return f" (GROUP BY takes the column itself, {item.column.name}, not its alias)"
    return ""


# -- HAVING ------------------------------------------------------------------------------------------------
def _having(sql: str, having: Node) -> Iterator[Having]:
    for node in operands(having.this, exp.And):
        if isinstance(node, exp.Between) and not settings(node).get("symmetric"):
            aggregate = _aggregate(sql, node, node.this)
            yield Having(aggregate, ">=", term(sql, node.args["low"]))
            yield Having(aggregate, "<=", term(sql, node.args["high"]))
            continue
        if type(node) not in COMPARISONS:
            refuse(f"{construct(sql, node)} in HAVING is not supported; {_HAVING}", sql, node)
        op, left, right = COMPARISONS[type(node)], bare(node.this), bare(node.expression)
        if type(left) not in AGGREGATES and type(right) in AGGREGATES:
            left, right, op = right, left, TURNED[op]
        aggregate = _aggregate(sql, node, left)
        if right.find(exp.AggFunc):
            refuse(f"comparing two aggregates is not supported; {_HAVING}", sql, node)
        yield Having(aggregate, op, term(sql, right))


def _aggregate(sql: str, comparison: Node, node: Node) -> Aggregate:
    node = bare(node)
    if type(node) in AGGREGATES:
        return read_aggregate(sql, node)
    if isinstance(node, exp.Column):
        name = column_name(sql, node).name
        refuse(f"the column {name} in HAVING is not an aggregate; its condition stands in WHERE", sql, node)
    refuse(f"{construct(sql, node)} in HAVING is not an aggregate of a column; {_HAVING}", sql, comparison)
