"""From the SQL text of a view to a `ViewQuery`: syntax alone, no catalog.

Like `parse`, it takes over only the parts of sqlglot's tree that the language has; everything else is a LanguageError that
names the construct, says what to write instead and shows the place. Types and names are checked later, against the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from sqlglot import exp

from prosem.language.condition import COMPARISONS, TURNED
from prosem.language.expressions import expression
from prosem.language.grouping import is_alike, read_columns
from prosem.language.items import AGGREGATES, read_alias
from prosem.language.positions import located
from prosem.language.reading import SHORT, keyword, read
from prosem.language.sources import sources
from prosem.language.syntax import ColumnName
from prosem.language.tree import (
    Node,
    bare,
    construct,
    excerpt,
    function_name,
    operands,
    place,
    refuse,
    settings,
)
from prosem.language.view_syntax import (
    AggregateCall,
    ColumnRef,
    Expression,
    HavingCondition,
    ViewItem,
    ViewQuery,
)
from prosem.values.errors import LanguageError

_CLAUSES = {
    "distinct": ("DISTINCT", "a view has its rows by key; GROUP BY the columns instead"),
    "order": ("ORDER BY", "a view is a set of rows; order them in a subscription"),
    "limit": ("LIMIT", "a view has every row that satisfies WHERE; limit them in a subscription"),
}
_HAVING = "HAVING compares aggregates with constants, joined by AND, like HAVING COUNT(*) >= 5"


def parse_view(sql: str) -> ViewQuery:
    """The SELECT of a view. Cached by the text.

    >>> query = parse_view("SELECT g, SUM(x + 1) AS n FROM t WHERE x > 0 GROUP BY g HAVING COUNT(*) > 1")
    >>> [item.name for item in query.items], query.having[0].op
    (['g', 'n'], '>')
    """
    return _parse_short(sql) if len(sql) <= SHORT else _parse_long(sql)


def _parse(sql: str) -> ViewQuery:
    return read(sql, "a view", lambda tree: _query(sql, tree))


_parse_short = lru_cache(maxsize=256)(_parse)
_parse_long = lru_cache(maxsize=12)(_parse)


def _query(sql: str, tree: exp.Select) -> ViewQuery:
    given = settings(tree)
    for name, (label, instead) in _CLAUSES.items():
        if name in given:
            raise located(
                f"{label} is not supported in a view; {instead}",
                sql,
                *keyword(sql, label.split()[0], given[name]),
            )
    origins = sources(sql, given.get("from"), given.get("joins", []))
    nodes = given.get("expressions", [])
    if not nodes:
        raise LanguageError("nothing is selected; name the columns of the view")
    items = tuple(_item(sql, node) for node in nodes)
    _check_names(sql, items)
    where, group, having = (given.get(name) for name in ("where", "group", "having"))
    by = tuple(read_columns(sql, group)) if group is not None else ()
    if by:
        _check_groups(sql, by, items)
    else:
        _check_no_aggregates(sql, items, having)
    return ViewQuery(
        sql,
        items,
        origins,
        expression(sql, where.this) if where is not None else None,
        by,
        tuple(_having(sql, having)) if having is not None else (),
    )


# -- the select list -----------------------------------------------------------------------------------------
def _item(sql: str, node: Node) -> ViewItem:
    node, alias = bare(node), None
    if isinstance(node, exp.Alias):
        alias, node = read_alias(sql, node), bare(node.this)
    if type(node) in AGGREGATES:
        call = _aggregate(sql, node)
        return ViewItem(alias or call.function, call, call.place)
    if isinstance(node, exp.Window):
        refuse("a window (OVER) is not supported; aggregate with GROUP BY", sql, node)
    if isinstance(node, exp.Filter):
        refuse("FILTER is not supported; write its condition in WHERE, or as CASE in the argument", sql, node)
    found = expression(sql, node)
    if alias is None and not isinstance(found, ColumnRef):
        refuse(f"the expression {excerpt(sql, node)!r} has no name; write … AS name", sql, node)
    name = alias or (found.name.name if isinstance(found, ColumnRef) else "")
    return ViewItem(name, found, place(sql, node))


def _check_names(sql: str, items: Sequence[ViewItem]) -> None:
    found: set[str] = set()
    for item in items:
        if item.name in found:
            detail = f"two columns of the view are named {item.name}; give one of them another name (AS …)"
            raise located(detail, sql, *item.place)
        found.add(item.name)


def _aggregate(sql: str, node: Node) -> AggregateCall:
    assert isinstance(node, exp.Func)
    name, label = AGGREGATES[type(node)], function_name(sql, node)
    argument = node.args.get("this")
    if isinstance(argument, exp.Distinct):
        refuse(
            f"DISTINCT in {label} is not supported; group by the column too, in a view of its own", sql, node
        )
    if isinstance(argument, exp.Order):
        refuse(f"ORDER BY in {label} is not supported; leave it out", sql, node)
    if node.args.get("expressions") or argument is None or label.lower() != name:
        refuse(f"{label} with these arguments is not supported; aggregates take one argument", sql, node)
    argument = bare(argument)
    if isinstance(argument, exp.Star) and name == "count":
        return AggregateCall(name, None, place(sql, node))
    inner = argument.find(exp.AggFunc)
    if inner is not None:
        refuse(
            f"{function_name(sql, inner)} within {label} is not supported; aggregate a view of the first",
            sql,
            inner,
        )
    return AggregateCall(name, expression(sql, argument), place(sql, node))


# -- GROUP BY and HAVING -------------------------------------------------------------------------------------
def _check_no_aggregates(sql: str, items: Sequence[ViewItem], having: Node | None) -> None:
    for item in items:
        if isinstance(item.expression, AggregateCall):
            label = item.expression.function.upper()
            detail = f"{label} without GROUP BY is not supported in a view; subscribe to the aggregate itself"
            raise located(detail, sql, *item.place)
    if having is not None:
        refuse("HAVING without GROUP BY is not supported; conditions on rows stand in WHERE", sql, having)


def _check_groups(sql: str, by: Sequence[ColumnName], items: Sequence[ViewItem]) -> None:
    columns = [item.expression.name for item in items if isinstance(item.expression, ColumnRef)]
    for name in by:
        if not any(is_alike(name, other) for other in columns):
            detail = (
                f"the column {name.name} of GROUP BY is not selected; it is part of the view's key, select it"
            )
            end = None if name.start is None else name.start + len(name.name)
            raise located(detail, sql, name.start, end)
    for item in items:
        if isinstance(item.expression, AggregateCall):
            continue
        if not isinstance(item.expression, ColumnRef):
            detail = f"{item.name} is an expression; with GROUP BY a view has grouping columns and aggregates"
            raise located(f"{detail}, compute it in a view over this one", sql, *item.place)
        column = item.expression.name
        if not any(is_alike(column, name) for name in by):
            detail = f"the column {column.name} is selected and not in GROUP BY; group by it, or aggregate it"
            raise located(detail, sql, *item.place)


def _having(sql: str, having: Node) -> Iterator[HavingCondition]:
    for node in operands(having.this, exp.And):
        if isinstance(node, exp.Between) and not settings(node).get("symmetric"):
            aggregate = _compared(sql, node.this)
            yield HavingCondition(aggregate, ">=", _constant(sql, node.args["low"]), place(sql, node))
            yield HavingCondition(aggregate, "<=", _constant(sql, node.args["high"]), place(sql, node))
            continue
        if type(node) not in COMPARISONS:
            refuse(f"{construct(sql, node)} in HAVING is not supported; {_HAVING}", sql, node)
        op, left, right = COMPARISONS[type(node)], bare(node.this), bare(node.expression)
        if type(left) not in AGGREGATES and type(right) in AGGREGATES:
            left, right, op = right, left, TURNED[op]
        yield HavingCondition(_compared(sql, left), op, _constant(sql, right), place(sql, node))


def _compared(sql: str, node: Node) -> AggregateCall:
    node = bare(node)
    if type(node) not in AGGREGATES:
        refuse(f"{construct(sql, node)} in HAVING is not an aggregate; {_HAVING}", sql, node)
    return _aggregate(sql, node)


def _constant(sql: str, node: Node) -> Expression:
    inner = node.find(exp.AggFunc, exp.Column)
    if inner is not None:
        refuse(f"{construct(sql, inner)} is not a constant; {_HAVING}", sql, inner)
    return expression(sql, node)
