"""Ownership of the database: epochs, tokens of batches, the lease, the heartbeat and the watchdog."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Iterator

import psycopg
import pytest

from prosem.store import recovery, schema
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.heartbeat import Heartbeat
from prosem.store.log import Writer
from prosem.values.errors import CommitError, SetupError, UnknownOutcomeError
from tests.support.commits import replace_commit
from tests.support.database import events
from tests.support.processes import open_folder

LOST = psycopg.OperationalError("the server closed the connection unexpectedly")


def _last_seq(url: str) -> int:
    with recovery.load(url) as loaded:
        return loaded.state.last_seq


def _one(url: str, text: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(text).fetchone()  # type: ignore[call-overload]
    return row and row[0]


@pytest.fixture
def others() -> Iterator[list[Writer]]:
    made: list[Writer] = []
    yield made
    for other in made:
        other.close()


# -- outcomes ----------------------------------------------------------------------------------------------------
def test_the_batch_of_another_server_is_not_taken_for_ones_own(
    url: str, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.write(events(1))
    connection = writer.session.require()

    def lose() -> None:
        connection.close()
        other = Writer.connect(url, partition_size=100)
        other.write(events(2))
        other.close()
        raise LOST

    replace_commit(monkeypatch, writer, lose)
    with pytest.raises(CommitError):
        writer.write(events(3))
    assert _last_seq(url) == 2
    assert writer.session.is_superseded
    with pytest.raises(CommitError, match="taken the database over"):
        writer.write(events(3))


@pytest.mark.parametrize("stays", [True, False])
def test_a_lost_answer_counts_although_another_server_has_written_since(
    url: str, writer: Writer, others: list[Writer], monkeypatch: pytest.MonkeyPatch, stays: bool
) -> None:
    writer.write(events(1))
    connection = writer.session.require()

    def commit_and_lose() -> None:
        connection.commit()
        connection.close()
        others.append(Writer.connect(url, partition_size=100))
        others[0].write(events(3))
        others[0].write(events(4))
        if not stays:
            others[0].close()
        raise LOST

    replace_commit(monkeypatch, writer, commit_and_lose)
    writer.write(events(2))
    assert writer.session.is_superseded
    assert _last_seq(url) == 4


def test_an_outcome_that_cannot_be_known_is_no_refusal(
    url: str, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.write(events(1))
    connection = writer.session.require()

    def commit_and_lose() -> None:
        connection.commit()
        connection.close()
        writer.session.url = "postgresql://127.0.0.1:1/x"
        raise LOST

    replace_commit(monkeypatch, writer, commit_and_lose)
    writer.session.settle_s = 0
    with pytest.raises(UnknownOutcomeError):
        writer.write(events(2))
    assert not writer.session.is_proven
    writer.session.url = url
    writer.write(events(3))
    assert writer.session.is_proven
    assert _last_seq(url) == 3


def test_a_server_whose_epoch_is_over_writes_nothing(url: str, writer: Writer) -> None:
    writer.write(events(1))
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE prosem.engine_state SET epoch = epoch + 1")
    with pytest.raises(CommitError, match="taken the database over"):
        writer.write(events(2))
    assert not writer.session.is_proven
    assert _last_seq(url) == 1
    with pytest.raises(psycopg.Error, match="superseded"):
        recovery.load(url, epoch=writer.session.epoch)


def test_every_acquisition_raises_the_epoch_and_keeps_the_token_before(url: str, writer: Writer) -> None:
    for seq in (1, 2):
        writer.write(events(seq))
    first = writer.session.epoch
    writer.close()
    other = Writer.connect(url)
    assert other.session.epoch == first + 1
    other.close()
    assert _one(url, f"SELECT token FROM prosem.ownership WHERE epoch = {first}") == 2


# -- the lease ---------------------------------------------------------------------------------------------------
def test_a_standby_takes_over_from_a_silent_owner(url: str, others: list[Writer]) -> None:
    silent = Writer.connect(
        url, lease_s=0.3, partition_size=100
    )  # without a heartbeat, like a stopped process
    others += [silent, Writer.connect(url, standby=True, partition_size=100)]
    assert not silent.session.is_proven
    others[1].write(events(1))
    with pytest.raises(CommitError):
        silent.write(events(2))
    assert silent.session.is_superseded
    others[1].write(events(2))


def test_a_standby_waits_while_the_owner_renews_its_lease(url: str, others: list[Writer]) -> None:
    owner = Writer.connect(url, lease_s=1.0)
    others.append(owner)
    heartbeat = Heartbeat(owner.session, {}, every_s=0.05)
    heartbeat.start()
    try:
        with pytest.raises(SetupError, match="another prosem serve"):
            Writer.connect(
                url,
                standby=True,
                cancelled=lambda: int(str(_one(url, "SELECT beats FROM prosem.engine_state"))) > 40,
            )
        assert owner.session.is_proven
    finally:
        heartbeat.close()


def test_the_lease_is_renewed_while_a_long_batch_uses_the_session(url: str, writer: Writer) -> None:
    heartbeat = Heartbeat(writer.session, {}, every_s=0.02)
    heartbeat.start()
    try:
        with writer.session.turn:
            before = _one(url, "SELECT beats FROM prosem.engine_state")
            while _one(url, "SELECT beats FROM prosem.engine_state") == before:
                pass
            assert writer.session.is_proven
    finally:
        heartbeat.close()


def test_the_heartbeat_replaces_a_session_that_was_lost(url: str, writer: Writer) -> None:
    heartbeat = Heartbeat(writer.session, {}, every_s=0.05)
    heartbeat.start()
    try:
        former, session = writer.session.epoch, writer.session
        with psycopg.connect(url) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", [session.require().info.backend_pid])
        while session.epoch == former or not session.is_proven:
            pass
        writer.write(events(1))
        assert not session.is_superseded
    finally:
        heartbeat.close()


# -- PostgreSQL restarts -----------------------------------------------------------------------------------------
def test_a_standby_goes_on_waiting_through_a_restart_of_postgres() -> None:
    folder = open_folder("prosem-restart-")
    server = EmbeddedPostgres(folder / "data", settings={"fsync": "off"})
    try:
        schema.migrate(server.start())
        owner = Writer.connect(server.url)
        found: list[Writer | BaseException] = []

        def wait() -> None:
            try:
                found.append(Writer.connect(server.url, wait_s=0, standby=True))
            except BaseException as error:
                found.append(error)

        standby = threading.Thread(target=wait)
        standby.start()
        sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'prosem writer'"
        while _one(server.url, sessions) != 2:
            pass
        server.stop()
        for _ in itertools.count():
            if not standby.is_alive() or server.start():
                break
        standby.join()
        owner.close()
        assert isinstance(found[0], Writer), found
        found[0].write(events(1))
        found[0].close()
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
