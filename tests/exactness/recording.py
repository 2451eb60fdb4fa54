"""A real server with all statements, which publishers feed and sockets follow, while some subscriptions are changed.

A subscription that is moved, suspended or deleted meanwhile is compared in parts: a backtest knows those that stay as they
are from its start to its end. After a move or a pause a subscription with `notify` depends on what it was notified of, which
a backtest does not know, so its later part is left out.
"""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil
from typing import NamedTuple

import httpx
import msgspec
from websockets.asyncio.client import connect

from tests.exactness.events import Publisher
from tests.exactness.population import FEWER, Ranges, population
from tests.exactness.received import Received, Receiver
from tests.support.backtested import CASES, prepare
from tests.support.live import Api, Json
from tests.support.waiting import until_async

PUBLISHERS, SOCKETS, IN_FLIGHT = 3, 4, 8
BEFORE = 20  # requests of each publisher between the copy of the tables and the subscriptions
CHANGED = 0.1  # share of the subscriptions that are moved, suspended or deleted
AHEAD = 20_000  # events that publishers may be ahead of the sockets
FOREVER = 1 << 60
KINDS = ("moved", "suspended", "deleted")
WAIT_S = 600.0


class Size(NamedTuple):
    """Subscriptions of each statement, and events after they were made."""

    subscriptions: int
    events: int

    @classmethod
    def of(cls, subscriptions: int, events: int) -> Size:
        """For so many subscriptions of all statements together."""
        return cls(ceil(subscriptions / sum(1 / FEWER.get(name, 1) for name in CASES)), events)


class Part(NamedTuple):
    """What a backtest can know of a subscription: its parameters after one seq, up to another."""

    number: int
    params: Json
    after: int
    upto: int = FOREVER


@dataclass
class Recorded:
    """Parts by case; `received` has the numbers of their subscriptions."""

    start: int = 0
    end: int = 0
    requests: int = 0
    parts: dict[str, list[Part]] = field(default_factory=dict)
    changed: int = 0
    received: Received | None = None

    @property
    def changes(self) -> Received:
        assert self.received is not None
        return self.received


class Recording:
    """`subscribe`, then `run`; both once."""

    def __init__(self, url: str, size: Size, seed: int) -> None:
        self._url, self._size, self._chance = url, size, random.Random(f"{seed} subscriptions")
        ranges = Ranges.of(size.subscriptions)
        self._publishers = [Publisher(number, PUBLISHERS, ranges, seed) for number in range(PUBLISHERS)]
        self._requests = [one.requests() for one in self._publishers]
        self._ids: list[str] = []
        self._spare: dict[str, list[Json]] = {}  # parameters that subscriptions are moved to, by case
        self._case_of: dict[int, str] = {}  # of those that are changed
        self._events: list[tuple[int, int]] = []  # first and last seq of each request
        self._committed = 0
        self.recorded = Recorded()

    # -- before the log ------------------------------------------------------------------------------------------
    def fill(self, api: Api) -> None:
        prepare(api)
        for publisher in self._publishers:
            for table, events in publisher.first():
                api.publish(table, events)

    def subscribe(self, api: Api) -> None:
        """After some more events, which a backtest has to roll the copied rows over."""
        for requests in self._requests:
            for _ in range(BEFORE):
                _publish(api, *next(requests))
        for name, case in CASES.items():
            rows = population(name, self._size.subscriptions, self._chance)
            drawn = population(name, self._size.subscriptions, self._chance)
            spare = self._spare[name] = drawn[: max(1, int(CHANGED * len(rows)))]
            notify = {} if case.notify is None else {"notify": case.notify}
            body = {"sql": case.sql, "per": case.per, "rows": [{"params": one} for one in rows], **notify}
            made = api.call("POST", "/v1/subscriptions/batch", json=body)
            first = len(self._ids)
            self._ids += made["ids"]
            self.recorded.start = made["seq"]
            self.recorded.parts[name] = [Part(first + at, one, 0) for at, one in enumerate(rows)]
            if "may" not in (case.notify or {}):  # there subscriptions depend on each other
                self._case_of |= dict.fromkeys(range(first, first + len(spare)), name)

    # -- the log -------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        numbers = {id: number for number, id in enumerate(self._ids)}
        shares = [dict(list(numbers.items())[at::SOCKETS]) for at in range(SOCKETS)]
        receivers = [Receiver(self._url, share) for share in shares]
        following = [asyncio.create_task(one.run()) for one in receivers]
        try:
            await self._until(lambda: sum(one.attached for one in receivers) >= len(self._ids), following)
            behind = lambda: self._committed - min(one.progress for one in receivers)
            async with asyncio.TaskGroup() as group:
                for number in range(PUBLISHERS):
                    group.create_task(self._publish(number, behind))
                group.create_task(self._change())
            end = self.recorded.end = self._committed
            await self._until(lambda: min(one.progress for one in receivers) >= end, following)
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
        self.recorded.received = Received(receivers)
        self.recorded.parts = {name: self._without_moves(some) for name, some in self.recorded.parts.items()}

    async def _until(self, is_so: Callable[[], bool], following: list[asyncio.Task[None]]) -> None:
        def checked() -> bool:
            for task in following:
                if task.done():
                    task.result()
            return is_so()

        await until_async(checked, WAIT_S)

    @property
    def _published(self) -> int:
        return max(0, self._committed - self.recorded.start)

    async def _publish(self, number: int, behind: Callable[[], int]) -> None:
        """A publisher's share of the events, in frames of which some are under way."""
        url = self._url.replace("http", "ws", 1) + "/v1/publish"
        waiting = 0
        async with connect(url, compression=None, proxy=None, max_size=None, ping_interval=None) as socket:

            async def answer() -> None:
                said = msgspec.json.decode(await socket.recv())
                assert "error" not in said, said
                self._events.append((said["first_seq"], said["last_seq"]))
                self._committed = max(self._committed, said["last_seq"])

            while self._published < self._size.events:
                table, events = next(self._requests[number])
                frame = {"events": events, **({"table": table} if table else {})}
                await socket.send(msgspec.json.encode(frame).decode())
                self.recorded.requests += 1
                waiting += 1
                while waiting >= IN_FLIGHT:
                    await answer()
                    waiting -= 1
                if behind() > AHEAD:
                    await until_async(lambda: behind() < AHEAD, WAIT_S)
            for _ in range(waiting):
                await answer()

    # -- those that are changed ----------------------------------------------------------------------------------
    async def _change(self) -> None:
        """Each at its time, spread over the middle of the log; those that are suspended are resumed a little later."""
        chosen = list(self._case_of)
        self._chance.shuffle(chosen)
        due = [
            (self._size.events * (0.1 + 0.7 * at / len(chosen)), number, KINDS[at % len(KINDS)])
            for at, number in enumerate(chosen)
        ]
        alone = httpx.Limits(max_keepalive_connections=0)  # a server closes one that is idle, at any moment
        async with httpx.AsyncClient(
            base_url=self._url, trust_env=False, timeout=WAIT_S, limits=alone
        ) as http:
            while due:
                at, number, kind = heappop(due)
                await self._reach(at)
                await self._changed(http, number, kind)
                if kind == "suspended":
                    heappush(due, (at + self._size.events / 50, number, "resumed"))
        self.recorded.changed = len(chosen)

    async def _reach(self, events: float) -> None:
        await until_async(lambda: self._published >= events, WAIT_S)

    async def _changed(self, http: httpx.AsyncClient, number: int, kind: str) -> None:
        name, path = self._case_of[number], f"/v1/subscriptions/{self._ids[number]}"
        parts = self.recorded.parts[name]
        at = max(place for place, part in enumerate(parts) if part.number == number)
        last = parts[at]
        if kind == "resumed":
            seq = await _called(http, "PATCH", path, {"active": True})
            if CASES[name].notify is None:
                parts.append(Part(number, last.params, seq))
            return
        if kind == "deleted":
            seq = await _called(http, "DELETE", path)
        elif kind == "suspended":
            seq = await _called(http, "PATCH", path, {"active": False})
        else:
            params = self._spare[name].pop()
            seq = await _called(http, "PATCH", path, {"params": params})
            if CASES[name].notify is None:
                parts.append(Part(number, params, seq))
        parts[at] = last._replace(upto=seq)

    def _without_moves(self, parts: list[Part]) -> list[Part]:
        """A move that changes the answer has a seq of its own: at its seq a change is not of an event."""
        self._events.sort()

        def is_event(seq: int) -> bool:
            at = bisect_right(self._events, (seq, FOREVER)) - 1
            return at >= 0 and seq <= self._events[at][1]

        return [
            part if part.upto == FOREVER or is_event(part.upto) else part._replace(upto=part.upto - 1)
            for part in parts
        ]


async def _called(http: httpx.AsyncClient, method: str, path: str, body: Json | None = None) -> int:
    """Its place in the order of events."""
    answer = await http.request(method, path, json=body)
    assert answer.is_success, answer.text
    seq: int = answer.json()["seq"]
    return seq


def _publish(api: Api, table: str, events: list[Json]) -> None:
    if table:
        api.publish(table, events)
    else:
        api.call("POST", "/v1/events", json={"events": events})
