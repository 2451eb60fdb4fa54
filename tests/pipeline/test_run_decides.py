"""The whole loop: the job computes a run from what a server has stored, and that server arranges joins by it."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from api.server.running import RunningServer
from pipeline.statistics.database import connect, take_lock
from pipeline.statistics.job import Job, Options
from pipeline.statistics.progress import Steps
from pipeline.statistics.session import Session
from prosem.engine import commands as c
from prosem.language.parse import parse
from tests.support.live import in_any_order
from tests.support.running import Listener, running
from tests.support.waiting import until_async

INTEGERS, TEXTS, KEYS = 99, [f"{first}{second}" for first in "abcdefghij" for second in "aeiou"], 5
TABLES = {
    "r": {"k": "integer", "b": "integer", "d": "integer"},
    "s": {"k": "integer", "b": "integer", "x": "integer", "y": "integer"},
    "t": {"k": "integer", "d": "integer", "c": "integer"},
    "v": {"k": "integer", "b": "integer", "name": "text", "z": "integer"},
}
ROWS = {"r": 60, "s": 20, "t": 10, "v": 20}
CHAIN = (
    "SELECT * FROM r JOIN s USING (b) JOIN t USING (d) WHERE s.x BETWEEN :low AND :high AND s.y BETWEEN :low AND :high"
    " AND t.c BETWEEN :low AND :high"
)
TEXT = "SELECT * FROM r JOIN v USING (b) WHERE v.name BETWEEN :first AND :last AND v.z BETWEEN :low AND :high"
SELECTED = "point and column histograms, update rates and join frequencies of the run"


class Spent(NamedTuple):
    """Of the same events: messages, their bytes, and what subscribers received."""

    messages: int
    size_bytes: int
    changes: int


class World:
    """A server with the joins, their subscriptions, and rows of which only some columns of two tables change."""

    def __init__(self, url: str, made: RunningServer) -> None:
        self.url, self.made, self.chance = url, made, random.Random(5)
        self.params: dict[str, tuple[str, dict[str, Any]]] = {}

    async def prepare(self) -> World:
        for name, columns in TABLES.items():
            described = [{"name": one, "type": kind} for one, kind in columns.items()]
            await self.made.call(c.CreateTable({"name": name, "columns": described, "primary_key": ["k"]}))
        for at in range(12):
            low, first = 6 * at, 3 * at
            numbers = {"low": low, "high": low + 19}
            self.params[f"chain{at}"] = CHAIN, numbers
            self.params[f"text{at}"] = TEXT, {"first": TEXTS[first], "last": TEXTS[first + 12], **numbers}
        for sql in (CHAIN, TEXT):
            rows: Any = [(id, params) for id, (text, params) in self.params.items() if text == sql]
            await self.made.call(c.Subscribe(parse(sql), None, rows, batch=True))
        self.rows = {name: [self.row(name, k) for k in range(count)] for name, count in ROWS.items()}
        for name, rows in self.rows.items():
            await self.publish(name, rows)
        return self

    def row(self, name: str, k: int) -> dict[str, Any]:
        made: dict[str, Any] = {"k": k}
        for column, kind in list(TABLES[name].items())[1:]:
            limit = KEYS if column in "bd" else INTEGERS
            made[column] = self.chance.choice(TEXTS) if kind == "text" else self.chance.randrange(limit)
        return made

    async def publish(self, name: str, rows: list[dict[str, Any]]) -> dict[str, int]:
        found: dict[str, int] = await self.made.call(
            c.Publish(name, [{"op": "upsert", "row": row} for row in rows])
        )
        return found

    def changes(self, name: str, column: str, keys: int = 0) -> list[dict[str, Any]]:
        """Each row changes in a column 9 times, the first `keys` of them also in its join key; then all are as before."""
        rows, made = self.rows[name], []
        for turn in range(9):
            for row in rows:
                fresh = self.row(name, row["k"])
                made.append(row | {column: fresh[column]} | ({"b": fresh["b"]} if turn < keys else {}))
        return made + rows

    async def spent(self, listener: Listener, name: str, rows: list[dict[str, Any]]) -> Spent:
        heard = len(listener.seen)
        reply = await self.publish(name, rows)
        await listener.progress(reply["last_seq"])
        decided = self.made.state.chooser.decisions.last(100_000)
        some = [one for one in decided if one.seq >= reply["first_seq"]]
        changes = sum(item.kind == "change" for item in listener.seen[heard:])
        return Spent(sum(one.messages for one in some), sum(one.size_bytes for one in some), changes)

    async def arranged(self, name: str) -> Any:
        """What EXPLAIN says of the join that has this table."""
        row = {"k": 1_000, "b": 1, **{"s": {"x": 40, "y": 40}, "v": {"name": TEXTS[20], "z": 40}}[name]}
        (group,) = (await self.made.call(c.Explain(name, {"op": "upsert", "row": row})))["groups"]
        return group["arrangement"]

    def compute(self, session: Session, archive: Path) -> int:
        options = Options(self.url, str(archive), quiet=True)
        with connect(self.url) as connection:
            take_lock(connection)
            return Job(session, options, Steps(quiet=True), connection).run().run

    def expected(self, id: str) -> Any:
        """PostgreSQL's answer."""
        sql, params = self.params[id]
        names = [name for name in TABLES if name in sql.split()]
        text = sql.replace("*", ", ".join(f"to_jsonb({name})" for name in names), 1)
        for name in params:
            text = text.replace(f":{name}", f"%({name})s")
        with psycopg.connect(self.url, options="-c search_path=tenant_default") as connection:
            found = connection.execute(text.encode(), params).fetchall()
        return sorted(json.dumps(dict(zip(names, row, strict=True)), sort_keys=True) for row in found)


@pytest.mark.slow
async def test_a_run_of_the_job_flips_routing_columns_and_a_partner_of_the_server_it_has_read(
    url: str, spark: Session, tmp_path: Path
) -> None:
    """Events change `x` of s and the text of v, first by position; most of them concern s, the first neighbour of r."""
    async with running(url, plan="ref-sj-clu+", measure_percent=0) as made:
        world = await World(url, made).prepare()
        listener = await Listener(made, *world.params).attached()
        events = {"s": world.changes("s", "x", 5), "v": world.changes("v", "name")}
        before = {name: await world.spent(listener, name, rows) for name, rows in events.items()}
        chain, text = await world.arranged("s"), await world.arranged("v")
        assert chain["routing"] == {"columns": {"s": "x", "t": "c"}, "statistic": "position"}
        assert chain["partners"]["tables"] == {"r": "s", "s": "r", "t": "r"}
        assert text["routing"] == {"columns": {"v": "name"}, "statistic": "position"}

        number = await asyncio.to_thread(world.compute, spark, tmp_path / "archive")
        await until_async(lambda: (made.state.statistics or {}).get("run") == number)
        chain, text = await world.arranged("s"), await world.arranged("v")
        assert chain["routing"] == {"columns": {"s": "y", "t": "c"}, "statistic": SELECTED}
        assert chain["partners"]["tables"] == {"r": "t", "s": "r", "t": "r"}
        assert "join frequencies and event shares of the run" in chain["partners"]["statistic"]
        assert text["routing"] == {"columns": {"v": "z"}, "statistic": SELECTED}

        after = {name: await world.spent(listener, name, rows) for name, rows in events.items()}
        for name in events:
            assert after[name].changes == before[name].changes, "subscribers receive the same"
            assert after[name].messages < 0.5 * before[name].messages
            assert after[name].size_bytes < 0.5 * before[name].size_bytes
        for id, answer in listener.answers.items():
            assert in_any_order(answer) == world.expected(id), id
        await listener.close()
