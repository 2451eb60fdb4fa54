"""A full backlog and slow readers: reads pass, Retry-After is computed, queues are bounded in bytes."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest

from api.http.app import make_app
from api.server.running import RunningServer
from prosem.delivery.subscriber import Item
from prosem.engine import commands as c
from prosem.language.parse import parse
from prosem.values.errors import BusyError
from tests.support.running import TABLE, publish, running, served, subscribe

WIDE = {
    "name": "t",
    "columns": [{"name": "k", "type": "integer"}, {"name": "y", "type": "text"}],
    "primary_key": ["k"],
}


ALL = parse("SELECT * FROM t WHERE k >= :k")


def _insert(k: int) -> c.Publish:
    return publish({"op": "insert", "row": {"k": k, "x": 1, "y": k}})


class Gate:
    """Holds commits back until it is opened."""

    def __init__(self, made: RunningServer) -> None:
        self._write, self._may = made.writer.write, threading.Event()
        made.writer.write = self  # type: ignore[method-assign, assignment]

    def __call__(self, writes: Any) -> None:
        assert self._may.wait(60)
        self._write(writes)

    def open(self) -> None:
        self._may.set()


async def test_a_read_passes_what_waits_and_still_follows_its_commit(url: str) -> None:
    async with running(url, max_batch=10, max_backlog=1_000) as made:
        await made.call(c.CreateTable(TABLE))
        await made.call(subscribe(0, 10, "low"))
        await made.call(_insert(5))
        gate = Gate(made)
        waiting = [made.submit(_insert(k)) for k in range(100, 900)]
        reads = [made.submit(c.Result("low", ahead=True)) for _ in range(50)]
        assert not any(read.done() for read in reads)  # what they may have seen is not committed
        gate.open()
        answers = await asyncio.gather(*map(asyncio.wrap_future, reads))
        assert not waiting[-1].done()
        assert {answer["result"]["value"] for answer in answers} == {5}
        await asyncio.gather(*map(asyncio.wrap_future, waiting))


async def test_a_read_is_taken_while_the_backlog_is_full_and_retry_after_is_computed(url: str) -> None:
    async with running(url, max_batch=10, max_backlog=100) as made:
        await made.call(c.CreateTable(TABLE))
        await made.call(subscribe(0, 10, "low"))
        gate = Gate(made)
        made.engine._waiting.drain._rate = 10.0
        waiting = []
        while made.engine.backlog < 100:
            waiting.append(made.submit(_insert(len(waiting))))
        with pytest.raises(BusyError) as busy:
            made.submit(publish(*({"op": "delete", "key": {"k": k}} for k in range(20))))
        assert 9 <= busy.value.retry_after_s <= 10
        assert f"after {busy.value.retry_after_s} s" in busy.value.detail
        read = made.submit(c.Result("low", ahead=True))
        gate.open()
        await asyncio.wrap_future(read)
        await asyncio.gather(*map(asyncio.wrap_future, waiting))


async def test_a_queue_is_bounded_in_bytes_and_nothing_is_lost(url: str) -> None:
    async with running(url, queue_mb=1) as made:
        await made.call(c.CreateTable(WIDE))
        await made.call(c.Subscribe(ALL, None, [("all", {"k": 0})]))
        subscriber = made.subscriber()
        subscriber.attach("all", None)
        items: list[Item] = []
        while not any(item.kind == "snapshot" for item in items):
            items += await subscriber.fetch()
        for k in range(100):
            await made.call(publish({"op": "insert", "row": {"k": k, "y": "y" * 100_000}}))
            assert sum(len(item.body) for item in subscriber._queue) <= (1 << 20) + 200_000
        seqs = []
        async with asyncio.timeout(60):
            while len(seqs) < 100:
                seqs += [item.seq for item in await subscriber.fetch() if item.kind == "change"]
        assert seqs == sorted(set(seqs))
        subscriber.close()


async def test_an_event_stream_asks_the_engine_and_not_the_database(url: str) -> None:
    async with served(url) as lifetime:

        async def asked(*_: object) -> None:
            raise AssertionError("PostgreSQL was asked")

        lifetime.running.store.subscription = asked  # type: ignore[method-assign, assignment]
        transport = httpx.ASGITransport(make_app(lifetime))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            for id in ("none", "a%00b", "a%2Fb", "%ED%A0%80"):
                answer = await http.get(f"/v1/subscriptions/{id}/stream")
                assert answer.status_code == 404
                assert answer.headers["content-type"] == "application/problem+json"
