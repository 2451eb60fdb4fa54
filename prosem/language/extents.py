"""The set of codes that an atom admits, as an `Extent` of closed intervals (prefixes of texts are half open).

A constant is rounded inward to the column's codes, so `x > 1.5` on an integer is [2, …). Codes of a type
that fits 64 bits stay within 64 bits: an end beyond them is no end, or leaves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cn.model.geometry import EVERYTHING, Extent, Interval
from prosem.language.evaluate import evaluate, evaluate_list, parameter_names
from prosem.language.syntax import Atom, Constant, Term
from prosem.values.columns import INT64_MAX, INT64_MIN, Code, ColumnType
from prosem.values.errors import InputError, LanguageError, pointer
from prosem.values.model import Column

NOTHING = Extent(())


def extent(atom: Atom, column: Column, params: Mapping[str, Any]) -> Extent:
    """What the column's code must be for the atom to be true; on NULL only IS NULL is.

    >>> from prosem.values.columns import column_type
    >>> from prosem.language.syntax import ColumnName
    >>> atom = Atom(ColumnName("x"), "<>", (Constant(5),))
    >>> [interval[:2] for interval in extent(atom, Column("x", column_type("integer")), {}).intervals]
    [(None, 4), (6, None)]
    """
    if atom.op == "is null":
        return Extent((), True)
    if atom.op == "is not null":
        return Extent((EVERYTHING,))
    kind = column.type
    if not kind.ordered:
        raise LanguageError(
            f"the {kind.name} column {column.name} cannot be compared; only IS [NOT] NULL applies to it"
        )
    if atom.op in ("like", "not like"):
        return _like(atom, column, params)
    if atom.list_name is not None:
        return _points(kind, evaluate_list(atom.list_name, params, kind))
    if atom.op == "in":
        return _points(kind, [_constant(term, column, params) for term in atom.args])
    constant = _constant(atom.args[0], column, params)
    if constant is None:
        return NOTHING
    if atom.op == "=":
        return _points(kind, [constant])
    kept = [
        within
        for interval in _sides(kind, atom.op, constant)
        if (within := _clamped(interval) if kind.int64 else interval)
    ]
    if len(kept) == 2 and _touch(kept[0].high, kept[1].low):
        return Extent((EVERYTHING,))  # x <> 1.5 on an integer excludes nothing
    return Extent(tuple(kept))


def _sides(kind: ColumnType, op: str, constant: Any) -> list[Interval]:
    """What lies below the constant, above it, or both."""
    sides = []
    if op in ("<", "<=", "<>"):
        sides.append(Interval(None, kind.high(constant, is_open=op != "<=")))
    if op in (">", ">=", "<>"):
        sides.append(Interval(kind.low(constant, is_open=op != ">="), None))
    return sides


def _constant(term: Term, column: Column, params: Mapping[str, Any]) -> Any:
    try:
        return evaluate(term, params, column.type)
    except LanguageError as error:
        raise LanguageError(
            f"the column {column.name} is of type {column.type.name}: {error.detail}"
        ) from None


def _touch(high: Code, low: Code) -> bool:
    """Whether no code lies between the ends (wide numerics end at a code that no value has)."""
    return low == high or (isinstance(high, int) and isinstance(low, int) and low == high + 1)


def _clamped(side: Interval) -> Interval | None:
    """One side of a constant within 64 bits; None if nothing of it is."""
    low, high = side.low, side.high
    if low is not None:
        return None if low > INT64_MAX else EVERYTHING if low <= INT64_MIN else side
    return None if high < INT64_MIN else EVERYTHING if high >= INT64_MAX else side


def _points(kind: ColumnType, constants: list[Any]) -> Extent:
    """The codes of the constants in ascending order; those that no value of the type equals are left out."""
    codes: set[Any] = {kind.exact(constant) for constant in constants if constant is not None}
    codes.discard(None)
    if kind.int64:
        codes = {code for code in codes if INT64_MIN <= code <= INT64_MAX}
    return Extent(tuple(Interval(code, code) for code in sorted(codes)))


# -- LIKE --------------------------------------------------------------------------------------------------
def _like(atom: Atom, column: Column, params: Mapping[str, Any]) -> Extent:
    term = atom.args[0]
    if column.type.name != "text":
        raise LanguageError(
            f"LIKE applies to text, and the column {column.name} is of type {column.type.name}"
        )
    pattern = _constant(term, column, params)
    if pattern is None:
        return NOTHING
    try:
        text, is_prefix = prefix(pattern)
    except ValueError as error:
        name = next(parameter_names(term), None)
        raise (
            LanguageError(str(error)) if name is None else InputError(str(error), pointer("params", name))
        ) from None
    if not is_prefix:
        return extent(Atom(atom.column, "=" if atom.op == "like" else "<>", (Constant(text),)), column, {})
    if not text:
        return Extent((EVERYTHING,)) if atom.op == "like" else NOTHING
    after = successor(text)
    if atom.op == "like":
        return Extent((Interval(text, after, False, after is not None),))
    below = Interval(None, text, False, True)
    return Extent((below,) if after is None else (below, Interval(after, None)))


def prefix(pattern: str) -> tuple[str, bool]:
    """The text of a LIKE pattern and whether anything may follow it; ValueError for any other pattern.

    >>> prefix("ab%"), prefix("100\\\\%"), prefix("%")
    (('ab', True), ('100%', False), ('', True))
    """
    text: list[str] = []
    at = 0
    while at < len(pattern) and pattern[at] not in "%_":
        if pattern[at] == "\\":
            at += 1
            if at == len(pattern):
                raise ValueError("a LIKE pattern must not end with the escape character")
        text.append(pattern[at])
        at += 1
    rest = pattern[at:]
    if rest.strip("%"):
        raise ValueError(f"LIKE is only supported with a prefix pattern like 'abc%', not {pattern[:40]!r}")
    return "".join(text), bool(rest)


def successor(text: str) -> str | None:
    """The least text above all that begin with `text`; None if there is none.

    >>> successor("ab"), successor("a\\U0010ffff"), successor("\\ud7ff")
    ('ac', 'b', '\\ue000')
    """
    text = text.rstrip("\U0010ffff")
    if not text:
        return None
    following = ord(text[-1]) + 1
    return text[:-1] + chr(0xE000 if 0xD800 <= following <= 0xDFFF else following)
