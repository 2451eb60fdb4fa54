"""A query as the parser leaves it: names and terms, nothing resolved against a catalog yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A literal of the text: int, Decimal, str, bool or None (NULL).

    Constants of different types differ: 1, 1.0 and TRUE are equal in Python, but 1 / 2 is not 1.0 / 2.
    """

    value: int | Decimal | str | bool | None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant):
            return NotImplemented
        return type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Parameter:
    """`:name`, given in `params`."""

    name: str


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left op right` over constants and parameters; `op` is one of + - * /. A sign is `0 - x`."""

    op: str
    left: Term
    right: Term


Term = Constant | Parameter | Arithmetic


@dataclass(frozen=True, slots=True)
class ColumnName:
    name: str
    table: str | None = None
    start: int | None = field(default=None, compare=False)  # offset in the text, for messages


@dataclass(frozen=True, slots=True)
class Atom:
    """`column op args`: = <> < <= > >= (one term), in (some), like, not like (one), is [not] null (none).

    BETWEEN stands as two atoms, NOT is pushed into the operators.
    """

    column: ColumnName
    op: str
    args: tuple[Term, ...] = ()


Conjunction = tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Star:
    """SELECT *"""


@dataclass(frozen=True, slots=True)
class Columns:
    """SELECT a, b"""

    names: tuple[ColumnName, ...]


@dataclass(frozen=True, slots=True)
class Distinct:
    """SELECT DISTINCT a"""

    column: ColumnName


@dataclass(frozen=True, slots=True)
class Aggregate:
    """SELECT MIN(a); `column` is None for COUNT(*)."""

    function: str
    column: ColumnName | None


Selection = Star | Columns | Distinct | Aggregate


@dataclass(frozen=True, slots=True)
class Query:
    """`where` is an OR of conjunctions; ((),) is no condition at all. `using[i]` joins `tables[i + 1]`."""

    sql: str
    selection: Selection
    tables: tuple[str, ...]
    using: tuple[tuple[str, ...], ...]
    where: tuple[Conjunction, ...]
    parameters: frozenset[str]
