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
    """`x` or `a.x`; `table` is the alias of a source. In a query of one table it is None."""

    name: str
    table: str | None = None
    start: int | None = field(default=None, compare=False)  # offset in the text, for messages


@dataclass(frozen=True, slots=True)
class Atom:
    """`column op args`: = <> < <= > >= (one term), in (some), like, not like (one), is [not] null (none).

    BETWEEN stands as two atoms, NOT is pushed into the operators. `in` may have a parameter that is a
    list (`IN :name`) instead of terms: a set; an empty one selects nothing, and NULLs in it match nothing.
    """

    column: ColumnName
    op: str
    args: tuple[Term, ...] = ()
    list_name: str | None = None


Conjunction = tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Star:
    """SELECT *"""


@dataclass(frozen=True, slots=True)
class SelectedColumn:
    """`column` or `column AS alias`."""

    column: ColumnName
    alias: str | None = None

    @property
    def name(self) -> str:
        """What the result calls it."""
        return self.alias or self.column.name


@dataclass(frozen=True, slots=True)
class Columns:
    """SELECT a, b AS c"""

    items: tuple[SelectedColumn, ...]

    @property
    def names(self) -> tuple[ColumnName, ...]:
        return tuple(item.column for item in self.items)


@dataclass(frozen=True, slots=True)
class Distinct:
    """SELECT DISTINCT a"""

    column: ColumnName


@dataclass(frozen=True, slots=True)
class Aggregate:
    """MIN(a) [AS alias]; `column` is None for COUNT(*)."""

    function: str
    column: ColumnName | None
    alias: str | None = None

    @property
    def name(self) -> str:
        """What the result calls it, as PostgreSQL does."""
        return self.alias or self.function


@dataclass(frozen=True, slots=True)
class Aggregates:
    """SELECT MIN(a), MAX(a) AS high: two or more, with different names."""

    items: tuple[Aggregate, ...]


@dataclass(frozen=True, slots=True)
class Having:
    """`aggregate op term`: = <> < <= > >="""

    aggregate: Aggregate
    op: str
    term: Term


@dataclass(frozen=True, slots=True)
class Grouped:
    """SELECT g, COUNT(*) AS n … GROUP BY g [HAVING …]

    `items` are in the order selected and have different names; every column of `by` is among them (over a join `x` and
    `a.x` are taken for the same). `having` is joined by AND.
    """

    by: tuple[ColumnName, ...]
    items: tuple[SelectedColumn | Aggregate, ...]
    having: tuple[Having, ...] = ()

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        return tuple(item for item in self.items if isinstance(item, Aggregate))


@dataclass(frozen=True, slots=True)
class TopK:
    """SELECT cols … ORDER BY y [ASC|DESC] [NULLS FIRST|LAST] LIMIT k"""

    items: tuple[SelectedColumn, ...]
    order: ColumnName
    is_descending: bool
    nulls_first: bool
    limit: int


Selection = Star | Columns | Distinct | Aggregate | Aggregates | Grouped | TopK


@dataclass(frozen=True, slots=True)
class Source:
    """A table in FROM: its name, what it is called in the query, and how it is joined with those before it.

    `join` is "" for the first, "inner" or "left". `using` are the columns of USING, `on` the equalities of
    ON, each with the column of a table before this one on the left and its own column on the right, both qualified.
    """

    table: str
    alias: str
    join: str = ""
    using: tuple[str, ...] = ()
    on: tuple[tuple[ColumnName, ColumnName], ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """`where` is an OR of conjunctions; ((),) is no condition at all.

    `per` is "event", or "transaction": then a subscriber is notified at most once per request.
    """

    sql: str
    selection: Selection
    sources: tuple[Source, ...]
    where: tuple[Conjunction, ...]
    parameters: frozenset[str]
    per: str = "event"

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(source.table for source in self.sources)

    @property
    def using(self) -> tuple[tuple[str, ...], ...]:
        """`using[i]` joins `tables[i + 1]`."""
        return tuple(source.using for source in self.sources[1:])
