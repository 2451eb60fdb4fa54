"""The dimensions in which subscriptions of one statement differ: what their constants are compared with.

Statistics hold a histogram for each dimension. A type names its dimensions (`SubscriptionType.dimensions`); most are
comparisons of WHERE, as `risk >=`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prosem.language.evaluate import evaluate, evaluate_list
from prosem.language.notify import duration, sizes_of
from prosem.language.resolve import column, owner
from prosem.language.syntax import Atom, Query, Term
from prosem.values.columns import ColumnType, column_type
from prosem.values.errors import ProsemError
from prosem.values.model import Table

# open and closed ends are one dimension: both are the low or the high end of a range
_ENDS = {"<": "<=", "<=": "<=", ">": ">=", ">=": ">=", "=": "=", "in": "=", "<>": "<>"}
Constants = Callable[[Mapping[str, Any]], list[Any]]  # of the parameters of a subscription


@dataclass(frozen=True)
class Dimension:
    """What a constant is compared with, the type of the constants, and those of one subscription.

    A constant that a subscription has no value for is None. One statement may have a dimension more than once.
    """

    name: str
    type: ColumnType
    constants: Constants


def compared(query: Query, tables: Sequence[Table], is_qualified: bool = False) -> tuple[Dimension, ...]:
    """Every comparison in WHERE of a column with a constant, once; `is_qualified`: columns are named with their tables.

    LIKE and IS NULL have no order and are left out.
    """
    found = dict.fromkeys((atom, term) for some in query.where for atom in some for term in _terms(atom))
    made = []
    for atom, term in found:
        table = owner(query, tables, atom.column)
        type = column(query, table, atom.column).type
        name = f"{table.name}." * is_qualified + atom.column.name
        made.append(Dimension(f"{name} {_ENDS[atom.op]}", type, _constants(term, type)))
    return tuple(made)


def constant_of(name: str, op: str, type: ColumnType, term: Term) -> Dimension:
    """The dimension of something else that is compared with a term, as an aggregate of HAVING."""
    return Dimension(f"{name} {_ENDS[op]}", type, _constants(term, type))


def radii(notify: Mapping[str, Any] | None) -> tuple[Dimension, ...]:
    """How far a value must move: one dimension for each radius of `notify`; durations in seconds.

    >>> [(one.name, one.constants({"r": 2.5})) for one in radii({"may": "PT1M", "must": ":r"})][1]
    ('NOTIFY must', [2.5])
    """
    given = notify or {}
    return tuple(
        Dimension(f"NOTIFY {name}", column_type("double precision"), _radius(given, name)) for name in given
    )


def placed(value: Any, type: ColumnType) -> Any:
    """A constant as histograms hold it, numbers as doubles; None if it has no place in an order."""
    try:
        if value is None or not type.ordered:
            return None
        value = type.constant(value)
        return float(value) if type.numeric else int(value) if isinstance(value, bool) else value
    except (ValueError, OverflowError):
        return None


def _terms(atom: Atom) -> Sequence[Term | str]:
    if atom.op not in _ENDS:
        return ()
    return atom.args if atom.list_name is None else (atom.list_name,)


def _constants(term: Term | str, type: ColumnType) -> Constants:
    def constants(params: Mapping[str, Any]) -> list[Any]:
        try:
            if isinstance(term, str):
                return evaluate_list(term, params, type)
            return [evaluate(term, params, type)]
        except ProsemError:
            return [None]

    return constants


def _radius(notify: Mapping[str, Any], name: str) -> Constants:
    def constants(params: Mapping[str, Any]) -> list[Any]:
        try:
            size = sizes_of({name: notify[name]}, params)[name].value
        except (ProsemError, KeyError):
            return [None]
        is_duration = isinstance(size, str) and size.startswith("P")
        return [duration(size).total_seconds() if is_duration else float(size)]

    return constants
