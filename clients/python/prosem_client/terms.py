"""Arithmetic over parameters as the server computes it: `:pos - :reach`, `(:lo + :hi) / 2`.

[Parametric] 7.3 gives each such expression a variable of its own, which is computed anew whenever a variable in it is
assigned. The value of a term is that value: sent in the place of the term, it admits the same rows.

Invariant: numbers have the server's three kinds. A literal is an integer or a numeric by its look, a parameter has the
kind of its column; integer / integer truncates toward zero, numerics are exact fractions, and one double makes the
operation an IEEE one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from prosem_client.tokens import Token, Tokens

Number = int | Fraction | float
MAX_OPERATORS = 100  # of a term that is read here
MAX_DIGITS = 10_000  # of a parameter, as at the server
_LITERAL_DIGITS = 300
_MAX_BITS = 8_192  # of a numerator or denominator, as at the server
_EXACT: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


class Parameter(NamedTuple):
    """`:name`."""

    name: str


class Operation(NamedTuple):
    """`left op right`; a sign is `0 - x`."""

    op: str
    left: Term
    right: Term


Term = int | Fraction | Parameter | Operation


class TermError(ValueError):
    """A term has no value with these parameters; `name` is the parameter to blame."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(detail)
        self.name = name


# -- reading -------------------------------------------------------------------------------------------------
def read_term(tokens: Tokens) -> Term | None:
    """The term that the tokens are; None if they are anything else, such as a cast or a text.

    >>> from prosem_client.tokens import tokens_of
    >>> read_term(tokens_of(":pos - :reach"))
    Operation(op='-', left=Parameter(name='pos'), right=Parameter(name='reach'))
    >>> read_term(tokens_of("'2024-01-01'")) is None
    True
    """
    if sum(token.kind == "sign" for token in tokens) > MAX_OPERATORS:
        return None
    try:
        term, rest = _sum(tokens)
    except _Unread:
        return None
    return None if rest else term


def parameters_of(term: Term) -> Iterator[str]:
    """The names of its parameters from left to right, as often as they stand there."""
    if isinstance(term, Parameter):
        yield term.name
    elif isinstance(term, Operation):
        yield from parameters_of(term.left)
        yield from parameters_of(term.right)


class _Unread(Exception):
    pass


def _sum(tokens: Tokens) -> tuple[Term, Tokens]:
    return _chain(tokens, "+-", _product)


def _product(tokens: Tokens) -> tuple[Term, Tokens]:
    return _chain(tokens, "*/", _factor)


def _chain(tokens: Tokens, signs: str, part: Callable[[Tokens], tuple[Term, Tokens]]) -> tuple[Term, Tokens]:
    term, rest = part(tokens)
    while rest and rest[0].kind == "sign" and rest[0].text in signs:
        right, after = part(rest[1:])
        term, rest = Operation(rest[0].text, term, right), after
    return term, rest


def _factor(tokens: Tokens) -> tuple[Term, Tokens]:
    if not tokens:
        raise _Unread
    first, rest = tokens[0], tokens[1:]
    if first.is_sign("-"):
        term, rest = _factor(rest)
        negated = -term if isinstance(term, int | Fraction) else Operation("-", 0, term)
        return negated, rest
    if first.is_sign("("):
        term, rest = _sum(rest)
        if not rest or not rest[0].is_sign(")"):
            raise _Unread
        return term, rest[1:]
    if first.kind == "parameter":
        return Parameter(first.text), rest
    if first.kind == "number":
        return _literal(first), rest
    raise _Unread


def _literal(token: Token) -> int | Fraction:
    if len(token.text) > _LITERAL_DIGITS:
        raise _Unread
    return int(token.text) if token.text.isdecimal() else Fraction(token.text)


# -- computing -----------------------------------------------------------------------------------------------
def evaluate(term: Term, params: Mapping[str, Any], operand: Callable[[Any], Number]) -> Number | None:
    """Its value with these parameters, None if one is NULL; TermError if the server would refuse them.

    `operand` reads a parameter as a number of the column's kind. Linear in the term.

    >>> half = Operation("/", Parameter("a"), 2)
    >>> evaluate(half, {"a": -7}, int), evaluate(half, {"a": -7}, float), evaluate(half, {"a": -7}, Fraction)
    (-3, -3.5, Fraction(-7, 2))
    """
    name = next(parameters_of(term))
    try:
        result = _walk(term, params, operand)
    except TermError:
        raise
    except ValueError as error:
        raise TermError(name, str(error)) from None
    if isinstance(result, float) and not math.isfinite(result):
        raise TermError(name, "the result of the arithmetic is out of range for double precision")
    return result


def given(params: Mapping[str, Any], name: str) -> Any:
    """A parameter's value; TermError if it is missing."""
    if name not in params:
        raise TermError(name, f"the parameter :{name} is missing")
    return params[name]


def settled(value: Number, digits: int, upward: bool) -> Any:
    """A value as it is sent for a column of so many digits after the point, rounded to them where it must be.

    >>> settled(Fraction(1, 3), 2, True), settled(Fraction(1, 3), 0, False), settled(0.1, 0, True)
    ('0.34', 0, 0.1)
    """
    if isinstance(value, float):
        return value
    scaled = value * 10**digits
    units = math.ceil(scaled) if upward else math.floor(scaled)
    return format(Decimal(f"{units}E-{digits}"), "f") if digits else units


def _walk(term: Term, params: Mapping[str, Any], operand: Callable[[Any], Number]) -> Number | None:
    if isinstance(term, Parameter):
        value = given(params, term.name)
        try:
            return None if value is None else operand(_bounded(value))
        except OverflowError:
            raise TermError(term.name, "the number is out of range for double precision") from None
        except ValueError as error:
            raise TermError(term.name, str(error)) from None
    if not isinstance(term, Operation):
        return term
    left, right = _walk(term.left, params, operand), _walk(term.right, params, operand)
    return None if left is None or right is None else _apply(term.op, left, right)


def _bounded(value: Any) -> Any:
    """The value, unless its digits are endless."""
    if isinstance(value, int):
        is_large = value.bit_length() > MAX_DIGITS * 10 // 3
    elif isinstance(value, Decimal):
        is_large = value.is_finite() and abs(value.adjusted()) > MAX_DIGITS
    else:
        is_large = isinstance(value, str) and (len(value) > MAX_DIGITS or _is_far(value))
    if is_large:
        raise ValueError(f"the number has too many digits; {MAX_DIGITS:,} are supported")
    return value


def _is_far(text: str) -> bool:
    _, mark, exponent = text.strip().lower().partition("e")
    return bool(mark) and exponent.lstrip("+-").isdecimal() and len(exponent) > 5


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
