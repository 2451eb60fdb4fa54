"""One table of a select-join: its rows in as many orders as the rules and plans ask for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from cn.model.geometry import BOTTOM, EVERYTHING, TOP, Box, Code, Interval, Point
from prosem.index.joins.join_keys import Entry, JoinKeys, join_keys, takes_null
from prosem.index.shared_indexes import SharedIndexes
from prosem.types.join.shape import Codes, JoinKey, JoinShape
from prosem.types.shared.ranges import reader
from prosem.values.model import Key, Row, Table

_new = tuple.__new__  # of named tuples: their own takes twice as long
Classes = tuple[int, ...]
Sides = Mapping[int, Interval]  # of a box, by dimension; other dimensions are not constrained


class Placed(NamedTuple):
    """A row as its table's orders hold it: its entry (routing code, primary key, row), and the codes of its columns with a
    condition.

    Unless `takes_part`, a NULL in one of these or in a join column keeps it out of every answer. It may be a partner all the
    same.
    """

    entry: Entry
    codes: Codes
    takes_part: bool = True

    @property
    def row(self) -> Row:
        row: Row = self.entry[2]
        return row


class Order(NamedTuple):
    """Rows by the values of some classes, as `key_of` gives them. `name` says which rows of which table in which order."""

    key_of: Callable[[Row], JoinKey]
    rows: JoinKeys
    name: Hashable


class Layout(NamedTuple):
    """Where rows of a table have what counts, for the compiled step."""

    id: int
    joined: tuple[int, ...]
    primary_key: tuple[int, ...]
    conditions: list[
        tuple[int, Callable[[Any], int] | None, tuple[int, int]]
    ]  # column, encoder and dimensions
    routed: int  # the condition of the routing column; -1: there is none
    orders: list[tuple[tuple[int, ...], JoinKeys]]  # the columns of a key, and the rows by it


class JoinTable:
    """The rows of table number `number` by join key and routing code.

    There is one order for each set of classes that is asked for, and one of all rows (the empty set). An order has the rows
    without a NULL in its join columns and in the routing column, and nothing in it depends on the join: `shared` has it once
    for all joins that ask for it, however many conditions and further tables they have.

    Rows are held here, not looked up: one event of a family of tables changes two of them, and while messages of the
    first are made the second must still be as it was. Likewise an order that another space has brought forward already
    is brought back before this one takes the same deltas (`rewind`).
    """

    def __init__(
        self, shape: JoinShape, number: int, rows: Mapping[Key, Row], shared: SharedIndexes | None = None
    ) -> None:
        self.number = number
        self._shape, self._place = shape, shape.placer(number)
        self._sides = [shape.sides(number, at) for at in shape.ranged[number]]
        routing = shape.routing[number]
        self._routing = None if routing is None else shape.ranged[number].index(routing)
        # the two dimensions of the routing column's condition
        self.routing = None if self._routing is None else self._sides[self._routing]
        self._table = shape.tables[number]
        self._code = _code_of(self._table, routing)
        self._joins = shape.key_of(number, shape.classes_of(number))
        self._shared = SharedIndexes() if shared is None else shared
        self._orders: dict[Classes, Order] = {}
        # by what the order holds, not by the join: others may share it
        self._int64 = routing is None or self._table.columns[routing].type.int64
        has_null = any(self._table.columns[at].nullable for at in self._table.key_positions)
        self._key_of: Callable[[Row], Key] = self._table.key_of
        if has_null and not takes_null(self._int64):
            self._key_of = lambda row: _sortable(self._table.key_of(row))
        self._hold((), lambda: join_keys(self._int64, (((), entry) for entry in self._entries(rows))))

    def __len__(self) -> int:
        return len(self._orders[()].rows)

    def _name(self, classes: Classes, routing: int | None) -> tuple[Hashable, ...]:
        return "rows of joins", self._table.id, self._shape.positions(self.number, classes), routing

    def _hold(self, classes: Classes, make: Callable[[], JoinKeys]) -> None:
        name = self._name(classes, self._shape.routing[self.number])
        self._orders[classes] = Order(self.getter(classes), self._shared.hold(name, make), name)

    def _entries(self, rows: Mapping[Key, Row]) -> Iterator[Entry]:
        """Of all rows with a routing code. Rows that another order of the table holds are not copied."""
        columns = range(len(self._table.columns))
        others = (self._shared.get(self._name((), at)) for at in (None, *columns))
        held: JoinKeys | None = next((one for one in others if one is not None), None)
        known = {} if held is None else {self._table.key_of(entry[2]): entry[2] for entry in held.at(())}
        for key, row in rows.items():
            entry = self._entry(known.get(key, row))
            if entry is not None:
                yield entry

    def _entry(self, row: Row) -> Entry | None:
        code = self._code(row)
        return None if code is None else (code, self._key_of(row), row)

    def placed(self, row: Row | None) -> Placed | None:
        """The row as the orders hold it; None if there is none or they do not."""
        if row is None:
            return None
        codes = self._place(row)
        if codes is None:
            entry = self._entry(row)
            return None if entry is None else Placed(entry, (), False)
        code = 0 if self._routing is None else codes[self._routing]
        return Placed((code, self._key_of(row), row), codes)

    def same_place(self, old: Placed, new: Placed) -> bool:
        """Whether no condition and no join distinguishes two states of a row."""
        return (
            old.codes == new.codes
            and old.takes_part == new.takes_part
            and old.entry[0] == new.entry[0]
            and self._joins(old.row) == self._joins(new.row)
        )

    # -- changes -------------------------------------------------------------------------------------------------
    def add(self, placed: Placed) -> None:
        for key_of, rows, _ in self._orders.values():
            if None not in (key := key_of(placed.row)):
                rows.add(key, placed.entry)

    def remove(self, placed: Placed) -> None:
        for key_of, rows, _ in self._orders.values():
            if None not in (key := key_of(placed.row)):
                rows.remove(key, placed.entry)

    def bring(self, old: Row | None, new: Row | None) -> None:
        """Have a row as after an event, in whichever of both states it is held, or not at all."""
        was, now = self.placed(old), self.placed(new)
        for key_of, rows, _ in self._orders.values():
            if was is not None and rows.holds(key := key_of(was.row), was.entry):
                rows.remove(key, was.entry)
            if now is not None and None not in (key := key_of(now.row)) and not rows.holds(key, now.entry):
                rows.add(key, now.entry)

    def rewind(self, before: Row | None, after: Row | None) -> None:
        """Have a row as it was before a request, whether another space has taken what the request did to it or not."""
        was, now = self.placed(before), self.placed(after)
        for key_of, rows, name in self._orders.values():
            if not self._shared.is_shared(name):
                continue
            if now is not None and rows.holds(key := key_of(now.row), now.entry):
                rows.remove(key, now.entry)
            if was is not None and None not in (key := key_of(was.row)) and not rows.holds(key, was.entry):
                rows.add(key, was.entry)

    def hold(self, wanted: Iterable[Classes]) -> None:
        """Have exactly these orders besides that of all rows."""
        asked = {(), *wanted}
        for classes in self._orders.keys() - asked:
            self._shared.release(self._orders.pop(classes).name)
        for classes in asked - self._orders.keys():
            self._hold(classes, partial(self._ordered, classes))

    def _ordered(self, classes: Classes) -> JoinKeys:
        key_of = self.getter(classes)
        entries = ((key_of(entry[2]), entry) for entry in self.entries())
        return join_keys(self._int64, (one for one in entries if None not in one[0]))

    def shared_orders(self) -> list[bool]:
        """Whether other joins use each of the orders."""
        return [self._shared.is_shared(order.name) for order in self._orders.values()]

    def layout(self) -> Layout:
        """Where rows have what counts, and the orders there are."""
        shape, number, table = self._shape, self.number, self._table
        return Layout(
            table.id,
            shape.positions(number, shape.classes_of(number)),
            table.key_positions,
            [
                (at, reader(table.columns[at].type), sides)
                for at, sides in zip(shape.ranged[number], self._sides, strict=True)
            ],
            -1 if self._routing is None else self._routing,
            [(shape.positions(number, classes), order.rows) for classes, order in self._orders.items()],
        )

    def orders(self) -> list[tuple[Hashable, JoinKeys]]:
        """What is held, by the names under which joins share it."""
        return [(name, rows) for _, rows, name in self._orders.values()]

    def release(self) -> None:
        """Let the orders go: the space was closed. They stay here as they are, for `hold_again`."""
        for order in self._orders.values():
            self._shared.release(order.name)

    def hold_again(self) -> None:
        """The space was closed, and that is taken back."""
        for _, rows, name in self._orders.values():
            held = self._shared.hold(name, partial(itself, rows))
            assert held is rows, "an order that others use has stayed the same one"

    # -- questions -----------------------------------------------------------------------------------------------
    def entries(self) -> Iterator[Entry]:
        return iter(self._orders[()].rows.at(()))

    def by(self, classes: Classes) -> JoinKeys:
        return self._orders[classes].rows

    def getter(self, classes: Classes) -> Callable[[Row], JoinKey]:
        """A function that gives a row's values of these classes, held as an order or not."""
        return self._shape.key_of(self.number, classes)

    def key(self, classes: Classes, row: Row) -> JoinKey:
        """The row's values of these classes."""
        return self._orders[classes].key_of(row)

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

    def codes(self, row: Row) -> Codes | None:
        """The codes of a row's columns with a condition; None if a NULL keeps it out of every answer."""
        return self._place(row)

    def admits(self, point: Point, entry: Entry) -> bool:
        """Whether all of a subscription's own conditions hold for a row."""
        codes = self._place(entry[2])
        return codes is not None and self._holds(point, codes)

    def _holds(self, point: Point, codes: Codes) -> bool:
        return all(
            point[low] <= code <= point[high] for (low, high), code in zip(self._sides, codes, strict=True)
        )

    def check(self) -> None:
        """Assert that all orders hold the same entries under the right keys, but for those with a NULL there."""
        for key_of, rows, _ in self._orders.values():
            rows.check()
            held = [(key, entry) for key in rows for entry in rows.at(key)]
            assert all(key == key_of(entry[2]) for key, entry in held), "entries stand under their keys"
            expected = [entry for entry in self.entries() if None not in key_of(entry[2])]
            assert sorted((entry for _, entry in held), key=_order) == sorted(expected, key=_order)


def itself(rows: JoinKeys) -> JoinKeys:
    return rows


def _order(entry: Entry) -> Entry:
    return entry[0], _sortable(entry[1])


def _sortable(key: Key) -> Key:
    """A key that may hold NULL, which comes before all values.

    >>> sorted([(1, "a"), (1, None), (None, "b")], key=_sortable)
    [(None, 'b'), (1, None), (1, 'a')]
    """
    return tuple([(value is not None, value) for value in key])


def _code_of(table: Table, column: int | None) -> Callable[[Row], Code | None]:
    """A function that gives a row's code in a column, None of a NULL; 0 of every row without a column."""
    if column is None:
        return lambda row: 0
    encode = table.columns[column].type.encode
    assert encode is not None, "conditions stand on ordered columns"

    def code(row: Row) -> Code | None:
        value = row[column]
        return None if value is None else encode(value)

    return code


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
