"""A mixed load on a server with brokers, and the check of everything that it received.

Publishers insert, change and delete rows, alone and in transactions of two tables; subscriptions over tables and views are
registered, moved, suspended, resumed and deleted; views come and go; sockets at every process and a webhook follow the same
subscriptions. `check` stops the load and compares: rows with what was acknowledged, answers with PostgreSQL, sockets with
each other. Whatever is killed meanwhile, every part of the load goes on until it is answered.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from prosem.store.embedded import url_of
from prosem.store.postmaster import find
from tests.soak.caller import Caller
from tests.soak.follower import Follower
from tests.soak.queries import (
    KEYS,
    QUERIES,
    REVIEWS,
    TABLES,
    VIEWS,
    WITNESS,
    Oracle,
    draw,
    essence,
    review,
    stock,
)
from tests.support.deployed import Deployed
from tests.support.live import Json
from tests.support.receiver import Receiver
from tests.support.waiting import until_async

WAIT_S = 120.0
TEMPORARY = 20  # subscriptions of the registering task that are there at a time
UNFOLLOWED = 500  # subscriptions of each range query that no socket follows
POSTED = (0, 2, 9)  # the places of queries whose changes a webhook takes too
SECRET = "the-receiver-of-the-soak"


@dataclass
class Pace:
    """Pauses between the actions of each task, in seconds."""

    publish_s: float = 0.2
    move_s: float = 1.0
    register_s: float = 2.0
    view_s: float = 30.0


@dataclass
class Counts:
    requests: int = 0
    events: int = 0
    patches: int = 0
    suspensions: int = 0
    registrations: int = 0
    views: int = 0
    checks: int = 0


@dataclass
class Load:
    deployed: Deployed
    seed: int
    pace: Pace = field(default_factory=Pace)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.counts = Counts()
        self.acknowledgements_s: list[float] = []  # since they were taken the last time
        self.followers: list[Follower] = []
        self._rows: dict[str, dict[int, Json]] = {table: {} for table in TABLES}
        self._params: dict[str, Json] = {}
        self._sql: dict[str, tuple[str, Json | None]] = {}
        self._numbers = itertools.count(1)
        self._going = asyncio.Event()
        self._busy = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Load]:
        """While inside, the load goes on; what fails in it is raised here."""
        self.caller = Caller(self.deployed.server.url)
        with Receiver(SECRET) as self.receiver:
            async with aclosing(self.caller), asyncio.TaskGroup() as group:
                await self._prepare()
                tasks = [group.create_task(follower.run()) for follower in self.followers]
                await self._attached()
                for number in range(2):
                    tasks.append(group.create_task(self._repeat(self.pace.publish_s, self._publish, number)))
                tasks += [
                    group.create_task(self._repeat(self.pace.move_s, self._move)),
                    group.create_task(self._repeat(self.pace.register_s, self._register)),
                    group.create_task(self._repeat(self.pace.view_s, self._define)),
                ]
                self._going.set()
                yield self
                await self.check()
                for task in tasks:
                    task.cancel()

    # -- the beginning -------------------------------------------------------------------------------------------
    async def _prepare(self) -> None:
        call, chance = self.caller.call, self.chance
        for name, (columns, key) in (*TABLES.items(), ("beyond", ({"k": "integer"}, ["k"]))):
            described = [{"name": column, "type": kind} for column, kind in columns.items()]
            await call("POST", "/v1/tables", {"name": name, "columns": described, "primary_key": key})
        for name, sql in VIEWS.items():
            await call("POST", "/v1/views", {"name": name, "sql": sql})
        now = time.monotonic()
        first = [("stocks", stock(key, now, chance)) for key in range(KEYS)]
        first += [("reviews", review(key, chance)) for key in range(REVIEWS)]
        await self._send([(table, {"op": "insert", "row": row}) for table, row in first])
        keys: dict[str, list[str]] = {}
        for sql, notify in (*QUERIES, *QUERIES, (WITNESS, None)):
            id = f"followed-{next(self._numbers)}"
            self._sql[id], self._params[id] = (sql, notify), draw(sql, chance)
            if sql == WITNESS:
                self._params[id] = {"k": 0}
            made = await self._subscribe(id, sql, notify, self._params[id])
            keys[id] = made["fold"].get("key", ())
        for sql, notify in QUERIES[:6]:
            rows = [{"params": draw(sql, chance)} for _ in range(UNFOLLOWED)]
            await call("POST", "/v1/subscriptions/batch", {"sql": sql, "notify": notify, "rows": rows})
        ids = list(keys)
        self._posted = [ids[at] for at in POSTED]
        for id in self._posted:
            await call("POST", "/v1/webhooks", {"url": self.receiver.url, "id": id, "secret": SECRET})
        witness = next(id for id, (sql, _) in self._sql.items() if sql == WITNESS)
        self._keys = keys
        urls = self.deployed.urls
        self.followers = [Follower([url, *_others(url, urls)], keys, witness) for url in urls]

    async def _subscribe(self, id: str, sql: str, notify: Json | None, params: Json) -> Json:
        """With an id of ours: if it is there already, the first attempt had arrived."""
        body = {"id": id, "sql": sql, "params": params} | ({"notify": notify} if notify else {})
        made: Json | None = await self.caller.call("POST", "/v1/subscriptions", body, accept=(409,))
        return made or await self.caller.call("GET", f"/v1/subscriptions/{id}")  # type: ignore[no-any-return]

    async def _attached(self) -> None:
        await until_async(
            lambda: all(s.answer is not None for f in self.followers for s in f.streams.values()), WAIT_S
        )

    async def _repeat(
        self, pause_s: float, action: Callable[..., Coroutine[Any, Any, None]], *given: int
    ) -> None:
        while True:
            while not self._going.is_set():  # it may be cleared again before one that waited for it goes on
                await self._going.wait()
            self._busy += 1
            try:
                await action(*given)
            finally:
                self._busy -= 1
            await asyncio.sleep(pause_s * self.chance.uniform(0.5, 1.5))

    # -- what it does --------------------------------------------------------------------------------------------
    async def _publish(self, parity: int) -> None:
        """Some events of rows that no other publisher changes."""
        chance, now, events = self.chance, time.monotonic(), []
        for key in chance.sample(range(parity, KEYS, 2), chance.randint(1, 8)):
            held = self._rows["stocks"].get(key)
            if held is None:
                change: Json = {"op": "insert", "row": stock(key, now, chance)}
            elif chance.random() < 0.1:
                change = {"op": "delete", "key": {"k": key}}
            elif chance.random() < 0.3:
                change = {"op": "upsert", "row": stock(key, now, chance)}
            else:
                change = {
                    "op": "update",
                    "key": {"k": key},
                    "set": {"per": chance.randrange(1000), "sent": now},
                }
            events.append(("stocks", change))
        if chance.random() < 0.2:
            key = chance.randrange(parity, REVIEWS, 2)
            events.append(("reviews", {"op": "upsert", "row": review(key, chance)}))
        await self._send(events)
        self.acknowledgements_s.append(time.monotonic() - now)

    async def _send(self, events: list[tuple[str, Json]]) -> None:
        """One transaction, applied once however often it is sent."""
        body = {"events": [{"table": table, **change} for table, change in events]}
        await self.caller.call("POST", "/v1/events", body, key=f"request-{next(self._numbers)}")
        for table, change in events:
            (key_name,) = TABLES[table][1]
            rows = self._rows[table]
            if change["op"] == "delete":
                del rows[change["key"][key_name]]
            elif change["op"] == "update":
                rows[change["key"][key_name]] |= change["set"]
            else:
                rows[change["row"][key_name]] = dict(change["row"])
        self.counts.requests += 1
        self.counts.events += len(events)

    async def _move(self) -> None:
        """A subscription gets other parameters, or is suspended for a moment."""
        id = self.chance.choice([id for id, (sql, _) in self._sql.items() if sql != WITNESS])
        where = f"/v1/subscriptions/{id}"
        if self.chance.random() < 0.3:
            await self.caller.call("PATCH", where, {"active": False})
            await asyncio.sleep(self.pace.move_s * self.chance.random())
            await self.caller.call("PATCH", where, {"active": True})
            self.counts.suspensions += 1
            return
        self._params[id] = draw(self._sql[id][0], self.chance)
        await self.caller.call("PATCH", where, {"params": self._params[id]})
        self.counts.patches += 1

    async def _register(self) -> None:
        """A subscription that is read, and deleted when there are too many."""
        number = self.counts.registrations
        sql, notify = self.chance.choice(QUERIES)
        await self._subscribe(f"temporary-{number}", sql, notify, draw(sql, self.chance))
        await self.caller.call("GET", f"/v1/subscriptions/temporary-{number}/result")
        self.counts.registrations += 1
        if number >= TEMPORARY:
            await self.caller.call(
                "DELETE", f"/v1/subscriptions/temporary-{number - TEMPORARY}", accept=(404,)
            )

    async def _define(self) -> None:
        """A view over a view comes and goes, with a subscription on it."""
        name = f"view_{self.counts.views}"
        sql = f"SELECT sector, total FROM sectors WHERE total > {self.chance.randrange(1000)}"
        await self.caller.call("POST", "/v1/views", {"name": name, "sql": sql})
        await self._subscribe(name, f"SELECT COUNT(*) FROM {name}", None, {})
        await self.caller.call("GET", f"/v1/subscriptions/{name}/result")
        await self.caller.call("DELETE", f"/v1/subscriptions/{name}", accept=(404,))
        await self.caller.call("DELETE", f"/v1/views/{name}", accept=(404,))
        self.counts.views += 1

    # -- what must hold ------------------------------------------------------------------------------------------
    async def caught_up(self) -> None:
        """Everything up to now has come to every socket."""
        number = next(self._numbers)
        event = {"op": "upsert", "row": {"k": number % 100}}
        done = await self.caller.call(
            "POST", "/v1/tables/beyond/events", {"events": [event]}, key=f"beyond-{number}"
        )
        await until_async(
            lambda: all(follower.progress >= done["last_seq"] for follower in self.followers),
            WAIT_S,
            lambda: f"{[follower.progress for follower in self.followers]} of {done['last_seq']}",
        )

    async def check(self) -> None:
        self._going.clear()
        await until_async(lambda: self._busy == 0, 2 * WAIT_S)
        await self.caught_up()
        cluster = self.deployed.server.folder / "data"
        postmaster = find(cluster / "cluster")
        assert postmaster is not None
        assert postmaster.port is not None
        oracle = Oracle(url_of(cluster, postmaster.port))
        try:
            for table, (_, (key,)) in TABLES.items():
                assert {row[key]: row for row in oracle.rows(table)} == self._rows[table], table
            for id in self._sql:
                await self._check_answer(id, oracle)
        finally:
            oracle.close()
        assert not self.receiver.faults, self.receiver.faults
        self.counts.checks += 1
        self._going.set()

    async def _check_answer(self, id: str, oracle: Oracle) -> None:
        sql, notify = self._sql[id]
        answer = (await self.caller.call("GET", f"/v1/subscriptions/{id}/result"))["result"]
        expected = essence(answer)
        if notify is None:
            assert expected == oracle.answer(sql, self._params[id]), f"{id}: {sql} {self._params[id]}"
        streams = [follower.streams[id] for follower in self.followers]
        for stream in streams:
            assert stream.answer is not None
            assert essence(stream.answer) == expected, f"{id}: {sql} {self._params[id]}"
            assert stream.changes == streams[0].changes, f"{id}: sockets received different changes"
            assert stream.seqs.digest() == streams[0].seqs.digest(), (
                f"{id}: sockets received different changes"
            )
        if id in self._posted:
            await until_async(
                lambda: essence(self.receiver.answer(id, self._keys[id])) == expected,
                WAIT_S,
                f"webhook of {id}",
            )

    @property
    def changes(self) -> int:
        return sum(stream.changes for follower in self.followers for stream in follower.streams.values())

    @property
    def summary(self) -> str:
        """What was done."""
        counted = ", ".join(f"{value:,} {name}" for name, value in vars(self.counts).items())
        return f"{counted}; {self.changes:,} changes over {len(self.followers)} sockets"


def _others(url: str, urls: list[str]) -> list[str]:
    return [other for other in urls if other != url]
