"""One suite for PostgreSQL and its stand-in: what the session that writes may rely on, and what is read back.

Each case is blocking code over `Site`. The last test writes all that a simulated server has written into PostgreSQL, and
compares everything that is read from both.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import Any, Protocol

import psycopg
import pytest

pytest.importorskip("greenlet")
pytest.importorskip("nats")

from prosem.store import recovery
from prosem.store.heartbeat import Heartbeat
from prosem.store.log import Writer, WriteSet
from prosem.store.replay import ReplayStore
from prosem.store.retention import Retention
from prosem.values.errors import CommitError, RefusedError, ResourceError, SetupError, UnknownOutcomeError
from tests.simulation import postgres as stand_in
from tests.simulation.machine import VirtualLoop, blocking, virtual_time
from tests.simulation.plan import make_plan
from tests.simulation.postgres import Data, Database
from tests.simulation.readers import Readers, Snapshot, retire
from tests.simulation.server import simulated_database
from tests.simulation.world import run
from tests.support.commits import replace_commit
from tests.support.database import events, rows_of, table_of

TABLE = table_of(["integer", "integer"])
POISON, FULL = 13, 14  # values that a trigger refuses, the second as a full disk


class Site(Protocol):
    """A database, with what an accident may do to it."""

    def open(self, **options: Any) -> Writer: ...
    def seqs(self) -> list[int]: ...
    def lose(self, writer: Writer, how: str) -> None:
        """The session breaks in the next commit: `before` it, or `after` it."""

    def vanish(self, writer: Writer) -> None:
        """The database cannot be reached any more by this writer."""

    def terminate(self, writer: Writer) -> None:
        """The server ends the session."""


def put(value: int, seq: int) -> WriteSet:
    """A row and its event."""
    made = events(seq)
    made.rows, made.tables = {TABLE.id: {(seq,): (seq, value)}}, {TABLE.id: TABLE}
    return made


# -- cases ---------------------------------------------------------------------------------------------------------
def a_batch_is_committed(site: Site, writer: Writer) -> None:
    writer.write(put(1, 1))
    writer.write(put(2, 2))
    assert site.seqs() == [1, 2]


def refused_data_leaves_nothing(site: Site, writer: Writer) -> None:
    with pytest.raises(RefusedError):
        writer.write(put(POISON, 1))
    assert site.seqs() == []
    writer.write(put(1, 1))
    assert site.seqs() == [1]


def a_full_disk_is_distinguished_from_refused_data(site: Site, writer: Writer) -> None:
    with pytest.raises(ResourceError):
        writer.write(put(FULL, 1))
    assert site.seqs() == []
    writer.write(put(1, 1))


def a_trial_leaves_nothing(site: Site, writer: Writer) -> None:
    writer.probe(put(1, 1))
    with pytest.raises(RefusedError):
        writer.probe(put(POISON, 1))
    assert site.seqs() == []
    writer.write(put(1, 1))
    assert site.seqs() == [1]


def a_lost_answer_is_found_out(site: Site, writer: Writer) -> None:
    site.lose(writer, "after")
    writer.write(put(1, 1))
    assert site.seqs() == [1]
    writer.write(put(1, 2))
    assert site.seqs() == [1, 2]


def a_batch_that_was_lost_is_reported(site: Site, writer: Writer) -> None:
    site.lose(writer, "before")
    with pytest.raises(CommitError):
        writer.write(put(1, 1))
    assert site.seqs() == []
    writer.write(put(1, 1))
    assert site.seqs() == [1]


def an_outcome_that_cannot_be_asked_for_is_unknown(site: Site, writer: Writer) -> None:
    writer.session.settle_s = 0.3
    site.lose(writer, "after")
    site.vanish(writer)
    with pytest.raises(UnknownOutcomeError):
        writer.write(put(1, 1))


def a_session_that_was_ended_is_opened_again(site: Site, writer: Writer) -> None:
    writer.write(put(1, 1))
    epoch = writer.session.epoch
    site.terminate(writer)
    heartbeat = Heartbeat(writer.session, {})
    heartbeat.beat()
    assert not writer.session.is_proven, "the loss is noticed without a write"
    heartbeat.beat()
    assert writer.session.is_proven
    assert writer.session.epoch == epoch + 1
    writer.write(put(1, 2))
    assert site.seqs() == [1, 2]


def a_lost_session_fails_one_batch_at_most(site: Site, writer: Writer) -> None:
    site.terminate(writer)
    with pytest.raises(CommitError):
        writer.write(put(1, 1))
    writer.write(put(1, 1))
    assert site.seqs() == [1]


def one_server_owns_the_database(site: Site, writer: Writer) -> None:
    with pytest.raises(SetupError):
        site.open(wait_s=0.2)
    writer.close()
    other = site.open()
    other.write(put(1, 1))
    other.close()
    assert site.seqs() == [1]


def a_server_that_was_superseded_writes_nothing(site: Site, writer: Writer) -> None:
    writer.write(put(1, 1))
    site.terminate(writer)
    other = site.open()
    with pytest.raises(CommitError):
        writer.write(put(1, 2))
    other.close()
    with pytest.raises(CommitError):
        writer.write(put(1, 2))
    assert writer.session.is_superseded
    assert site.seqs() == [1]


def a_silent_owner_is_superseded(site: Site, writer: Writer) -> None:
    writer.close()
    silent = site.open(lease_s=0.5)
    standby = site.open(standby=True)
    assert standby.session.epoch == silent.session.epoch + 1
    silent.session.beat()
    assert not silent.session.is_proven
    standby.close()
    silent.close()


def an_event_is_stored_once(site: Site, writer: Writer) -> None:
    writer.write(put(1, 1))
    with pytest.raises(CommitError):
        writer.write(put(2, 1))
    assert site.seqs() == [1]


CASES: tuple[Callable[[Site, Writer], None], ...] = (
    a_batch_is_committed,
    refused_data_leaves_nothing,
    a_full_disk_is_distinguished_from_refused_data,
    a_trial_leaves_nothing,
    a_lost_answer_is_found_out,
    a_batch_that_was_lost_is_reported,
    an_outcome_that_cannot_be_asked_for_is_unknown,
    a_session_that_was_ended_is_opened_again,
    a_lost_session_fails_one_batch_at_most,
    one_server_owns_the_database,
    a_server_that_was_superseded_writes_nothing,
    a_silent_owner_is_superseded,
    an_event_is_stored_once,
)


# -- PostgreSQL ----------------------------------------------------------------------------------------------------
_TRIGGER = f"""
CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NEW.c1 = {POISON} THEN RAISE EXCEPTION 'refused'; END IF;
  IF NEW.c1 = {FULL} THEN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON tenant_default.t FOR EACH ROW EXECUTE FUNCTION refuse()
"""


class RealSite:
    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._url, self._monkeypatch = url, monkeypatch
        self.opened: list[Writer] = []

    def open(self, **options: Any) -> Writer:
        self.opened.append(Writer.connect(self._url, partition_size=1000, **options))
        return self.opened[-1]

    def seqs(self) -> list[int]:
        with psycopg.connect(self._url) as connection:
            return [seq for (seq,) in connection.execute("SELECT seq FROM prosem.event_log ORDER BY seq")]

    def lose(self, writer: Writer, how: str) -> None:
        connection = writer.session.require()

        def commit() -> None:
            if how == "after":
                connection.commit()
            connection.close()
            raise psycopg.OperationalError("the connection broke")

        replace_commit(self._monkeypatch, writer, commit)

    def vanish(self, writer: Writer) -> None:
        writer.session.url = "postgresql://127.0.0.1:1/prosem"

    def terminate(self, writer: Writer) -> None:
        pid = writer.session.require().info.backend_pid
        with psycopg.connect(self._url) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])

    def prepare(self) -> None:
        with psycopg.connect(self._url) as connection:
            connection.execute(_TRIGGER)


@pytest.fixture
def real_site(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealSite]:
    made = RealSite(url, monkeypatch)
    yield made
    for writer in made.opened:
        writer.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_postgresql_keeps_its_promises(real_site: RealSite, case: Callable[[Site, Writer], None]) -> None:
    writer = real_site.open()
    writer.write(WriteSet(created=TABLE))
    real_site.prepare()
    case(real_site, writer)


# -- the stand-in --------------------------------------------------------------------------------------------------
class SimulatedSite:
    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self, **options: Any) -> Writer:
        return Writer.connect(stand_in.URL, **options)

    def seqs(self) -> list[int]:
        return sorted(self._database.data.events)

    def lose(self, writer: Writer, how: str) -> None:
        self._database.faults.append(how)

    def vanish(self, writer: Writer) -> None:
        self._database.down_until = float("inf")

    def terminate(self, writer: Writer) -> None:
        writer.session.require().end()  # type: ignore[attr-defined]


def _refuses(table: str, row: Any) -> bool:
    if row[1] == FULL:
        raise psycopg.errors.DiskFull("no space")
    return bool(row[1] == POISON)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_stand_in_keeps_them_too(case: Callable[[Site, Writer], None]) -> None:
    loop = VirtualLoop()
    database = Database(loop, random.Random(1), _refuses)

    def work() -> None:
        site = SimulatedSite(database)
        writer = site.open()
        writer.write(WriteSet(created=TABLE))
        case(site, writer)

    _on(loop, database, blocking(work))


def _on(loop: VirtualLoop, database: Database, work: Any) -> Any:
    asyncio.set_event_loop(loop)
    try:
        with virtual_time(loop, 1), simulated_database(database):
            return loop.run_until_complete(loop.create_task(work, context=Context()))
    finally:
        asyncio.set_event_loop(None)
        loop.end()


# -- reading -------------------------------------------------------------------------------------------------------
def _recorded(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[WriteSet]:
    """All that the servers of a run have written."""
    written: list[WriteSet] = []
    apply = Data.apply

    def recording(self: Data, batch: WriteSet, owner: tuple[int, int]) -> None:
        written.append(batch)
        apply(self, batch, owner)

    with monkeypatch.context() as patched:
        patched.setattr(Data, "apply", recording)
        assert run(make_plan(seed)).problems == []
    return written


def _read(stored: Any) -> dict[str, Any]:
    """What a recovery reads, in an order that compares."""
    columns = {table.id: range(len(table.columns)) for table in stored.tables}
    rows = {
        table.id: [tuple(row) for row in rows_of(stored.rows(table, columns=columns))]
        for table in stored.tables
    }
    return {
        "state": stored.state,
        "tables": [table.definition() for table in stored.tables],
        "rows": {table: sorted(some) for table, some in rows.items()},
        "views": [tuple(view) for view in stored.views],
        "groups": stored.groups,
        "statements": stored.statements,
        "subscriptions": [tuple(one) for chunk in stored.subscriptions() for one in chunk],
        "last_move": stored.last_move(),
        "marks": stored.marks(),
        "items": {space: sorted(kept) for space, kept in stored.items().items()},
    }


async def _replayed(store: Any, data: Data) -> dict[str, Any]:
    """What a replay reads."""
    found: dict[str, Any] = {"history": await store.history(data.subscriptions)}
    for space in {group.space for group in data.groups.values()}:
        for name, pages in (
            ("forward", store.messages(space, 0, data.last_seq)),
            ("back", store.messages_back(space, 0, data.last_seq)),
        ):
            found[f"{name} {space}"] = [tuple(row) async for page in pages async for row in _each(page)]
    found["rows"] = [row async for row in store.rows(sorted(data.events))]
    async with store.view() as past:
        found["events"] = [
            one
            async for page in past.events(list(data.tables), 0, data.last_seq)
            async for one in _each(page)
        ]
        found["starts"] = [await past.request_start(seq) for seq in range(data.last_seq + 1)]
        for space in {group.space for group in data.groups.values()}:
            pages = past.changes(space, 0, data.last_seq)
            found[f"changes {space}"] = [tuple(one) async for page in pages async for one in _each(page)]
        for table in data.tables.values():
            for box in ({}, {1: (2, 6)}, {1: (None, 4), 2: (3, None)}):
                rows = [row async for page in past.rows(table, [box]) async for row in _each(page)]
                found[f"{table.name} {box}"] = sorted(map(tuple, rows))
    return found


async def _each(page: Any) -> Any:
    for one in page:
        yield one


@pytest.mark.slow  # it simulates in a thread, with the clocks of the whole process
@pytest.mark.parametrize("seed", [2, 3, 4, 12])
async def test_both_give_back_the_same(url: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    written = await asyncio.to_thread(_recorded, seed, monkeypatch)
    writer = Writer.connect(url, partition_size=1000)
    try:
        for batch in written:
            writer.write(batch)
    finally:
        writer.close()
    whole = Data()
    for batch in written:
        whole.apply(batch, (1, 1))
    with recovery.load(url) as loaded:
        assert _read(loaded) == _read(Snapshot(whole))
    store = ReplayStore(lambda: url)
    try:
        real = await _replayed(store, whole)
    finally:
        await store.close()
    database = Database(VirtualLoop(), random.Random(1))
    database.data = whole
    assert real == await _replayed(Readers(database), whole)
    database.loop.close()


@pytest.mark.slow  # it simulates in a thread, with the clocks of the whole process
@pytest.mark.parametrize("seed", [4, 10, 17])
async def test_both_forget_the_same(url: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    written = await asyncio.to_thread(_recorded, seed, monkeypatch)
    writer, whole = Writer.connect(url, partition_size=4), Data()
    retention = Retention(writer.session)
    try:
        for batch in written:
            writer.write(batch)
            whole.apply(batch, (1, 1))
        retained_after = retention.retire(whole.last_seq - 2)
    finally:
        retention.close()
        writer.close()
    assert retained_after > 0
    retire(whole, retained_after)
    with recovery.load(url) as loaded:
        assert _read(loaded) == _read(Snapshot(whole))
    store = ReplayStore(lambda: url)
    try:
        history = await store.history(whole.subscriptions)
    finally:
        await store.close()
    database = Database(VirtualLoop(), random.Random(1))
    database.data = whole
    assert history == await Readers(database).history(whole.subscriptions)
    database.loop.close()
