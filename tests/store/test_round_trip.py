"""Transactions in one round trip, on a real PostgreSQL: what is committed, what is refused, and what is prepared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from prosem.store import round_trip
from prosem.store.acquire import open_session
from prosem.store.packing import pack
from prosem.store.partitions import Connection
from prosem.store.round_trip import RoundTrip, Statement

COMMIT = b"COMMIT"
INSERT = b"INSERT INTO public.pairs SELECT * FROM unnest($1::integer[], $2::text[])"


def pairs(*numbers: int, size: int = 1) -> Statement:
    return INSERT, [pack("integer", numbers), pack("text", ["x" * size for _ in numbers])]


@pytest.fixture
def session(url: str) -> Iterator[Connection]:
    with open_session(url) as connection:
        connection.execute("DROP TABLE IF EXISTS public.pairs")
        connection.execute(
            "CREATE TABLE public.pairs (k integer PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text)"
        )
        connection.commit()
        yield connection
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE public.pairs")


class Trips:
    """Transactions of a session, and what is there after them."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.trip, self.sent = connection, RoundTrip(), 0

    def run(self, *statements: Statement, ending: bytes | None = COMMIT) -> None:
        self.trip.run(self.connection, statements, ending, self._sent)

    def _sent(self) -> None:
        self.sent += 1

    def all(self, query: str) -> list[tuple[Any, ...]]:
        found = self.connection.execute(query.encode()).fetchall()
        self.connection.rollback()
        return found

    @property
    def keys(self) -> list[int]:
        return [key for (key,) in self.all("SELECT k FROM public.pairs ORDER BY k")]

    @property
    def prepared(self) -> int:
        ((count,),) = self.all("SELECT count(*) FROM pg_prepared_statements")
        return int(count)


@pytest.fixture
def trips(session: Connection) -> Trips:
    return Trips(session)


def test_all_is_committed_and_prepared_once(trips: Trips) -> None:
    for number in range(5):
        trips.run(pairs(number), pairs(number + 10, number + 20))
        assert trips.connection.info.transaction_status == TransactionStatus.IDLE
    assert trips.keys == [*range(5), *range(10, 15), *range(20, 25)]
    assert trips.prepared == 1
    assert trips.sent == 10


def test_values_of_all_kinds(trips: Trips) -> None:
    """Parameters that psycopg dumps travel beside packed ones."""
    trips.run((b"INSERT INTO public.pairs SELECT $1, array_to_string($2::text[], '-')", [7, ["a", "b"]]))
    trips.run((b"INSERT INTO public.pairs VALUES ($1, $2)", [8, None]))
    assert trips.all("SELECT k, v FROM public.pairs ORDER BY k") == [(7, "a-b"), (8, None)]


def test_without_an_ending_the_transaction_stays_open(trips: Trips) -> None:
    trips.run(pairs(1), ending=None)
    assert trips.connection.info.transaction_status == TransactionStatus.INTRANS
    trips.run(pairs(2), ending=None)
    trips.connection.rollback()
    assert trips.keys == []
    trips.run(pairs(3))
    assert trips.keys == [3]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_refused_statement(trips: Trips, at: int) -> None:
    """The first error is raised, nothing stays, and what is prepared does not grow."""
    for _ in range(3):
        statements = [pairs(1), pairs(2)]
        statements.insert(at, (b"INSERT INTO public.pairs VALUES ($1::integer / 0, '')", [5]))
        with pytest.raises(psycopg.errors.DivisionByZero) as caught:
            trips.run(*statements)
        assert caught.value.sqlstate == "22012"
        assert trips.connection.info.transaction_status == TransactionStatus.INERROR
        trips.connection.rollback()
    assert trips.keys == []
    trips.run(pairs(1), pairs(2))
    assert trips.keys == [1, 2]
    assert trips.prepared == 1


def test_a_refused_commit(trips: Trips) -> None:
    with pytest.raises(psycopg.errors.UniqueViolation):
        trips.run(pairs(1), pairs(1))
    assert trips.connection.info.transaction_status == TransactionStatus.IDLE
    assert trips.keys == []
    with pytest.raises(psycopg.errors.UniqueViolation):
        trips.run(pairs(1), pairs(1), ending=b"SET CONSTRAINTS ALL IMMEDIATE")
    trips.connection.rollback()
    assert trips.keys == []


def test_more_than_the_sockets_hold(trips: Trips) -> None:
    """12 MB are written, and as much is sent whose results come back meanwhile."""
    echo = b"SELECT v FROM unnest($1::integer[], $2::text[]) AS u(k, v)"
    trips.run(*(pairs(*range(40 * n, 40 * n + 40), size=50_000) for n in range(6)), (echo, pairs(1, 2)[1]))
    trips.run(*((echo, pairs(*range(40), size=50_000)[1]) for _ in range(6)))
    assert len(trips.keys) == 240


def test_statements_are_bounded(trips: Trips, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_trip, "MOST_PREPARED", 3)
    for number in range(10):
        trips.run(pairs(number), (b"SELECT $1::integer + %d" % number, [1]))
        assert trips.prepared <= 3
    assert trips.keys == list(range(10))


def test_forgotten_statements_are_prepared_anew(trips: Trips) -> None:
    trips.run(pairs(1))
    trips.trip.forget()
    trips.run((b"SELECT $1::integer", [1]))
    assert trips.prepared == 1
    trips.run(pairs(2))
    assert trips.keys == [1, 2]


def test_a_session_that_ends(trips: Trips, url: str) -> None:
    trips.run(pairs(1))
    end = (b"SELECT pg_terminate_backend(pg_backend_pid())", [])
    with pytest.raises(psycopg.OperationalError):
        trips.run(pairs(2), end, pairs(3))
    assert trips.connection.closed
    with open_session(url) as other:
        trips.connection = other
        assert trips.keys == [1]
        trips.run(pairs(4))
        assert trips.keys == [1, 4]


def test_a_statement_that_cannot_be_made(trips: Trips, url: str) -> None:
    """What was sent before it is not committed: the session is over."""

    def statements() -> Iterator[Statement]:
        yield pairs(1)
        raise LookupError("no such table")

    with pytest.raises(LookupError):
        trips.trip.run(trips.connection, statements(), COMMIT, lambda: None)
    assert trips.connection.closed
    with open_session(url) as other:
        trips.connection = other
        assert trips.keys == []
