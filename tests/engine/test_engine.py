"""The engine on a real database: one order, batches that fail, a database that stalls, dies and comes back."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import psycopg
import pytest

from optimizer.choose import chooser
from prosem.engine import commands as c
from prosem.engine.recovery import recover
from prosem.engine.state import EngineState
from prosem.runtime.metrics import Metrics
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.schema import migrate
from prosem.values.errors import BusyError, CommitError, ConflictError, NotFoundError, ProsemError
from tests.support.effort import seeds
from tests.support.live import insert, update, upsert
from tests.support.processes import open_folder
from tests.support.running import (
    ROWS,
    TABLE,
    Listener,
    again,
    outcome,
    plain,
    publish,
    ready,
    running,
    settled,
    stored_rows,
    stored_seqs,
    subscribe,
)
from tests.support.waiting import until_async


# -- batches that fail -------------------------------------------------------------------------------------
async def test_a_failed_commit_applies_nothing_and_the_next_one_works(url: str) -> None:
    async with running(url) as made:
        await made.call(c.CreateTable(TABLE))
        first = await made.call(publish(insert(k=1, x=1, y=10)))
        id = (await made.call(subscribe(0, 9)))["id"]
        listener = await Listener(made, id).attached()
        for attempt in range(3):
            made.writer.fail_after = 0
            with pytest.raises(CommitError, match="not committed") as caught:
                await made.call(publish(update(1, y=5), insert(k=2, x=2, y=2)))
            assert caught.value.status == 503
            answer = await again(made, c.Result(id))
            assert (answer["seq"], answer["result"]["value"]) == (
                first["last_seq"] + attempt,
                10 - attempt,
            )
            assert stored_seqs(url) == list(range(1, first["last_seq"] + attempt + 1))
            done = await made.call(publish(update(1, y=9 - attempt)))
            assert done["first_seq"] == first["last_seq"] + attempt + 1, "a refused request takes no seq"
        await listener.progress(done["last_seq"])
        assert listener.seqs[id] == [first["last_seq"] + at for at in (1, 2, 3)]
        assert listener.answers[id]["value"] == 7
        await listener.close()


async def test_streams_that_attach_together_share_no_more_than_a_batch(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(url, max_batch=20) as made:
        await made.call(c.CreateTable(TABLE))
        ids = [(await made.call(subscribe(0, at)))["id"] for at in range(100)]
        sizes: list[int] = []
        outlet = made.engine._results._outlet
        release = outlet.release

        def counted(frames: list[c.Frame], seq: int) -> Iterator[None]:
            sizes.append(sum(isinstance(frame, c.Hosted) for frame in frames))
            return release(frames, seq)

        monkeypatch.setattr(outlet, "release", counted)
        listener = await Listener(made, *ids).attached()
        assert sum(sizes) == len(ids)
        assert max(sizes) <= 20
        await listener.close()


@pytest.mark.parametrize("seed", seeds(1, 8))
async def test_what_was_acknowledged_is_there_and_what_was_refused_is_not(url: str, seed: int) -> None:
    """Many publishers at once, small batches, and a fault now and then in the middle of the pipeline."""
    chance = random.Random(seed)

    async with running(url, max_batch=chance.choice([1, 5, 2000])) as made:
        await made.call(c.CreateTable(TABLE))
        ids = [(await made.call(subscribe(at, at + 30)))["id"] for at in (0, 20, 50)]
        ids.append((await made.call(c.Subscribe(ROWS, None, [(None, {"y": 60})])))["id"])
        listener = await Listener(made, *ids).attached()
        acknowledged, refused, key = set(), set(), 0
        for _ in range(8):
            made.writer.fail_after = chance.randrange(4)
            waiting = []
            for _ in range(25):
                row = (key, chance.randrange(90), chance.randrange(90))
                command = publish(insert(k=row[0], x=row[1], y=row[2]), update(row[0], x=row[1]))
                waiting.append((row, asyncio.create_task(outcome(made, command))))
                key += 1
                if chance.random() < 0.3:
                    await asyncio.sleep(0)
            for row, task in waiting:
                (refused if isinstance(await task, ProsemError) else acknowledged).add(row)
            await ready(made)
        assert acknowledged
        assert refused, "no fault was met; the test shows nothing"
        assert stored_rows(url) == acknowledged
        assert stored_seqs(url) == list(range(1, 2 * len(acknowledged) + 1))
        made.writer.fail_after = None
        last = (await again(made, publish(insert(k=-1, x=1000, y=1000))))["last_seq"]
        await listener.progress(last)
        for id in ids:
            result = plain(await made.call(c.Result(id)))["result"]
            if "rows" in result:
                assert sorted(map(str, result["rows"])) == sorted(map(str, listener.answers[id]["rows"]))
            else:
                assert result["value"] == listener.answers[id]["value"]
        assert not [item for item in listener.seen if item.kind == "error"]
        await listener.close()


# -- a database that stalls --------------------------------------------------------------------------------
async def test_a_full_buffer_refuses_and_drops_nothing(url: str) -> None:
    async with running(url, max_backlog=60, max_batch=20) as made:
        await made.call(c.CreateTable(TABLE))
        with psycopg.connect(url) as blocker:
            blocker.execute("LOCK TABLE prosem.event_log IN ACCESS EXCLUSIVE MODE")
            taken: list[tuple[int, Future[Any]]] = []
            refused: list[tuple[int, int]] = []
            keys = itertools.count()

            def is_full() -> bool:
                before = len(taken)
                for key in itertools.islice(keys, 100):
                    try:
                        taken.append((key, made.submit(publish(insert(k=key, x=0, y=0)))))
                    except BusyError as error:
                        refused.append((error.status, error.retry_after_s))
                return len(taken) == before

            await until_async(is_full)
            assert set(refused) == {(503, 1)}
            assert made.engine.backlog <= 60
            with pytest.raises(BusyError):
                made.submit(publish(*[insert(k=1_000_000 + at, x=0, y=0) for at in range(10)]))
            assert not any(future.done() for _, future in taken), "nothing is acknowledged before its commit"
            blocker.rollback()
        answers = await asyncio.gather(*(asyncio.wrap_future(future) for _, future in taken))
        assert [answer["first_seq"] for answer in answers] == list(range(1, len(taken) + 1))
        assert stored_rows(url) == {(key, 0, 0) for key, _ in taken}
        many = [insert(k=2_000_000 + at, x=0, y=0) for at in range(100)]
        assert (await made.call(publish(*many)))["count"] == 100, (
            "one request alone may be larger than the buffer"
        )
        assert made.engine.backlog == 0


# -- one order ---------------------------------------------------------------------------------------------
def random_command(chance: random.Random) -> c.Command:
    id = chance.choice("abcd")
    kind = chance.choice(
        ["subscribe", "delete", "patch", "publish", "publish", "publish", "result", "create", "drop"]
    )
    low, high = sorted(chance.sample(range(20), 2))
    if kind == "subscribe":
        return subscribe(low, high, id)
    if kind == "patch":
        return chance.choice([c.Patch(id, {"lo": low}), c.Patch(id, None, chance.random() < 0.5)])
    if kind in ("delete", "result"):
        return c.Delete(id) if kind == "delete" else c.Result(id)
    if kind == "create":
        return c.CreateTable(TABLE | {"name": chance.choice("tuv")})
    if kind == "drop":
        return c.DropTable(chance.choice("uvw"))
    event = chance.choice([insert, upsert])(
        k=chance.randrange(6), x=chance.randrange(20), y=chance.randrange(9)
    )
    return publish(event, upsert(k=chance.randrange(6), x=chance.randrange(20), y=chance.randrange(9)))


@pytest.mark.parametrize("seed", range(4))
async def test_commands_take_effect_in_the_order_they_came(url: str, seed: int) -> None:
    """All at once through the pipeline, against one after the other in memory; then against the stored state."""
    chance = random.Random(seed)
    commands = [c.CreateTable(TABLE), *(random_command(chance) for _ in range(300))]
    alone = EngineState(chooser("auto"), Metrics())
    expected = []
    for command in commands:
        try:
            expected.append(plain(alone.execute(command)))
        except ProsemError as error:
            expected.append(plain(error))
        alone.begin()

    async with running(url, max_batch=chance.choice([1, 7, 2000])) as made:
        waiting = [made.submit(command) for command in commands]
        replies = [plain(await settled(asyncio.wrap_future(future))) for future in waiting]
        assert replies == expected
        assert made.state.seq == made.engine.committed_seq == alone.seq
    again = EngineState(chooser("auto"), Metrics())
    recover(url, again, lambda *_: None)
    assert again.seq == alone.seq
    assert {name: again.rows[table.id] for name, table in again.tables().items()} == {
        name: alone.rows[table.id] for name, table in alone.tables().items()
    }
    assert [again.registry.id(sid) for sid in again.registry.sids()] == [
        alone.registry.id(sid) for sid in alone.registry.sids()
    ]
    for sid in again.registry.sids():
        ask = c.Result(again.registry.id(sid))
        assert again.execute(ask)["result"]["value"] == alone.execute(ask)["result"]["value"]


async def test_a_table_is_dropped_and_made_anew(url: str) -> None:
    async with running(url) as made:
        other = TABLE | {"columns": TABLE["columns"][:2], "primary_key": ["x"]}  # type: ignore[index]
        for _ in range(3):
            await made.call(c.CreateTable(TABLE))
            id = (await made.call(subscribe(0, 9)))["id"]
            replies = await asyncio.gather(
                outcome(made, publish(insert(k=1, x=1, y=1))),
                outcome(made, c.DropTable("t")),
                outcome(made, c.Delete(id)),
                outcome(made, c.DropTable("t")),
                outcome(made, publish(insert(k=2, x=1, y=1))),
                outcome(made, c.CreateTable(other)),
                outcome(made, c.Publish("t", [insert(k=3, x=5)])),
                outcome(made, c.CreateTable(TABLE)),
            )
            kinds = [type(reply) for reply in replies]
            assert kinds == [
                dict,
                ConflictError,
                dict,
                type(None),
                NotFoundError,
                c.Created,
                dict,
                ConflictError,
            ]
            assert stored_rows(url) == {(3, 5)}
            made.writer.fail_after = 0
            assert isinstance(await outcome(made, c.DropTable("t")), CommitError)
            assert stored_rows(url) == {(3, 5)}
            await again(made, c.DropTable("t"))


# -- a database that dies ----------------------------------------------------------------------------------
async def test_the_database_is_killed_under_load_and_comes_back() -> None:
    folder = open_folder("prosem-killed-")
    postgres = EmbeddedPostgres(folder / "data")
    address = postgres.start()
    migrate(address)

    try:
        async with running(address) as made:
            await made.call(c.CreateTable(TABLE))
            ids = [(await made.call(subscribe(at, at + 40)))["id"] for at in (0, 30)]
            listener = await Listener(made, *ids).attached()
            acknowledged: set[Any] = set()
            stop = asyncio.Event()

            async def load(publisher: int) -> None:
                chance, number = random.Random(publisher), 0
                while not stop.is_set():
                    number += 1
                    row = (publisher * 1_000_000 + number, chance.randrange(70), -number)
                    reply = await outcome(made, publish(insert(k=row[0], x=row[1], y=row[2])))
                    if isinstance(reply, BusyError):
                        await asyncio.sleep(0.05)
                    else:
                        acknowledged.add(row)

            publishers = [asyncio.create_task(load(number)) for number in range(4)]
            await until_async(lambda: len(acknowledged) >= 20)
            before = len(acknowledged)
            assert postgres.pid is not None
            os.kill(postgres.pid, signal.SIGKILL)
            assert postgres._process is not None
            postgres._process.wait()
            await asyncio.to_thread(postgres.start)
            await until_async(lambda: len(acknowledged) >= before + 20)
            stop.set()
            await asyncio.gather(*publishers)
            assert acknowledged <= stored_rows(address), "an acknowledged event is lost"
            last = (await again(made, publish(insert(k=-1, x=1000, y=1000))))["last_seq"]
            await listener.progress(last)
            assert stored_seqs(address) == list(range(1, last + 1))
            for id in ids:
                assert listener.answers[id]["value"] == (await made.call(c.Result(id)))["result"]["value"]
            await listener.close()
    finally:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)
