"""Aggregates of a view: their types as PostgreSQL has them, and the conditions of HAVING over their values.

| aggregate | of | type |
| --- | --- | --- |
| COUNT | anything | bigint, never NULL |
| SUM | integer; bigint and numeric; double precision | bigint; numeric; double precision |
| AVG | integer, bigint and numeric; double precision | numeric; double precision |
| MIN, MAX | anything with an order | the same; numeric without precision for numeric(p,s) |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from prosem.language.positions import located
from prosem.language.syntax import ColumnName
from prosem.language.view_syntax import AggregateCall, ColumnRef, HavingCondition, Operation
from prosem.values.columns import ColumnType, Value
from prosem.values.numerics import bounds, unconstrained_numeric
from prosem.views.checker import Resolve
from prosem.views.expressions import Compiled, Field, compile_condition, compile_expression
from prosem.views.number_rules import BIGINT, DOUBLE, base

_COUNT_DIGITS = 19  # of the number of rows
_BASE_DIGITS = 4  # PostgreSQL's numeric computes in base 10000
_MAX_DISPLAY_SCALE = 1000


class CompiledAggregate(NamedTuple):
    """`argument` is None for COUNT(*). The value is NULL only if it is NULL for every row of the group."""

    function: str
    argument: Compiled | None
    type: ColumnType
    nullable: bool


class CompiledHaving(NamedTuple):
    """`is_true` takes the value of the aggregate; NULL is not true."""

    aggregate: CompiledAggregate
    is_true: Callable[[Value], bool]


def compile_aggregate(call: AggregateCall, resolve: Resolve, sql: str) -> CompiledAggregate:
    """LanguageError if PostgreSQL has no such aggregate of the argument's type."""
    if call.argument is None:
        return CompiledAggregate(call.function, None, BIGINT, nullable=False)
    argument = compile_expression(call.argument, resolve, sql)
    kind = argument.type
    if call.function == "count":
        return CompiledAggregate(call.function, argument, BIGINT, nullable=False)
    if call.function in ("sum", "avg") and not kind.numeric:
        detail = f"{call.function.upper()} takes numbers, and this is a value of type {kind.name}"
        raise located(detail, sql, *call.place)
    if not kind.ordered:
        detail = (
            f"{call.function.upper()} takes values with an order, and this is a value of type {kind.name}"
        )
        raise located(detail, sql, *call.place)
    try:
        result = _TYPES[call.function](kind)
    except ValueError as error:
        raise located(str(error), sql, *call.place) from None
    return CompiledAggregate(call.function, argument, result, argument.nullable)


def compile_having(condition: HavingCondition, resolve: Resolve, sql: str) -> CompiledHaving:
    """The aggregate of a condition, and the comparison of its value with the constant."""
    aggregate = compile_aggregate(condition.aggregate, resolve, sql)
    value = Field(0, 0, aggregate.type, nullable=True)
    sides = (ColumnRef(ColumnName(aggregate.function), condition.aggregate.place), condition.constant)
    compared = Operation(condition.op, sides, condition.place)
    evaluate = compile_condition(compared, lambda name: value, sql, "HAVING").evaluate
    return CompiledHaving(aggregate, lambda value: evaluate(((value,),)) is True)


def _sum(kind: ColumnType) -> ColumnType:
    if kind is DOUBLE:
        return DOUBLE
    if kind.name == "integer":
        return BIGINT
    whole, scale = bounds(kind)
    return unconstrained_numeric(whole + _COUNT_DIGITS + scale, scale)


def _average(kind: ColumnType) -> ColumnType:
    """At least 16 significant digits; the scale is greatest for the smallest sum of the most rows."""
    if kind is DOUBLE:
        return DOUBLE
    whole, scale = bounds(kind)
    greatest = min(36 + -(-scale // _BASE_DIGITS) * _BASE_DIGITS, _MAX_DISPLAY_SCALE)
    return unconstrained_numeric(whole + 1 + greatest, greatest)


def _extreme(kind: ColumnType) -> ColumnType:
    return unconstrained_numeric(sum(bounds(kind)), kind.scale) if base(kind) == "numeric" else kind


_TYPES: dict[str, Callable[[ColumnType], ColumnType]] = {
    "sum": _sum,
    "avg": _average,
    "min": _extreme,
    "max": _extreme,
}
