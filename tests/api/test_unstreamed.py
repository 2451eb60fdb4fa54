"""Subscriptions that are not durable and were never streamed end by themselves and block no table."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from prosem.engine import commands as c
from prosem.store.schema import migrate
from prosem.values.errors import BusyError, ConflictError, NotFoundError
from tests.support.database import EmbeddedPostgres, empty_database
from tests.support.running import LOWEST, ROWS, TABLE, Listener, outcome, running
from tests.support.waiting import until_async


@pytest.fixture
def url(postgres: EmbeddedPostgres) -> str:
    made = empty_database(postgres)
    migrate(made)
    return made


def ephemeral(id: str, query: Any = LOWEST) -> c.Subscribe:
    params = {"lo": 0, "hi": 9} if query is LOWEST else {"y": 5}
    return c.Subscribe(query, None, [(id, params)], durable=False)


def stored(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        return {id for (id,) in connection.execute("SELECT id FROM prosem.subscription")}


async def until_stored(url: str, expected: set[str]) -> None:
    async def is_stored() -> bool:
        return await asyncio.to_thread(stored, url) == expected

    await until_async(is_stored)


async def test_a_subscription_that_is_never_streamed_ends(url: str) -> None:
    async with running(url, ephemeral_s=0) as made:
        await made.call(c.CreateTable(TABLE))
        await made.call(c.Subscribe(LOWEST, None, [("kept", {"lo": 0, "hi": 9})]))
        await made.call(ephemeral("one"))
        await made.call(c.Subscribe(ROWS, None, [(None, {"y": n}) for n in range(2_500)], durable=False))
        await until_stored(url, {"kept"})
        assert isinstance(await outcome(made, c.Result("one")), NotFoundError)
        assert await made.call(ephemeral("one")), "its id is free again"


async def test_one_with_a_stream_stays_as_long_as_that(url: str) -> None:
    async with running(url, ephemeral_s=1) as made:
        await made.call(c.CreateTable(TABLE))
        await made.call(ephemeral("streamed"))
        listener = await Listener(made, "streamed").attached()
        await made.call(ephemeral("later"))
        await until_stored(url, {"streamed"})
        await made.call(c.Publish("t", [{"op": "insert", "row": {"k": 1, "x": 1, "y": 1}}]))
        assert (await made.call(c.Result("streamed")))["result"]["value"] == 1
        with pytest.raises(ConflictError, match="1 subscriptions use"):
            await made.call(c.DropTable("t"))
        await listener.close()
        await until_stored(url, set())


async def test_a_table_is_dropped_with_those_that_were_never_streamed(url: str) -> None:
    async with running(url) as made:
        await made.call(c.CreateTable(TABLE))
        await made.call(c.Subscribe(LOWEST, None, [("kept", {"lo": 0, "hi": 9})]))
        for id, query in (("one", LOWEST), ("two", ROWS)):
            await made.call(ephemeral(id, query))
        with pytest.raises(ConflictError, match="1 subscriptions use"):
            await made.call(c.DropTable("t"))
        assert stored(url) == {"kept", "one", "two"}, "nothing is changed by a refusal"
        await made.call(c.Delete("kept"))
        await made.call(c.DropTable("t"))
        assert stored(url) == set()
        await made.call(c.CreateTable(TABLE))
        await made.call(ephemeral("one"))
    async with running(url) as made:
        assert isinstance(await outcome(made, c.Result("one")), NotFoundError)


async def test_the_end_of_a_stream_is_not_forgotten_by_a_busy_engine(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(url, ephemeral_s=1) as made:
        await made.call(c.CreateTable(TABLE))
        await made.call(ephemeral("one"))
        listener = await Listener(made, "one").attached()
        submit, refusals = made.engine.submit, 0

        def busy(command: c.Command, parent: str = "") -> Any:
            nonlocal refusals
            if isinstance(command, c.Forget) and not refusals:
                refusals += 1
                raise BusyError("full")
            return submit(command, parent)

        monkeypatch.setattr(made.engine, "submit", busy)
        await listener.close()
        await until_stored(url, set())
        assert refusals == 1


async def test_only_an_ephemeral_subscription_ends_with_its_streams(url: str) -> None:
    """Also if its number came from a database that was set back since."""
    async with running(url) as made:
        await made.call(c.CreateTable(TABLE))
        await made.call(c.Subscribe(LOWEST, None, [("kept", {"lo": 0, "hi": 9})]))
        sid = made.state.registry.sid("kept")
        assert sid is not None
        await made.call(c.Forget(sid))
        assert stored(url) == {"kept"}
