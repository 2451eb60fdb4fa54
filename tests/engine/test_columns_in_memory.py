"""`--columns-in-memory used` on a real PostgreSQL: what is answered, sent and stored is what it is with all columns."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import psycopg

from api.server.running import RunningServer
from prosem.engine import commands as c
from prosem.language.parse import parse
from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres
from prosem.values.wire import decode
from tests.engine.test_engine_refusals import refusing
from tests.support.database import empty_database
from tests.support.every_type import EVERY_TYPE, OTHER
from tests.support.live import Api, insert, update
from tests.support.processes import ServerProcess
from tests.support.running import TABLE, Listener, again, outcome, plain, running, settled

WIDE = {
    **TABLE,
    "columns": [
        *TABLE["columns"],  # type: ignore[misc]
        *(
            {"name": name, "type": kind}
            for name, kind in {
                "a": "text",
                "n": "numeric(9,3)",
                "d": "double precision",
                "m": "timestamptz",
                "b": "bytea",
                "j": "jsonb",
                "l": "bigint",
            }.items()
        ),
    ],
}
CELLS: dict[str, list[Any]] = {
    "x": list(range(60)),
    "a": ["", "p", "q" * 3_000, None],
    "n": ["1.500", -2, None],
    "d": [0.5, -0.0, None],
    "m": ["2026-01-01T00:00:00Z", None],
    "b": ["AAE=", None],
    "j": [{"z": 1, "a": [None, True]}, None],
    "l": [2**60, None],
}


def narrow(sql: str, notify: Any) -> bool:
    return "JOIN" not in sql and not (notify and "MAX" in sql)


def event(chance: random.Random) -> dict[str, Any]:
    """Mostly updates of some columns; no two rows have one y."""
    k = chance.randrange(40)
    cells = {name: chance.choice(some) for name, some in CELLS.items() if chance.random() < 0.3}
    if chance.random() < 0.5:
        cells["y"] = 40 * chance.randrange(10) + k
    op = chance.choice(["insert", "upsert", "update", "update", "update", "delete"])
    if op == "update":
        return {"op": op, "key": {"k": k}, "set": cells}
    return {"op": op, "key": {"k": k}} if op == "delete" else {"op": op, "row": {"k": k, **cells}}


async def subscribe_all(made: RunningServer, is_narrow: bool) -> list[str]:
    asked = [one for one in EVERY_TYPE if narrow(one[0], one[2]) is is_narrow]
    return [
        (await made.call(c.Subscribe(parse(sql), notify, [(None, params)])))["id"]
        for sql, params, notify in asked
    ]


def alike(value: Any) -> Any:
    """Lists of an answer have no order, nor have objects: PostgreSQL orders those of a jsonb."""
    if isinstance(value, dict):
        return {name: alike(value[name]) for name in sorted(value)}
    return sorted(map(repr, map(alike, value))) if isinstance(value, list) else value


async def batch(made: RunningServer, chance: random.Random, size: int = 12) -> list[Any]:
    """Requests that wait together, of several events each."""
    commands: list[c.Command] = [
        c.Publish("t", [event(chance) for _ in range(chance.randrange(1, 4))]) for _ in range(size)
    ]
    commands.insert(
        size // 2, c.Transact([{"table": "t", "op": "update", "key": {"k": 3}, "set": {"k": 77}}])
    )
    commands.append(c.Explain("t", event(chance)))
    waiting = [made.submit(command) for command in commands[:-1]]
    found = [plain(await settled(asyncio.wrap_future(one))) for one in waiting]
    explained = await outcome(made, commands[-1])
    return [
        *found,
        sorted(group["group"] for group in explained["groups"]) if isinstance(explained, dict) else 0,
    ]


async def story(url: str, setting: str) -> dict[str, Any]:
    """All that is seen from outside, of a server with this setting."""
    chance, said = random.Random(5), list[Any]()
    async with running(url, columns_in_memory=setting) as made:
        for table in (WIDE, OTHER):
            await made.call(c.CreateTable(table))
        await made.call(c.Publish("t", [insert(k=k, x=k, y=k, a=f"row {k}", l=k) for k in range(30)]))
        await made.call(c.Publish("u", [insert(k=k, x=k, z=k) for k in range(20)]))
        listener = await Listener(made, *await subscribe_all(made, True)).attached()
        said.append(await batch(made, chance))
        if setting == "used":
            assert made.view.columns_in_memory == {1: ("k", "x", "y"), 2: ("k",)}
        with refusing(url, "tenant_default.t", "NEW.k % 5 = 2"):
            said += [await batch(made, chance) for _ in range(4)]
        late = await made.call(c.Subscribe(parse("SELECT SUM(n) FROM t WHERE l > 3"), None, [("late", {})]))
        said += [plain(late), await batch(made, chance)]
        others = await Listener(made, *await subscribe_all(made, False)).attached()
        said.append(await batch(made, chance))
        last = await made.call(c.Publish("t", [{"op": "upsert", "row": {"k": 1, "x": 1, "y": 1}}]))
        streams = []
        for one in (listener, others):
            await one.progress(last["last_seq"])
            streams.append(
                [(item.kind, item.id, item.seq, alike(decode(item.body or b"0"))) for item in one.seen]
            )
            await one.close()
        said += sorted((one for some in streams for one in some if one[0] in ("snapshot", "change")), key=str)
        ids = [*listener.answers, *others.answers, "late"]
        undone = made.metrics.undone
    answers = []
    for again_with in (setting, "used", "all"):
        async with running(url, columns_in_memory=again_with) as made:
            answers.append({id: alike(plain((await made.call(c.Result(id)))["result"])) for id in ids})
    assert answers[0] == answers[1] == answers[2]
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT * FROM tenant_default.t ORDER BY k").fetchall()
        log = connection.execute("SELECT seq, op, old::jsonb, new::jsonb FROM prosem.event_log ORDER BY seq")
        return {
            "said": said, "answers": answers, "rows": rows, "log": log.fetchall(), "undone": [undone > 0]
        }  # fmt: skip


async def test_columns_in_postgresql_make_no_difference(url: str, postgres: EmbeddedPostgres) -> None:
    other = empty_database(postgres)
    schema.migrate(other)
    expected, found = await story(url, "all"), await story(other, "used")
    assert found.keys() == expected.keys()
    for name in expected:
        differing = [pair for pair in zip(found[name], expected[name], strict=True) if pair[0] != pair[1]]
        assert not differing, (name, differing[0])
    assert found["undone"] == [True]


async def test_bytes_of_unused_columns_are_not_held(url: str) -> None:
    sizes = {}
    for setting in ("all", "used"):
        async with running(url, columns_in_memory=setting) as made:
            if setting == "all":
                await made.call(c.CreateTable(WIDE))
                rows = [insert(k=k, x=k, y=k, a="text", d=0.5, l=k) for k in range(500)]
                await made.call(c.Publish("t", rows))
                await made.call(c.Subscribe(parse("SELECT MIN(y) FROM t WHERE x > 3"), None, [("least", {})]))
            held: Any = made.state.rows[1]
            assert len(held) == 500
            sizes[setting] = held.nbytes
    assert sizes["used"] <= sizes["all"] - 500 * (3 * 4 + 6 * 8 - 3 * 4), sizes


async def test_postgresql_that_ends_sessions_delays_events_alone(url: str) -> None:
    async with running(url, columns_in_memory="used") as made:
        await made.call(c.CreateTable(WIDE))
        await made.call(c.Publish("t", [insert(k=1, x=1, y=1, a="kept")]))
        await made.call(c.Publish("t", [update(1, l=5)]))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'prosem engine'"
            )
        await again(made, c.Publish("t", [update(1, x=7)]))
        made.writer.fail_after = 0
        assert (await outcome(made, c.Publish("t", [update(1, l=6)]))).code == "commit-failed"
        await again(made, c.Publish("t", [update(1, d=2.5)]))
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT k, x, y, a, d, l FROM tenant_default.t").fetchall()
    assert found == [(1, 7, 1, "kept", 2.5, 5)]


def test_a_killed_server_goes_on_with_the_columns_it_needs() -> None:
    made = ServerProcess("--columns-in-memory", "used")
    try:
        with Api(made.start()) as api:
            columns = {one["name"]: one["type"] for one in WIDE["columns"]}  # type: ignore[index]
            table = api.table(columns, ["k"])
            api.publish(table, [insert(k=k, x=k, y=9 - k, a=f"row {k}", l=k) for k in range(5)])
            id = api.subscribe(f"SELECT MIN(y) FROM {table} WHERE x < 4")["id"]
            rows = api.subscribe(f"SELECT k, a FROM {table} WHERE l > 1")["id"]
            assert api.call("GET", "/v1/status")["columns_in_memory"] == {table: ["k", "x", "y", "l"]}
            api.publish(table, [update(3, a="changed"), update(2, y=0)])
        made.kill()
        with Api(made.start()) as api:
            assert api.call("GET", "/v1/status")["columns_in_memory"] == {table: ["k", "x", "y", "l"]}
            assert api.result(id)["result"]["row"]["a"] == "row 2"
            api.publish(table, [{"op": "delete", "key": {"k": 2}}, update(4, l=0)])
            assert api.result(id)["result"]["value"] == 6
            assert api.result(id)["result"]["row"]["a"] == "changed"
            assert api.result(rows)["result"] == {"rows": [{"k": 3, "a": "changed"}]}
            assert api.metric("prosem_rows_read_total") >= 2
    finally:
        made.remove()


async def test_the_setting_is_all_or_used(url: str) -> None:
    made = ServerProcess("--columns-in-memory", "some", "--database", url)
    made.start(wait=False)
    assert made.process is not None
    assert made.process.wait(60) != 0
    assert "--columns-in-memory is all or used, not 'some'" in made.log
