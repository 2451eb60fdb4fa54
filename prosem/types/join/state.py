"""What the edge holds of a select-join, and how the messages of one event become one change.

For each table the state has the rows that the server's messages brought (semijoins, or selections), by primary key. Rows are
shared: all subscriptions that an event reaches hold the same tuple. It may hold rows that are in no result yet, since a
semijoin looks at one neighbour only; they never reach the user, because a change is the difference of two joins.

A change costs a walk over the join graph for each row that came or went, O(rows visited): nothing is scanned. Lookups by
join columns are made when they are first needed and kept up to date from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from cn.model.geometry import Point
from cn.model.message import Message
from prosem.types.join.message import JoinCodec, Joined, JoinedRows, Lose, Remove, Upsert
from prosem.types.join.shape import Codes, JoinKey, JoinShape
from prosem.types.join.translation import Sources
from prosem.values.model import Key, Row
from prosem.values.wire import is_same

Keys = tuple[Key, ...]  # of one joined row: the primary key of each of its rows
Answer = dict[Keys, Joined]
Effects = dict[tuple[int, Key], Row | None]  # table and key → the row after, None if it went
_NOTHING: Mapping[Key, Row] = {}


class JoinState:
    """The rows of one subscription at the edge. `sources`: where messages come from, unless from its own space."""

    __slots__ = ("_lookups", "rows", "shape", "sources")

    def __init__(
        self, shape: JoinShape, rows: Sequence[Iterable[Row]] = (), sources: Sources | None = None
    ) -> None:
        self.shape, self.sources = shape, sources
        self.rows: list[dict[Key, Row]] = [{} for _ in shape.tables]
        self._lookups: dict[tuple[int, tuple[int, ...]], dict[JoinKey, dict[Key, Row]]] = {}
        for table, some in enumerate(rows):
            key_of = shape.tables[table].key_of
            self.rows[table] = {key_of(row): row for row in some}

    def put(self, table: int, key: Key, row: Row | None) -> None:
        """Set a row, or take it away."""
        old = self.rows[table].pop(key, None)
        if row is not None:
            self.rows[table][key] = row
        for (one, classes), lookup in self._lookups.items():
            if one != table:
                continue
            values_of = self.shape.key_of(table, classes)
            if old is not None:
                values = values_of(old)
                del lookup[values][key]
                if not lookup[values]:
                    del lookup[values]
            if row is not None:
                lookup.setdefault(values_of(row), {})[key] = row

    def found(self, table: int, classes: tuple[int, ...], values: JoinKey) -> Mapping[Key, Row]:
        """The rows of a table with these values of these classes."""
        lookup = self._lookups.get((table, classes))
        if lookup is None:
            lookup = self._lookups[table, classes] = {}
            values_of = self.shape.key_of(table, classes)
            for key, row in self.rows[table].items():
                lookup.setdefault(values_of(row), {})[key] = row
        return lookup.get(values, _NOTHING)

    def joined(self, table: int, key: Key, row: Row) -> Iterator[tuple[Keys, Joined]]:
        """All joined rows that hold this row of this table."""
        keys: list[Any] = [None] * len(self.rows)
        rows: list[Any] = [None] * len(self.rows)
        keys[table], rows[table] = key, row
        hops = self.shape.walk(table)

        def extend(at: int) -> Iterator[tuple[Keys, Joined]]:
            if at == len(hops):
                yield tuple(keys), tuple(rows)
                return
            hop = hops[at]
            values = tuple([rows[one][position] for one, position in hop.values])
            for other, partner in self.found(hop.table, hop.classes, values).items():
                keys[hop.table], rows[hop.table] = other, partner
                yield from extend(at + 1)

        return extend(0)

    def answer(self) -> Answer:
        """The whole join, from the table with the fewest rows."""
        least = min(range(len(self.rows)), key=lambda table: len(self.rows[table]))
        return dict(chain.from_iterable(self.joined(least, *item) for item in self.rows[least].items()))

    def apply(self, effects: Effects) -> tuple[list[Joined], list[Joined]]:
        """Change rows; the joined rows that came and that went by it."""
        net = {
            place: row
            for place, row in effects.items()
            if not is_same(self.rows[place[0]].get(place[1], None), row)
        }
        before: Answer = {}
        for table, key in net:
            old = self.rows[table].get(key)
            if old is not None:
                before.update(self.joined(table, key, old))
        for (table, key), row in net.items():
            self.put(table, key, row)
        after: Answer = {}
        for (table, key), row in net.items():
            if row is not None:
                after.update(self.joined(table, key, row))
        return difference(before, after)

    def check(self) -> None:
        """Assert that lookups hold the rows and nothing else, and that no row counts as absent."""
        for (table, classes), lookup in self._lookups.items():
            values_of = self.shape.key_of(table, classes)
            found = {key: row for some in lookup.values() for key, row in some.items()}
            assert found == self.rows[table]
            assert all(values_of(row) == values for values, some in lookup.items() for row in some.values())
            assert all(lookup.values())
        for table, rows in enumerate(self.rows):
            place = self.shape.placer(table)
            assert all(place(row) is not None for row in rows.values())
            assert all(self.shape.tables[table].key_of(row) == key for key, row in rows.items())


def difference(before: Answer, after: Answer) -> tuple[list[Joined], list[Joined]]:
    """What came and what went; a row that changed did both."""
    added = [row for keys, row in after.items() if not is_same(before.get(keys), row)]
    removed = [row for keys, row in before.items() if not is_same(after.get(keys), row)]
    return added, removed


class JoinFold:
    """Reads messages of one shape and says what they do to a state."""

    def __init__(self, shape: JoinShape) -> None:
        self.shape, self.codec = shape, JoinCodec(shape)
        self._placers = [shape.placer(table) for table in range(len(shape.tables))]
        self._holders = [shape.holder(table) for table in range(len(shape.tables))]

    def holds(self, table: int, point: Point, row: Row) -> bool:
        """Whether the subscription's own conditions on the table admit the row."""
        codes = self._placers[table](row)
        return codes is not None and self._holders[table](point, codes)

    def codes(self, table: int, row: Row) -> Codes | None:
        """The codes of a row's columns with a condition; None if it counts as absent."""
        return self._placers[table](row)

    def admits(self, table: int, point: Point, codes: Codes) -> bool:
        return self._holders[table](point, codes)

    def effects(self, messages: Sequence[Message], point: Point, state: JoinState) -> Effects:
        """The rows after all messages of one event, which are taken in their order."""
        effects: Effects = {}
        for message in messages:
            content = self.codec.read(message.kind, message.payload, message.contents)
            if isinstance(content, Upsert):
                table, key, row = content
                effects[table, key] = row if self.holds(table, point, row) else None
            elif isinstance(content, Remove):
                effects[content.table, content.key] = None
            else:
                assert isinstance(content, Lose), "joined rows go to edges without a state"
                self._lose(content, state, effects)
        return effects

    def _lose(self, content: Lose, state: JoinState, effects: Effects) -> None:
        table, classes, values = content
        values_of = self.shape.key_of(table, classes)
        for (one, key), row in list(effects.items()):
            if one == table and row is not None and values_of(row) == values:
                effects[one, key] = None
        for key in state.found(table, classes, values):
            effects.setdefault((table, key), None)

    def joined(self, messages: Sequence[Message], point: Point) -> tuple[list[Joined], list[Joined]]:
        """The change that messages with joined rows make, of which some may be for others' ranges."""
        before: Answer = {}
        after: Answer = {}
        for message in messages:
            content = self.codec.read(message.kind, message.payload, message.contents)
            assert isinstance(content, JoinedRows), "an edge without a state gets joined rows"
            for row in content.removed:
                if after.pop(keys := self._keys(row), None) is None and self._admits(row, point):
                    before[keys] = row
            for row in content.added:
                if self._admits(row, point):
                    after[self._keys(row)] = row
        return difference(before, after)

    def _keys(self, joined: Joined) -> Keys:
        return tuple(
            [table.key_of(row) for table, row in zip(self.shape.tables, joined, strict=True)],
        )

    def _admits(self, joined: Joined, point: Point) -> bool:
        return all(self.holds(table, point, row) for table, row in enumerate(joined))
