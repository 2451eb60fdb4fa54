"""Batches of any size: sent whole, in pieces, and a session that makes no progress is broken."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from prosem.store.log import Writer, WriteSet
from prosem.values.errors import CommitError
from tests.support.database import put, table_of
from tests.support.running import WAIT_S


def in_time(work: Any, *arguments: Any) -> None:
    """Run it in a thread, so that a hang fails the test instead of stopping the run."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work(*arguments)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT_S * 2)
    assert not thread.is_alive(), "the commit does not end"
    if failures:
        raise failures[0]


@pytest.mark.parametrize(("count", "each_bytes"), [(2, 20_000_000), (4_000, 10_000), (60_000, 300)])
@pytest.mark.parametrize("is_sized", [True, False])
def test_a_large_batch_is_committed(url: str, count: int, each_bytes: int, is_sized: bool) -> None:
    writer = Writer.connect(url)
    try:
        body = b'["%s"]' % (b"x" * each_bytes)
        batch = WriteSet(
            last_seq=count,
            events=[(seq, 1, "upsert", None, body, seq) for seq in range(1, count + 1)],
            messages=[(7, seq, 0, "k", "p", body) for seq in range(1, count + 1)],
            size_bytes=2 * count * each_bytes if is_sized else 0,
        )
        in_time(writer.write, batch)
        with psycopg.connect(url) as connection:
            stored = connection.execute(
                "SELECT count(*), min(octet_length(new::text)) FROM prosem.event_log"
            ).fetchone()
            sent = connection.execute(
                "SELECT count(*), min(octet_length(body)) FROM prosem.outbox"
            ).fetchone()
        assert stored == sent == (count, len(body))
        in_time(
            writer.write,
            WriteSet(last_seq=count + 1, events=[(count + 1, 1, "upsert", None, b"[1]", count + 1)]),
        )
    finally:
        writer.close()


def test_a_commit_that_does_not_end_is_broken_from_another_thread(url: str, writer: Writer) -> None:
    table = table_of(["integer", "text"])
    in_time(writer.write, WriteSet(created=table))
    with psycopg.connect(url) as blocker:
        blocker.execute("LOCK TABLE tenant_default.t IN ACCESS EXCLUSIVE MODE")
        outcome: list[BaseException] = []

        def write() -> None:
            try:
                put(writer, table, {(1,): (1, "a")})
            except CommitError as error:
                outcome.append(error)

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        with psycopg.connect(url, autocommit=True) as looking:
            while looking.execute(
                "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'tenant_default.t'::regclass"
            ).fetchone() != (1,):
                pass
        assert writer.busy_since is not None
        writer.abort()
        thread.join(WAIT_S)
        assert not thread.is_alive()
        assert len(outcome) == 1, "nothing was committed, and the writer says so"
        blocker.rollback()
    assert writer.is_open(), "it has a session again"
    put(writer, table, {(2,): (2, "b")})
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT * FROM tenant_default.t").fetchall() == [(2, "b")]


def test_a_large_batch_that_is_refused_is_refused_whole(url: str, writer: Writer) -> None:
    table = table_of(["integer", "text"])
    in_time(writer.write, WriteSet(created=table))
    put(writer, table, {(1,): (1, "a")})
    rows: dict[Any, Any] = {(key,): (key, "x" * 10_000) for key in range(2, 3_000)}
    rows[2_000,] = (2_000, "a\0b")  # what PostgreSQL cannot hold, in the middle
    with pytest.raises(Exception, match="refuse"):
        in_time(writer.write, WriteSet(rows={1: rows}, tables={1: table}, size_bytes=30_000_000))
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT * FROM tenant_default.t").fetchall() == [(1, "a")]
    put(writer, table, {(2,): (2, "b")})
