"""Compiled expressions: their type as PostgreSQL has it, and a function from joined rows to their value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from prosem.language.positions import located
from prosem.language.view_syntax import Expression
from prosem.values.columns import ColumnType, Value
from prosem.values.model import Row
from prosem.views.arithmetic import EvaluationError
from prosem.views.checker import Checker, Resolve
from prosem.views.generated import Rows, row_function, value_function
from prosem.views.typed import Field, Node

__all__ = [
    "Compiled",
    "CompiledRow",
    "EvaluationError",
    "Field",
    "Resolve",
    "Rows",
    "compile_condition",
    "compile_expression",
    "compile_row",
]


class Compiled(NamedTuple):
    """`evaluate` takes one row per source, None for the missing right side of a LEFT JOIN; it may raise EvaluationError."""

    type: ColumnType
    nullable: bool
    evaluate: Callable[[Rows], Value]


class CompiledRow(NamedTuple):
    """Several expressions, evaluated from left to right by one function; what two of them share is computed once."""

    types: tuple[ColumnType, ...]
    nullable: tuple[bool, ...]
    evaluate: Callable[[Rows], Row]


def compile_expression(expression: Expression, resolve: Resolve, sql: str) -> Compiled:
    """LanguageError for what PostgreSQL refuses (`name + 1`), or the contract leaves out; `resolve` raises its own.

    >>> from prosem.language.syntax import ColumnName
    >>> from prosem.language.view_syntax import ColumnRef, Literal, Operation
    >>> from prosem.values.columns import column_type
    >>> x = Field(0, 1, column_type("integer"), nullable=True)
    >>> next_one = Operation("+", (ColumnRef(ColumnName("x")), Literal(1)))
    >>> compiled = compile_expression(next_one, lambda name: x, "SELECT x + 1 AS y FROM t")
    >>> compiled.type.name, compiled.evaluate([("a", 6)]), compiled.evaluate([("a", None)])
    ('integer', 7, None)
    """
    return _compiled(Checker(resolve, sql).typed(expression), expression, sql)


def compile_condition(expression: Expression, resolve: Resolve, sql: str, what: str = "WHERE") -> Compiled:
    """A boolean expression; LanguageError if it is of another type. A row passes if the value is True (not NULL)."""
    return _compiled(Checker(resolve, sql).condition(expression, what), expression, sql)


def compile_row(expressions: Sequence[Expression], resolve: Resolve, sql: str) -> CompiledRow:
    """The select list of a view without GROUP BY."""
    checker = Checker(resolve, sql)
    nodes = [checker.typed(expression) for expression in expressions]
    try:
        evaluate = row_function(nodes)
    except ValueError as error:
        raise located(str(error), sql, *expressions[0].place) from None
    return CompiledRow(tuple(node.type for node in nodes), tuple(node.nullable for node in nodes), evaluate)


def _compiled(node: Node, expression: Expression, sql: str) -> Compiled:
    try:
        return Compiled(node.type, node.nullable, value_function(node))
    except ValueError as error:
        raise located(str(error), sql, *expression.place) from None
