"""The Python client against a small fake of the contract: what it does when the connection does not hold.

The fake keeps the log of every subscription, so it can replay; it can drop sockets, replay too much, forget,
be slow to act on frames, and refuse.
"""

from __future__ import annotations

import ast
import asyncio
import doctest
import functools
import importlib
import json
import pkgutil
import random
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import prosem_client
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prosem_client import AsyncClient, Client, ConnectionLost, OutOfStep, PartlyPublished, ProsemError, fold
from prosem_client.feed import Feed, Frame
from prosem_client.folding import Rows, Values
from prosem_client.query import Outline, Shape, outline
from prosem_client.sync import Portal
from websockets.asyncio.server import Server, ServerConnection, serve

from tests.support.waiting import until_async

COUNT = "SELECT COUNT(*) FROM stocks"
ROWS = "SELECT * FROM stocks WHERE per > 0"
TABLE = {
    "name": "stocks",
    "columns": [{"name": "id", "type": "integer"}, {"name": "per", "type": "numeric(6,2)"}],
    "primary_key": ["id"],
}


def problem(status: int, code: str, detail: str, **more: Any) -> dict[str, Any]:
    return {"type": f"urn:prosem:error:{code}", "title": code, "status": status, "detail": detail, **more}


class Fake:
    """A server without tables: the test says what is told. One seq for all, as in the contract."""

    def __init__(self) -> None:
        self.seq = 0
        self.results: dict[str, dict[str, Any]] = {}
        self.log: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        self.retained_from = 0
        self.overlap = 0  # a resumed stream begins this much too early
        self.busy = 0  # so many attaches are put off
        self.delay_s = 0.0  # frames of a client wait this long
        self.sockets: dict[ServerConnection, set[str]] = {}
        self.frames: list[dict[str, Any]] = []
        self.requests: list[httpx.Request] = []
        self.faults: list[Exception | httpx.Response] = []
        self.refuse_params: set[str] = set()
        self.server: Server | None = None

    # -- the log ---------------------------------------------------------------------------------------------
    def add(self, id: str, result: dict[str, Any]) -> None:
        self.results[id], self.log[id] = result, []

    async def tell(self, id: str, change: dict[str, Any], result: dict[str, Any]) -> int:
        self.seq += 1
        self.results[id] = result
        self.log[id].append((self.seq, change))
        for socket, ids in list(self.sockets.items()):
            if id in ids:
                await self._send(socket, {"id": id, "seq": self.seq, "change": change})
        return self.seq

    async def count(self, id: str, value: int) -> int:
        return await self.tell(id, {"value": value}, {"value": value})

    async def progress(self) -> None:
        for socket in list(self.sockets):
            await self._send(socket, {"progress": self.seq})

    def drop(self) -> None:
        """Break every socket without a word."""
        for socket in list(self.sockets):
            socket.transport.abort()
        self.sockets.clear()

    def attaches(self, id: str) -> list[int | None]:
        return [f.get("after") for f in self.frames if f["op"] == "attach" and f["id"] == id]

    # -- WebSocket -------------------------------------------------------------------------------------------
    async def converse(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        if socket.request.path == "/v1/publish":
            return await self._answer_publisher(socket)
        self.sockets[socket] = set()
        async for text in socket:
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            frame = json.loads(text)
            self.frames.append(frame)
            await self._act(socket, frame)
        self.sockets.pop(socket, None)

    async def _act(self, socket: ServerConnection, frame: dict[str, Any]) -> None:
        ids = self.sockets.get(socket, set())
        if frame["op"] == "ping":
            await self._send(socket, {"pong": self.seq})
        elif frame["op"] == "detach":
            ids.discard(frame["id"])
        elif self.busy:
            self.busy -= 1
            await self._send(socket, {"error": problem(503, "busy", "later"), "id": frame["id"]})
        elif frame["id"] not in self.results:
            missing = problem(404, "not-found", "there is no such subscription")
            await self._send(socket, {"error": missing, "id": frame["id"]})
        else:
            id, after = frame["id"], frame.get("after")
            ids.add(id)
            if after is None or after < self.retained_from:
                await self._send(socket, {"id": id, "seq": self.seq, "snapshot": self.results[id]})
                return
            for seq, change in list(self.log[id]):
                if seq > after - self.overlap:
                    await self._send(socket, {"id": id, "seq": seq, "change": change})

    async def _send(self, socket: ServerConnection, frame: dict[str, Any]) -> None:
        try:
            await socket.send(json.dumps(frame))
        except Exception:  # the socket was dropped; the client will come back
            self.sockets.pop(socket, None)

    async def _answer_publisher(self, socket: ServerConnection) -> None:
        """Answers come only when three requests are under way: without pipelining nothing would move."""
        waiting: list[dict[str, Any]] = []
        async for text in socket:
            waiting.append(json.loads(text))
            if waiting[-1]["table"] == "drop":
                socket.transport.abort()
                return
            if len(waiting) < 3:
                continue
            for request in waiting:
                size = len(request["events"])
                answer: dict[str, Any] = {"first_seq": self.seq + 1, "last_seq": self.seq + size}
                if request["table"] == "missing":
                    answer = {"error": problem(404, "not-found", "no table missing")}
                else:
                    self.seq += size
                await socket.send(json.dumps({"tag": request["tag"], **answer}))
            waiting.clear()

    # -- HTTP ------------------------------------------------------------------------------------------------
    async def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.faults:
            fault = self.faults.pop(0)
            if isinstance(fault, Exception):
                raise fault
            return fault
        path, text = request.url.path, request.content.decode()
        if path == "/v1/tables/stocks":
            return httpx.Response(200, json=TABLE)
        if path.startswith("/v1/tables/") and path.endswith("/events"):
            return self._publish(request, text)
        if path == "/v1/subscriptions":
            return self._subscribe(json.loads(text))
        id = path.split("/")[3]
        if id not in self.results:
            return httpx.Response(404, json=problem(404, "not-found", "there is no such subscription"))
        if request.method == "PATCH":
            await asyncio.sleep(0.02)
            bad = self.refuse_params & json.loads(text).get("params", {}).keys()
            if bad:
                return httpx.Response(422, json=problem(422, "bad-input", f"there is no parameter {bad}"))
        if request.method == "DELETE":
            del self.results[id]
            return httpx.Response(204)
        return httpx.Response(200, json={"id": id, "seq": self.seq, "result": self.results[id], "sql": COUNT})

    def _subscribe(self, body: dict[str, Any]) -> httpx.Response:
        id = body.get("id", f"s{len(self.results) + 1}")
        result: dict[str, Any] = {"rows": []} if body["sql"] == ROWS else {"value": 0}
        self.add(id, result)
        answer = {"id": id, "type": "t", "group": "g", "seq": self.seq, "result": result}
        return httpx.Response(201, json=answer)

    def _publish(self, request: httpx.Request, text: str) -> httpx.Response:
        if "ndjson" not in request.headers["Content-Type"]:
            size = len(json.loads(text)["events"])
        else:
            lines = text.splitlines()
            size = next((at for at, line in enumerate(lines) if "bad" in line), len(lines))
        self.seq += size
        answer: dict[str, Any] = {"first_seq": self.seq - size + 1, "last_seq": self.seq, "count": size}
        if '"bad"' in text:
            answer["errors"] = [{"at": f"/{size}/row/x", "detail": "x is bad"}]
        return httpx.Response(200, json=answer)

    def patches(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.requests if request.method == "PATCH"]


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Fake, str]]:
    fake = Fake()
    async with serve(fake.converse, "127.0.0.1", 0) as fake.server:
        port = next(iter(fake.server.sockets)).getsockname()[1]
        yield fake, f"http://127.0.0.1:{port}"


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[tuple[Fake, AsyncClient]]:
    async with running() as (fake, url):
        options = {"http_transport": httpx.MockTransport(fake.answer), **options}
        async with AsyncClient(url, **options) as client:
            yield fake, client


# -- streams -------------------------------------------------------------------------------------------------
async def test_changes_arrive_in_order_and_are_folded() -> None:
    async with connected() as (fake, client):
        subscription = await client.subscribe(ROWS)
        await fake.tell(subscription.id, {"add": [{"id": 1, "per": "2.00"}]}, {})
        await fake.tell(
            subscription.id, {"update": [{"id": 1, "per": "3.00"}], "add": [{"id": 2, "per": "1.00"}]}, {}
        )
        await fake.tell(subscription.id, {"remove": [{"id": 1}]}, {})
        seen = [await anext(subscription) for _ in range(3)]
        assert [change.seq for change in seen] == [1, 2, 3]
        assert seen[1].result == {"rows": [{"id": 1, "per": "3.00"}, {"id": 2, "per": "1.00"}]}
        assert seen[0].result == {"rows": [{"id": 1, "per": "2.00"}]}, "an earlier result has been changed"
        assert subscription.result == {"rows": [{"id": 2, "per": "1.00"}]}
        assert subscription.seq == 3
        assert not any(change.snapshot for change in seen)


async def test_iterating_without_awaiting_can_start_with_the_answer() -> None:
    async with connected() as (fake, client):
        seen = []
        async for change in client.subscribe(COUNT, id="mine", snapshot=True):
            seen.append(change)
            if len(seen) == 2:
                break
            await fake.count("mine", 5)
        assert [(change.snapshot, change.result) for change in seen] == [
            (True, {"value": 0}),
            (False, {"value": 5}),
        ]


@pytest.mark.parametrize("overlap", [0, 3])
async def test_nothing_is_lost_or_doubled_over_broken_connections(overlap: int) -> None:
    async with connected() as (fake, client):
        fake.overlap = overlap
        dice = random.Random(overlap)
        subscriptions = [await client.subscribe(COUNT) for _ in range(3)]
        expected: dict[str, list[tuple[int, Any]]] = {s.id: [] for s in subscriptions}
        seen: dict[str, list[tuple[int, Any]]] = {s.id: [] for s in subscriptions}

        async def consume(subscription: prosem_client.Subscription) -> None:
            async for change in subscription:
                assert not change.snapshot
                assert change.result is not None
                seen[change.id].append((change.seq, change.result["value"]))

        consumers = [asyncio.create_task(consume(s)) for s in subscriptions]
        for step in range(200):
            id = dice.choice(subscriptions).id
            expected[id].append((await fake.count(id, step), step))
            if dice.random() < 0.03:
                fake.drop()
            if dice.random() < 0.2:
                await until_async(lambda: any(fake.sockets.values()))
        for id in expected:  # the last change of each: one that came twice would come before it
            expected[id].append((await fake.count(id, 200), 200))
        await until_async(lambda: all(seen[id] and seen[id][-1] == expected[id][-1] for id in expected))
        assert seen == expected
        assert client._stream.connects > 2
        await client.close()
        await asyncio.gather(*consumers)


async def test_a_reconnect_resumes_after_the_progress_mark() -> None:
    async with connected() as (fake, client):
        quiet, busy = await client.subscribe(COUNT), await client.subscribe(COUNT)
        await until_async(lambda: client._stream._confirmed.keys() >= {quiet.id, busy.id})
        for value in range(1, 6):
            await fake.count(busy.id, value)
        await fake.progress()
        await until_async(lambda: client._stream.progress == 5)
        fake.retained_from = 3
        fake.drop()
        await until_async(lambda: len(fake.attaches(quiet.id)) == 2)
        assert fake.attaches(quiet.id) == [0, 5]
        await fake.count(quiet.id, 9)
        change = await quiet.next(timeout_s=2)
        assert (change.seq, change.snapshot) == (6, False), "what is retained must be enough"


async def test_a_mark_before_the_attach_is_seen_does_not_count() -> None:
    """A progress mark says nothing of a subscription that the server does not know to be attached yet."""
    async with connected() as (fake, client):
        first = await client.subscribe(COUNT)
        await until_async(lambda: first.id in client._stream._confirmed)
        late = await client.subscribe(COUNT)
        fake.delay_s = 0.2  # its attach is on the way
        fake.seq += 5
        await fake.progress()
        await until_async(lambda: client._stream.progress == 5)
        fake.drop()
        fake.delay_s = 0
        await until_async(lambda: fake.attaches(late.id) and fake.attaches(first.id)[1:])
        assert fake.attaches(late.id)[-1] == 0


async def test_a_fresh_snapshot_replaces_the_answer() -> None:
    async with connected() as (fake, client):
        subscription = await client.subscribe(ROWS)
        await fake.tell(subscription.id, {"add": [{"id": 1, "per": "2.00"}]}, {"rows": []})
        await subscription.next()
        fake.drop()
        fake.seq, fake.retained_from = 50, 40
        fake.results[subscription.id] = {"rows": [{"id": 7, "per": "7.00"}]}
        change = await subscription.next()
        assert change.snapshot
        assert change.change is None
        assert (change.seq, change.result) == (50, {"rows": [{"id": 7, "per": "7.00"}]})
        await fake.tell(subscription.id, {"remove": [{"id": 7}]}, {"rows": []})
        assert (await subscription.next()).result == {"rows": []}


async def test_a_slow_consumer_misses_nothing_and_holds_no_other_up() -> None:
    async with connected(queue_limit=4) as (fake, client):
        slow, quick = await client.subscribe(COUNT), await client.subscribe(COUNT)
        await until_async(lambda: len(client._stream._confirmed) == 2)
        for value in range(30):
            await fake.count(slow.id, value)
            await fake.count(quick.id, value)
            assert (await quick.next(timeout_s=2)).result == {"value": value}
        feed = slow._feed
        assert feed is not None
        assert len(feed) == 4
        await until_async(lambda: {"op": "detach", "id": slow.id} in fake.frames)
        seen: list[Any] = []
        while len(seen) < 30:
            change = await slow.next(timeout_s=2)
            assert not change.snapshot
            seen.append(change.result)
            feed.check()
        assert seen == [{"value": value} for value in range(30)]


async def test_frames_of_an_old_attachment_make_no_gap() -> None:
    """The server acts late on a detach: what it still sends must not be taken for the new attachment's."""
    async with connected(queue_limit=8) as (fake, client):
        subscription = await client.subscribe(COUNT)
        await until_async(lambda: client._stream._confirmed)
        fake.delay_s = 0.02
        seen: list[Any] = []
        allowed, may_read = 1, asyncio.Event()

        async def consume() -> None:
            async for change in subscription:
                seen.append((change.seq, change.result))
                while len(seen) == allowed:
                    may_read.clear()
                    await may_read.wait()

        consumer = asyncio.create_task(consume())
        for value in range(1, 121):
            await fake.count(subscription.id, value)
            if value % 20 == 0:
                allowed = value - 12  # more are left than the queue takes
                may_read.set()
                async with asyncio.timeout(20):
                    while len(seen) < allowed - 4:  # the next ones are sent while it is attached again
                        await asyncio.sleep(0)
        allowed = 121
        may_read.set()
        await until_async(lambda: seen and seen[-1][0] == 120)
        assert seen == [(value, {"value": value}) for value in range(1, 121)]
        assert len(fake.attaches(subscription.id)) > 2, "the queue never overflowed"
        await subscription.close()
        await consumer


async def test_an_id_can_be_attached_again_right_after_it_was_closed() -> None:
    async with connected() as (fake, client):
        first = await client.subscribe(COUNT, id="a")
        for value in range(1, 9):
            await fake.count("a", value)
        await first.next()
        with pytest.raises(ValueError, match="already attached"):
            await client.attach("a")
        await first.close()
        again = await client.attach("a", after=3)
        assert again.result is None
        assert [(await again.next(timeout_s=2)).seq for _ in range(5)] == [4, 5, 6, 7, 8]
        assert again.result == {"value": 8}


async def test_a_wait_that_is_given_up_loses_nothing() -> None:
    async with connected() as (fake, client):
        subscription = await client.subscribe(COUNT)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await subscription.next(timeout_s=0.01)
        await fake.count(subscription.id, 1)
        assert (await subscription.next(timeout_s=2)).seq == 1


async def test_a_subscription_that_is_gone_raises_after_what_was_told() -> None:
    async with connected() as (fake, client):
        subscription = await client.subscribe(COUNT)
        await until_async(lambda: client._stream._confirmed)
        await fake.count(subscription.id, 1)
        await until_async(lambda: len(subscription._feed))
        del fake.results[subscription.id]
        fake.drop()
        assert (await subscription.next()).seq == 1
        for _ in range(2):
            with pytest.raises(ProsemError) as caught:
                await subscription.next(timeout_s=2)
            assert (caught.value.status, caught.value.code) == (404, "not-found")


async def test_an_attach_that_is_put_off_is_tried_again() -> None:
    async with connected() as (fake, client):
        fake.busy = 2
        subscription = await client.subscribe(COUNT)
        await fake.count(subscription.id, 1)
        assert (await subscription.next(timeout_s=3)).seq == 1
        assert len(fake.attaches(subscription.id)) == 3


async def test_one_that_is_not_durable_is_made_anew() -> None:
    async with connected() as (fake, client):
        subscription = await client.subscribe(COUNT, {"lo": 1}, durable=False, id="brief")
        await subscription.patch(lo=2)
        await until_async(lambda: client._stream._confirmed)
        del fake.results["brief"]
        fake.seq = 9
        fake.drop()
        change = await subscription.next(timeout_s=3)
        assert (change.snapshot, change.seq, change.result) == (True, 9, {"value": 0})
        made = [json.loads(r.content) for r in fake.requests if r.method == "POST"]
        assert [body["params"] for body in made] == [{"lo": 1}, {"lo": 2}]
        await fake.count("brief", 4)
        assert (await subscription.next(timeout_s=2)).result == {"value": 4}


async def test_a_change_that_does_not_fit_ends_the_subscription() -> None:
    async with connected() as (fake, client):
        subscription = await client.subscribe(ROWS)
        await fake.tell(subscription.id, {"remove": [{"id": 1}]}, {})
        await fake.tell(subscription.id, {"add": [{"id": 2, "per": "1.00"}]}, {})
        for _ in range(2):
            with pytest.raises(OutOfStep):
                await subscription.next(timeout_s=2)


async def test_closing_the_client_ends_every_iteration() -> None:
    async with connected() as (_, client):
        subscription = await client.subscribe(COUNT)

        async def consume() -> list[prosem_client.Change]:
            return [change async for change in subscription]

        consumer = asyncio.create_task(consume())
        await until_async(lambda: client._stream._confirmed)
        await client.close()
        assert await consumer == []


async def test_a_stream_that_is_refused_is_an_error_not_a_loop() -> None:
    async with running() as (fake, url):
        transport = httpx.MockTransport(fake.answer)
        async with AsyncClient(url, http_transport=transport) as client:
            assert fake.server is not None
            refuse = functools.partial(_refuse, 401)
            async with serve(fake.converse, "127.0.0.1", 0, process_request=refuse) as closed:
                port = next(iter(closed.sockets)).getsockname()[1]
                client._transport.url = f"http://127.0.0.1:{port}"
                subscription = await client.subscribe(COUNT)
                with pytest.raises(ProsemError) as caught:
                    await subscription.next(timeout_s=3)
                assert caught.value.status == 401


def _refuse(status: int, socket: ServerConnection, request: Any) -> Any:
    return socket.respond(status, "not you")


# -- parameters ----------------------------------------------------------------------------------------------
async def test_assignments_of_one_tick_are_one_update_of_all_parameters() -> None:
    async with connected() as (fake, client):
        subscription = await client.subscribe(COUNT, {"lo": 1, "hi": 9})
        subscription.params.lo = 2
        subscription.params.lo = 3
        subscription.params["hi"] = 8
        assert (subscription.params.lo, subscription.params["hi"], len(subscription.params)) == (3, 8, 2)
        await subscription.flush()
        assert fake.patches() == [{"params": {"lo": 3, "hi": 8}}]


async def test_a_burst_of_assignments_ends_with_the_last_value() -> None:
    async with connected() as (fake, client):
        subscription = await client.subscribe(COUNT, {"lo": 0})
        for value in range(1, 101):
            subscription.params.lo = value
            if value % 10 == 0:
                await until_async(lambda value=value: len(fake.patches()) >= value // 10)  # type: ignore[misc]
        await subscription.flush()
        sent = [patch["params"]["lo"] for patch in fake.patches()]
        assert sent == sorted(sent)
        assert sent[-1] == 100
        assert len(sent) < 30


async def test_an_assignment_while_it_is_being_opened_is_sent_after() -> None:
    async with connected() as (fake, client):
        subscription = client.subscribe(COUNT, {"lo": 0})
        subscription.params.lo = 1
        opening = asyncio.ensure_future(subscription.next(timeout_s=1))
        await asyncio.sleep(0)
        subscription.params.lo = 2
        await subscription.flush()
        opening.cancel()
        created = json.loads(fake.requests[0].content)
        last = fake.patches()[-1]["params"] if fake.patches() else created["params"]
        assert last == {"lo": 2}


async def test_a_refused_assignment_is_raised_at_flush() -> None:
    async with connected() as (fake, client):
        fake.refuse_params = {"nonsense"}
        subscription = await client.subscribe(COUNT, {"lo": 1})
        subscription.params.nonsense = 2
        with pytest.raises(ProsemError, match="no parameter"):
            await subscription.flush()
        assert "nonsense" not in subscription.params
        with pytest.raises(AttributeError, match="there are lo"):
            _ = subscription.params.nonsense
        await subscription.patch(lo=5)
        assert fake.patches()[-1] == {"params": {"lo": 5}}


async def test_a_refused_assignment_interrupts_the_iteration_once() -> None:
    async with connected() as (fake, client):
        fake.refuse_params = {"nonsense"}
        subscription = await client.subscribe(COUNT)
        waiting = asyncio.create_task(subscription.next(timeout_s=3))
        await until_async(lambda: client._stream._confirmed)
        subscription.params.nonsense = 2
        with pytest.raises(ProsemError, match="no parameter"):
            await waiting
        await fake.count(subscription.id, 1)
        assert (await subscription.next(timeout_s=2)).seq == 1


async def test_suspend_resume_and_delete() -> None:
    async with connected() as (fake, client):
        subscription = await client.subscribe(COUNT)
        await subscription.suspend()
        await subscription.resume()
        assert fake.patches() == [{"active": False}, {"active": True}]
        await subscription.delete()
        assert subscription.id not in fake.results
        assert [change async for change in subscription] == []


# -- calls ---------------------------------------------------------------------------------------------------
async def test_a_publish_is_repeated_with_its_key() -> None:
    async with connected() as (fake, client):
        fake.faults = [
            httpx.ReadError("connection reset"),
            httpx.Response(503, headers={"Retry-After": "0"}, json=problem(503, "busy", "busy")),
            httpx.ConnectError("refused"),
        ]
        published = await client.publish("stocks", [{"op": "delete", "key": {"id": 1}}])
        assert (published.first_seq, published.last_seq, published.count) == (1, 1, 1)
        keys = [request.headers["Idempotency-Key"] for request in fake.requests]
        assert len(keys) == 4
        assert len(set(keys)) == 1
        await client.publish("stocks", [{"op": "delete", "key": {"id": 2}}])
        assert fake.requests[-1].headers["Idempotency-Key"] != keys[0]


async def test_a_subscription_is_not_made_twice() -> None:
    async with connected() as (fake, client):
        fake.faults = [httpx.ReadError("connection reset")]
        with pytest.raises(ConnectionLost):
            await client.subscribe(COUNT)
        assert len(fake.requests) == 1
        fake.faults = [httpx.ConnectError("refused")]  # this one cannot have arrived
        assert (await client.subscribe(COUNT)).result == {"value": 0}


async def test_a_recovering_server_is_waited_for_longer_than_a_lost_one() -> None:
    async with connected(reconnect_s=0.0, busy_s=60.0) as (fake, client):
        fake.faults = [
            httpx.Response(
                503,
                headers={"Retry-After": "0.01"},
                json=problem(503, "recovering", "the server is starting"),
            )
            for _ in range(20)
        ]
        published = await client.publish("stocks", [{"op": "delete", "key": {"id": 1}}])
        assert published.count == 1
        assert len({request.headers["Idempotency-Key"] for request in fake.requests}) == 1


async def test_retries_end() -> None:
    async with connected(reconnect_s=0.2, busy_s=0.2) as (fake, client):
        fake.faults = [httpx.ReadError("connection reset") for _ in range(100)]
        with pytest.raises(ConnectionLost, match="was not answered"):
            await client.status()
        busy = httpx.Response(503, headers={"Retry-After": "60"}, json=problem(503, "busy", "later"))
        fake.faults = [busy]
        with pytest.raises(ProsemError) as caught:
            await client.status()
        assert caught.value.code == "busy"


async def test_a_delete_whose_answer_was_lost_has_succeeded() -> None:
    async with connected() as (fake, client):
        subscription = await client.subscribe(COUNT)
        gone = httpx.Response(404, json=problem(404, "not-found", "gone"))
        fake.faults = [httpx.ReadError("connection reset"), gone]
        await subscription.delete()
        fake.faults = [gone]  # without a lost answer before it, this is a refusal
        with pytest.raises(ProsemError, match="gone"):
            await client.drop_table("stocks")


async def test_a_refusal_tells_where() -> None:
    async with connected() as (fake, client):
        errors = [{"at": "/events/0/row/per", "detail": "expected a number"}]
        fake.faults = [
            httpx.Response(422, json=problem(422, "bad-input", "expected a number", errors=errors))
        ]
        with pytest.raises(ProsemError) as caught:
            await client.publish("stocks", [{"op": "insert", "row": {"per": "x"}}])
        error = caught.value
        assert (error.status, error.code, list(error.errors)) == (422, "bad-input", errors)
        fake.faults = [httpx.Response(502, text="<html>bad gateway")]
        with pytest.raises(ProsemError, match="bad gateway") as caught:
            await client.status()
        assert caught.value.code == "http-502"


async def test_an_upload_counts_what_is_committed() -> None:
    async with connected() as (fake, client):
        counts: list[int] = []
        fake.faults = [httpx.ReadError("connection reset")]
        events = [{"op": "delete", "key": {"id": at}} for at in range(25)]
        published = await client.publish_ndjson("stocks", events, counts.append, lines_per_request=10)
        assert counts == [10, 20, 25]
        assert (published.first_seq, published.last_seq, published.count) == (1, 25, 25)
        keys = [request.headers["Idempotency-Key"] for request in fake.requests]
        assert keys[0] == keys[1]
        assert len(set(keys)) == 3
        assert [len(request.content.splitlines()) for request in fake.requests] == [10, 10, 10, 5]


async def test_an_upload_stops_at_the_first_bad_line() -> None:
    async def lines() -> AsyncIterator[str | bytes]:
        for at in range(25):
            yield b'{"op": "good"}\r\n' if at != 17 else '{"op": "bad"}'

    async with connected() as (_, client):
        with pytest.raises(PartlyPublished) as caught:
            await client.publish_ndjson("stocks", lines(), lines_per_request=10)
        assert caught.value.published.count == 17
        assert caught.value.errors == ({"at": "/17/row/x", "detail": "x is bad"},)


async def test_a_publisher_has_many_requests_under_way() -> None:
    async with connected() as (_, client), client.publisher() as publisher:
        events = [{"op": "delete", "key": {"id": 1}}, {"op": "delete", "key": {"id": 2}}]
        futures = [await publisher.send(table, events) for table in ("a", "missing", "b")]
        assert [(await futures[at]).first_seq for at in (0, 2)] == [1, 3]
        with pytest.raises(ProsemError, match="no table missing"):
            await futures[1]
        with pytest.raises(ProsemError, match="no table missing"):
            await publisher.drain()
        await publisher.drain()


async def test_a_publisher_whose_connection_breaks_says_what_is_unknown() -> None:
    async with connected() as (_, client), client.publisher(in_flight=3) as publisher:
        lost = [await publisher.send(table, [{}]) for table in ("a", "drop")]
        for future in lost:
            with pytest.raises(ConnectionLost, match="unknown"):
                await future
        with pytest.raises(ConnectionLost):
            await publisher.drain()
        for _ in range(3):  # a new connection, and every slot is free again
            futures = [await publisher.send("a", [{}]) for _ in range(3)]
            assert [(await future).count for future in futures] == [1, 1, 1]


async def test_a_publisher_waits_while_too_many_are_under_way() -> None:
    async with connected() as (_, client):
        publisher = client.publisher(in_flight=2)
        for _ in range(2):
            await publisher.send("a", [{}])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await publisher.send("a", [{}])
        await publisher.close()


# -- without asyncio -----------------------------------------------------------------------------------------
@pytest.fixture
def fake_server() -> Iterator[tuple[Fake, str, Portal]]:
    portal = Portal()
    context = running()
    fake, url = portal.call(_enter(context))
    yield fake, url, portal
    portal.call(_leave(context))
    portal.close()


async def _enter(context: Any) -> Any:
    return await context.__aenter__()


async def _leave(context: Any) -> None:
    await context.__aexit__(None, None, None)


def test_the_client_without_asyncio(fake_server: tuple[Fake, str, Portal]) -> None:
    fake, url, portal = fake_server
    with Client(url, http_transport=httpx.MockTransport(fake.answer)) as client:
        assert client.publish("stocks", [{"op": "delete", "key": {"id": 1}}]).last_seq == 1
        counts: list[int] = []
        assert (
            client.publish_ndjson("stocks", ['{"op": "x"}\n'] * 5, counts.append, lines_per_request=2).count
            == 5
        )
        assert counts == [2, 4, 5]
        with client.subscribe(COUNT, {"lo": 1}) as subscription:
            assert (subscription.result, subscription.seq) == ({"value": 0}, 6)
            seen = []
            for value in range(3):
                portal.call(fake.count(subscription.id, value + 1))
            portal.run(fake.drop)
            for change in subscription:
                seen.append(change.result)
                if len(seen) == 3:
                    break
            assert seen == [{"value": 1}, {"value": 2}, {"value": 3}]
            subscription.params.lo = 7
            assert subscription.params.lo == 7
            subscription.flush()
            assert fake.patches() == [{"params": {"lo": 7}}]
            with pytest.raises(TimeoutError):
                subscription.next(timeout_s=0.01)
        assert list(subscription) == []
        with client.publisher() as publisher:
            futures = [publisher.send("a", [{}, {}]) for _ in range(3)]
            assert [future.result(timeout=3).count for future in futures] == [2, 2, 2]
        client.close()
        with pytest.raises(prosem_client.Closed):
            client.status()


# -- folding -------------------------------------------------------------------------------------------------
Numbers = st.decimals(min_value=-99, max_value=99, places=2).map(lambda number: f"{number:.2f}")
Tables = st.dictionaries(st.integers(0, 8), st.one_of(st.none(), Numbers), max_size=8)


def as_rows(table: dict[int, Any]) -> list[dict[str, Any]]:
    return [{"id": id, "per": per} for id, per in table.items()]


@given(st.lists(Tables, min_size=2, max_size=6))
def test_rows_fold_to_the_next_answer(states: list[dict[int, Any]]) -> None:
    answer = Rows({"rows": as_rows(states[0])}, Shape(("id",)))
    for before, after in pairwise(states):
        answer.apply(
            {
                "add": as_rows({id: after[id] for id in after.keys() - before.keys()}),
                "remove": [{"id": id} for id in before.keys() - after.keys()],
                "update": as_rows(
                    {id: after[id] for id in after.keys() & before.keys() if after[id] != before[id]}
                ),
            }
        )
        answer.check()
        assert sorted(answer.result()["rows"], key=lambda row: int(row["id"])) == as_rows(
            dict(sorted(after.items()))
        )


@given(st.lists(st.sets(st.one_of(st.none(), Numbers)), min_size=2, max_size=6))
def test_values_fold_to_the_next_answer_in_the_order_of_numbers(states: list[set[Any]]) -> None:
    def in_order(values: set[Any]) -> list[Any]:
        return sorted(values - {None}, key=float) + [None] * (None in values)

    states = [{"0.00" if value == "-0.00" else value for value in state} for state in states]
    answer = Values({"values": in_order(states[0])}, Shape((), "numeric(4,2)"))
    for before, after in pairwise(states):
        answer.apply({"add": list(after - before), "remove": list(before - after)})
        answer.check()
        assert answer.result() == {"values": in_order(after)}


@given(Tables, Tables)
def test_joined_rows_fold_as_a_whole(before: dict[int, Any], after: dict[int, Any]) -> None:
    def joined(table: dict[int, Any]) -> list[dict[str, Any]]:
        return [{"r": {"a": id, "tags": [id]}, "s": {"b": per}} for id, per in table.items()]

    add = [row for row in joined(after) if row not in joined(before)]
    remove = [row for row in joined(before) if row not in joined(after)]
    folded = fold({"rows": joined(before)}, {"add": add, "remove": remove})["rows"]
    assert sorted(folded, key=str) == sorted(joined(after), key=str)


def test_items_fold_one_by_one() -> None:
    result = {"items": [{"key": {"id": 1}, "value": 5}]}
    result = fold(result, {"key": {"id": 2}, "value": 7, "previous": None})
    result = fold(result, {"key": {"id": 1}, "value": 6, "previous": 5})
    assert result == {"items": [{"key": {"id": 1}, "value": 6}, {"key": {"id": 2}, "value": 7}]}
    assert fold(result, {"key": {"id": 1}, "value": None, "previous": 6}) == {
        "items": [{"key": {"id": 2}, "value": 7}]
    }


def test_a_minimum_is_told_with_its_row() -> None:
    empty = {"value": None, "row": None}
    told = {"value": 3, "row": {"id": 1}}
    assert fold(empty, told) == told
    assert fold(told, empty) == empty


@pytest.mark.parametrize(
    ("type", "values"),
    [
        ("timestamptz", ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.500000Z", None]),
        ("bytea", ["AA==", "/w=="]),  # 0x00, 0xff
        ("text", ["10", "9", "a", None]),
        ("bigint", [-1, 9, 10, None]),
    ],
)
def test_values_stand_in_the_order_of_their_type(type: str, values: list[Any]) -> None:
    assert fold({"values": values[1:]}, {"add": values[:1], "remove": []}, type=type) == {"values": values}
    assert fold({"values": values[:-1]}, {"add": values[-1:], "remove": []}, type=type) == {"values": values}


@pytest.mark.parametrize(
    ("result", "change"),
    [
        ({"rows": [{"id": 1}]}, {"remove": [{"id": 2}]}),
        ({"rows": [{"id": 1}]}, {"add": [{"id": 1}]}),
        ({"rows": [{"id": 1}]}, {"update": [{"id": 2}]}),
        ({"rows": [{"id": 1}]}, {"remove": [{"other": 1}]}),
        ({"values": [1]}, {"remove": [2]}),
        ({"values": [1]}, {"add": [1]}),
        ({"value": 1}, {"add": [1]}),
        ({"items": []}, {"value": 1}),
    ],
)
def test_a_change_that_does_not_fit_is_refused(result: dict[str, Any], change: dict[str, Any]) -> None:
    with pytest.raises(OutOfStep):
        fold(result, change, key=("id",))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ('SELECT "from" FROM "My ""Table""" WHERE x = 1', Outline('My "Table"')),
        ("select distinct Y from public.T", Outline("t", "y")),
        ("SELECT * -- from nowhere\nFROM t WHERE s = 'join'", Outline("t")),
        ("SELECT * FROM r NATURAL JOIN s", Outline(None)),
        ("SELECT 1", Outline(None)),
        ("SELECT * FROM", Outline(None)),
    ],
)
def test_the_outline_of_a_query(sql: str, expected: Outline) -> None:
    assert outline(sql) == expected


# -- parts ---------------------------------------------------------------------------------------------------
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9)), max_size=40), st.integers(1, 5))
def test_a_feed_hands_out_each_seq_once_and_in_order(steps: list[tuple[int, int]], limit: int) -> None:
    feed = Feed("a", 0, limit)
    feed.is_listening = True
    taken: list[int] = []
    kept = set()
    for seq, choice in steps:
        if choice < 7:
            before = len(feed)
            had_room = feed.take(Frame(seq, {}, False))
            assert had_room or before == limit
            if len(feed) > before:
                kept.add(seq)
        else:
            frame = feed.pop()
            taken += [frame.seq] if frame else []
            feed.is_listening = True
        feed.check()
    while frame := feed.pop():
        taken.append(frame.seq)
    assert taken == sorted(kept)


def test_the_examples_in_the_docstrings() -> None:
    tried = 0
    for module in pkgutil.iter_modules(prosem_client.__path__, "prosem_client."):
        outcome = doctest.testmod(importlib.import_module(module.name))
        assert outcome.failed == 0, module.name
        tried += outcome.attempted
    assert tried > 5


def test_the_package_stands_alone() -> None:
    allowed = {"prosem_client", "httpx", "websockets", "__future__"}
    for path in Path(prosem_client.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top = name.partition(".")[0]
                assert top in allowed or top in sys.stdlib_module_names, f"{path.name}: {name}"
