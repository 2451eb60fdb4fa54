"""A stand-in for PostgreSQL, with its promises: transactions, a row lock, an advisory lock that ends with its session, and
sessions that break before, during or after a commit.

It takes what `prosem.store` sends over a session, with the statements of a batch as values instead of SQL
(`batch_commands`). `tests/simulation/test_store_contract.py` judges it and a real PostgreSQL by the same cases.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from contextvars import Context
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from prosem.store import schema
from prosem.store.recovery import StoredSubscription, StoredView
from prosem.store.writeset import Counters, WriteSet
from prosem.values.model import Group, Key, Row, Statement, Table
from prosem.values.timeline import Timeline
from tests.simulation.machine import CURRENT, Process, VirtualLoop, pause

URL = "postgresql://simulated/prosem"
LOCK_TIMEOUT_S = 30.0
SILENT_S = 5.0  # after which a client gives a connection up that does not answer (tcp_user_timeout)
BATCH = b"-- the batch"


class Superseded(psycopg.Error):
    sqlstate = "PS001"


class LogViolation(psycopg.errors.UniqueViolation):
    """Two events of one seq."""

    diag = SimpleNamespace(schema_name="prosem", table_name="event_log_1_1000000")  # type: ignore[assignment]


@dataclass
class Data:
    """What is committed."""

    last_seq: int = 0
    retained_after: int = 0
    counters: Counters = field(default_factory=Counters)
    epoch: int = 0
    token: int = 0
    beats: int = 0
    lease_s: float = 0.0
    ownership: dict[int, tuple[str, str, int | None]] = field(default_factory=dict)  # server, name, token
    tables: dict[int, Table] = field(default_factory=dict)
    views: dict[int, StoredView] = field(default_factory=dict)
    rows: dict[int, dict[Key, Row]] = field(default_factory=dict)
    groups: dict[int, Group] = field(default_factory=dict)
    statements: dict[int, Statement] = field(default_factory=dict)
    subscriptions: dict[int, StoredSubscription] = field(default_factory=dict)
    history: dict[int, dict[tuple[int, int], tuple[Any, ...]]] = field(default_factory=dict)  # by sid
    events: dict[int, tuple[Any, ...]] = field(default_factory=dict)  # by seq
    outbox: list[tuple[Any, ...]] = field(default_factory=list)
    items: dict[tuple[int, bytes], bytes] = field(default_factory=dict)
    timelines: list[Timeline] = field(default_factory=list)
    all_events: dict[int, tuple[Any, ...]] = field(default_factory=dict)  # for the judge: never retired
    all_history: list[tuple[Any, ...]] = field(default_factory=list)

    def apply(self, batch: WriteSet, owner: tuple[int, int]) -> None:
        if batch.created is not None:
            self.tables[batch.created.id] = batch.created
            self.rows.setdefault(batch.created.id, {})
        if batch.dropped is not None:
            del self.tables[batch.dropped.id], self.rows[batch.dropped.id]
        for view in batch.views:
            self.views[view.id] = StoredView(view.id, view.tenant, view.name, view.sql)
        for number in batch.dropped_views:
            self.views.pop(number, None)
        for table, rows in batch.rows.items():
            for key, row in rows.items():
                if row is None:
                    self.rows[table].pop(key, None)
                else:
                    self.rows[table][key] = row
        self.groups |= {group.id: group for group in batch.groups}
        self.statements |= {statement.id: statement for statement in batch.statements}
        for number in batch.unused_groups:
            self.groups.pop(number, None)
        for number in batch.unused_statements:
            self.statements.pop(number, None)
        self._apply_subscriptions(batch)
        for event in batch.events:
            self.events[event[0]] = self.all_events[event[0]] = event
        self.outbox += batch.messages
        for (space, topic), state in batch.items.items():
            item = space, hashlib.blake2b(topic, digest_size=16).digest()
            if state is None:
                self.items.pop(item, None)
            else:
                self.items[item] = state
        self.last_seq = max(self.last_seq, batch.last_seq)
        self.counters = batch.counters or self.counters
        self.epoch, self.token = owner

    def _apply_subscriptions(self, batch: WriteSet) -> None:
        for *fields, tenant, key_id in batch.subscriptions:
            made = StoredSubscription(*fields, None, tenant, key_id)  # type: ignore[arg-type]
            self.subscriptions[made.sid] = made
        for sid, (params, active, frozen) in batch.updates.items():
            if sid in self.subscriptions:
                before = self.subscriptions[sid]
                self.subscriptions[sid] = before._replace(
                    params=before.params if params is None else params, active=active, frozen=frozen
                )
        for sid, seq, part, *entry in batch.history:
            self.all_history.append((sid, seq, part, *entry))
            if sid not in batch.deleted:
                self.history.setdefault(sid, {}).setdefault((seq, part), (seq, part, *entry))
        for sid in batch.deleted:
            self.subscriptions.pop(sid, None)
            self.history.pop(sid, None)


class Database:
    """`refuses(table name, row)` says whether a trigger of the operator refuses a row."""

    def __init__(
        self, loop: VirtualLoop, chance: random.Random, refuses: Callable[[str, Row], bool] | None = None
    ) -> None:
        self.loop, self.chance = loop, chance
        self.refuses = refuses or (lambda table, row: False)
        self.data = Data(timelines=[Timeline("first", 0, 1)])
        self.sessions: list[Connection] = []
        self.advisory: Connection | None = None
        self.row_lock: Connection | None = None
        self.down_until = 0.0
        self.full_until = 0.0  # the disk is
        self.cut: dict[str, float] = {}  # by name of a process: it cannot be reached until then
        self.faults: list[str] = []  # of the next commits of batches: see `Connection.commit`
        self.at_commit: Callable[[], None] | None = None  # called once, in the next commit of a batch
        self.processes = 0
        self.latency_s = 0.001

    def connect(self, url: str, **options: Any) -> Connection:
        """In the place of `psycopg.connect`."""
        process = CURRENT.get()
        pause(self.latency())
        self.check(process)
        made = Connection(self, process)
        self.sessions.append(made)
        if process is not None:
            process.on_death.append(made.end)
        return made

    def latency(self) -> float:
        return self.latency_s * self.chance.uniform(0.2, 3.0)

    def check(self, process: Process | None) -> None:
        """OperationalError unless the process reaches the database."""
        if process is not None and not process.is_alive:
            raise psycopg.OperationalError("this process is dead")
        if self.loop.now < self.down_until:
            raise psycopg.OperationalError("connection refused")
        if self.is_cut(process):
            pause(SILENT_S)
            raise psycopg.OperationalError("connection timed out")

    def is_cut(self, process: Process | None) -> bool:
        return process is not None and self.loop.now < self.cut.get(process.name, 0.0)

    def restart(self, for_s: float) -> None:
        """All sessions end, with what they have not committed."""
        self.down_until = self.loop.now + for_s
        for session in self.sessions[:]:
            session.end()

    @property
    def has_room(self) -> bool:
        return self.loop.now >= self.full_until


class Connection:
    """One session, as psycopg shows it."""

    def __init__(self, database: Database, process: Process | None) -> None:
        self._database, self.process = database, process
        self.closed = False  # as the client knows it
        self._is_over = False  # as the server does
        self._status = TransactionStatus.IDLE
        self._work: list[Callable[[Data], None]] = []
        self._rows: list[tuple[Any, ...]] = []
        self._lock_timeout_s = LOCK_TIMEOUT_S
        self._has_batch = False
        database.processes += 1
        self._pid = database.processes
        self.adapters = SimpleNamespace(register_dumper=lambda *_: None)
        self.prepare_threshold: int | None = 5

    @property
    def info(self) -> Any:
        return SimpleNamespace(
            transaction_status=self._status,
            backend_pid=self._pid,
            server_version=160_000,
            parameter_status=lambda name: "UTF8",
        )

    def cancel_safe(self, timeout: float = 0.0) -> None: ...

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the end of a session ------------------------------------------------------------------------------------
    def end(self) -> None:
        """The server ends the session: what is not committed is gone, its locks are free."""
        if not self._is_over:
            self._is_over = True
            self._work = []
            if self._database.advisory is self:
                self._database.advisory = None
            if self._database.row_lock is self:
                self._database.row_lock = None
            self._database.sessions.remove(self)

    def close(self) -> None:
        """The client ends it; a server that cannot be reached notices later."""
        self.closed = True
        if self.process is not None and not self.process.is_alive:
            return
        if not self._database.is_cut(self.process):
            self.end()

    def _lose(self, said: str) -> psycopg.OperationalError:
        self.closed, self._status = True, TransactionStatus.UNKNOWN
        return psycopg.OperationalError(said)

    def _reach(self) -> None:
        """A round trip."""
        if self.closed:
            raise psycopg.OperationalError("the connection is closed")
        pause(self._database.latency())
        if self.process is not None and not self.process.is_alive:
            raise self._lose("this process is dead")
        if self._database.is_cut(self.process):
            pause(SILENT_S)
            if self._database.is_cut(self.process) or self._is_over:
                raise self._lose("the connection timed out")
        if self._is_over:
            raise self._lose("the server closed the connection unexpectedly")

    # -- transactions --------------------------------------------------------------------------------------------
    def execute(self, text: str | bytes, values: Sequence[Any] = ()) -> Connection:
        self._reach()
        if self._status == TransactionStatus.INERROR:
            raise psycopg.errors.InFailedSqlTransaction("current transaction is aborted")
        self._status = TransactionStatus.INTRANS
        said = text.decode() if isinstance(text, bytes) else text
        for begin, run in _STATEMENTS:
            if said.startswith(begin):
                try:
                    self._rows = run(self, said, values) or []
                except psycopg.Error:
                    if not self.closed:
                        self._status = TransactionStatus.INERROR
                    raise
                return self
        raise AssertionError(f"the stand-in does not know the statement {said!r}")

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows

    def commit(self) -> None:
        """A fault of the next commit of a batch: `before` (the session breaks, nothing is committed), `after` (it is, and
        the answer is lost), `late` (the session breaks, and PostgreSQL decides while the client connects again)."""
        database = self._database
        fault = database.faults.pop(0) if self._has_batch and database.faults else ""
        if self._has_batch and database.at_commit is not None:
            at_commit, database.at_commit = database.at_commit, None
            pause(5 * database.latency())
            at_commit()
        if fault == "before":
            self.end()
            raise self._lose("the connection broke before the commit")
        if fault == "late":
            database.loop.call_later(database.chance.uniform(0.0, 2.0), self._decide, context=Context())
            raise self._lose("the connection broke in the commit")
        self._reach()
        self._finish()
        if fault == "after":
            self.end()
            raise self._lose("the connection broke after the commit")
        pause(database.latency())
        if self._is_over or database.is_cut(self.process):
            raise self._lose("the connection broke before the answer")

    def _decide(self) -> None:
        if not self._is_over:
            if self._database.chance.random() < 0.5:
                self._finish()
            self.end()

    def _finish(self) -> None:
        for work in self._work:
            work(self._database.data)
        self._clear()

    def rollback(self) -> None:
        self._work = []
        self._reach()
        self._clear()

    def _clear(self) -> None:
        self._work, self._status, self._has_batch = [], TransactionStatus.IDLE, False
        self._lock_timeout_s = LOCK_TIMEOUT_S
        if self._database.row_lock is self:
            self._database.row_lock = None

    def _lock_row(self) -> Data:
        """The only row of engine_state, for this transaction alone."""
        deadline = self._database.loop.now + self._lock_timeout_s
        while self._database.row_lock not in (None, self):
            if self._database.loop.now > deadline:
                raise psycopg.errors.LockNotAvailable("canceling statement due to lock timeout")
            pause(0.01)
            if self._is_over:
                raise self._lose("the server closed the connection unexpectedly")
        self._database.row_lock = self
        return self._database.data

    # -- statements ----------------------------------------------------------------------------------------------
    def _settings(self, said: str, values: Sequence[Any]) -> None:
        if said.startswith("SET LOCAL") and "lock_timeout" in said:
            self._lock_timeout_s = float(said.rpartition("= '")[2].rstrip("s'"))

    def _nothing(self, said: str, values: Sequence[Any]) -> None: ...

    def _try_lock(self, said: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        database = self._database
        if database.advisory is None:
            database.advisory = self
        data = database.data
        return [(database.advisory is self, data.epoch, data.token, data.beats, data.lease_s)]

    def _owner(self, said: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        data = self._lock_row()
        return [(data.epoch, data.token)]

    def _keep_token(self, said: str, values: Sequence[Any]) -> None:
        epoch, token = values

        def work(data: Data) -> None:
            if epoch in data.ownership:
                data.ownership[epoch] = (*data.ownership[epoch][:2], token)

        self._work.append(work)

    def _new_owner(self, said: str, values: Sequence[Any]) -> None:
        epoch, server, name = values
        self._work.append(lambda data: data.ownership.__setitem__(epoch, (server, name, None)))

    def _raise_epoch(self, said: str, values: Sequence[Any]) -> None:
        self._lock_row()

        def work(data: Data) -> None:
            data.epoch, data.lease_s = values
            data.token = data.beats = 0

        self._work.append(work)

    def _superseding(self, said: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        epoch, server = values
        others = self._database.data.ownership.items()
        return [(name,) for one, (of, name, _) in sorted(others) if one > epoch and of != server][:1]

    def _terminate(self, said: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        *_, epoch, token, beats, pid = values
        data, holder = self._database.data, self._database.advisory
        if holder is None or (data.epoch, data.token, data.beats) != (epoch, token, beats):
            return []
        if pid not in (None, holder._pid):
            return []
        holder.end()
        return [(True,)]

    def _beat(self, said: str, values: Sequence[Any]) -> None:
        if self._lock_row().epoch != values[0]:
            raise Superseded("the epoch is over")
        self._work.append(lambda data: setattr(data, "beats", data.beats + 1))

    def _token(self, said: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        data, epoch = self._database.data, values[0]
        if data.epoch == epoch:
            return [(data.token,)]
        kept = data.ownership.get(epoch)
        return [(kept[2],)] if kept is not None and kept[2] is not None else []

    def _batch(self, said: str, values: Sequence[Any]) -> None:
        """All statements of a batch; the last one proves the epoch."""
        database = self._database
        batch: WriteSet = values[0]
        owner: tuple[int, int] = values[1]
        if not database.has_room:
            raise psycopg.errors.DiskFull("could not extend file: No space left on device")
        for table, rows in batch.rows.items():
            for row in rows.values():
                if row is not None and database.refuses(batch.tables[table].name, row):
                    raise psycopg.errors.RaiseException("the trigger refuses the row")
        if any(event[0] in database.data.events for event in batch.events):
            raise LogViolation("duplicate key value violates unique constraint")
        if self._lock_row().epoch != owner[0]:
            raise Superseded("the epoch is over")
        frozen = replace(batch)
        self._has_batch = True
        self._work.append(lambda data: data.apply(frozen, owner))


_STATEMENTS: tuple[tuple[str, Callable[[Connection, str, Sequence[Any]], Any]], ...] = (
    (BATCH.decode(), Connection._batch),
    ("SET CONSTRAINTS", Connection._nothing),
    ("SET ", Connection._settings),
    ("SAVEPOINT", Connection._nothing),
    ("SELECT to_regclass", lambda self, said, values: [(True,)]),
    ("SELECT version_num", lambda self, said, values: [(schema.HEAD,)]),
    ("SELECT child.relname", lambda self, said, values: [("event_log_1_10000000",)]),
    ("SELECT pg_try_advisory_lock", Connection._try_lock),
    ("SELECT epoch, token FROM prosem.engine_state FOR UPDATE", Connection._owner),
    ("UPDATE prosem.ownership SET token", Connection._keep_token),
    ("INSERT INTO prosem.ownership", Connection._new_owner),
    ("DELETE FROM prosem.ownership", Connection._nothing),
    ("UPDATE prosem.engine_state SET epoch", Connection._raise_epoch),
    ("SELECT name FROM prosem.ownership", Connection._superseding),
    ("SELECT pg_terminate_backend", Connection._terminate),
    ("UPDATE prosem.engine_state SET beats", Connection._beat),
    ("SELECT token FROM prosem.engine_state", Connection._token),
)


def batch_commands(batch: WriteSet, known: Any, owner: tuple[int, int]) -> Iterator[tuple[bytes, list[Any]]]:
    """In the place of `prosem.store.writeset.commands`: a batch as a value instead of SQL."""
    yield BATCH, [batch, owner]
