"""Ephemeral subscriptions whose last stream has ended: each ends once, and none that has a stream again."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from api.server.expiry import Expiry, Orphans
from prosem.engine import commands as c
from prosem.values.errors import BusyError
from tests.support.waiting import until_async


async def test_an_orphan_waits_for_a_busy_engine_and_stays_if_it_has_a_stream_again() -> None:
    orphans, hosted = Orphans(), set[int]()
    is_busy, refusals = True, 0
    ended: list[c.Command] = []

    def submit(command: c.Command, parent: str = "") -> Future[Any]:
        nonlocal refusals
        if is_busy:
            refusals += 1
            raise BusyError("full")
        ended.append(command)
        done: Future[Any] = Future()
        done.set_result(None)
        return done

    async def call(command: c.Command) -> bool:
        raise AssertionError("no subscription waits for its first stream")

    expiry = Expiry(orphans, hosted.__contains__, lambda: 0, submit, call, 0.0, {})
    try:
        orphans.add(1)
        orphans.add(2)
        await until_async(lambda: refusals)
        hosted.add(1)
        is_busy = False
        await until_async(lambda: not orphans.take())
        assert ended == [c.Forget(2)]
        orphans.add(3)
        await until_async(lambda: not orphans.take())
        assert ended == [c.Forget(2), c.Forget(3)]
    finally:
        await expiry.close()
