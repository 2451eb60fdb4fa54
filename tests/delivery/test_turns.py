"""A socket with thousands of streams does not keep the loop: what it costs is done some at a time, which is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Future
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from api.http.routes import streams
from api.http.websocket_frames import EXTENSION, send_all
from cn.model import frames as cn_frames
from cn.model.frames import Data, Frame, PositionMark
from cn.model.message import Message
from cn.model.network import Space
from cn.networks.local import LocalNetwork
from cn.transport.packets import listed
from prosem.brokers import feed
from prosem.brokers.feed import BrokerFeed
from prosem.delivery.edge import Edge
from prosem.delivery.subscriber import Subscriber
from prosem.engine import commands as c
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import AT_ONCE, TimeSlice, by_turns, complete
from prosem.types.base import Bound
from prosem.values.access import WHOLE

STREAMS = 4 * AT_ONCE + 3
SPACE = Space(1, 1, True)
FORM = SimpleNamespace(change=lambda messages, bound, state: (messages[-1].payload, state))


async def turns(most: int = 10_000) -> AsyncIterator[int]:
    """Turns of the loop, seen by something that waits for each."""
    for number in range(most):
        await asyncio.sleep(0)
        yield number


async def test_by_turns_does_all_in_order_and_some_in_each_turn() -> None:
    done: list[int] = []
    by_turns(range(STREAMS), done.append)
    seen = [len(done)]
    async for _ in turns():
        seen.append(len(done))
        if len(done) == STREAMS:
            break
    assert done == [*range(STREAMS)]
    assert seen == [AT_ONCE, 2 * AT_ONCE, 3 * AT_ONCE, 4 * AT_ONCE, STREAMS]


class Listening:
    """A listener with many streams at an edge of its own; the model's engine keeps what it is asked."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.edge = self._edge()
        self.asked: list[c.Attach] = []
        self.seq = 0
        self.listener = Subscriber(self.edge, self._submit, self.metrics, capacity=10)
        for sid in range(STREAMS):
            self.listener.attach(str(sid), None)
        self.answer()

    def _edge(self) -> Edge:
        return Edge(self.metrics, LocalNetwork, lambda stream, frame: None, lambda sid: None)

    def _submit(self, command: Any) -> Future[Any]:
        self.asked.append(command)
        return Future()

    def answer(self) -> None:
        asked, self.asked = self.asked, []
        for command in asked:
            sid = int(command.id)
            frame: Any = c.Hosted(
                sid, command.id, command.sink, FORM, SPACE, Bound(b"", (sid,)), self.seq, command.after, 0, b"{}",
                True, command.token, None, None,
            )  # type: ignore[arg-type]  # fmt: skip
            complete(self.edge.release([frame], self.seq))

    def publish(self) -> None:
        self.seq += 1
        message = Message(self.seq, 0, 1, "change", targets=tuple(range(STREAMS)), payload=b"{}")
        complete(self.edge.release([message], self.seq))


async def test_the_streams_of_a_socket_that_has_gone_end_some_at_a_time() -> None:
    one = Listening()
    await one.listener.fetch()
    one.listener.close()
    left = [one.edge.hosted]
    async for _ in turns():
        one.publish()  # for those that are left: nothing is kept for a socket that is gone
        left.append(one.edge.hosted)
        if not one.edge.hosted:
            break
    assert [before - after for before, after in pairwise(left)][:3] == [AT_ONCE] * 3
    assert left[0] == STREAMS - AT_ONCE
    assert one.listener.take() == []
    assert not one.metrics.lagging
    one.edge.network.check()  # type: ignore[attr-defined]


async def test_a_socket_that_lagged_attaches_its_streams_again_some_at_a_time() -> None:
    one = Listening()
    await one.listener.fetch()
    for _ in range(5):  # more than may wait, which is four changes of each
        one.publish()
    assert one.listener.is_lagging
    assert [item.kind for item in await one.listener.fetch()].count("change") == 4 * STREAMS
    asked = [len(one.asked)]
    assert one.listener.detach(str(STREAMS - 1))  # one that has not been asked for again yet
    async for _ in turns():
        asked.append(len(one.asked))
        if len(one.asked) >= STREAMS - 1:
            break
    assert asked == [AT_ONCE, 2 * AT_ONCE, 3 * AT_ONCE, 4 * AT_ONCE, STREAMS - 1]
    assert [command.id for command in one.asked] == [str(sid) for sid in range(STREAMS - 1)]
    assert {command.after for command in one.asked} == {4}
    assert [item.kind for item in one.listener.take()] == []  # no progress before they are all attached


async def test_frames_that_have_come_already_leave_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking a frame that is there waits for nothing."""
    monkeypatch.setattr(streams, "TimeSlice", lambda: TimeSlice(0.0))
    frames = [{"type": "websocket.receive", "text": '{"op": "ping"}'}] * 50
    frames.append({"type": "websocket.disconnect"})
    left, taken = iter(frames), 0

    async def receive() -> Any:
        nonlocal taken
        taken += 1
        return next(left)

    edge = Edge(Metrics(), LocalNetwork, lambda stream, frame: None, lambda sid: None)
    made = SimpleNamespace(subscriber=lambda scope: Subscriber(edge, lambda command: Future(), Metrics()))
    caller = SimpleNamespace(scope=WHOLE, limits=SimpleNamespace(frame_bytes=1000))
    socket = SimpleNamespace(receive=receive, scope={}, send_text=lambda text: asyncio.sleep(0))
    serving = asyncio.create_task(streams._serve(made, caller, socket))  # type: ignore[arg-type]
    seen = [taken async for _ in turns(20)]
    assert seen == [*range(1, 21)]
    await serving
    assert taken == len(frames)


async def test_writes_that_a_connection_takes_at_once_leave_turns_to_others() -> None:
    written: list[int] = []

    async def send(message: Any) -> None:
        written.append(sum(map(len, message["frames"])))

    socket: Any = SimpleNamespace(scope={"extensions": {EXTENSION: {}}}, send=send)
    frames = [b"x" * 1000] * 1000
    sending = asyncio.create_task(send_all(socket, frames))
    seen = [len(written) async for _ in turns(5)]
    assert seen == [1, 2, 3, 4, 5]
    await sending
    assert sum(written) == 1_000_000
    assert max(written) <= 2 * 65_536


class Branch:
    """A broker's node: whatever comes is for its own edge."""

    name = "broker"

    def receive(self, sender: str, frame: Frame) -> list[tuple[str, Frame]]:
        return [(self.name, frame)]

    def tick(self, now: float) -> list[tuple[str, Frame]]:
        return [(self.name, PositionMark(3, 2))]


class AtABroker(Listening):
    """The same at a broker, whose edge is fed by frames."""

    def __init__(self) -> None:
        self.told = Metrics()
        self.feed = BrokerFeed(self.told)
        self.feed.begin(Branch(), 0, lambda to, frame, data: None, lambda data: None)  # type: ignore[arg-type]
        super().__init__()

    def _edge(self) -> Edge:
        return self.feed.edge

    def sent(self) -> bytes:
        """An event that concerns all, another that concerns all, and the mark behind the first."""
        messages = [
            Message(seq, 0, 1, "change", targets=tuple(range(STREAMS)), payload=b"{}") for seq in (1, 2)
        ]
        frames = [Data(1, messages[0]), Data(2, messages[1]), PositionMark(2, 1)]
        return listed(map(cn_frames.encode, frames))


async def test_a_broker_notifies_many_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "TimeSlice", lambda: TimeSlice(0.0))
    one = AtABroker()
    await one.listener.fetch()
    told, applied = [0], asyncio.create_task(one.feed.receive("server", one.sent()))
    async for number in turns():
        told.append(one.told.changes)
        if number == 20:
            one.feed.tick(0.0)  # a mark of its own comes in the middle: it waits for what is being applied
            assert one.feed.position < 2
        if applied.done():
            break
    assert max(after - before for before, after in pairwise(told)) <= Edge.step
    items = one.listener.take()
    assert [item.seq for item in items] == [1] * STREAMS + [2] * STREAMS + [2]
    assert one.feed.position == 3


async def test_a_session_that_ends_while_many_are_notified_notifies_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feed, "TimeSlice", lambda: TimeSlice(0.0))
    one = AtABroker()
    await one.listener.fetch()
    applied = asyncio.create_task(one.feed.receive("server", one.sent()))
    for _ in range(10):
        await asyncio.sleep(0)
    told = one.told.changes
    assert 0 < told < STREAMS
    one.feed.end()
    await applied
    assert one.told.changes == told
    assert len(one.listener.take()) == told
    async for _ in turns():
        if len(one.asked) == STREAMS:
            break
    assert {command.after for command in one.asked[:told]} == {1}
    assert {command.after for command in one.asked[told:]} == {0}
