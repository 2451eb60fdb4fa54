"""One table of a select-join: its rows in as many orders as the rules and plans ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cn.model.geometry import BOTTOM, EVERYTHING, TOP, Box, Code, Interval, Point
from prosem.index.joins.join_keys import Entry, JoinKeys
from prosem.types.join.shape import Codes, JoinKey, JoinShape
from prosem.values.model import Key, Row

_new = tuple.__new__  # of named tuples: their own takes twice as long
Classes = tuple[int, ...]
Sides = Mapping[int, Interval]  # of a box, by dimension; other dimensions are not constrained


class Placed(NamedTuple):
    """A row that takes part: its entry (routing code, primary key, row), and the codes of its columns with a condition."""

    entry: Entry
    codes: Codes

    @property
    def row(self) -> Row:
        row: Row = self.entry[2]
        return row


class JoinTable:
    """The rows of table number `number` that have no NULL where it counts, by join key and routing code.

    There is one order for each set of classes that is asked for, and one of all rows (the empty set). They share their
    entries. Rows are held here, not looked up: one event of a family of tables changes two of them, and while the
    first is being told the second must still be as it was.
    """

    def __init__(self, shape: JoinShape, number: int, rows: Mapping[Key, Row]) -> None:
        self.number = number
        self._shape, self._place = shape, shape.placer(number)
        self._sides = [shape.sides(number, at) for at in shape.ranged[number]]
        routing = shape.routing[number]
        self._routing = None if routing is None else shape.ranged[number].index(routing)
        # the two dimensions of the routing column's condition
        self.routing = None if self._routing is None else self._sides[self._routing]
        self._key_of = shape.tables[number].key_of
        self._joins = shape.key_of(number, shape.classes_of(number))
        self._keys: dict[Classes, tuple[Callable[[Row], JoinKey], JoinKeys]] = {}
        placed = (self.placed(row) for row in rows.values())
        self._keys[()] = _whole, JoinKeys(((), one.entry) for one in placed if one is not None)

    def __len__(self) -> int:
        return len(self._keys[()][1])

    def placed(self, row: Row | None) -> Placed | None:
        """The row with its codes; None if there is none or it does not take part."""
        codes = None if row is None else self._place(row)
        if row is None or codes is None:
            return None
        code = 0 if self._routing is None else codes[self._routing]
        return Placed((code, self._key_of(row), row), codes)

    def same_place(self, old: Placed, new: Placed) -> bool:
        """Whether no condition and no join tells two states of a row apart."""
        return old.codes == new.codes and self._joins(old.row) == self._joins(new.row)

    # -- changes -------------------------------------------------------------------------------------------------
    def add(self, placed: Placed) -> None:
        for key_of, index in self._keys.values():
            index.add(key_of(placed.row), placed.entry)

    def remove(self, placed: Placed) -> None:
        for key_of, index in self._keys.values():
            index.remove(key_of(placed.row), placed.entry)

    def hold(self, wanted: Iterable[Classes]) -> None:
        """Have exactly these orders besides that of all rows."""
        asked = {(), *wanted}
        self._keys = {classes: known for classes, known in self._keys.items() if classes in asked}
        for classes in asked - self._keys.keys():
            key_of = self._shape.key_of(self.number, classes)
            self._keys[classes] = key_of, JoinKeys((key_of(entry[2]), entry) for entry in self.entries())

    # -- questions -----------------------------------------------------------------------------------------------
    def entries(self) -> Iterator[Entry]:
        return iter(self._keys[()][1].at(()))

    def by(self, classes: Classes) -> JoinKeys:
        return self._keys[classes][1]

    def getter(self, classes: Classes) -> Callable[[Row], JoinKey]:
        """A function that gives a row's values of these classes, held as an order or not."""
        return self._shape.key_of(self.number, classes)

    def key(self, classes: Classes, row: Row) -> JoinKey:
        """The row's values of these classes."""
        return self._keys[classes][0](row)

    def around(self, codes: Codes) -> Sides:
        """The subscriptions whose own conditions admit a row with these codes."""
        sides: dict[int, Interval] = {}
        for (low, high), code in zip(self._sides, codes, strict=True):
            sides[low], sides[high] = Interval(None, code), Interval(code, None)
        return sides

    def around_box(self, codes: Codes) -> Box:
        """The same as a box."""
        sides = [EVERYTHING] * self._shape.dimensions
        for (low, high), code in zip(self._sides, codes, strict=True):
            sides[low] = _new(Interval, (None, code, False, False))
            sides[high] = _new(Interval, (code, None, False, False))
        return tuple(sides)

    def around_all(self, rows: Sequence[Codes]) -> Sides:
        """A box that holds the subscriptions whose own conditions admit one of several rows."""
        sides: dict[int, Interval] = {}
        for (low, high), codes in zip(self._sides, zip(*rows, strict=True), strict=True):
            sides[low], sides[high] = Interval(None, max(codes)), Interval(min(codes), None)
        return sides

    def conditions(self, codes: Codes) -> Iterator[tuple[tuple[int, int], Code]]:
        """The two dimensions of each condition, with a row's code there."""
        return zip(self._sides, codes, strict=True)

    def reach(self, first: Entry, last: Entry) -> Sides:
        """The subscriptions whose routing range reaches between two rows."""
        return reach(self.routing, first, last)

    def range_of(self, point: Point) -> tuple[Code | None, Code | None]:
        """A subscription's routing range, None for a missing end."""
        if self.routing is None:
            return None, None
        low, high = point[self.routing[0]], point[self.routing[1]]
        return None if low is BOTTOM else low, None if high is TOP else high

    def admits(self, point: Point, entry: Entry) -> bool:
        """Whether all of a subscription's own conditions hold for a row."""
        codes = self._place(entry[2])
        return codes is not None and self._holds(point, codes)

    def _holds(self, point: Point, codes: Codes) -> bool:
        return all(
            point[low] <= code <= point[high] for (low, high), code in zip(self._sides, codes, strict=True)
        )

    def check(self) -> None:
        """Assert that all orders hold the same entries under the right keys."""
        everything = sorted(self.entries(), key=lambda entry: entry[:2])
        for key_of, index in self._keys.values():
            index.check()
            held = [(key, entry) for key in index for entry in index.at(key)]
            assert all(key == key_of(entry[2]) for key, entry in held), "entries stand under their keys"
            assert sorted((entry for _, entry in held), key=lambda entry: entry[:2]) == everything


def _whole(row: Row) -> JoinKey:
    return ()


def reach(routing: tuple[int, int] | None, first: Entry, last: Entry) -> Sides:
    """The subscriptions whose range under a condition reaches between two rows."""
    if routing is None:
        return {}
    return {routing[0]: Interval(None, last[0]), routing[1]: Interval(first[0], None)}


def box(dimensions: int, *parts: Sides) -> Box:
    """The box with these sides."""
    sides = [EVERYTHING] * dimensions
    for part in parts:
        for dimension, side in part.items():
            sides[dimension] = side
    return tuple(sides)
