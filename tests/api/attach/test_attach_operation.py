"""prosem attach in operation: large transactions, a server that is away, the lag, numerics, a slot that is lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from api.attach.command import Options, follow
from api.attach.progress import Progress
from api.attach.sending import Sender
from api.attach.slot import Slot
from api.attach.target import Target, Transaction
from api.attach.values import reader
from api.commands.process import free_port
from prosem.runtime.supervise import end
from prosem.store.embedded import EmbeddedPostgres
from prosem.values.errors import SetupError
from tests.support.attached import (
    WAIT_S,
    Attacher,
    answer,
    complaint,
    execute,
    metric,
    rows_here,
    rows_there,
    slot_name,
)
from tests.support.processes import ServerProcess, open_folder
from tests.support.waiting import bounded, until, until_async

ITEMS = "CREATE TABLE items (id integer PRIMARY KEY, version integer, note text)"
FILL = "INSERT INTO items SELECT n, 0, repeat(md5(n::text), 3) FROM generate_series(1, {}) n"


@pytest.fixture
def impatient() -> Iterator[EmbeddedPostgres]:
    """A source that gives silent connections up soon, and slots that need much log."""
    folder = open_folder("prosem-source-")
    settings = {
        "fsync": "off",
        "wal_sender_timeout": "1s",
        "max_slot_wal_keep_size": "48MB",
        "min_wal_size": "32MB",
        "max_wal_size": "32MB",
    }
    made = EmbeddedPostgres(folder / "data", settings=settings)
    made.start()
    yield made
    made.stop()
    shutil.rmtree(folder, ignore_errors=True)


def test_a_source_that_is_lost_right_after_the_copy_is_followed(
    source: str, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables were made at this start, and their copy is whole: neither is a reason to stop."""
    execute(source, ITEMS.replace("items", "lost_items") + "; INSERT INTO lost_items VALUES (1, 2, 'three')")
    start, losses = Slot.start, 2

    def lost(slot: Slot, position: int, publication: str) -> None:
        nonlocal losses
        if losses:
            losses -= 1
            raise psycopg.OperationalError("the source is gone")
        start(slot, position, publication)

    monkeypatch.setattr(Slot, "start", lost)
    progress = Progress()
    follow(Options(source, server, "lost_items", slot_name(), once=True), progress, threading.Event())
    assert progress.losses == 2
    assert progress.rows == 1, "copied once"
    assert rows_there(server, "lost_items") == rows_here(source, "lost_items")


@bounded
async def test_a_request_of_an_earlier_stream_may_be_applied_late(server: str) -> None:
    """It is no other command on the same slot, whether the next transaction is sent alone or on a stream."""
    target = Target(server, f"late/{slot_name()}")
    target.prepare([])
    target.apply(Transaction(None, 10))

    def apply_late(before: int, end: int) -> None:
        body = target.request(Transaction(before, end))
        assert httpx.post(server + "/v1/events", content=body, trust_env=False).status_code == 200

    apply_late(10, 20)
    target.apply(Transaction(10, 30))
    apply_late(30, 40)
    sender = Sender(target, Progress())
    sender.put(Transaction(30, 50))
    sender.put(Transaction(50, 60))
    sending = asyncio.create_task(sender.run())
    await until_async(lambda: sending.done() or not sender.waiting)
    assert not sending.done(), sending.exception()
    await end(sending)
    await asyncio.to_thread(target.refresh)
    assert target.position == 60
    other = Target(server, target.source)
    with pytest.raises(SetupError, match="only one may run"):
        other.apply(Transaction(10, 70))
    other.close()
    target.close()


def test_the_source_hears_of_us_and_the_lag_is_shown_while_a_request_waits(
    impatient: EmbeddedPostgres, own_server: ServerProcess, tmp_path: Path
) -> None:
    execute(impatient.url, ITEMS)
    url, port = own_server.start(), free_port()
    attacher = Attacher(impatient.url, url, "items", tmp_path / "log", "--metrics-port", str(port))
    attacher.begin()
    assert own_server.process is not None
    os.killpg(own_server.process.pid, signal.SIGSTOP)
    try:
        for number in range(300):
            execute(impatient.url, f"INSERT INTO items VALUES ({number}, 0, repeat('x', 100))")
        # Three times as long as the source waits for a word from us.
        until(lambda: (metric(port, "slot_lag_seconds") or 0) > 3.0, what=lambda: attacher.said[-3000:])
        assert (metric(port, "slot_lag_bytes") or 0) > 300 * 100
        assert metric(port, "source_losses_total") == 0
    finally:
        os.killpg(own_server.process.pid, signal.SIGCONT)
    until(lambda: metric(port, "transactions_total") == 300, what=lambda: attacher.said[-3000:])
    until(lambda: metric(port, "slot_lag_seconds") == 0, what=lambda: attacher.said[-3000:])
    assert attacher.stop() == 0
    assert rows_there(url, "items") == rows_here(impatient.url, "items")


def test_it_waits_for_a_server_that_is_down_at_the_start(
    source: str, own_server: ServerProcess, tmp_path: Path
) -> None:
    execute(source, ITEMS + ";" + FILL.format(3))
    own_server.port = free_port()
    url = f"http://127.0.0.1:{own_server.port}"
    attacher = Attacher(source, url, "items", tmp_path / "log", "--slot", slot_name())
    attacher.start("--once")
    until(lambda: f"waiting for the server at {url}" in attacher.said, what=lambda: attacher.said[-3000:])
    own_server.start()
    assert attacher.process is not None
    assert attacher.process.wait(WAIT_S) == 0, attacher.said[-3000:]
    assert rows_there(url, "items") == rows_here(source, "items")


@pytest.mark.slow
def test_a_transaction_larger_than_the_server_takes_ends_the_command(
    source: str, own_server: ServerProcess, tmp_path: Path
) -> None:
    execute(source, ITEMS + ";" + FILL.format(12_000))
    own_server.options = ("--max-body-mb", "1")
    url = own_server.start()
    attacher = Attacher(source, url, "items", tmp_path / "log", "--slot", slot_name())
    attacher.begin()
    execute(source, "UPDATE items SET version = 1")
    execute(source, "INSERT INTO items VALUES (0, 7, 'after')")
    assert "--max-body-mb" in attacher.ended()
    attacher.start("--once")
    assert "12,000 events" in attacher.ended(), "it begins with the same one"
    assert answer(url, "SELECT COUNT(*) FROM items WHERE version = 0") == {"value": 12_000}
    own_server.stop()
    own_server.options, own_server.port = (), int(url.rpartition(":")[2])
    own_server.start()
    attacher.catch_up()
    assert rows_there(url, "items") == rows_here(source, "items")


@pytest.mark.parametrize("rows", [20_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_a_large_transaction_is_applied_once_whoever_is_killed(
    source: str, own_server: ServerProcess, tmp_path: Path, rows: int
) -> None:
    execute(source, ITEMS + ";" + FILL.format(rows))
    own_server.options = ("--max-body-mb", "512")
    url = own_server.start()
    attacher = Attacher(source, url, "items", tmp_path / "log", "--slot", slot_name())
    attacher.catch_up()
    execute(source, "UPDATE items SET version = version + 1")
    execute(source, "UPDATE items SET version = version + 10 WHERE id = 1")
    attacher.start()
    until(lambda: "following" in attacher.said.rpartition("starting")[2], what=lambda: attacher.said[-3000:])
    attacher.kill()
    attacher.start("--once")
    assert attacher.process is not None
    assert attacher.process.wait(WAIT_S + rows / 1_000) == 0, attacher.said[-3000:]
    assert answer(url, "SELECT SUM(version) FROM items") == {"value": rows + 10}
    assert rows_there(url, "items") == rows_here(source, "items")


def test_numerics_without_precision(source: str, server: str, tmp_path: Path) -> None:
    execute(source, "CREATE TABLE sums (id integer PRIMARY KEY, x numeric, y numeric)")
    execute(
        source,
        "INSERT INTO sums VALUES (1, 0.1, 1), (2, 12345678901234567890.000000000000000000001, NULL), (3, 1/3.0, 3)",
    )
    slot = slot_name()
    columns = "id, x::numeric(76,38), y::numeric(76,38)"
    attacher = Attacher(source, server, f"sums={slot}", tmp_path / "log", "--slot", slot)
    attacher.catch_up()
    assert rows_there(server, slot) == rows_here(source, "sums", columns)
    execute(source, "UPDATE sums SET x = -x * 1e-15, y = 1e30")
    attacher.catch_up()
    assert rows_there(server, slot) == rows_here(source, "sums", columns)
    for value in ("1e-39", "1e38", "'NaN'"):
        execute(source, f"UPDATE sums SET y = {value} WHERE id = 1")
        attacher.start("--once")
        assert f"--leave-out {slot}.y" in attacher.ended()
        execute(source, "UPDATE sums SET y = 0")
        attacher.catch_up("--again")


def test_the_precision_of_a_numeric_is_that_of_a_table_made_before(
    source: str, server: str, tmp_path: Path
) -> None:
    import httpx

    execute(
        source,
        "CREATE TABLE sums (id integer PRIMARY KEY, x numeric NOT NULL); INSERT INTO sums VALUES (1, 0.5)",
    )
    slot = slot_name()
    columns = [{"name": "id", "type": "integer"}, {"name": "x", "type": "numeric(12,4)"}]
    table = {"name": slot, "columns": columns, "primary_key": ["id"]}
    assert httpx.post(server + "/v1/tables", json=table, trust_env=False).status_code == 201
    attacher = Attacher(source, server, f"sums={slot}", tmp_path / "log", "--slot", slot)
    attacher.catch_up()
    assert answer(server, f"SELECT * FROM {slot}")["rows"] == [{"id": 1, "x": "0.5000"}]
    execute(source, "UPDATE sums SET x = 0.12345")
    attacher.start("--once")
    assert "numeric(12,4)" in attacher.ended()


@pytest.mark.parametrize(
    ("text", "fits"),
    [("0", True), ("-99.99", True), ("1.100", True), ("100", False), ("99.999", False), ("NaN", False), ("Infinity", False),
     ("1e1", True), ("0.00", True), ("0.001", False)],
)  # fmt: skip
def test_a_numeric_is_never_rounded(text: str, fits: bool) -> None:
    read = reader("numeric(4,2)")
    if fits:
        assert read(text) == text
    else:
        with pytest.raises(ValueError, match=text):
            read(text)


def test_a_slot_that_is_lost_is_said(impatient: EmbeddedPostgres, server: str, tmp_path: Path) -> None:
    execute(impatient.url, ITEMS + ";" + FILL.format(3))
    slot = slot_name()
    options = ("--tables", f"items={slot}", "--slot", slot, "--once")
    attacher = Attacher(impatient.url, server, f"items={slot}", tmp_path / "log", "--slot", slot)
    attacher.catch_up()
    assert "max_slot_wal_keep_size = 48MB" in attacher.said
    assert "wal_sender_timeout = 1s" in attacher.said

    def is_lost() -> bool:
        execute(
            impatient.url,
            "SELECT pg_logical_emit_message(false, 'filler', repeat('x', 8000000)), pg_switch_wal()",
        )
        execute(impatient.url, "CHECKPOINT")
        with psycopg.connect(impatient.url) as connection:
            found = connection.execute("SELECT wal_status FROM pg_replication_slots").fetchone()
        return found == ("lost",)

    until(is_lost, what="the slot is not lost")
    said = complaint(impatient.url, server, *options)
    assert "max_slot_wal_keep_size" in said
    assert "--again" in said
    attacher.catch_up("--again")
    execute(impatient.url, f"SELECT pg_drop_replication_slot('{slot}')")
    assert "--again" in complaint(impatient.url, server, *options)
    attacher.catch_up("--again")
    assert rows_there(server, slot) == rows_here(impatient.url, "items")
