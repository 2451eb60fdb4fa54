"""The update monitor and pinned variables against a real server, beside a plain subscription to the same query."""

from __future__ import annotations

import asyncio
import math
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prosem_client import (
    AsyncClient,
    Client,
    MonitoredSubscription,
    NotMonitorable,
    ProsemError,
    Subscription,
    UpdateMonitor,
    fold,
    release,
)

from tests.support.waiting import until_async

COLUMNS = {"k": "integer", "x": "integer", "price": "numeric(8,2)", "s": "text"}
WAIT_S = 10.0
EAGER = UpdateMonitor(frequency_hz=10, window_s=0.4)


def row(k: int, x: int | None, price: str | None = "1.00", s: str = "a") -> dict[str, Any]:
    return {"op": "upsert", "row": {"k": k, "x": x, "price": price, "s": s}}


@asynccontextmanager
async def opened(server: str, rows: int = 100) -> AsyncIterator[tuple[AsyncClient, str]]:
    """A client, and a table of its own with x = k."""
    async with AsyncClient(server) as client:
        table = f"cars_{uuid.uuid4().hex[:12]}"
        await client.create_table(table, COLUMNS, ["k"])
        await client.publish(table, [row(k, k, f"{k / 4:.2f}") for k in range(rows)])
        yield client, table


def by_key(result: dict[str, Any] | None) -> dict[int, Any]:
    assert result is not None
    return {row["k"]: row for row in result["rows"]}


async def catch_up(subscription: Subscription, expected: dict[int, Any]) -> int:
    """Consume until the answer is the expected one; every item must change it, and fold. How many there were."""
    items = 0
    while by_key(subscription.result) != expected:
        before = subscription.result
        item = await subscription.next(timeout_s=WAIT_S)
        assert before is not None
        assert item.change is not None
        assert by_key(item.result) == by_key(fold(before, item.change, key=("k",))) != by_key(before)
        items += 1
    return items


# -- the exact answer for fewer requests ---------------------------------------------------------------------
async def check_answers(
    client: AsyncClient,
    table: str,
    plain: Subscription,
    monitored: MonitoredSubscription,
    dice: random.Random,
) -> None:
    """An event now and then; both have the answer of the server."""
    if dice.random() < 0.4:
        await client.publish(table, [row(dice.randrange(110), dice.choice([None, *range(100)]))])
    await plain.flush()
    expected = by_key((await client.result(plain.id)).result)
    await catch_up(monitored, expected)
    await catch_up(plain, expected)


def check_requests(monitored: MonitoredSubscription, share: float) -> None:
    assert monitored.updates > 30
    used = monitored.patches / monitored.updates
    assert used <= share, f"{monitored.patches} requests for {monitored.updates} moves"


def walk(at: int, dice: random.Random, before: float) -> float:
    return before + dice.choice([-2, -1, 0, 1, 2])


def swing(at: int, dice: random.Random, before: float) -> float:
    return 50 + 20 * math.sin(at / 4)


def trend(at: int, dice: random.Random, before: float) -> float:
    return 10 + at / 2


def jump(at: int, dice: random.Random, before: float) -> float:
    return dice.uniform(0, 100)


@pytest.mark.parametrize(("path", "share"), [(walk, 0.5), (swing, 0.4), (trend, 0.4), (jump, 1.01)])
async def test_the_answer_is_that_of_a_plain_subscription(server: str, path: Any, share: float) -> None:
    """After every step, with events between them; and with fewer requests where the path can be foretold."""
    dice = random.Random(path.__name__)
    async with opened(server) as (client, table):
        sql = f"SELECT * FROM {table} WHERE x BETWEEN :lo AND :hi"
        plain = await client.subscribe(sql, {"lo": 40, "hi": 50})
        monitored = await client.subscribe(sql, {"lo": 40, "hi": 50}, monitor=EAGER)
        assert isinstance(monitored, MonitoredSubscription)
        middle = 45.0
        for at in range(80):
            middle = path(at, dice, middle)
            low, high = round(middle) - 5, round(middle) + 5
            monitored.params.lo = plain.params.lo = low
            monitored.params.hi = plain.params.hi = high
            await check_answers(client, table, plain, monitored, dice)
        check_requests(monitored, share)
        with pytest.raises(TimeoutError):
            await monitored.next(timeout_s=0.05)


@pytest.mark.parametrize(
    ("where", "share"),
    [
        ("x BETWEEN :pos - :reach AND :pos + :reach", 0.5),
        ("price >= (:pos - :reach) / 4 AND :pos / 4 + 1.5 > price", 0.5),
        ("x = :pos", 0.6),
    ],
)
async def test_arithmetic_and_equality_have_the_answer_of_a_plain_subscription(
    server: str, where: str, share: float
) -> None:
    """The position of a vehicle and how far it looks, as in the paper; after every step, with events between."""
    dice = random.Random(where)
    async with opened(server) as (client, table):
        sql = f"SELECT * FROM {table} WHERE {where}"
        start = {"pos": 45, "reach": 5} if ":reach" in where else {"pos": 45}
        plain = await client.subscribe(sql, start)
        monitored = await client.subscribe(sql, start, monitor=UpdateMonitor(frequency_hz=4))
        assert isinstance(monitored, MonitoredSubscription)
        for at in range(80):
            monitored.params.pos = plain.params.pos = round(swing(at, dice, 0))
            if "reach" in start and at % 20 == 19:
                monitored.params.reach = plain.params.reach = dice.choice([3, 5, 9])
            await check_answers(client, table, plain, monitored, dice)
        check_requests(monitored, share)
        with pytest.raises(ProsemError) as caught:
            monitored.params.pos = "there"
        assert (caught.value.status, caught.value.errors[0]["at"]) == (422, "/params/pos")
        id, last = monitored.id, plain.id
        await monitored.close()
        assert by_key((await client.result(id)).result) == by_key((await client.result(last)).result)


async def test_a_burst_ends_where_it_was_let_go(server: str) -> None:
    async with opened(server) as (client, table):
        sql = f"SELECT k, price FROM {table} WHERE price > :lo AND price < :hi AND s = :s"
        monitored = await client.subscribe(sql, {"lo": "5.00", "hi": 6, "s": "a"}, monitor=EAGER)
        assert isinstance(monitored, MonitoredSubscription)
        for at in range(200):
            monitored.params.lo, monitored.params.hi = f"{5 + at / 100:.2f}", 6 + at / 100
            if at % 10 == 0:
                await monitored.flush()
        await monitored.flush()
        await catch_up(monitored, {k: {"k": k, "price": f"{k / 4:.2f}"} for k in (28, 29, 30, 31)})
        assert monitored.params.lo == "6.99"
        assert monitored.patches <= 12
        monitored.params.s = "b"  # a parameter that is no end of a range is the server's
        await monitored.flush()
        await catch_up(monitored, {})
        monitored.params.s, monitored.params.lo = "a", None
        await monitored.flush()
        await client.publish(table, [row(7, 7, "6.50")])
        with pytest.raises(TimeoutError):
            await monitored.next(timeout_s=0.1)


async def test_a_range_that_rests_becomes_exact_at_the_server(server: str) -> None:
    async with opened(server) as (client, table):
        sql = f"SELECT * FROM {table} WHERE x >= :lo AND x < :hi"
        monitored = await client.subscribe(
            sql, {"lo": 0, "hi": 5}, monitor=UpdateMonitor(10, 0.3), id=f"m-{table}"
        )
        for at in range(40):
            monitored.params.hi = 5 + at
            await monitored.flush()
        held = by_key((await client.result(monitored.id)).result)
        await catch_up(monitored, {k: held[k] for k in range(44)})
        assert len(held) > 44, "the server has more than the user sees"

        async def is_exact() -> bool:
            return by_key((await client.result(monitored.id)).result).keys() == set(range(44))

        await until_async(is_exact)
        with pytest.raises(TimeoutError):
            await monitored.next(timeout_s=0.05)
        for at in range(40):
            monitored.params.hi = 44 + at
            await monitored.flush()
        await catch_up(monitored, by_key((await client.subscribe(sql, {"lo": 0, "hi": 83})).result))
        await monitored.close()
        found = await client.attach(f"m-{table}")
        assert (found.params.lo, found.params.hi) == (0, 83), "closing leaves the exact range behind"
        assert by_key(found.result).keys() == set(range(83))


async def test_patching_suspending_and_refusals(server: str) -> None:
    async with opened(server) as (client, table):
        sql = f"SELECT * FROM {table} WHERE x BETWEEN :lo AND :hi"
        monitored = await client.subscribe(sql, {"lo": 0, "hi": 5}, monitor=EAGER)
        for at in range(20):
            answer = await monitored.patch(hi=6 + at)
            assert by_key(answer.result).keys() == set(range(7 + at)), "the answer is the exact one"
        await catch_up(monitored, by_key(answer.result))
        with pytest.raises(ProsemError) as caught:
            monitored.params.hi = "many"
        assert (caught.value.status, caught.value.errors[0]["at"]) == (422, "/params/hi")
        monitored.params.nonsense = 1
        with pytest.raises(ProsemError, match="nonsense"):
            await monitored.flush()
        assert monitored.params.hi == 25
        await monitored.suspend()
        await client.publish(table, [row(3, 99)])
        monitored.params.hi = 24
        await monitored.flush()
        with pytest.raises(TimeoutError):
            await monitored.next(timeout_s=0.1)
        await monitored.resume()
        item = await monitored.next(timeout_s=WAIT_S)
        assert item.change is not None
        assert sorted(removed["k"] for removed in item.change["remove"]) == [3, 25]
        await monitored.delete()
        with pytest.raises(ProsemError) as caught:
            await client.result(monitored.id)
        assert caught.value.status == 404
        with pytest.raises(NotMonitorable):
            await client.subscribe(f"SELECT * FROM {table} WHERE s > :lo", {"lo": "a"}, monitor=EAGER)


async def test_a_broken_socket_loses_nothing(server: str) -> None:
    async with opened(server) as (client, table):
        sql = f"SELECT * FROM {table} WHERE x BETWEEN :lo AND :hi"
        dice = random.Random(4)
        monitored = await client.subscribe(sql, {"lo": 0, "hi": 10}, monitor=EAGER, durable=False)
        kept = await client.subscribe(sql, {"lo": 0, "hi": 10}, monitor=EAGER)

        async def consume() -> int:
            snapshots = 0
            async for item in monitored:
                snapshots += item.snapshot
            return snapshots

        consuming = asyncio.create_task(consume())
        for at in range(60):
            for subscription in (monitored, kept):
                subscription.params.lo, subscription.params.hi = at, at + 10
            await client.publish(table, [row(dice.randrange(100), dice.randrange(100))])
            if at % 20 == 10:
                lost = client._stream.socket
                assert lost is not None
                lost.transport.abort()
                await until_async(lambda lost=lost: client._stream.socket not in (None, lost))  # type: ignore[misc]
        truth = await client.subscribe(sql, {"lo": 59, "hi": 69})
        expected = by_key(truth.result)
        await catch_up(kept, expected)
        monitored.params.lo, monitored.params.hi = 59, 69  # while it was gone, assignments were refused
        await monitored.flush()

        def is_caught_up() -> bool:
            assert not consuming.done()
            return by_key(monitored.result) == expected

        await until_async(is_caught_up)
        await monitored.close()
        assert await consuming >= 3, "it was made anew each time"


# -- pinned variables ----------------------------------------------------------------------------------------
async def test_a_released_variable_moves_every_use(server: str) -> None:
    async with opened(server) as (client, table):
        near = f"SELECT * FROM {table} WHERE x BETWEEN :pos - :reach AND :pos + :reach"
        position, reach = client.pin(10), client.pin(1)
        close_by = await client.subscribe(near, {"pos": position, "reach": reach})
        around = await client.subscribe(near, {"pos": position, "reach": 5})
        fixed = await client.subscribe(near, {"pos": 10, "reach": reach})
        assert by_key(close_by.result).keys() == {9, 10, 11}
        position.value, reach.value = 30, 2
        assert (position.value, position.last, close_by.params.pos) == (30, 10, 10), "set, and nobody told"
        with pytest.raises(TimeoutError):
            await around.next(timeout_s=0.1)
        release(position, reach)
        assert (position.last, close_by.params.pos, around.params.pos) == (30, 30, 30)
        item = await close_by.next(timeout_s=WAIT_S)
        assert by_key(item.result).keys() == {28, 29, 30, 31, 32}, "both variables in one step"
        assert by_key((await around.next(timeout_s=WAIT_S)).result).keys() == set(range(25, 36))
        assert by_key((await fixed.next(timeout_s=WAIT_S)).result).keys() == set(range(8, 13))
        close_by.params.pos = 50  # no longer the variable
        fixed.params.pos = position
        await around.flush()
        await around.close()
        position.value = 70
        position.release()
        for subscription in (close_by, fixed):
            await subscription.flush()
        assert (close_by.params.pos, fixed.params.pos, around.params.pos) == (50, 70, 30)
        await fixed.patch(pos=60)
        position.value = 80
        position.release()
        assert fixed.params.pos == 60, "a patched parameter follows no more"


def test_a_variable_and_a_monitor_without_asyncio(server: str) -> None:
    with Client(server) as client:
        table = f"cars_{uuid.uuid4().hex[:12]}"
        client.create_table(table, COLUMNS, ["k"])
        client.publish(table, [row(k, k) for k in range(100)])
        low, high = client.pin(0), client.pin(3)
        sql = f"SELECT * FROM {table} WHERE x BETWEEN :lo AND :hi"
        plain = client.subscribe(sql, {"lo": low, "hi": high})
        monitored = client.subscribe(sql, {"lo": low, "hi": high}, monitor=EAGER)
        for at in range(50):
            low.value, high.value = at, at + 3
            release(low, high)
        for subscription in (plain, monitored):
            subscription.flush()
            while by_key(subscription.result).keys() != {49, 50, 51, 52}:
                subscription.next(timeout_s=WAIT_S)
        with pytest.raises(NotMonitorable):
            client.subscribe(f"SELECT MAX(x) FROM {table} WHERE x > :lo", {"lo": 1}, monitor=EAGER)
