"""Webhooks when things go wrong on our side: lost connections, receivers slower than the queue, lists that are full."""

from __future__ import annotations

import asyncio
import random
import threading

import httpx
import psycopg
import pytest

from api.server.running import RunningServer
from api.webhooks import worker as worker
from api.webhooks.requests import WebhookRequest
from prosem.engine import commands as c
from prosem.values.access import KEYLESS
from tests.support.live import upsert
from tests.support.receiver import Receiver, Request
from tests.support.running import TABLE, WAIT_S, again, publish, running, subscribe
from tests.support.waiting import until_async

SECRET = "a-secret-of-these-tests"


async def prepared(made: RunningServer, *ids: str) -> None:
    await made.call(c.CreateTable(TABLE))
    for id in ids:
        await made.call(subscribe(0, 100, id))


async def hook(made: RunningServer, receiver: Receiver, *ids: str) -> str:
    requested = WebhookRequest(httpx.URL(receiver.url), list(ids), SECRET, False)
    return str((await made.webhooks.create(KEYLESS, requested))["id"])


async def lower(made: RunningServer, values: range) -> list[int]:
    """Each event makes the minimum another; their seqs."""
    return [(await again(made, publish(upsert(k=1, x=1, y=y))))["last_seq"] for y in values]


async def test_nothing_is_lost_while_the_connection_is_cut_again_and_again(url: str) -> None:
    """Also the receiver fails at random; what it takes is complete, in order, and under one id each."""
    chance = random.Random(7)
    with Receiver(SECRET, lambda number, request: 500 if chance.random() < 0.2 else 200) as receiver:
        async with running(url, webhook_wait_ms=5, webhook_attempts=50) as made:
            await prepared(made, "one", "two")
            await hook(made, receiver, "one", "two")
            await until_async(lambda: len(receiver.frames) == 2)
            seqs = []
            for round in range(6):
                seqs += await lower(made, range(90 - 10 * round, 80 - 10 * round, -1))
                await asyncio.to_thread(_cut, url)
            await until_async(lambda: receiver.seqs("one")[1:] == seqs and receiver.seqs("two")[1:] == seqs)
        bodies: dict[str, bytes] = {}
        for request in receiver.requests:
            assert bodies.setdefault(request.delivery["delivery"], request.body) == request.body


def _cut(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'prosem webhooks'"
        )


async def test_a_receiver_slower_than_the_queue_is_caught_up_from_the_outbox(url: str) -> None:
    free = threading.Event()

    def behave(number: int, request: Request) -> int:
        if number:
            free.wait(WAIT_S)
        return 200

    with Receiver(SECRET, behave) as receiver:
        async with running(url, queue=5, webhook_timeout_s=60) as made:
            await prepared(made, "one")
            await hook(made, receiver, "one")
            await until_async(lambda: receiver.frames)
            seqs = await lower(made, range(99, 39, -1))
            assert made.metrics.lagging > 0
            assert made.webhooks.lag(made.edge.seq) > 0
            free.set()
            await until_async(lambda: receiver.seqs("one")[1:] == seqs)
            await until_async(lambda: made.webhooks.lag(made.edge.seq) == 0)


async def test_a_webhook_with_a_full_list_of_dead_letters_stands_still_and_goes_on(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "MAX_DEAD", 2)
    is_down = threading.Event()
    with Receiver(SECRET, lambda number, request: 500 if is_down.is_set() else 200) as receiver:
        async with running(url, webhook_wait_ms=1, webhook_attempts=2) as made:
            await prepared(made, "one")
            id = await hook(made, receiver, "one")
            await until_async(lambda: receiver.frames)
            is_down.set()
            seqs = []
            for y in (9, 8):
                seqs += await lower(made, range(y, y - 1, -1))
                await _dead(made, id, 10 - y)
            tried = len(receiver.requests)
            seqs += await lower(made, range(7, 2, -1))
            shown = await made.webhooks.show(KEYLESS, id)
            assert "2 dead letters wait" in shown["problem"]
            assert len(receiver.requests) == tried, "nothing is sent while it stands still"
            is_down.clear()
            assert await made.webhooks.redeliver(KEYLESS, id, None) == 2
            await until_async(lambda: receiver.seqs("one")[1:] == seqs)
            shown = await made.webhooks.show(KEYLESS, id)
            assert (shown["problem"], shown["dead_letters"]) == (None, 0)


async def _dead(made: RunningServer, id: str, count: int) -> None:
    async def are_there() -> bool:
        return len(await made.webhooks.dead_letters(KEYLESS, id)) >= count

    await until_async(are_there)


async def test_after_an_orderly_end_nothing_is_sent_twice(url: str) -> None:
    with Receiver(SECRET) as receiver:
        seqs: list[int] = []
        for values in (range(99, 94, -1), range(94, 89, -1), range(89, 84, -1)):
            async with running(url) as made:
                if not seqs:
                    await prepared(made, "one")
                    await hook(made, receiver, "one")
                    await until_async(lambda: receiver.frames)
                seqs.extend(await lower(made, values))
                await until_async(lambda: receiver.seqs("one")[1:] == seqs)
                await until_async(lambda made=made: made.webhooks.lag(made.edge.seq) == 0)  # type: ignore[misc]
        sent = [request.delivery["delivery"] for request in receiver.requests]
        assert len(sent) == len(set(sent))
        assert len([frame for request in receiver.requests for frame in request.delivery["frames"]]) == 16


async def test_a_subscription_under_the_id_of_a_deleted_one_is_another(url: str) -> None:
    """After a restart, too, the receiver is notified that it is gone, and of nothing of the new one."""
    with Receiver(SECRET) as receiver:
        async with running(url) as made:
            await prepared(made, "one")
            await hook(made, receiver, "one")
            await until_async(lambda: receiver.frames)
            await lower(made, range(9, 7, -1))
            await until_async(lambda: len(receiver.frames) == 3)
        async with running(url) as made:
            await made.call(c.Delete("one"))
            await until_async(lambda: "error" in receiver.frames[-1])
            await made.call(subscribe(0, 100, "one"))
            await lower(made, range(5, 4, -1))
            await until_async(lambda: made.webhooks.lag(made.edge.seq) == 0)
            assert receiver.frames[-1]["error"]["status"] == 404
