"""What PostgreSQL refuses: the culprit alone is answered with an error, its batch is undone, and nothing is rebuilt."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from api.server.running import RunningServer
from prosem.engine import commands as c
from prosem.engine.publishing import Publishing
from prosem.engine.state import EngineState
from prosem.values.errors import BusyError, CommitError, ProsemError, RefusedError, ResourceError
from prosem.values.wire import encode
from tests.support.every_type import plain, subscribe_every_type
from tests.support.live import insert, upsert
from tests.support.running import (
    TABLE,
    WAIT_S,
    Listener,
    again,
    outcome,
    publish,
    ready,
    running,
    settled,
    stored_rows,
    stored_seqs,
    subscribe,
)
from tests.support.waiting import until_async


@contextlib.contextmanager
def refusing(url: str, table: str, condition: str, state: str = "P0001") -> Iterator[None]:
    """A trigger of the operator's own, which nothing foresees."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE OR REPLACE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF {condition} THEN RAISE EXCEPTION 'not this one' USING ERRCODE = '{state}'; END IF;"
            " RETURN NEW; END $$"
        )  # type: ignore[call-overload]
        connection.execute(
            f"CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION public.refuse()"
        )  # type: ignore[call-overload]
        try:
            yield
        finally:
            connection.execute(f"DROP TRIGGER IF EXISTS refuse ON {table}")  # type: ignore[call-overload]


async def together(made: RunningServer, url: str, commands: Sequence[c.Command]) -> list[Any]:
    """The outcomes of commands that share batches: the first commit waits until all have arrived."""
    with psycopg.connect(url) as blocker:
        blocker.execute("LOCK TABLE prosem.event_log IN ACCESS EXCLUSIVE MODE")
        first = made.submit(publish(upsert(k=-1, x=0, y=0)))
        waiting = [made.submit(command) for command in commands]
        blocker.rollback()
    await asyncio.wrap_future(first)
    return [await settled(asyncio.wrap_future(future)) for future in waiting]


@pytest.mark.parametrize("max_batch", [2000, 7])
async def test_only_the_culprit_is_refused_and_nothing_is_rebuilt(url: str, max_batch: int) -> None:
    async with running(url, max_batch=max_batch) as made:
        await made.call(c.CreateTable(TABLE))
        id = (await made.call(subscribe(0, 99)))["id"]
        listener = await Listener(made, id).attached()
        with refusing(url, "tenant_default.t", "NEW.y = 13"):
            commands: list[c.Command] = [publish(insert(k=k, x=k, y=50 - k)) for k in range(20)]
            bad = c.Transact(
                [{"table": "t", **insert(k=100, x=1, y=1)}, {"table": "t", **insert(k=101, x=1, y=13)}]
            )
            commands.insert(5, bad)
            commands.insert(9, publish(insert(k=0, x=1, y=1)))  # a conflict, whatever happens to the others
            commands += [subscribe(0, 3), c.Result(id)]
            replies = await together(made, url, commands)
            refused = replies.pop(5)
            assert isinstance(refused, RefusedError), refused
            assert "not this one" in refused.detail
            assert refused.status == 422
            assert replies.pop(8).code == "conflict"
            assert not [reply for reply in replies if isinstance(reply, ProsemError)]
            assert stored_rows(url) == {(-1, 0, 0)} | {(k, k, 50 - k) for k in range(20)}
            assert stored_seqs(url) == list(range(1, 22))
            assert (made.metrics.rebuilds, made.metrics.undone) == (0, 1)
            for variant in (bad, bad, publish(insert(k=7_000, x=2, y=13)), bad):
                assert isinstance(await outcome(made, variant), RefusedError)
            done = await made.call(publish(insert(k=200, x=0, y=-5)))
            assert (made.metrics.rebuilds, made.metrics.undone) == (0, 1), (
                "others of its table are tried first"
            )
            assert made.is_ready
        await made.call(bad.__class__([{"table": "t", **insert(k=101, x=1, y=13)}]))  # its cause is gone
        await listener.progress(done["last_seq"])
        assert listener.answers[id]["value"] == -5
        assert not [item for item in listener.seen if item.kind == "error"]
        await listener.close()


async def test_other_publishers_and_readers_notice_no_refusal(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One subscription of every type hears what it would have heard; commands that arrive meanwhile are carried out."""
    async with running(url) as made:
        ids = await subscribe_every_type(made)
        listener = await Listener(made, *ids).attached()
        during: list[Any] = []
        engine, take_back = made.engine, EngineState.take_back

        def watched(self: EngineState, refused: Any) -> None:
            assert engine.ready, "a load balancer sees nothing"
            during.extend(made.submit(one) for one in (c.Result(ids[0]), publish(upsert(k=5, x=5, y=5))))
            take_back(self, refused)

        monkeypatch.setattr(EngineState, "take_back", watched)
        with refusing(url, "tenant_default.t", "NEW.y = 1300"):
            for number in range(3):
                commands: list[c.Command] = [publish(upsert(k=k, x=k % 7, y=k + number)) for k in range(12)]
                commands.insert(4, publish(upsert(k=3, x=1, y=1), upsert(k=500 + number, x=1, y=1300)))
                commands.insert(6, c.Publish("u", [upsert(k=number, x=3, z=number)]))
                replies = await together(made, url, commands)
                assert isinstance(replies.pop(4), RefusedError)
                assert not [reply for reply in replies if isinstance(reply, ProsemError)]
        async with asyncio.timeout(WAIT_S):
            replies = [await settled(asyncio.wrap_future(one)) for one in during]
        assert during
        assert not [reply for reply in replies if isinstance(reply, ProsemError)]
        done = await made.call(publish(upsert(k=3, x=3, y=33)))
        await listener.progress(done["last_seq"])
        for id in ids:
            answer = {name: one for name, one in listener.answers[id].items() if name != "previous"}
            assert plain(answer) == plain(encode((await made.call(c.Result(id)))["result"]))
        assert made.metrics.rebuilds == 0
        assert made.metrics.undone
        assert stored_seqs(url) == list(range(1, done["last_seq"] + 1))
        await listener.close()


async def test_a_change_of_the_schema_is_tried_before_memory_takes_it(url: str) -> None:
    async with running(url) as made:
        await made.call(c.CreateTable(TABLE))
        await made.call(publish(insert(k=1, x=1, y=1)))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE VIEW public.mine AS SELECT * FROM tenant_default.t")
            for _ in range(3):
                replies = await together(made, url, [c.DropTable("t"), publish(upsert(k=2, x=1, y=1))])
                assert isinstance(replies[0], RefusedError)
                assert "mine" in replies[0].detail, "PostgreSQL names what depends on the table"
                assert replies[1]["count"] == 1
            connection.execute("DROP VIEW public.mine")
            connection.execute("CREATE TABLE tenant_default.u (a integer)")  # not one of ours
            assert isinstance(await outcome(made, c.CreateTable(TABLE | {"name": "u"})), RefusedError)
            connection.execute("DROP TABLE tenant_default.u")
        await made.call(c.CreateTable(TABLE | {"name": "u"}))
        await made.call(c.DropTable("t"))
        assert made.metrics.rebuilds == 0


async def test_what_a_trial_cannot_show_is_remembered(url: str) -> None:
    async with running(url) as made:
        await made.call(c.CreateTable(TABLE))
        with refusing(url, "prosem.subscription", "NEW.id = 'bad'"):
            commands = [subscribe(0, at, "bad" if at == 3 else f"good{at}") for at in range(8)]
            replies = await together(made, url, commands)
            assert isinstance(replies.pop(3), RefusedError)
            assert not [reply for reply in replies if isinstance(reply, ProsemError)]
            undone = made.metrics.undone
            assert undone <= 2
            for _ in range(3):
                assert isinstance(await outcome(made, subscribe(0, 3, "bad")), RefusedError)
            assert (made.metrics.rebuilds, made.metrics.undone) == (0, undone)
            assert (await made.call(subscribe(0, 3, "other")))["id"] == "other"


async def test_a_fault_of_ours_is_met_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Publishing.publish

    def broken(self: Publishing, command: c.Publish) -> Any:
        done = real(self, command)
        if any(event["row"]["y"] == 13 for event in command.events):
            raise ValueError("a fault after the state has changed")
        return done

    monkeypatch.setattr(Publishing, "publish", broken)

    async with running(url) as made:
        await made.call(c.CreateTable(TABLE))
        commands = [publish(insert(k=k, x=0, y=13 if k == 4 else k)) for k in range(9)]
        replies = await together(made, url, commands)
        fault = replies.pop(4)
        assert (fault.status, fault.code) == (500, "internal"), "no client sends it again"
        assert not [reply for reply in replies if isinstance(reply, ProsemError)]
        assert stored_rows(url) == {(-1, 0, 0)} | {(k, 0, k) for k in range(9) if k != 4}
        for _ in range(3):
            assert (await outcome(made, commands[4])).code == "internal"
        assert made.metrics.rebuilds == 1


# -- a database that cannot write ------------------------------------------------------------------------------
async def test_a_full_disk_holds_publishing_off_and_reads_go_on(url: str) -> None:
    async with running(url) as made:
        await made.call(c.CreateTable(TABLE))
        await made.call(publish(insert(k=1, x=1, y=1)))
        id = (await made.call(subscribe(0, 99)))["id"]
        with refusing(url, "prosem.event_log", "true", "53100"):
            replies = [await outcome(made, publish(insert(k=k, x=k, y=k))) for k in range(2, 30)]
            assert {type(reply) for reply in replies} == {ResourceError}
            assert all(reply.status == 503 and reply.retry_after_s >= 1 for reply in replies)
            assert made.is_ready
            assert "held off" in made.notice
            assert (await made.call(c.Result(id)))["result"]["value"] == 1, "reads go on"
            listener = await Listener(made, id).attached()
            assert isinstance(await outcome(made, subscribe(0, 1)), ResourceError)
            assert made.metrics.rebuilds == 0
        await until_async(lambda: not made.notice)
        done = await made.call(publish(insert(k=2, x=2, y=0)))
        assert done["first_seq"] == 2
        await listener.progress(done["last_seq"])
        assert listener.answers[id]["value"] == 0
        assert made.metrics.rebuilds == 0
        await listener.close()


# -- shutdown --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("max_batch", [2000, 3])
@pytest.mark.parametrize("is_refused", [True, False])
async def test_a_commit_that_fails_during_a_shutdown(url: str, max_batch: int, is_refused: bool) -> None:
    async with running(url, max_batch=max_batch) as made:
        await made.call(c.CreateTable(TABLE))
        with refusing(url, "tenant_default.t", "NEW.y = 13"):
            with psycopg.connect(url) as blocker:
                blocker.execute("LOCK TABLE prosem.event_log IN ACCESS EXCLUSIVE MODE")
                waiting = [made.submit(publish(insert(k=0, x=0, y=13 if is_refused else 0)))]
                if not is_refused:
                    made.writer.fail_after = 0
                for key in range(30):
                    event = (
                        insert(k=key, x=0, y=0)
                        if key % 2
                        else {"op": "update", "key": {"k": 0}, "set": {"x": key}}
                    )
                    waiting.append(made.submit(publish(event)))
                closing = asyncio.create_task(asyncio.to_thread(made.engine.close))
                await until_async(lambda: made.engine._closing)
                blocker.rollback()
            async with asyncio.timeout(WAIT_S):
                replies = [await settled(asyncio.wrap_future(future)) for future in waiting]
                await closing
        acknowledged = {reply["first_seq"] for reply in replies if not isinstance(reply, ProsemError)}
        assert stored_seqs(url) == sorted(acknowledged), "what was not acknowledged is not there"
        if is_refused:
            assert isinstance(replies[0], RefusedError)
            assert len(acknowledged) == 15, "the inserts are carried out again; there is no row to be updated"
            assert stored_rows(url) == {(key, 0, 0) for key in range(1, 30, 2)}
        else:
            assert isinstance(replies[0], CommitError | BusyError)
            assert not acknowledged, "all of it was processed on a state that never was, or not at all"


# -- a commit that does not end --------------------------------------------------------------------------------
async def test_a_commit_without_progress_is_broken_off(url: str) -> None:
    async with running(url, commit_timeout_s=1) as made:
        await made.call(c.CreateTable(TABLE))
        with psycopg.connect(url) as blocker:
            blocker.execute("LOCK TABLE tenant_default.t IN ACCESS EXCLUSIVE MODE")
            waiting = made.submit(publish(insert(k=1, x=1, y=1)))
            await until_async(lambda: not made.is_ready)
            async with asyncio.timeout(WAIT_S):
                assert isinstance(await settled(asyncio.wrap_future(waiting)), CommitError)
            blocker.rollback()
        await ready(made)
        await again(made, publish(insert(k=2, x=2, y=2)))
        assert stored_rows(url) == {(2, 2, 2)}
