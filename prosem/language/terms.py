"""Constants, parameters and the arithmetic over them: from sqlglot's tree to a `Term`.

A cast says how a quoted constant is to be read; it is taken only where it cannot change the value
afterwards.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import NoReturn

from sqlglot import exp

from prosem.language.syntax import Arithmetic, Constant, Parameter, Term
from prosem.language.tree import Node, bare, excerpt, refuse, settings, unsupported
from prosem.values.columns import column_type

MAX_OPERATORS = 100  # one below another in a term; the depth of the recursion here and in `evaluate`
MAX_DIGITS = 10_000
_PLAIN_DIGITS = 4_000  # Python refuses to print a longer int, so a longer integer stands as a Decimal

_OPERATORS: dict[type[Node], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
_INSTEAD = "a column is compared with constants, :parameters and + - * / over them"
_TEXT_CASTS = {"TEXT", "VARCHAR", "DATE", "TIMESTAMPTZ", "VARBINARY", "BOOLEAN"}
_INTEGER_CASTS = {"INT", "BIGINT"}
_NUMBER_CASTS = {"DECIMAL", "DOUBLE", *_INTEGER_CASTS}
_CAST_NAMES = "text, boolean, date, timestamptz, bytea, integer, bigint, numeric and double precision"
_QUOTED_NUMBER = re.compile(r"\s*([+-]?)((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*", re.I | re.A)
_ODD_CONSTANTS = (
    exp.ByteString,
    exp.HexString,
    exp.BitString,
    exp.RawString,
    exp.UnicodeString,
    exp.National,
)


def term(sql: str, node: Node, depth: int = 0) -> Term:
    """The term a node stands for, or LanguageError."""
    if depth > MAX_OPERATORS:
        refuse(
            f"the arithmetic is nested too deeply; at most {MAX_OPERATORS} operators build on each other",
            sql,
            node,
        )
    node = bare(node)
    operator = _OPERATORS.get(type(node))
    if operator:
        return Arithmetic(operator, term(sql, node.this, depth + 1), term(sql, node.expression, depth + 1))
    if isinstance(node, exp.Neg):
        return _negative(term(sql, node.this, depth + 1))
    if isinstance(node, exp.Literal):
        return Constant(str(node.this)) if node.is_string else _number(sql, node, str(node.this))
    if isinstance(node, exp.Boolean):
        return Constant(bool(node.this))
    if isinstance(node, exp.Null):
        return Constant(None)
    if isinstance(node, exp.Placeholder | exp.Parameter):
        return _parameter(sql, node)
    if isinstance(node, exp.Cast):
        return _cast(sql, node)
    _refuse_term(sql, node)


def _refuse_term(sql: str, node: Node) -> NoReturn:
    if isinstance(node, exp.Column):
        name = excerpt(sql, node)
        refuse(
            f"comparing with the column {name} is not supported; {_INSTEAD}, tables are joined by USING or ON",
            sql,
            node,
        )
    if isinstance(node, _ODD_CONSTANTS):
        refuse(
            "only plain constants are supported ('text', 12, 1.5); give any other as a :parameter", sql, node
        )
    unsupported(sql, node, _INSTEAD)


def _negative(operand: Term) -> Term:
    value = operand.value if isinstance(operand, Constant) else None
    if isinstance(value, Decimal):
        return Constant(value.copy_negate())
    if type(value) is int:
        return Constant(-value)
    return Arithmetic("-", Constant(0), operand)


def _number(sql: str, node: Node, text: str) -> Constant:
    """The exact number of a literal; Decimal's constructor never rounds."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        refuse(f"{excerpt(sql, node)!r} is not a number", sql, node)
    if abs(value.adjusted()) > MAX_DIGITS or len(value.as_tuple().digits) > MAX_DIGITS:
        refuse(f"the number has too many digits; {MAX_DIGITS:,} are supported", sql, node)
    return Constant(int(text) if text.isdecimal() and len(text) <= _PLAIN_DIGITS else value)


def _parameter(sql: str, node: Node) -> Parameter:
    name = node.args.get("this")
    if not isinstance(node, exp.Placeholder) or not isinstance(name, str) or not name:
        refuse("a parameter is written as a colon and a name, like :lo", sql, node)
    return Parameter(name)


def _cast(sql: str, node: exp.Cast) -> Term:
    """A cast of a quoted constant or of a parameter; the column's type decides how the text is read."""
    inner, target = bare(node.this), node.to
    kind = str(getattr(target.this, "name", target.this))
    if (
        type(node) is not exp.Cast
        or set(settings(node)) != {"this", "to"}
        or set(settings(target)) != {"this"}
    ):
        refuse("this cast is not supported; write the constant alone, the column's type decides", sql, node)
    if isinstance(inner, exp.Null):
        return Constant(None)
    if isinstance(inner, exp.Placeholder) and kind in _TEXT_CASTS:
        return _parameter(sql, inner)
    if not isinstance(inner, exp.Literal) or not inner.is_string:
        refuse("a cast is only supported on a quoted constant, like '2024-12-31'::date", sql, node)
    text = str(inner.this)
    if kind == "DATE":
        _check_date(sql, inner, text)
    if kind in _TEXT_CASTS:
        return Constant(text)
    if kind in _NUMBER_CASTS and (match := _QUOTED_NUMBER.fullmatch(text)):
        number = _number(sql, inner, match[2])
        if kind in _INTEGER_CASTS and not isinstance(number.value, int):
            refuse(f"{text[:40]!r} is not a whole number", sql, inner)
        exact = number if kind in _INTEGER_CASTS else Constant(Decimal(match[2]))
        return _negative(exact) if match[1] == "-" else exact
    refuse(f"this cast is not supported; a quoted constant may be cast to {_CAST_NAMES}", sql, node)


def _check_date(sql: str, node: Node, text: str) -> None:
    try:
        column_type("date").read(text)
    except ValueError as error:
        refuse(str(error), sql, node)
