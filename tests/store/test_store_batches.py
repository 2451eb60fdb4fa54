"""A batch is written whole or not at all, by one writer only, and survives a crash."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from prosem.store import recovery, schema
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.log import Counters, Writer, WriteSet
from prosem.values.errors import CommitError, RefusedError, SetupError, UnknownOutcomeError
from prosem.values.model import Group, Statement, Table
from tests.support.commits import replace_commit
from tests.support.database import events, put, rows_of, table_of

FAST = {"fsync": "off"}  # here only processes die, never the machine


def everything(table: Table) -> WriteSet:
    """One of each kind of change."""
    return WriteSet(
        last_seq=12,
        events=[(11, 1, "insert", None, b'[1, "a"]', 12), (12, 1, "delete", b'[1,"a"]', None, 12)],
        messages=[(7, 11, 0, "k", "p", b"\0x"), (7, 11, 1, "k", "p", None), (8, 12, 0, "k", "p", b"")],
        rows={1: {(5,): (5, "five"), (6,): None}},
        tables={1: table},
        subscriptions=[
            (1, "s1", 1, 1, b'{"lo": 1.50}', True, True, 12, "default", 0),
            (2, "s2", 2, 1, b"{}", True, False, 12, "default", 7),
            (3, "gone", 1, 1, b"{}", True, True, 12, "default", 0),
            (4, "gone", 1, 1, b"{}", True, True, 12, "default", 0),
            (5, "gone", 1, 2, b"{}", True, True, 12, "another", 8),
        ],
        updates={1: (b'{"lo":  2}', False, b'{"value": 3}'), 2: (None, True, None)},
        deleted=[3],
        history=[
            (1, 12, 0, "created", b"{}", None, None),
            (1, 12, 1, "suspended", None, b"[1]", b"[2]"),
        ],
        groups=[Group(1, "g", "range-min", "label " * 2000, 7, ("t", "ü"), "SELECT 1")],
        statements=[Statement(1, "SELECT 1", None), Statement(2, "SELECT 1", {"change": 1})],
        idempotency=[("k1", None, False, 3), ("k1", b'{"count": 5}', True, 5)],
        counters=Counters(2, 2, 3, 5),
    )  # fmt: skip


def picture(url: str) -> dict[str, Any]:
    """All that is in the database, to compare."""
    with psycopg.connect(url) as connection:
        names = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables"
            " WHERE table_schema IN ('prosem', 'tenant_default') ORDER BY 1, 2"
        ).fetchall()
        return {
            ".".join(name): sorted(
                str(row) for (row,) in connection.execute(
                    sql.SQL("SELECT x::text FROM {} x").format(sql.Identifier(*name))
                )
            )
            for name in names
        }  # fmt: skip


def test_a_batch_comes_back(url: str, writer: Writer) -> None:
    table = table_of(["integer", "text"])
    writer.write(WriteSet(created=table))
    batch = everything(table)
    writer.write(batch)
    with recovery.load(url, restart=False) as loaded:
        assert loaded.state == recovery.StoredState(12, 0, Counters(2, 2, 3, 5))
        assert loaded.groups == batch.groups
        assert loaded.statements == batch.statements
        found = [row for chunk in loaded.subscriptions(chunk=1) for row in chunk]
    assert found == [
        (1, "s1", 1, 1, b'{"lo":  2}', False, True, 12, b'{"value": 3}', "default", 0),
        (2, "s2", 2, 1, b"{}", True, False, 12, None, "default", 7),
        (4, "gone", 1, 1, b"{}", True, True, 12, None, "default", 0),
        (5, "gone", 1, 2, b"{}", True, True, 12, None, "another", 8),
    ]
    with recovery.load(url) as loaded:
        durable = [row.id for chunk in loaded.subscriptions() for row in chunk]
    assert durable == ["s1", "gone", "gone"], "a restart ends what is not durable"


def test_an_empty_batch_writes_nothing(url: str, writer: Writer) -> None:
    before = picture(url)
    assert WriteSet(last_seq=9, rows={1: {}}).is_empty()
    writer.write(WriteSet(last_seq=9, rows={1: {}}))
    assert picture(url) == before


@pytest.mark.parametrize("good", [0, 1, 2])
def test_an_injected_fault_changes_nothing(url: str, writer: Writer, good: int) -> None:
    table = table_of(["integer", "text"])
    writer.write(WriteSet(created=table, last_seq=12))
    writer.fail_after = good
    for number in range(good):
        put(writer, table, {(number,): (number, "")}, last_seq=12)
    before = picture(url)
    with pytest.raises(CommitError, match="injected"):
        writer.write(everything(table))
    assert picture(url) == before
    writer.write(everything(table))
    assert picture(url) != before


BREAKS: dict[str, Callable[[WriteSet], object]] = {
    "events": lambda batch: batch.events.append(batch.events[0]),
    "messages": lambda batch: batch.messages.append(batch.messages[0]),
    "rows": lambda batch: batch.rows[1].update({(7,): (7, "\0")}),
    "subscriptions": lambda batch: batch.subscriptions.append(
        (9, "s1", 1, 1, b"{}", True, True, 1, "default", 0)
    ),
    "params": lambda batch: batch.updates.update({1: (b"{no json", True, None)}),
    "groups": lambda batch: batch.groups.append(batch.groups[0]),
    "history": lambda batch: batch.history.append((9, 1, 0, "unheard of", None, None, None)),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_a_refused_batch_changes_nothing(url: str, writer: Writer, broken: str) -> None:
    table = table_of(["integer", "text"])
    writer.write(WriteSet(created=table, last_seq=12))
    before = picture(url)
    batch = everything(table)
    BREAKS[broken](batch)
    expected = CommitError if broken in ("events", "messages") else RefusedError
    with pytest.raises(expected):
        writer.write(batch)
    assert picture(url) == before
    with pytest.raises(expected):
        writer.probe(batch)
    writer.probe(everything(table))
    assert picture(url) == before, "a trial leaves nothing"
    writer.write(everything(table))


def test_a_second_writer_is_refused_until_the_first_is_gone(url: str, writer: Writer) -> None:
    with pytest.raises(SetupError, match="another prosem serve uses this database"):
        Writer.connect(url, wait_s=0.2)
    with pytest.raises(SetupError, match="another prosem serve"):
        Writer.connect(url, wait_s=0, standby=True, cancelled=lambda: True)
    threading.Timer(0.3, writer.close).start()
    Writer.connect(url, wait_s=0, standby=True).close()


def test_addresses_that_lead_nowhere(url: str) -> None:
    for address, text in (
        (url.replace("prosem:", "prosem:wrong"), "password authentication failed"),
        (url.replace("?", "x?"), "does not exist"),
        ("postgresql://127.0.0.1:1/x", "cannot be reached"),
        ("nonsense", "cannot be read"),
    ):
        with pytest.raises(SetupError, match=text):
            Writer.connect(address, wait_s=0)


def _backend(writer: Writer) -> int:
    assert writer.session.connection is not None
    return writer.session.connection.info.backend_pid


def _terminate(url: str, backend: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])


def test_a_broken_connection_is_replaced(url: str, writer: Writer) -> None:
    writer.write(events(1))
    _terminate(url, _backend(writer))
    with pytest.raises(CommitError):
        writer.write(events(2))
    writer.write(events(2))
    with recovery.load(url) as loaded:
        assert loaded.state.last_seq == 2
    with pytest.raises(SetupError, match="another prosem serve"):
        Writer.connect(url, wait_s=0)


def test_a_commit_whose_answer_was_lost_counts(
    url: str, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.write(events(1))
    connection = writer.session.connection
    assert connection is not None

    def commit_and_lose() -> None:
        connection.commit()
        connection.close()
        raise psycopg.OperationalError("the server closed the connection unexpectedly")

    replace_commit(monkeypatch, writer, commit_and_lose)
    writer.write(events(2))
    writer.write(events(3))
    with recovery.load(url) as loaded:
        assert loaded.state.last_seq == 3


def test_without_a_database_a_write_is_refused(url: str) -> None:
    writer = Writer.connect(url)
    writer.close()
    assert not writer.is_open()
    with pytest.raises(CommitError, match="no connection"):
        writer.write(events(1))


def _write_until_refused(writer: Writer, table: Table, last: int) -> int:
    """One event a batch; the last seq that was acknowledged."""
    for seq in itertools.count(last + 1):
        batch = events(seq)
        batch.tables, batch.rows = {1: table}, {1: {(seq,): (seq, str(seq))}}
        try:
            writer.write(batch)
        except (CommitError, UnknownOutcomeError):
            break
        last = seq
    return last


def test_what_was_committed_survives_a_killed_postgres() -> None:
    folder = Path(tempfile.mkdtemp(prefix="prosem-crash-"))
    folder.chmod(0o755)
    server = EmbeddedPostgres(folder / "data", settings=FAST)
    try:
        schema.migrate(server.start())
        table = table_of(["integer", "text"])
        for round_ in range(2):
            writer = Writer.connect(server.url, partition_size=20)
            writer.session.settle_s = 0.0
            if not round_:
                writer.write(WriteSet(created=table))
            with recovery.load(server.url) as loaded:
                last = loaded.state.last_seq
            assert server.pid is not None
            threading.Timer(0.3, os.kill, (server.pid, signal.SIGKILL)).start()
            last = _write_until_refused(writer, table, last)
            writer.close()
            server.start()
            with recovery.load(server.url) as loaded:
                found = loaded.state.last_seq
                rows = sorted(rows_of(loaded.rows(table)))
            assert found in (last, last + 1)
            assert rows == [(seq, str(seq)) for seq in range(1, found + 1)]
            with psycopg.connect(server.url) as connection:
                for name in ("event_log", "outbox"):
                    query = sql.SQL("SELECT seq FROM {} ORDER BY seq").format(sql.Identifier("prosem", name))
                    assert [seq for (seq,) in connection.execute(query)] == list(range(1, found + 1))
    finally:
        server.stop()
        shutil.rmtree(folder)
