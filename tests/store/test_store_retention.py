"""Partitions, retention, and the schema's revisions."""

from __future__ import annotations

import threading

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from prosem.store import recovery, schema
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.log import Writer, WriteSet
from prosem.store.retention import Retention
from prosem.values.errors import CommitError, SetupError
from tests.support.database import empty_database, events


def _partitions(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return sorted(
            name for (name,) in connection.execute(
                "SELECT relname FROM pg_class JOIN pg_inherits ON oid = inhrelid WHERE relkind = 'r'"
            )
        )  # fmt: skip


def test_partitions_are_made_ahead_and_dropped_behind(url: str, writer: Writer, retention: Retention) -> None:
    for seq in range(1, 351, 10):
        writer.write(events(*range(seq, seq + 10)))
    bounds = ["1_101", "101_201", "201_301", "301_401"]
    assert set(_partitions(url)) >= {
        f"{name}_{bound}" for name in ("event_log", "outbox") for bound in bounds
    }
    assert retention.retire(100) == 0, "the first partition holds 100 itself"
    assert retention.retire(101) == 100
    assert retention.retire(290) == 200
    assert retention.retire(0) == 200
    left = _partitions(url)
    assert "event_log_101_201" not in left
    assert "outbox_201_301" in left
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT min(seq), max(seq), count(*) FROM prosem.outbox").fetchall() == [
            (201, 350, 150)
        ]
    with recovery.load(url) as loaded:
        assert loaded.state.retained_after == 200
    writer.close()
    other = Writer.connect(url, partition_size=7)
    other.write(events(*range(351, 1000)))
    another = Retention(other.session)
    assert another.retire(10**9) > 200
    other.write(events(1000))
    another.close()
    other.close()


def test_a_long_reader_postpones_the_retirement_and_no_commit(
    url: str, writer: Writer, retention: Retention
) -> None:
    writer.write(events(*range(1, 150)))
    writer.write(events(*range(150, 260)))
    retention.wait_s = 60
    before = _partitions(url)
    with psycopg.connect(url) as reader:
        reader.execute("SELECT * FROM prosem.outbox")
        thread = threading.Thread(target=retention.retire, args=(10**9,))
        thread.start()
        _until_waiting(url, "prosem retention")
        writer.write(events(260))
        writer.write(events(*range(261, 500)))  # with a new partition
        assert thread.is_alive(), (
            "the retirement waits for the reader, and the batches were committed meanwhile"
        )
        assert "outbox_201_401" in before
    thread.join()
    assert not retention.is_behind
    assert set(before) - set(_partitions(url)) == {"event_log_1_201", "outbox_1_201"}


def test_a_retirement_that_readers_stop_is_finished_later(
    url: str, writer: Writer, retention: Retention
) -> None:
    writer.write(events(*range(1, 150)))
    writer.write(events(*range(150, 260)))
    retention.wait_s = 0.1
    with psycopg.connect(url) as reader:
        reader.execute("SELECT * FROM prosem.outbox")
        reader.execute("SELECT * FROM prosem.event_log")
        after = retention.retire(10**9)
        assert retention.is_behind
        with recovery.load(url) as loaded:
            assert loaded.state.retained_after == after > 0, "nothing below it is read any more"
        writer.write(events(260))
        assert retention.retire(10**9) == after
        assert retention.is_behind
    assert retention.retire(10**9) == after
    assert not retention.is_behind
    assert all(int(name.split("_")[-2]) > after for name in _partitions(url))


def test_a_superseded_server_retires_nothing(url: str, writer: Writer, retention: Retention) -> None:
    for first in range(1, 400, 50):
        writer.write(events(*range(first, first + 50)))
    before = _partitions(url)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE prosem.engine_state SET epoch = epoch + 1")
    with pytest.raises(CommitError, match="superseded"):
        retention.retire(10**9)
    assert _partitions(url) == before
    assert writer.session.is_superseded


def _until_waiting(url: str, application: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        while not connection.execute(
            "SELECT FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'",
            [application],
        ).fetchall():
            pass


def test_only_the_history_nobody_needs_is_forgotten(url: str, writer: Writer, retention: Retention) -> None:
    for first in range(1, 350, 50):
        writer.write(events(*range(first, first + 50)))
    entries = {
        1: [(10, "created")],
        2: [(10, "created"), (20, "patched"), (90, "patched"), (180, "patched")],
        3: [(10, "created"), (90, "suspended"), (95, "deleted")],
        4: [(10, "created"), (340, "deleted")],
    }
    history = [
        (sid, seq, part, kind, b"{}", None, None)
        for sid, list_ in entries.items()
        for part, (seq, kind) in enumerate(list_)
    ]
    writer.write(WriteSet(last_seq=350, history=history))  # type: ignore[arg-type]
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO prosem.idempotency VALUES ('old', NULL, true, 1, now() - interval '25 h')"
        )
        connection.execute(
            "INSERT INTO prosem.idempotency VALUES ('new', NULL, true, 1, now() - interval '23 h')"
        )
    assert retention.retire(150) == 100
    with psycopg.connect(url) as connection:
        left = connection.execute("SELECT sid, seq, kind FROM prosem.history ORDER BY sid, seq").fetchall()
        assert connection.execute("SELECT key FROM prosem.idempotency").fetchall() == [("new",)]
    assert left == [
        (1, 10, "created"), (2, 90, "patched"), (2, 180, "patched"), (4, 10, "created"), (4, 340, "deleted"),
    ]  # fmt: skip


def test_the_code_knows_the_newest_revision() -> None:
    configuration = Config()
    configuration.set_main_option("script_location", str(schema.MIGRATIONS))
    script = ScriptDirectory.from_config(configuration)
    assert script.get_current_head() == schema.HEAD
    assert tuple(revision.revision for revision in script.walk_revisions())[::-1] == schema.REVISIONS


def test_revisions_are_checked(postgres: EmbeddedPostgres) -> None:
    url = empty_database(postgres)
    with pytest.raises(SetupError, match="run prosem migrate"):
        Writer.connect(url, wait_s=0)
    assert schema.migrate(url) is None
    assert schema.migrate(url) == schema.HEAD
    with psycopg.connect(url) as connection:
        assert schema.current_revision(connection) == schema.HEAD
        connection.execute("UPDATE prosem.alembic_version SET version_num = '9999'")
    for attempt in (
        lambda: Writer.connect(url, wait_s=0),
        lambda: schema.migrate(url),
        lambda: recovery.load(url),
    ):
        with pytest.raises(SetupError, match="newer version"):
            attempt()


def test_two_migrations_at_once_are_one(postgres: EmbeddedPostgres) -> None:
    url = empty_database(postgres)
    failures: list[BaseException] = []

    def run() -> None:
        with psycopg.connect(url) as connection:
            connection.execute("SELECT 1")
        try:
            schema.migrate(url)
        except SetupError as error:
            failures.append(error)

    with psycopg.connect(url) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(%s)", [schema.MIGRATION_LOCK])
        thread = threading.Thread(target=run)
        thread.start()
        thread.join(0.3)
        assert schema.current_revision(holder) is None
    thread.join()
    assert failures == []
    with psycopg.connect(url) as connection:
        schema.check_revision(connection)
