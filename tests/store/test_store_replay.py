"""What a returning subscriber reads."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from prosem.store.log import Writer, WriteSet
from prosem.store.paging import PAGE_BYTES
from prosem.store.replay import NotRetainedError, ReplayStore
from prosem.store.retention import Retention
from prosem.values.model import Group, Statement
from tests.support.database import events
from tests.support.waiting import until_async


async def _flat(chunks: AsyncIterator[list[Any]]) -> list[Any]:
    return [row async for chunk in chunks for row in chunk]


@pytest.mark.parametrize("chunk", [1, 2, 3, 1000])
async def test_replay_gives_exactly_what_was_missed(url: str, writer: Writer, chunk: int) -> None:
    batch = events(*range(1, 130))
    batch.messages += [(7, 50, part, "k", "p", None) for part in (1, 2, 3)] + [(8, 51, 0, "k", "p", b"other")]
    batch.events[60] = (61, 2, "delete", b"[61]", None, 61)
    writer.write(batch)

    replay = ReplayStore(lambda: url)
    try:
        messages = await _flat(replay.messages(7, 48, 52, chunk))
        assert [row[:2] for row in messages] == [
            (49, 0), (50, 0), (50, 1), (50, 2), (50, 3), (51, 0), (52, 0),
        ]  # fmt: skip
        assert messages[0] == (49, 0, "range-min", b"m49")
        assert len(await _flat(replay.messages(7, 0, 10**6, 50))) == 132
        assert await _flat(replay.messages(9, 0, 129, chunk)) == []
    finally:
        await replay.close()


async def test_chunks_are_bounded_in_bytes(url: str, writer: Writer) -> None:
    """However large messages and rows are, a reader holds little of them at a time."""
    large = b'["' + b"x" * (PAGE_BYTES // 10) + b'"]'
    batch = events(*range(1, 101))
    batch.messages = [(7, seq, 0, "k", "p", large if seq % 2 else b"m") for seq in range(1, 101)]
    batch.messages += [(8, seq, 0, "change", "p", large) for seq in range(1, 101)]
    batch.events = [(seq, 1, "upsert", large, large, True) for seq in range(1, 101)]
    writer.write(batch)

    replay = ReplayStore(lambda: url)
    try:
        for reading, order in (
            (replay.messages(7, 0, 100), [*range(1, 101)]),
            (replay.messages_back(7, 0, 100), [*range(100, 0, -1)]),
        ):
            chunks = [chunk async for chunk in reading]
            assert [row[0] for chunk in chunks for row in chunk] == order
            sizes = [sum(len(row[3] or b"") for row in chunk) for chunk in chunks]
            assert len(chunks) > 4
            assert max(sizes) <= PAGE_BYTES + len(large)
        asked: list[int] = []
        kept = replay._kept

        async def counted(after: int, text: str, values: Any) -> list[Any]:
            rows = await kept(after, text, values)
            asked.append(len(rows))
            return rows

        replay._kept = counted  # type: ignore[method-assign]
        seqs = [1, 1, *range(2, 101)]  # a seq may have several messages
        assert [found async for found in replay.rows(seqs)] == [(seq, (large, large)) for seq in seqs]
        assert max(asked[1:]) <= 5, "after the first page it is known how large rows are"
        async with replay.view() as past:
            logged = [len(chunk) async for chunk in past.events([1], 0, 100)]
            assert sum(logged) == 100
            assert max(logged[1:]) <= 5
            moved = [len(chunk) async for chunk in past.changes(8, 0, 100)]
            assert sum(moved) == 100
            assert max(moved[1:]) <= 11
    finally:
        await replay.close()


async def test_a_reader_that_retention_overtakes_gets_an_error(
    url: str, writer: Writer, retention: Retention
) -> None:
    writer.write(events(*range(1, 150)))
    writer.write(events(*range(150, 350)))

    replay = ReplayStore(lambda: url)
    try:
        reading = replay.messages(7, 0, 350, chunk=10)
        assert len(await anext(reading)) == 10
        assert await replay.retained_after() == 0
        await asyncio.to_thread(retention.retire, 340)
        after = await replay.retained_after()
        assert after >= 100
        with pytest.raises(NotRetainedError):
            await anext(reading)
        assert (await _flat(replay.messages(7, after, 350)))[0][0] == after + 1
        with pytest.raises(NotRetainedError):
            await _flat(replay.messages(7, after - 1, 350))
    finally:
        await replay.close()


async def test_pages_history_and_idempotency(url: str, writer: Writer) -> None:
    groups = [Group(n, f"g{n}", kind, f"l{n}", n, ("t",), "") for n, kind in ((1, "a"), (2, "a"), (3, "b"))]
    batch = WriteSet(last_seq=3, groups=groups, statements=[Statement(1, "S", {"change": 2})])
    ids = {f"{'xyz'[n % 3]}{n:02}": n for n in range(1, 31)}
    batch.subscriptions = [
        (n, name, 1, n % 3 + 1, b'{"n":%d}' % n, n != 5, True, 3, "default", 0) for name, n in ids.items()
    ]
    batch.history = [
        (1, 3, 0, "created", b"{}", None, None),
        (1, 3, 1, "patched", b'{"n": 1}', b"[2]", None),
        (2, 3, 0, "created", None, None, b'["",null,7]'),
    ]
    batch.idempotency = [("k", b'{"count":  1}', True, 1)]
    writer.write(batch)

    replay = ReplayStore(lambda: url)
    try:
        for group, kind in itertools.product((None, "g1", "g2", "none"), (None, "a", "b")):
            wanted = [
                name for name, n in sorted(ids.items())
                if group in (None, f"g{n % 3 + 1}") and kind in (None, "b" if n % 3 == 2 else "a")
            ]  # fmt: skip
            found: list[str] = []
            while page := await replay.page(group, kind, limit=4, after=found[-1] if found else None):
                found += [line.id for line in page]
            assert found == wanted
        (line,) = await replay.page(after="y30", limit=1)
        assert line == ("z02", 2, "g3", "b", "S", b'{"change":2}', b'{"n":2}', True, True, 3, "event")
        assert await replay.history([2, 1, 9]) == {
            1: [(3, 0, "created", b"{}", None, None), (3, 1, "patched", b'{"n": 1}', b"[2]", None)],
            2: [(3, 0, "created", None, None, b'["",null,7]')],
            9: [],
        }  # fmt: skip
        assert await replay.idempotency("k") == (b'{"count":  1}', True, 1)
        assert await replay.idempotency("k", age_s=-1) is None
        assert await replay.idempotency("nothing") is None
    finally:
        await replay.close()


async def test_readers_reconnect_and_survive_a_cancellation(url: str, writer: Writer) -> None:
    writer.write(events(*range(1, 60)))

    replay = ReplayStore(lambda: url)
    try:
        pages = await asyncio.gather(*[_flat(replay.messages(7, 0, 60, 7)) for _ in range(8)])
        assert [len(page) for page in pages] == [59] * 8
        with psycopg.connect(url) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE application_name = 'prosem replay' AND datname = current_database()"
            )
        assert len(await _flat(replay.messages(7, 0, 60))) == 59
        task = asyncio.create_task(replay._fetch(("SELECT pg_sleep(30)", [])))
        with psycopg.connect(url, autocommit=True) as connection:
            running = (
                "SELECT FROM pg_stat_activity WHERE application_name = 'prosem replay'"
                " AND state = 'active' AND query LIKE '%pg_sleep%'"
            )
            await until_async(lambda: connection.execute(running).fetchall())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        pages = await asyncio.gather(*[_flat(replay.messages(7, 0, 60)) for _ in range(4)])
        assert [len(page) for page in pages] == [59] * 4
    finally:
        await replay.close()
