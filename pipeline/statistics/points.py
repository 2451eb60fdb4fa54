"""Where the points of subscriptions lie: for each group and dimension a histogram of the constants compared.

A dimension is a column and how it is compared, such as `risk >=`. The constants stand in the parameters or in the text
of the statement; statements are read on the executors, each text once a partition. Numbers are ordered as doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from pipeline.statistics.histograms import SKETCHES, Sketches, Table, merged
from pipeline.statistics.kinds import kind, point_kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.EQ: "=", exp.NEQ: "<>",
}  # fmt: skip
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}
# open and closed ends are one dimension: both are the low or the high end of a range
_DIMENSION = {"<": "<=", "<=": "<=", ">": ">=", ">=": ">=", "=": "=", "<>": "<>"}
_ARITHMETIC: dict[type[exp.Expr], Callable[[Decimal, Decimal], Decimal]] = {
    exp.Add: lambda a, b: a + b, exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b, exp.Div: lambda a, b: a / b,
}  # fmt: skip
Comparison = tuple[str, str, Any]  # column, operator, the term (a node)


def point_statistics(subscriptions: DataFrame, groups: Mapping[int, tuple[Table, ...]]) -> DataFrame:
    """One row of `histograms.STATISTICS` for each group and dimension; the events are the active subscriptions."""
    active = subscriptions.where("active").select("group_id", "sql", "params")
    return merged(active.mapInArrow(_summarise(groups), SKETCHES))


def _summarise(groups: Mapping[int, tuple[Table, ...]]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    types = {
        group: {column.name: point_kind(column.type) for table in tables for column in table.columns}
        for group, tables in groups.items()
    }

    def summarise(batches: Iterator[Any]) -> Iterator[Any]:
        found = Sketches()
        for batch in batches:
            columns = (batch.column(at).to_pylist() for at in range(3))
            constants: dict[tuple[int, str, str], list[Any]] = {}
            for group, sql, params in zip(*columns, strict=True):
                values = msgspec.json.decode(params, type=dict)
                for column, operator, term in comparisons(sql):
                    type_name = types.get(group, {}).get(column)
                    if type_name is not None:
                        dimension = f"{column} {_DIMENSION[operator]}"
                        constants.setdefault((group, dimension, type_name), []).append(constant(term, values))
            for (group, dimension, type_name), some in constants.items():
                sketch = found.of(group, dimension, type_name)
                codes = [code for value in some if (code := _code(type_name, value)) is not None]
                sketch.events += len(some)
                sketch.nulls += len(some) - len(codes)
                sketch.take(_array(type_name, codes))
        yield from found.batches()

    return summarise


def _code(type_name: str, value: Any) -> Any:
    """The constant as Arrow takes it; None if it is none of this type."""
    made = kind(type_name)
    try:
        return None if value is None else value if made.code is None else made.code(value)
    except (ValueError, TypeError, OverflowError, InvalidOperation):
        return None


def _array(type_name: str, codes: list[Any]) -> Any:
    import pyarrow as pa  # type: ignore[import-untyped]

    return pa.array(codes, kind(type_name).arrow)


@lru_cache(maxsize=10_000)
def comparisons(sql: str) -> tuple[Comparison, ...]:
    """Every comparison of a column with a constant in a statement; none if it cannot be read.

    >>> [(c, o, str(t)) for c, o, t in comparisons("SELECT * FROM t WHERE NOT x > :a AND y BETWEEN 1 AND 2")]
    [('x', '<=', ':a'), ('y', '>=', '1'), ('y', '<=', '2')]
    """
    try:
        where = parse_one(sql, read="postgres").args.get("where")
    except SqlglotError:
        return ()
    return tuple(_walk(where.this, False)) if where is not None else ()


def _walk(node: Any, negated: bool) -> Iterator[Comparison]:
    if isinstance(node, exp.Paren):
        yield from _walk(node.this, negated)
    elif isinstance(node, exp.Not):
        yield from _walk(node.this, not negated)
    elif isinstance(node, exp.Connector):
        yield from _walk(node.this, negated)
        yield from _walk(node.expression, negated)
    elif isinstance(node, exp.Between) and isinstance(node.this, exp.Column):
        yield _name(node.this), "<" if negated else ">=", node.args["low"]
        yield _name(node.this), ">" if negated else "<=", node.args["high"]
    elif isinstance(node, exp.In) and isinstance(node.this, exp.Column):
        for item in node.expressions:
            yield _name(node.this), "<>" if negated else "=", item
    elif type(node) in _OPERATORS:
        operator, left, right = _OPERATORS[type(node)], node.this.unnest(), node.expression.unnest()
        if not isinstance(left, exp.Column):
            left, right, operator = right, left, _TURNED[operator]
        if isinstance(left, exp.Column):
            yield _name(left), _OPPOSITE[operator] if negated else operator, right


def _name(column: exp.Column) -> str:
    identifier = column.this
    return str(identifier.this) if identifier.args.get("quoted") else str(identifier.this).lower()


def constant(term: Any, params: Mapping[str, Any]) -> Any:
    """The value of a constant, a parameter or arithmetic over them; None if it has none.

    >>> constant(parse_one("x < :a + 1.5").expression, {"a": 2})
    Decimal('3.5')
    """
    if isinstance(term, exp.Paren | exp.Cast):
        return constant(term.this, params)
    if isinstance(term, exp.Placeholder):
        return params.get(str(term.this))
    if isinstance(term, exp.Literal):
        return str(term.this) if term.is_string else Decimal(str(term.this))
    if isinstance(term, exp.Boolean):
        return bool(term.this)
    try:
        if isinstance(term, exp.Neg):
            return -Decimal(str(constant(term.this, params)))
        if type(term) in _ARITHMETIC:
            sides = [Decimal(str(constant(side, params))) for side in (term.this, term.expression)]
            return _ARITHMETIC[type(term)](*sides)
    except (InvalidOperation, ZeroDivisionError):
        return None
    return None
