"""Returning to a stream: from any seq, over moves and suspensions, beyond retention, after a crash."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from prosem.engine import commands as c
from prosem.store.replay import ReplayStore
from tests.support.live import Api, Socket, in_any_order, insert, lowest, update, upsert
from tests.support.processes import ServerProcess
from tests.support.running import TABLE, WAIT_S, publish, running, subscribe

COLUMNS = {"k": "integer", "x": "integer", "y": "integer", "note": "text"}
LONG = "n" * 20_000


@pytest.fixture
def table(api: Api) -> str:
    return api.table(COLUMNS, ["k"])


# -- resuming ----------------------------------------------------------------------------------------------
def test_resume_from_every_point_of_a_life(api: Api, table: str) -> None:
    """Created, moved, suspended, resumed: whoever names a seq gets what came after it, and nothing else."""
    id = lowest(api, table, 0, 10)
    with api.socket() as listener:
        listener.attach(id)
        listener.pong()
        ys = itertools.count(100, -1)

        def event() -> int:
            seq: int = api.publish(table, [upsert(k=1, x=5, y=next(ys)), upsert(k=2, x=50, y=next(ys))])[
                "last_seq"
            ]
            return seq

        event()
        moved = api.patch(id, params={"lo": 40, "hi": 60})["seq"]
        event()
        unmoved = api.patch(id, params={"lo": 41, "hi": 60})
        suspended = api.patch(id, active=False)
        assert suspended["active"] is False
        assert suspended["seq"] == unmoved["seq"], "nothing is notified, so no seq is taken"
        frozen = api.result(id)["seq"]
        event()
        resumed = api.patch(id, active=True)
        last = event()
        listener.progress(last)
    seqs = listener.seqs(id)
    assert moved in seqs
    assert resumed["seq"] in seqs
    assert not [seq for seq in seqs if frozen < seq < resumed["seq"]], (
        "a suspended subscription is not notified"
    )
    assert len(seqs) == 5
    changes = {frame["seq"]: frame["change"] for frame in listener.of(id)}
    for after in range(api_created(api, id), last + 1):
        with api.socket() as again:
            again.attach(id, after)
            again.pong()
            assert not again.of(id, "snapshot")
            assert {f["seq"]: f["change"] for f in again.of(id)} == {s: changes[s] for s in seqs if s > after}


def api_created(api: Api, id: str) -> int:
    seq: int = api.call("GET", f"/v1/subscriptions/{id}")["created_seq"]
    return seq


def test_a_seq_of_the_future_or_before_the_creation_is_answered_by_a_snapshot(api: Api, table: str) -> None:
    api.publish(table, [insert(k=1, x=1, y=1)])
    id = lowest(api, table)
    for after in (0, api_created(api, id) - 1, 10**12):
        with api.socket() as listener:
            listener.attach(id, after)
            listener.pong()
            assert [frame["snapshot"]["value"] for frame in listener.of(id, "snapshot")] == [1]


def test_a_move_while_suspended_replays_as_suspended(api: Api, table: str) -> None:
    id, _ = lowest(api, table, 0, 10), lowest(api, table, 0, 20)
    start = api.patch(id, active=False)["seq"]
    api.patch(id, params={"lo": 0, "hi": 20})
    last = api.publish(table, [insert(k=1, x=5, y=7)])["last_seq"]
    with api.socket() as listener:
        listener.attach(id, start)
        listener.progress(last)
        assert listener.seqs(id) == []


def test_a_suspended_subscription_is_not_notified(api: Api, table: str) -> None:
    api.publish(table, [insert(k=1, x=1, y=10)])
    id = lowest(api, table)
    with api.socket() as listener:
        listener.attach(id)
        listener.pong()
        api.patch(id, active=False)
        last = api.publish(table, [update(1, y=5)])["last_seq"]
        listener.progress(last)
        assert listener.seqs(id) == []
        with api.socket() as other:  # it sees the answer that was last notified
            other.attach(id)
            other.pong()
            assert [frame["snapshot"]["value"] for frame in other.of(id, "snapshot")] == [10]
        resumed = api.patch(id, active=True)
        assert resumed["result"]["value"] == 5
        listener.progress(resumed["seq"])
        assert [(frame["seq"], frame["change"]["value"]) for frame in listener.of(id)] == [
            (resumed["seq"], 5)
        ]
        again = api.patch(id, active=True)
        assert again["seq"] == resumed["seq"], "resuming what is active changes nothing"


# -- retention ---------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def forgetful() -> Iterator[ServerProcess]:
    """A server that keeps little and queues little."""
    made = ServerProcess("--retention-events", "200", "--partition-events", "100", "--queue", "10")
    made.start()
    yield made
    made.remove()


def test_beyond_retention_there_is_one_fresh_snapshot(forgetful: ServerProcess) -> None:
    with Api(forgetful.url) as api:
        id, quiet, start, last = check_retention(api)
    forgetful.kill()
    with Api(forgetful.start()) as api, api.socket() as listener:  # also after a crash
        listener.attach(id, start)
        listener.attach(quiet, last - 150)
        check_fresh(listener, id, -599)
        assert listener.of(quiet, "snapshot") == []


def check_retention(api: Api) -> tuple[str, str, int, int]:
    table = api.table(COLUMNS, ["k"])
    id, quiet = lowest(api, table), lowest(api, table, 500, 600)
    start = api_created(api, id)
    for number in range(0, 600, 50):
        events = [upsert(k=1, x=1, y=-at) for at in range(number, number + 50)]
        last = api.publish(table, events)["last_seq"]
    with api.socket() as listener:
        listener.attach(id, start)
        listener.attach(quiet, start)
        check_fresh(listener, id, -599)
        check_fresh(listener, quiet, None)
    for back in (0, 1, 50, 199):  # what is promised is kept
        with api.socket() as listener:
            listener.attach(id, last - back)
            listener.pong()
            assert listener.of(id, "snapshot") == []
            assert listener.seqs(id) == list(range(last - back + 1, last + 1))
    return id, quiet, start, last


def check_fresh(listener: Socket, id: str, value: int | None) -> None:
    listener.pong()
    assert [frame["snapshot"]["value"] for frame in listener.of(id, "snapshot")] == [value]
    assert listener.of(id) == []


def test_a_replay_that_retention_overtakes_ends_in_a_snapshot(forgetful: ServerProcess) -> None:
    """A slow reader whose past is dropped while it does not read: no gap, a snapshot in its place."""
    with Api(forgetful.url) as api, api.socket(receive_buffer=4096) as slow:
        table = api.table(COLUMNS, ["k"])
        id = api.subscribe(f"SELECT * FROM {table}")["id"]
        slow.attach(id)
        slow.pong()
        for number in range(500):
            last = api.publish(table, [upsert(k=number % 5, x=number, y=number, note=LONG)])["last_seq"]
        slow.progress(last)
        assert api.metric("prosem_lagging_total") > 0
        assert len(slow.of(id, "snapshot")) == 2
        assert in_any_order(slow.answer(id, "k")) == in_any_order(api.result(id)["result"])


async def test_a_replay_ends_when_no_stream_takes_more(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay longer than the queue comes in pieces, and no piece reads all that follows."""
    pages: list[int] = []
    real = ReplayStore.messages

    async def counted(self: ReplayStore, space: int, after: int, upto: int) -> AsyncIterator[Any]:
        async for page in real(self, space, after, upto, 20):
            pages.append(len(page))
            yield page

    monkeypatch.setattr(ReplayStore, "messages", counted)
    async with running(url, queue=10) as made:
        await made.call(c.CreateTable(TABLE))
        await made.call(publish(insert(k=1, x=1, y=1000)))
        made_at = await made.call(subscribe(0, 9))
        done = await made.call(publish(*(update(1, y=y) for y in range(400))))
        subscriber = made.subscriber()
        subscriber.attach(made_at["id"], made_at["seq"])
        seqs: list[int] = []
        while not seqs or seqs[-1] < done["last_seq"]:
            async with asyncio.timeout(WAIT_S):
                seqs += [item.seq for item in await subscriber.fetch() if item.kind == "change"]
        subscriber.close()
    assert seqs == [*range(done["first_seq"], done["last_seq"] + 1)]
    assert sum(pages) < 4 * len(seqs), "to the end each time would be twenty times as many"
