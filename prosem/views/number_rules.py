"""Types of numbers: which one a result has, arithmetic over them and casts between them, as in PostgreSQL.

The types are in a row: integer, bigint, numeric, double precision. Operands of different types are cast to the later one.
ValueError says what PostgreSQL, or this server, does not take.
"""

from __future__ import annotations

from collections.abc import Sequence

from prosem.values.columns import ColumnType, column_type
from prosem.values.numerics import bounds, is_unconstrained, unconstrained_numeric
from prosem.views.arithmetic import GREATEST, INT32, INT64, EvaluationError, fitted
from prosem.views.generated import value_function
from prosem.views.typed import Apply, Fixed, Node

INTEGER, BIGINT, DOUBLE = (column_type(name) for name in ("integer", "bigint", "double precision"))
_ORDER = ("integer", "bigint", "numeric", "double precision")
_DOUBLE_BOUNDS = (309, 338)  # of a double that is cast to numeric: 15 digits from 1e308 to 5e-324
_CONTEXT_DIGITS = (
    28  # of Python's decimal arithmetic; with as many a result is exact, and takes a fifth of the time
)
_OPERATORS = {"+": "add({0}, {1})", "-": "subtract({0}, {1})", "*": "multiply({0}, {1})"}
_RANGES = {
    "integer": f'if not {INT32[0]} <= {{result}} <= {INT32[1]}: raise EvaluationError("integer out of range")',
    "bigint": f'if not {INT64[0]} <= {{result}} <= {INT64[1]}: raise EvaluationError("bigint out of range")',
    "double precision": f"if not -{GREATEST!r} <= {{result}} <= {GREATEST!r}: "
    'raise EvaluationError("value out of range: overflow")',
}
_UNDERFLOWS = {
    "*": 'if {result} == 0.0 and {0} != 0 and {1} != 0: raise EvaluationError("value out of range: underflow")',
    "/": 'if {result} == 0.0 and {0} != 0: raise EvaluationError("value out of range: underflow")',
}
_NO_MINUS_ZERO = "if not {result}: {result} = {result}.copy_abs()"
_DIVISOR = 'if {1} == 0: raise EvaluationError("division by zero")'


def base(kind: ColumnType) -> str:
    """The name of the type without precision and scale."""
    return kind.name.partition("(")[0]


def common_number(kinds: Sequence[ColumnType]) -> ColumnType:
    """The later one of the types in their row; a numeric with room for the values of all."""
    last = max((base(kind) for kind in kinds), key=_ORDER.index)
    if last != "numeric":
        return column_type(last)
    return _numeric(*(max(sizes) for sizes in zip(*map(bounds, kinds), strict=True)))


def _numeric(whole: int, scale: int) -> ColumnType:
    return unconstrained_numeric(whole + scale, scale)


# -- arithmetic ------------------------------------------------------------------------------------------------------
def arithmetic(op: str, left: Node, right: Node) -> Node:
    """`left op right` over two numbers: + - * /"""
    kind = common_number([left.type, right.type])
    if kind is DOUBLE:
        return _double_arithmetic(op, left, right)
    if op == "/":
        raise ValueError(
            f"the operator / is supported for double precision, and this is {left.type.name} / {right.type.name}; "
            "write CAST(… AS double precision) / …"
        )
    if kind.name in _RANGES:
        return Apply(kind, f"{{0}} {op} {{1}}", (left, right), after=_RANGES[kind.name])
    (whole, scale), (other_whole, other_scale) = bounds(left.type), bounds(right.type)
    if op == "*":
        kind = _numeric(whole + other_whole, scale + other_scale)
    else:
        kind = _numeric(max(whole, other_whole) + 1, max(scale, other_scale))
    if kind.digits > _CONTEXT_DIGITS:
        return Apply(kind, _OPERATORS[op], (left, right))
    return Apply(kind, f"{{0}} {op} {{1}}", (left, right), after=_NO_MINUS_ZERO if op == "*" else "")


def _double_arithmetic(op: str, left: Node, right: Node) -> Node:
    sides = tuple(side if base(side.type) != "numeric" else cast(side, DOUBLE) for side in (left, right))
    checks = _RANGES[DOUBLE.name]
    if op in _UNDERFLOWS:
        checks += f"\n{_UNDERFLOWS[op]}"
    return Apply(DOUBLE, f"{{0}} {op} {{1}}", sides, before=_DIVISOR if op == "/" else "", after=checks)


def negative(node: Node) -> Node:
    if base(node.type) == "numeric":
        kind = _numeric(*bounds(node.type))
        return Apply(kind, "minus({0})" if kind.digits > _CONTEXT_DIGITS else "-{0}", (node,))
    return Apply(node.type, "-{0}", (node,), after="" if node.type is DOUBLE else _RANGES[node.type.name])


def absolute(node: Node) -> Node:
    if base(node.type) == "numeric":
        return Apply(_numeric(*bounds(node.type)), "{0}.copy_abs()", (node,))
    return Apply(node.type, "abs({0})", (node,), after="" if node.type is DOUBLE else _RANGES[node.type.name])


# -- casts -----------------------------------------------------------------------------------------------------------
def numeric_of_type(kind: ColumnType) -> ColumnType:
    """`numeric` with room for all values of a type of numbers."""
    return _numeric(*(_DOUBLE_BOUNDS if kind is DOUBLE else bounds(kind)))


def cast(node: Node, target: ColumnType) -> Node:
    """The node as a value of another type of numbers; a constant is cast at once.

    To `numeric` without bounds of its own, give a type with room for the node's values.
    """
    source, to = base(node.type), base(target)
    if to == "double precision":
        code = {"integer": "float({0})", "bigint": "float({0})", "numeric": "double_of({0})"}.get(
            source, "{0}"
        )
    elif to == "numeric":
        code = {
            "integer": "Decimal({0})",
            "bigint": "Decimal({0})",
            "double precision": "numeric_of({0})",
        }.get(source, "{0}")
    else:
        code = {"numeric": "rounded({0})", "double precision": "round({0})"}.get(source, "{0}")
    is_wider = source == to or (source, to) == ("integer", "bigint")
    check = _RANGES[to] if to in ("integer", "bigint") and not is_wider else ""
    made: Node = node
    if code != "{0}" or check or (to != "numeric" and node.type is not target):
        kind = numeric_of_type(node.type) if to == "numeric" else target
        made = folded(Apply(kind, code, (node,), after=check))
    if to != "numeric":
        return made
    if is_unconstrained(target):
        return (
            made if is_unconstrained(made.type) else folded(Apply(numeric_of_type(made.type), "{0}", (made,)))
        )
    if made.type is target:
        return made
    whole, scale = bounds(target)
    fit = Fixed(target, fitted(whole + scale, scale), f"fitted {target.name}")
    return folded(Apply(target, "{1}({0})", (made, fit)))


def folded(node: Apply) -> Node:
    """The value of a strict function of constants, or the function; NULL if an argument is the constant NULL."""
    if any(isinstance(argument, Fixed) and argument.value is None for argument in node.args):
        return Fixed(node.type, None)
    if not all(isinstance(argument, Fixed) for argument in node.args):
        return node
    try:
        return fixed(node.type, value_function(node)(()))
    except EvaluationError as error:
        raise ValueError(str(error)) from None


def fixed(kind: ColumnType, value: object) -> Fixed:
    return Fixed(kind, value, repr(value))
