"""The shape that all subscriptions of one select-join share: tables, join columns, and columns with a condition.

A subscription is one point: (lo, hi) for each column with a condition, table by table in FROM order. Equality is lo = hi,
and a missing end is the least or greatest code. Join columns are kept as classes: `r JOIN s USING (b) JOIN u USING (b)` has
one class {r.b, s.b, u.b}, as PostgreSQL merges them. A row with a NULL in a class or under a condition takes part in
nothing: it counts as absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

from cn.model.geometry import EVERYTHING, Box, Interval, Point
from prosem.values.model import Row, Table

MODES: Mapping[str, tuple[str, ...]] = {
    "semijoin": ("ref-sj-clu+", "ref-sj-clu", "ref-sj-tup", "ref-sj-sub", "enum-sj"),
    "envelope": ("ref-sj-env",),
    "join": ("ref-j+", "ref-j", "enum-j"),
    "selection": ("rel-sel",),
}
Codes = tuple[Any, ...]
JoinKey = tuple[Any, ...]  # the values of some classes


def mode_of(plan: str) -> str:
    """What the edge holds when the server runs with this setting of `--plan`.

    >>> mode_of("ref-j"), mode_of("auto:ref-sj-env"), mode_of("auto"), mode_of("random:7")
    ('join', 'envelope', 'semijoin', 'semijoin')
    """
    name = plan.removeprefix("auto:")
    return next((mode for mode, plans in MODES.items() if name in plans), "semijoin")


class Hop(NamedTuple):
    """One step of a walk over the join graph: to `table`, whose rows are looked up by `classes`.

    `values[i]`: table and column position, among the tables visited before, that give the value of `classes[i]`.
    """

    table: int
    classes: tuple[int, ...]
    values: tuple[tuple[int, int], ...]


class ShapePart(NamedTuple):
    """Two neighbours of a join as a join of their own. `tables` and `classes`: their numbers in the whole, in its order.

    `taken`: the dimensions of the whole that it has.
    """

    shape: JoinShape
    tables: tuple[int, int]
    classes: tuple[int, ...]
    taken: tuple[int, ...]


@dataclass(frozen=True)
class JoinShape:
    """`tables` in FROM order, all different.

    `classes`: for each class of equal columns {table index: column position}. `ranged`: for each table the positions of
    the columns with a condition, ascending. `routing`: for each table the one of them by which subscriptions are found
    when a row of a partner changes; None without any.
    """

    tables: tuple[Table, ...]
    classes: tuple[Mapping[int, int], ...]
    ranged: tuple[tuple[int, ...], ...]
    routing: tuple[int | None, ...]

    @cached_property
    def dimensions(self) -> int:
        return 2 * max(1, sum(map(len, self.ranged)))

    @cached_property
    def int64(self) -> bool:
        return all(
            table.columns[at].type.int64
            for table, ranged in zip(self.tables, self.ranged, strict=True)
            for at in ranged
        )

    @cached_property
    def index(self) -> Mapping[int, int]:
        """From a table's id to its number here."""
        return {table.id: number for number, table in enumerate(self.tables)}

    def sides(self, table: int, column: int) -> tuple[int, int]:
        """The two dimensions (lo, hi) of a column's condition."""
        return self._sides[table, column]

    @cached_property
    def _sides(self) -> dict[tuple[int, int], tuple[int, int]]:
        places = [(table, at) for table, ranged in enumerate(self.ranged) for at in ranged]
        return {place: (2 * number, 2 * number + 1) for number, place in enumerate(places)}

    # -- the join graph ------------------------------------------------------------------------------------------
    def classes_of(self, table: int) -> tuple[int, ...]:
        return tuple(number for number, members in enumerate(self.classes) if table in members)

    def placing(self, table: int) -> frozenset[int]:
        """The columns that say where a row of a table is among others: those of its join keys, and the routing column."""
        joined = frozenset(self.classes[number][table] for number in self.classes_of(table))
        routing = self.routing[table]
        return joined if routing is None else joined | {routing}

    def shared(self, left: int, right: int) -> tuple[int, ...]:
        """The classes both tables are in: their composite join key; empty if they are not neighbours."""
        return tuple(
            number for number, members in enumerate(self.classes) if left in members and right in members
        )

    def neighbours(self, table: int) -> tuple[int, ...]:
        return tuple(
            other for other in range(len(self.tables)) if other != table and self.shared(table, other)
        )

    @cached_property
    def parts(self) -> tuple[ShapePart, ...]:
        """All pairs of neighbours, each in the order of the tables' ids: joins that have a pair in common have one part."""
        pairs = [
            (left, right)
            for left in range(len(self.tables))
            for right in self.neighbours(left)
            if self.tables[left].id < self.tables[right].id
        ]
        return tuple(self._part(*pair) for pair in pairs)

    def _part(self, left: int, right: int) -> ShapePart:
        shared = [
            (self.classes[one][left], self.classes[one][right], one) for one in self.shared(left, right)
        ]
        shared.sort()
        pair = left, right
        shape = JoinShape(
            tuple(self.tables[one] for one in pair),
            tuple({0: own, 1: other} for own, other, _ in shared),
            tuple(self.ranged[one] for one in pair),
            tuple(self.routing[one] for one in pair),
        )
        taken = [end for one in pair for at in self.ranged[one] for end in self.sides(one, at)]
        return ShapePart(shape, pair, tuple(one for _, _, one in shared), tuple(taken))

    def walk(self, start: int) -> tuple[Hop, ...]:
        """The way from a table through all others, each reached by every class it shares with those before."""
        return self._walks[start]

    @cached_property
    def _walks(self) -> tuple[tuple[Hop, ...], ...]:
        return tuple(self._walk(start) for start in range(len(self.tables)))

    def _walk(self, start: int) -> tuple[Hop, ...]:
        visited, hops = [start], []
        while len(visited) < len(self.tables):
            known = {
                number: (table, members[table])
                for number, members in enumerate(self.classes)
                for table in visited
                if table in members
            }
            rest = [table for table in range(len(self.tables)) if table not in visited]
            table = max(rest, key=lambda one: sum(number in known for number in self.classes_of(one)))
            classes = tuple(number for number in self.classes_of(table) if number in known)
            hops.append(Hop(table, classes, tuple(known[number] for number in classes)))
            visited.append(table)
        return tuple(hops)

    def positions(self, table: int, classes: Sequence[int]) -> tuple[int, ...]:
        """The columns of a table that are in these classes."""
        return tuple([self.classes[number][table] for number in classes])

    def key_of(self, table: int, classes: Sequence[int]) -> Callable[[Row], JoinKey]:
        """A function that gives a row's values of these classes."""
        place = table, tuple(classes)
        known = self._keys_of.get(place)
        if known is None:
            known = self._keys_of[place] = _getter(self.positions(table, classes))
        return known

    @cached_property
    def _keys_of(self) -> dict[tuple[int, tuple[int, ...]], Callable[[Row], JoinKey]]:
        return {}

    # -- rows ----------------------------------------------------------------------------------------------------
    def placer(self, table: int) -> Callable[[Row], Codes | None]:
        """A function that gives the codes of a row's columns with a condition; None if the row counts as absent."""
        joined = self.positions(table, self.classes_of(table))
        encoders = []
        for at in self.ranged[table]:
            encode = self.tables[table].columns[at].type.encode
            assert encode is not None, "conditions stand on ordered columns"
            encoders.append((at, encode))

        def place(row: Row) -> Codes | None:
            for at in joined:
                if row[at] is None:
                    return None
            codes = []
            for at, encode in encoders:
                value = row[at]
                if value is None:
                    return None
                codes.append(encode(value))
            return tuple(codes)

        return place

    def holder(self, table: int) -> Callable[[Point, Codes], bool]:
        """A function that returns whether a subscription's own conditions on the table admit a row with these codes."""
        sides = [self.sides(table, at) for at in self.ranged[table]]

        def holds(point: Point, codes: Codes) -> bool:
            return all(
                point[low] <= code <= point[high] for (low, high), code in zip(sides, codes, strict=True)
            )

        return holds

    def around(self, table: int, codes: Codes) -> Box:
        """The subscriptions whose own conditions on the table admit a row with these codes."""
        box = [EVERYTHING] * self.dimensions
        for at, code in zip(self.ranged[table], codes, strict=True):
            low, high = self.sides(table, at)
            box[low], box[high] = Interval(None, code), Interval(code, None)
        return tuple(box)

    def columns(self, table: int) -> tuple[int, ...]:
        """The positions of key columns, join columns and columns with a condition, ascending."""
        own = self.tables[table]
        joined = {self.classes[number][table] for number in self.classes_of(table)}
        return tuple(sorted({*own.key_positions, *joined, *self.ranged[table]}))

    def payload(self, table: int) -> tuple[int, ...]:
        """The positions of all other columns: what no condition looks at."""
        used = self.columns(table)
        return tuple(at for at in range(len(self.tables[table].columns)) if at not in used)

    # -- in words ------------------------------------------------------------------------------------------------
    def source(self) -> str:
        """Tables and join columns, for the label of a group."""
        names = [f"{table.tenant}.{table.name!r}#{table.id}" for table in self.tables]
        equal = [
            " = ".join(f"{table}:{self.tables[table].names[at]!r}" for table, at in sorted(members.items()))
            for members in self.classes
        ]
        return f"{' JOIN '.join(names)} ON {' AND '.join(equal)}"


def _getter(positions: Sequence[int]) -> Callable[[Row], JoinKey]:
    """A function that takes these values out of a row, as a tuple however many they are."""
    if not positions:
        return lambda row: ()
    if len(positions) > 1:
        return itemgetter(*positions)
    (only,) = positions
    return lambda row: (row[only],)
