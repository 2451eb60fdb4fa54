"""Expressions of a view: from sqlglot's tree to `view_syntax`.

sqlglot reads functions, casts and operators of every dialect. Only those named here are taken; functions are recognised by
the name in the text, since the library gives synonyms of other databases (NVL) the same node.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import NoReturn

from sqlglot import exp

from prosem.language.condition import COMPARISONS
from prosem.language.positions import located
from prosem.language.terms import MAX_DIGITS
from prosem.language.tree import (
    Node,
    bare,
    column_name,
    construct,
    excerpt,
    function_name,
    operands,
    place,
    refuse,
    settings,
    unsupported,
)
from prosem.language.view_syntax import Call, Case, Cast, ColumnRef, Expression, Literal, Operation

MAX_DEPTH = 100  # nodes in one another; the depth of the recursion here and in the compiler
_PLAIN_DIGITS = 4_000  # Python refuses to print a longer int

_ARITHMETIC: dict[type[Node], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.DPipe: "||",
}
_CONNECTIVES: dict[type[Node], str] = {exp.And: "and", exp.Or: "or"}
_FUNCTIONS = ("abs", "lower", "upper", "coalesce")
_INSTEAD = (
    "expressions are made of columns, constants, + - * /, ||, comparisons, AND, OR, NOT, IS NULL, BETWEEN, IN, LIKE, "
    "CASE, COALESCE, abs, lower, upper and casts between types of numbers"
)
_TYPES = {
    "INT": "integer",
    "BIGINT": "bigint",
    "DOUBLE": "double precision",
    "TEXT": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMPTZ": "timestamptz",
    "VARBINARY": "bytea",
    "JSONB": "jsonb",
}


def expression(sql: str, node: Node, depth: int = 0) -> Expression:
    """The expression a node stands for, or LanguageError; linear in its size times its depth."""
    node = bare(node)
    if depth > MAX_DEPTH:
        refuse(
            f"the expression is nested too deeply; at most {MAX_DEPTH} parts stand in one another", sql, node
        )
    if type(node) in _CONNECTIVES:
        parts = tuple(expression(sql, part, depth + 1) for part in operands(node, type(node)))
        return Operation(_CONNECTIVES[type(node)], parts, place(sql, node))
    if type(node) in _ARITHMETIC:
        sides = _sides(sql, node, depth)
        return Operation(_ARITHMETIC[type(node)], sides, place(sql, node))
    if type(node) in COMPARISONS:
        for side in node.this, node.expression:
            if type(side) in COMPARISONS:
                refuse(
                    "two comparisons in a row are not supported; put one of them in parentheses", sql, node
                )
        return Operation(COMPARISONS[type(node)], _sides(sql, node, depth), place(sql, node))
    reader = _READERS.get(type(node))
    if reader is None:
        refuse_expression(sql, node)
    return reader(sql, node, depth + 1)


def refuse_expression(sql: str, node: Node) -> NoReturn:
    if isinstance(node, exp.Placeholder | exp.Parameter):
        name = str(node.this)
        found = re.search(rf":\s*{re.escape(name)}\b", sql)
        start, end = found.span() if found else place(sql, node)
        raise located(f"the parameter :{name} is not supported; a view has constants only", sql, start, end)
    if isinstance(node, exp.AggFunc):
        label = function_name(sql, node)
        refuse(f"{label} within an expression or condition is not supported; select it alone", sql, node)
    if isinstance(node, exp.Star):
        refuse("* is not supported; name the columns of the view", sql, node)
    unsupported(sql, node, _INSTEAD)


def _sides(sql: str, node: Node, depth: int) -> tuple[Expression, Expression]:
    return expression(sql, node.this, depth + 1), expression(sql, node.expression, depth + 1)


# -- leaves ------------------------------------------------------------------------------------------------
def _column(sql: str, node: Node, depth: int) -> Expression:
    assert isinstance(node, exp.Column)
    if isinstance(node.this, exp.Star):
        refuse_expression(sql, node.this)
    return ColumnRef(column_name(sql, node), place(sql, node))


def _literal(sql: str, node: Node, depth: int) -> Expression:
    text = str(node.this)
    if node.is_string:
        return Literal(text, place(sql, node))
    return Literal(_number(sql, node, text), place(sql, node))


def _number(sql: str, node: Node, text: str) -> int | Decimal:
    """1 is an int, 1.50 a Decimal of two decimals, 1e3 one of none, as PostgreSQL reads them."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        refuse(f"{excerpt(sql, node)!r} is not a number", sql, node)
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if abs(value.adjusted()) > MAX_DIGITS or len(digits) > MAX_DIGITS:
        refuse(f"the number has too many digits; {MAX_DIGITS:,} are supported", sql, node)
    if text.isdecimal() and len(text) <= _PLAIN_DIGITS:
        return int(text)
    return Decimal((0, digits + (0,) * exponent, 0)) if exponent > 0 else value


def _negative(sql: str, node: Node, depth: int) -> Expression:
    """A sign of a constant belongs to it: -2147483648 is an integer, though 2147483648 is a bigint."""
    operand = expression(sql, node.this, depth)
    if isinstance(operand, Literal) and not isinstance(operand.value, bool):
        if isinstance(operand.value, int):
            return Literal(-operand.value, operand.place)
        if isinstance(operand.value, Decimal):
            return Literal(operand.value.copy_negate() if operand.value else operand.value, operand.place)
    return Operation("neg", (operand,), place(sql, node))


# -- conditions --------------------------------------------------------------------------------------------
def _not(sql: str, node: Node, depth: int) -> Expression:
    inner = bare(node.this)
    if (
        isinstance(inner, exp.In | exp.Between) and inner is node.this
    ):  # how sqlglot reads NOT IN, NOT BETWEEN
        positive = expression(sql, inner, depth)
        assert isinstance(positive, Operation)
        return Operation(f"not {positive.op}", positive.args, positive.place)
    return Operation("not", (expression(sql, inner, depth),), place(sql, node))


def _is(sql: str, node: Node, depth: int) -> Expression:
    what, negated = node.expression, bool(settings(node).get("negate"))
    while isinstance(what, exp.Not):
        what, negated = what.this, not negated
    word = "not " if negated else ""
    if isinstance(what, exp.Null):
        op = f"is {word}null"
    elif isinstance(what, exp.Boolean):
        op = f"is {word}{str(what.this).lower()}"
    else:
        refuse("IS takes NULL, TRUE or FALSE, each with or without NOT", sql, node)
    return Operation(op, (expression(sql, node.this, depth),), place(sql, node))


def _between(sql: str, node: Node, depth: int) -> Expression:
    if settings(node).get("symmetric"):
        refuse("BETWEEN SYMMETRIC is not supported; write BETWEEN with the smaller end first", sql, node)
    parts = tuple(expression(sql, part, depth) for part in (node.this, node.args["low"], node.args["high"]))
    return Operation("between", parts, place(sql, node))


def _in(sql: str, node: Node, depth: int) -> Expression:
    given = settings(node)
    if "query" in given:
        refuse("a subquery (IN (SELECT …)) is not supported; list the values, or join the table", sql, node)
    if isinstance(given.get("field"), exp.Placeholder):
        refuse_expression(sql, given["field"])
    if set(given) != {"this", "expressions"}:
        refuse("IN takes a list of at least one value in parentheses, like IN (1, 2)", sql, node)
    parts = (node.this, *given["expressions"])
    return Operation("in", tuple(expression(sql, part, depth) for part in parts), place(sql, node))


def _like(sql: str, node: Node, depth: int) -> Expression:
    op = "not like" if settings(node).get("negate") else "like"
    pattern = expression(sql, node.expression, depth)
    if not isinstance(pattern, Literal):
        refuse("LIKE takes a quoted pattern, like 'abc%'", sql, node)
    return Operation(op, (expression(sql, node.this, depth), pattern), place(sql, node))


# -- functions ---------------------------------------------------------------------------------------------
def _call(sql: str, node: Node, depth: int) -> Expression:
    assert isinstance(node, exp.Func)
    name = function_name(sql, node).lower()
    arguments = [node.this, *node.args.get("expressions", [])]
    if name not in _FUNCTIONS or any(isinstance(argument, exp.Distinct) for argument in arguments):
        unsupported(sql, node, _INSTEAD)
    return Call(name, tuple(expression(sql, argument, depth) for argument in arguments), place(sql, node))


def _case(sql: str, node: Node, depth: int) -> Expression:
    def read(part: Node | None) -> Expression | None:
        return None if part is None else expression(sql, part, depth)

    whens = tuple(
        (expression(sql, part.this, depth), expression(sql, part.args["true"], depth))
        for part in node.args["ifs"]
    )
    return Case(whens, read(node.args.get("default")), read(node.args.get("this")), place(sql, node))


def _cast(sql: str, node: Node, depth: int) -> Expression:
    if type(node) is not exp.Cast or set(settings(node)) - {"this", "to"}:
        refuse(f"{construct(sql, node)} is not supported; write CAST(x AS type)", sql, node)
    return Cast(expression(sql, node.this, depth), _type_name(sql, node), place(sql, node))


def _type_name(sql: str, node: exp.Cast) -> str:
    target = node.to
    kind = str(getattr(target.this, "name", target.this))
    numbers = [str(getattr(part, "this", part)) for part in target.expressions]
    plain = set(settings(target)) <= {"this", "expressions"}
    if plain and kind == "DECIMAL" and len(numbers) <= 2 and all(text.isdecimal() for text in numbers):
        return f"numeric({numbers[0]},{numbers[1] if len(numbers) > 1 else 0})" if numbers else "numeric"
    if plain and not numbers and kind in _TYPES:
        return _TYPES[kind]
    refuse(
        f"a cast to {target.sql(dialect='postgres').lower()} is not supported; the types of numbers are integer, bigint, "
        "numeric, numeric(p,s) and double precision",
        sql,
        node,
    )


_READERS: dict[type[Node], Callable[[str, Node, int], Expression]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda sql, node, depth: Literal(bool(node.this), place(sql, node)),
    exp.Null: lambda sql, node, depth: Literal(None, place(sql, node)),
    exp.Neg: _negative,
    exp.Not: _not,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.Abs: _call,
    exp.Lower: _call,
    exp.Upper: _call,
    exp.Coalesce: _call,
    exp.Case: _case,
    exp.Cast: _cast,
}
