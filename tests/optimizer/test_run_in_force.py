"""A run that comes into force arranges open joins: under load, seen by no subscriber, and cheaper by count."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import psycopg

from api.server.running import RunningServer
from prosem.engine import commands as c
from prosem.language.parse import parse
from prosem.values.wire import decode, encode
from tests.support.live import in_any_order
from tests.support.running import Listener, running
from tests.support.statistics_runs import column, join, make_run, point
from tests.support.waiting import until_async

TABLES = {"r": ("k", "b", "d"), "s": ("k", "b", "x", "y"), "t": ("k", "d", "c")}
PAIR, CHAIN = "r JOIN s USING (b)", "r JOIN s USING (b) JOIN t USING (d)"
RANGES = [(low, low + 19) for low in range(0, 80, 8)]
BY_COST = "point and column histograms, update rates and join frequencies of the run"


def statement(source: str, low: Any, high: Any) -> str:
    """The same conditions on s in both: the space of the pair is a part of the chain's."""
    where = f"s.x BETWEEN {low} AND {high} AND s.y BETWEEN {low} AND {high}"
    return f"SELECT * FROM {source} WHERE {where}" + (
        f" AND t.c BETWEEN {low} AND {high}" if "t" in source else ""
    )


class World:
    """A server with both joins and a run for each arrangement."""

    def __init__(self, url: str, made: RunningServer) -> None:
        self.url, self.made, self.chance = url, made, random.Random(7)
        self.sources: dict[str, tuple[str, int, int]] = {}

    async def prepare(self) -> World:
        for name, columns in TABLES.items():
            described = [{"name": one, "type": "integer"} for one in columns]
            await self.made.call(c.CreateTable({"name": name, "columns": described, "primary_key": ["k"]}))
        for letter, source in (("p", PAIR), ("q", CHAIN)):
            rows: Any = [(f"{letter}{low}", {"lo": low, "hi": high}) for low, high in RANGES]
            await self.made.call(c.Subscribe(parse(statement(source, ":lo", ":hi")), None, rows, batch=True))
            self.sources |= {f"{letter}{low}": (source, low, high) for low, high in RANGES}
        for name in TABLES:
            await self.made.call(c.Publish(name, [self.event(name, k) for k in range(30)]))
        return self

    def event(self, name: str, k: int | None = None, **changed: int) -> Any:
        limits = {"b": 5, "d": 5}
        row = {one: self.chance.randrange(limits.get(one, 99)) for one in TABLES[name]}
        return {"op": "upsert", "row": row | {"k": self.chance.randrange(30) if k is None else k} | changed}

    async def load(self, done: asyncio.Event) -> int:
        last = 0
        while not done.is_set():
            name = self.chance.choice("rsst")
            last = (await self.made.call(c.Publish(name, [self.event(name) for _ in range(3)])))["last_seq"]
        return last

    # -- runs ----------------------------------------------------------------------------------------------------
    def run(self, moving: str, partner: str) -> int:
        """One that has found that this column of s changes most, and that events seldom concern this neighbour of r."""
        numbers = {one.name: one.id for one in self.made.view.tables().values()}
        every = list(range(99))
        columns = [
            column(numbers["s"], at, name, "integer", every, 50, 900 if name == moving else 0)
            for at, name in enumerate("bxy", 1)
        ] + [column(numbers["t"], at, name, "integer", every, 50, 0) for at, name in enumerate("dc", 1)]
        ends = [[float(one[at]) for one in RANGES] for at in (0, 1)]
        points = [
            point(group, f"{name} {op}", bounds, len(RANGES))
            for group in self.made.view.groups
            for name in ("s.x", "s.y", "t.c")
            for op, bounds in zip((">=", "<="), ends, strict=True)
        ]
        r, s, t = (numbers[name] for name in "rst")
        shares = {s: 0.05, t: 0.9} if partner == "s" else {s: 0.9, t: 0.05}
        joins = [
            join((r, key), (other, key), (0.05, shares[other]), (12.0, 2.0))
            for key, other in (("b", s), ("d", t))
        ]
        return make_run(self.url, columns, points, joins)

    async def taken(self, number: int) -> None:
        await until_async(lambda: (self.made.state.statistics or {}).get("run") == number)
        await self.made.call(c.Inspect(lambda state: None))  # what was taken is committed

    def arranged(self) -> dict[str, Any]:
        """By the tables of each join."""
        state = self.made.state
        return {
            "".join(name[-1] for name in group.tables): state.spaces[group.space].arrangement()  # type: ignore[attr-defined]
            for group in state.groups.values()
        }

    # -- answers -------------------------------------------------------------------------------------------------
    def expected(self, id: str) -> Any:
        """PostgreSQL's answer."""
        source, low, high = self.sources[id]
        names = [name for name in TABLES if name in source.split()]
        shown = ", ".join(f"to_jsonb({name})" for name in names)
        with psycopg.connect(self.url, options="-c search_path=tenant_default") as connection:
            found = connection.execute(
                statement(source, low, high).replace("*", shown, 1).encode()
            ).fetchall()
        return sorted(json.dumps(dict(zip(names, row, strict=True)), sort_keys=True) for row in found)

    async def check(self, listener: Listener, last: int) -> None:
        await listener.progress(last)
        for id, folded in listener.answers.items():
            expected = self.expected(id)
            assert in_any_order(folded) == expected, id
            answer = decode(encode((await self.made.call(c.Result(id)))["result"]))
            assert in_any_order(answer) == expected, id


async def test_a_run_arranges_open_joins_under_load(url: str) -> None:
    """Two runs that want opposite arrangements alternate: streams get all changes, none twice, and one snapshot."""
    async with running(url, measure_percent=0) as made:
        world = await World(url, made).prepare()
        listener = await Listener(made, *world.sources).attached()
        start = {
            str(item.id): (item.seq, decode(item.body)) for item in listener.seen if item.kind == "snapshot"
        }
        done = asyncio.Event()
        publishing = asyncio.create_task(world.load(done))
        shown = world.arranged()
        assert {one["routing"]["statistic"] for one in shown.values()} == {"position"}
        for moving, partner in (("x", "t"), ("y", "s"), ("x", "t"), ("y", "s")):
            await world.taken(world.run(moving, partner))
            shown = world.arranged()
            stays = "xy".replace(moving, "")
            assert shown["rs"]["routing"] == {"columns": {"s": stays}, "statistic": BY_COST}
            assert shown["rst"]["routing"] == {"columns": {"s": stays, "t": "c"}, "statistic": BY_COST}
            assert shown["rst"]["partners"]["tables"] == {"r": partner, "s": "r", "t": "r"}
            seen = len(listener.seen)
            await until_async(lambda seen=seen: len(listener.seen) > seen + 20)  # type: ignore[misc]
        done.set()
        last = await publishing
        await world.check(listener, last)
        assert made.metrics.rearranged >= 8
        assert made.metrics.lagging == 0
        for id, (
            seq,
            answer,
        ) in start.items():  # a subscriber that returns gets the same changes from the log
            returning = Returning(made, id, seq, answer)
            await returning.progress(last)
            assert returning.seqs[id] == [seq for seq in listener.seqs[id] if seq <= last]
            assert in_any_order(returning.answers[id]) == in_any_order(listener.answers[id])
            await returning.close()
        await listener.close()


class Returning(Listener):
    """One that has an answer as of a seq."""

    def __init__(self, made: RunningServer, id: str, seq: int, answer: Any) -> None:
        super().__init__(made)
        self.seqs[id], self.answers[id] = [], answer
        self.subscriber.attach(id, seq)


async def test_a_run_that_comes_into_force_saves_messages_and_bytes(url: str) -> None:
    """The same events with the same rows before and after, of which each changes the column that found subscriptions."""
    async with running(url, plan="ref-sj-clu+", measure_percent=0) as made:
        world = await World(url, made).prepare()
        listener = await Listener(made, *world.sources).attached()
        rows = [world.event("s", k)["row"] for k in range(30)]
        events = [
            {"op": "upsert", "row": row | {"x": world.chance.randrange(99)}} for _ in range(8) for row in rows
        ] + [{"op": "upsert", "row": row} for row in rows]

        async def spent() -> tuple[int, int, int]:
            heard = len(listener.seen)
            first = (await made.call(c.Publish("s", events)))["first_seq"]
            await world.check(listener, first + len(events) - 1)
            decided = [one for one in made.state.chooser.decisions.last(10_000) if one.seq >= first]
            changes = sum(item.kind == "change" for item in listener.seen[heard:])
            return sum(one.messages for one in decided), sum(one.size_bytes for one in decided), changes

        await spent()
        before = await spent()
        await world.taken(world.run("x", "t"))
        after = await spent()
        assert after[2] == before[2], "subscribers hear the same"
        assert after[0] < 0.7 * before[0]
        assert after[1] < 0.7 * before[1]
        await listener.close()
