"""A view's SELECT as the parser leaves it: expressions over names, nothing resolved against a catalog yet.

Every node has the place in the text that it was written at, for messages; equality leaves it out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from prosem.language.syntax import ColumnName, Constant, Source

Place = tuple[int | None, int | None]  # start and end in the text, as `positions.located` takes them
NOWHERE: Place = (None, None)


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """`x` or `t.x`."""

    name: ColumnName
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Constant):
    """A constant of the text: int (1), Decimal (1.5), str ('a', of any type that its context asks for), bool, None (NULL).

    A Decimal keeps its decimals, 1.50 differs from 1.5: they are the display scale of a result.
    """

    place: Place = field(default=NOWHERE, compare=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[type, object]:
        value = self.value
        return type(value), value.as_tuple() if isinstance(value, Decimal) else value


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator and its operands.

    `op` with two operands: + - * / || = <> < <= > >=, like, not like; with two or more: and, or; with one: not, neg,
    is null, is not null, is true, is not true, is false, is not false. `in` and `not in` take the value, then the list;
    `between` and `not between` the value and both ends.
    """

    op: str
    args: tuple[Expression, ...]
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """abs, lower, upper (one argument) or coalesce (one or more)."""

    function: str
    args: tuple[Expression, ...]
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Case:
    """CASE [operand] WHEN condition THEN result … [ELSE default] END; an operand is compared with each condition."""

    whens: tuple[tuple[Expression, Expression], ...]
    default: Expression | None = None
    operand: Expression | None = None
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """CAST(expression AS type_name); the name is one that `column_type` takes, or "numeric"."""

    expression: Expression
    type_name: str
    place: Place = field(default=NOWHERE, compare=False)


Expression = ColumnRef | Literal | Operation | Call | Case | Cast


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """min, max, sum, count or avg; `argument` is None for COUNT(*)."""

    function: str
    argument: Expression | None
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ViewItem:
    """A column of the view. `name` is its alias, the column's own name, or the aggregate's function."""

    name: str
    expression: Expression | AggregateCall
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class HavingCondition:
    """`aggregate op constant`: = <> < <= > >=; the constant is an expression without columns, nearly always a Literal."""

    aggregate: AggregateCall
    op: str
    constant: Expression
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ViewQuery:
    """SELECT items FROM sources [WHERE where] [GROUP BY by [HAVING having]]

    Items have different names. With `by`, every item is an AggregateCall or a ColumnRef that is named in `by`, and every
    name of `by` is an item, as far as the text alone says: `x` and `t.x` are taken for the same column. `having` is
    joined by AND.
    """

    sql: str
    items: tuple[ViewItem, ...]
    sources: tuple[Source, ...]
    where: Expression | None = None
    by: tuple[ColumnName, ...] = ()
    having: tuple[HavingCondition, ...] = ()
