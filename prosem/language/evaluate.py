"""The value of a term: constants and parameters under + - * /, for a column of a given type.

Arithmetic has PostgreSQL's three kinds of numbers. A literal is an integer or a numeric by its look; a
parameter has the column's type (for an integer column a whole number is an integer and any other a
numeric). Integer / integer truncates toward zero, numerics are exact fractions (PostgreSQL rounds a
quotient to some twenty digits), and one double makes the operation an IEEE one.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from prosem.language.syntax import Arithmetic, Constant, Parameter, Term
from prosem.language.terms import MAX_DIGITS
from prosem.values.columns import INT64_MAX, ColumnType, number
from prosem.values.errors import InputError, LanguageError, pointer

Number = int | Fraction | float
MAX_LIST = 10_000  # values of a parameter that is a list
_MAX_BITS = 8_192  # of a numerator or denominator within arithmetic: twice the widest numeric
# types whose parameters may be given as a JSON string
_TAKES_TEXT = ("numeric", "text", "date", "timestamptz", "bytea")
_EXACT: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def evaluate(term: Term, params: Mapping[str, Any], type: ColumnType) -> Any:
    """The term's constant, checked against the type; None if a NULL takes part.

    A lone constant or parameter is returned as it was given. Linear in the term's size.

    >>> from prosem.values.columns import column_type
    >>> half = Arithmetic("/", Parameter("a"), Constant(2))
    >>> [evaluate(half, {"a": -7}, column_type(name)) for name in ("integer", "double precision")]
    [-3, -3.5]
    """
    try:
        if isinstance(term, Arithmetic):
            return _arithmetic(term, params, type)
        return _checked(term.value if isinstance(term, Constant) else _given(params, term, type), type)
    except ValueError as error:
        raise _error(term, str(error)) from None


def evaluate_list(name: str, params: Mapping[str, Any], type: ColumnType) -> list[Any]:
    """The constants of a parameter that is a list, each checked against the type; NULLs are left out.

    >>> from prosem.values.columns import column_type
    >>> evaluate_list("some", {"some": [3, None, 1]}, column_type("integer"))
    [3, 1]
    """
    at = pointer("params", name)
    if name not in params:
        raise InputError(f"the parameter :{name} is missing", at)
    given = params[name]
    if not isinstance(given, list | tuple):
        raise InputError(f":{name}: expected a list, for IN :{name}", at)
    if len(given) > MAX_LIST:
        raise InputError(
            f":{name}: the list has {len(given):,} values; at most {MAX_LIST:,} are supported", at
        )
    found = []
    for at_index, value in enumerate(given):
        try:
            checked = _checked(_accepted(value, type), type)
        except ValueError as error:
            raise InputError(f":{name}: {error}", pointer("params", name, at_index)) from None
        if checked is not None:
            found.append(checked)
    return found


def parameter_names(term: Term) -> Iterator[str]:
    """The parameters of a term, from left to right."""
    if isinstance(term, Parameter):
        yield term.name
    elif isinstance(term, Arithmetic):
        yield from parameter_names(term.left)
        yield from parameter_names(term.right)


def _checked(value: Any, type: ColumnType) -> Any:
    """The constant, if it is one of the type; ValueError otherwise."""
    if value.__class__ is int and type.numeric and abs(value) <= INT64_MAX:
        return value  # nearly every parameter of nearly every subscription
    if value is not None:
        value = _readable(value, type)
        type.constant(value)
    return value


def _given(params: Mapping[str, Any], parameter: Parameter, type: ColumnType) -> Any:
    if parameter.name not in params:
        raise InputError(f"the parameter :{parameter.name} is missing", pointer("params", parameter.name))
    return _accepted(params[parameter.name], type)


def _accepted(value: Any, type: ColumnType) -> Any:
    """A value of JSON, if the type takes texts or it is none."""
    if isinstance(value, str) and not type.name.startswith(_TAKES_TEXT):
        wanted = "true or false" if type.name == "boolean" else "a number"
        raise ValueError(f"expected {wanted}, got a text")
    return value


def _error(term: Term, detail: str) -> InputError:
    """At the first parameter of the term, or else in the text."""
    name = next(parameter_names(term), None)
    if name is None:
        return LanguageError(detail)
    return InputError(f":{name}: {detail}", pointer("params", name))


def _readable(value: Any, type: ColumnType) -> Any:
    """The value so that `type.constant` reads it exactly and in little time; ValueError for endless digits.

    A JSON float means the shortest decimal that gives it (0.1 is a tenth), unless the column is a double.
    """
    if not type.numeric or isinstance(value, bool):
        return value
    if isinstance(value, float) and type.name != "double precision":
        value = Decimal(repr(value))
    if isinstance(value, int):
        large = value.bit_length() > MAX_DIGITS * 10 // 3
    elif isinstance(value, str | Decimal):
        large = isinstance(value, str) and len(value) > MAX_DIGITS
        exact = _decimal(value) if not large else None
        if exact is not None and abs(exact.adjusted()) >= sys.float_info.max_10_exp:
            large = abs(exact.adjusted()) > MAX_DIGITS
            value = value if large else Fraction(exact)
    else:
        large = False
    if large:
        raise ValueError(f"the number has too many digits; {MAX_DIGITS:,} are supported")
    return value


def _decimal(value: str | Decimal) -> Decimal | None:
    try:
        exact = Decimal(value.strip()) if isinstance(value, str) else value
    except InvalidOperation:
        return None
    return exact if exact.is_finite() else None


def _arithmetic(term: Term, params: Mapping[str, Any], type: ColumnType) -> Number | None:
    if not type.numeric:
        raise ValueError(f"arithmetic is only supported for numbers, and the column is of type {type.name}")
    result = _walk(term, params, type)
    if isinstance(result, float) and not math.isfinite(result):
        raise ValueError("the result of the arithmetic is out of range for double precision")
    return result


def _walk(term: Term, params: Mapping[str, Any], type: ColumnType) -> Number | None:
    if isinstance(term, Constant):
        return _operand(term.value, type)
    if isinstance(term, Parameter):
        try:
            operand = _operand(_given(params, term, type), type)
            if operand is None:
                return None
            if type.name == "double precision":
                return float(operand)
            return Fraction(operand) if type.name.startswith("numeric") else operand
        except ValueError as error:
            raise _error(term, str(error)) from None
        except OverflowError:
            raise _error(term, "the number is out of range for double precision") from None
    left, right = _walk(term.left, params, type), _walk(term.right, params, type)
    if left is None or right is None:
        return None
    return _apply(term.op, left, right)


def _operand(value: Any, type: ColumnType) -> int | Fraction | None:
    """A constant within arithmetic: an integer, or a numeric."""
    if value is None:
        return None
    exact = number(_readable(Decimal(repr(value)) if isinstance(value, float) else value, type))
    is_integer = value.strip().lstrip("+-").isdecimal() if isinstance(value, str) else isinstance(value, int)
    return exact.numerator if is_integer else exact


def _apply(op: str, left: Number, right: Number) -> Number:
    if op == "/" and not right:
        raise ValueError("division by zero")
    try:
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
            return float(left / right if op == "/" else _EXACT[op](left, right))
    except OverflowError:
        raise ValueError("the result of the arithmetic is out of range for double precision") from None
    if op != "/":
        result: int | Fraction = _EXACT[op](left, right)
    elif isinstance(left, int) and isinstance(right, int):
        result = abs(left) // abs(right) * (1 if (left < 0) is (right < 0) else -1)
    else:
        result = Fraction(left) / Fraction(right)
    if max(result.numerator.bit_length(), result.denominator.bit_length()) > _MAX_BITS:
        raise ValueError("the result of the arithmetic has too many digits")
    return result
