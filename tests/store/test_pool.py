"""Pools of connections: bounded, closed after errors, and led to a new address."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from prosem.store import pool as pools
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.pool import Pool
from prosem.values.errors import NotFoundError
from tests.support.database import empty_database

BACKEND = "SELECT pg_backend_pid(), current_database()"


async def ask(pool: Pool, text: str = BACKEND) -> tuple[object, ...]:
    async with pool.connection() as connection:
        row = await (await connection.execute(text.encode())).fetchone()
        assert row is not None
        return tuple(row)


async def test_many_readers_share_few_connections(postgres: EmbeddedPostgres) -> None:
    url = empty_database(postgres)

    pool = Pool(lambda: url, "prosem test", size=2)
    try:
        found = await asyncio.gather(*[ask(pool) for _ in range(20)])
        assert len({backend for backend, _ in found}) <= 2
    finally:
        await pool.close()


async def test_a_connection_outlives_our_errors_and_no_others(postgres: EmbeddedPostgres) -> None:
    url = empty_database(postgres)

    pool = Pool(lambda: url, "prosem test", size=1)
    try:
        backend = await ask(pool)
        with pytest.raises(NotFoundError):
            async with pool.connection():
                raise NotFoundError("there is none")
        assert await ask(pool) == backend
        with pytest.raises(RuntimeError):
            async with pool.connection():
                raise RuntimeError("in the middle of something")
        assert await ask(pool) != backend
    finally:
        await pool.close()


async def test_readers_follow_a_changed_address(postgres: EmbeddedPostgres) -> None:
    """As after a revival of the embedded PostgreSQL: all connections are lost, and the address is another."""
    before, after = empty_database(postgres), empty_database(postgres)
    address = before

    pool = Pool(lambda: address, "prosem test", size=2)
    try:
        async with pool.connection() as one, pool.connection() as other:
            backends = [one.info.backend_pid, other.info.backend_pid]
        address = after
        with psycopg.connect(before, autocommit=True) as connection:
            for backend in backends:
                connection.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])
        with pytest.raises(psycopg.OperationalError):
            await ask(pool)
        await pool.check()
        with psycopg.connect(after) as connection:
            assert (await ask(pool))[1] == connection.info.dbname
    finally:
        await pool.close()


async def test_without_a_database_a_reader_ends_and_a_later_one_is_served(
    postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "CONNECT_S", 0.2)
    monkeypatch.setattr(pools, "RECONNECT_S", 0.1)
    address = "postgresql://127.0.0.1:1/none"
    found = empty_database(postgres)

    pool = Pool(lambda: address, "prosem test", size=1)
    try:
        with pytest.raises(psycopg.OperationalError):
            await ask(pool)
        address = found
        while True:
            try:
                await ask(pool)
            except psycopg.OperationalError:
                continue
            return
    finally:
        await pool.close()
