"""A store in memory, for tests without a database: takes write sets and gives back what a recovery reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prosem.store.log import Counters, WriteSet
from prosem.store.recovery import StoredState, StoredSubscription, StoredView
from prosem.values.model import Group, Key, PlaceMark, Row, Statement, Table


class MemoryStore:
    """Holds tables, rows and subscriptions of unmarked types.

    `failures` are raised by the next writes, in order, `read_failures` by the next reads.
    """

    def __init__(self) -> None:
        self.busy_since: float | None = None
        self.failures: list[Exception] = []
        self.read_failures: list[Exception] = []
        self.reads: list[int] = []  # keys of each read
        self.probed: list[WriteSet] = []
        self.events: list[tuple[int, int, str, bytes | None, bytes | None]] = []
        self.state = StoredState(0, 0, Counters())
        self.tables: list[Table] = []
        self.views: list[StoredView] = []
        self.groups: list[Group] = []
        self.statements: list[Statement] = []
        self._rows: dict[int, dict[Key, Row]] = {}
        self._subscriptions: dict[int, StoredSubscription] = {}

    # -- the committer's side ------------------------------------------------------------------------------------
    def write(self, batch: WriteSet) -> None:
        if self.failures:
            raise self.failures.pop(0)
        if batch.created is not None:
            self.tables.append(batch.created)
        self.views += [StoredView(one.id, one.tenant, one.name, one.sql) for one in batch.views]
        self.views = [one for one in self.views if one.id not in batch.dropped_views]
        for table, rows in batch.rows.items():
            held = self._rows.setdefault(table, {})
            for key, row in rows.items():
                if row is None:
                    held.pop(key, None)
                else:
                    held[key] = row
        self.events += batch.events
        self.groups += batch.groups
        self.statements += batch.statements
        for *fields, tenant, key_id in batch.subscriptions:
            made = StoredSubscription(*fields, None, tenant, key_id)  # type: ignore[arg-type]
            self._subscriptions[made.sid] = made
        for sid in batch.deleted:
            del self._subscriptions[sid]
        self.state = StoredState(batch.last_seq, 0, batch.counters or self.state.counters)

    def prove(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    def probe(self, batch: WriteSet) -> None:
        self.probed.append(batch)
        if self.failures:
            raise self.failures.pop(0)

    def abort(self) -> None:
        """Nothing is ever under way."""

    # -- a recovery's side ---------------------------------------------------------------------------------------
    def rows(
        self, *tables: Table, columns: Mapping[int, Sequence[int]]
    ) -> Iterator[tuple[Table, Sequence[Row]]]:
        for table in tables:
            for some in self.load(table, columns[table.id]):
                yield table, some

    # -- the side of an engine that does not hold all columns ----------------------------------------------------
    def load(self, table: Table, columns: Sequence[int]) -> Iterator[Sequence[Row]]:
        yield [tuple(row[at] for at in columns) for row in self._rows.get(table.id, {}).values()]

    def read(self, table: Table, columns: Sequence[int], keys: Sequence[Key]) -> Iterator[tuple[Key, Row]]:
        self.reads.append(len(keys))
        if self.read_failures:
            raise self.read_failures.pop(0)
        held = self._rows.get(table.id, {})
        for key in keys:
            if key in held:
                yield key, tuple(held[key][at] for at in columns)

    def subscriptions(self) -> Iterator[list[StoredSubscription]]:
        yield list(self._subscriptions.values())

    def last_move(self) -> int:
        return 0

    def marks(self) -> Mapping[int, tuple[int, PlaceMark]]:
        return {}

    def items(self) -> Mapping[int, Sequence[bytes]]:
        return {}
