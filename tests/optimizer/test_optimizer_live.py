"""The optimizer in a running server: what survives a restart, what a statistics run changes, and what is written down."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import threading
from typing import Any

import httpx
import psycopg
import pytest

from api.http.app import make_app
from api.server.running import RunningServer
from optimizer.cost import Weights
from prosem.engine import commands as c
from prosem.language.parse import parse
from prosem.store.log import Writer, WriteSet
from prosem.store.retention import Retention
from prosem.types.join.space import JoinSpace
from prosem.values.wire import decode, encode
from tests.support.command_line import run
from tests.support.live import Api, Refused, in_any_order, upsert
from tests.support.running import LOWEST, TABLE, WAIT_S, Listener, publish, running, served
from tests.support.statistics_runs import column, make_run, point
from tests.support.waiting import until_async

EVENT = {"op": "upsert", "row": {"k": 1, "x": 50, "y": -1}}
DEAR, CHEAP = (500.0, 500.0, 9_000.0, 0.0, 5.0), (1.0, 1.0, 10.0, 0.0, 5.0)


async def prepared(made: RunningServer) -> None:
    await made.call(c.CreateTable(TABLE))
    rows: Any = [(f"s{at}", {"lo": at, "hi": at + 20}) for at in range(0, 80, 4)]
    await made.call(c.Subscribe(LOWEST, None, rows, batch=True))


async def explained(made: RunningServer) -> Any:
    (group,) = (await made.call(c.Explain("t", EVENT)))["groups"]
    return group


async def sources(made: RunningServer) -> set[str]:
    """What the estimates of the plans come from."""
    return {one["source"] for one in (await explained(made))["plans"]}


def a_run(
    url: str,
    descriptor: tuple[float, ...],
    costs: dict[str, tuple[float, ...]],
    subscriptions: int = 20,
    shares: tuple[float, float] = (0.5, 0.5),
) -> int:
    """What the statistics job does at its end: a run, active and announced, in one transaction."""
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE prosem.statistics_run SET active = false WHERE active")
        row = connection.execute(
            "INSERT INTO prosem.statistics_run (job, state, rows, active)"
            " VALUES ('test', 'complete', '{\"training\": 2}', true) RETURNING id"
        ).fetchone()
        assert row is not None
        for plan, metrics in costs.items():
            connection.execute(
                "INSERT INTO prosem.statistics_training VALUES (%s, 1, %s, %s, %s, %s, %s, %s, %s)",
                [row[0], plan, list(map(float, descriptor)), *metrics],
            )
        connection.execute(
            "INSERT INTO prosem.statistics_point VALUES (%s, 1, 'x >=', %s, 20, NULL, 0)",
            [row[0], subscriptions],
        )
        connection.execute(
            "INSERT INTO prosem.statistics_join VALUES (%s, 1, '{k}', 2, '{k}', %s, %s, 1, 1, 9, 9, 1, 1)",
            [row[0], *shares],
        )
        connection.execute("SELECT pg_notify('prosem_statistics', %s)", [str(row[0])])
    return int(row[0])


def use_run(url: str, number: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE prosem.statistics_run SET active = false WHERE active")
        connection.execute("UPDATE prosem.statistics_run SET active = true WHERE id = %s", [number])
        connection.execute("SELECT pg_notify('prosem_statistics', %s)", [str(number)])


async def in_force(made: RunningServer, number: int) -> None:
    await until_async(lambda: (made.state.statistics or {}).get("run") == number)


async def test_weights_survive_a_restart(url: str) -> None:
    async with running(url) as made:
        assert made.state.chooser.weights == Weights()
        await made.call(c.Weigh({"bandwidth": 7.5, "server_time": 0.0}))
        assert made.state.chooser.weights == Weights(bandwidth=7.5, server_time=0.0)
    async with running(url) as made:
        assert made.state.chooser.weights == Weights(bandwidth=7.5, server_time=0.0)


async def test_two_changes_of_different_weights_at_once_both_take_effect(url: str) -> None:
    """Both requests wait in the engine's order before either is carried out."""
    given = {"bandwidth": 7.5}, {"server_time": 0.25}
    async with served(url) as lifetime:
        made, transport = lifetime.running, httpx.ASGITransport(make_app(lifetime))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            is_held, go_on = threading.Event(), threading.Event()
            made.submit(c.Inspect(lambda state: (is_held.set(), go_on.wait(WAIT_S))))
            await asyncio.to_thread(is_held.wait, WAIT_S)
            puts = [asyncio.create_task(http.put("/v1/optimizer/weights", json=one)) for one in given]
            try:
                await until_async(lambda: made.engine.backlog >= len(given))
            finally:
                go_on.set()
            replies = [(await put).json() for put in puts]
            shown = (await http.get("/v1/optimizer/weights")).json()
        assert shown == Weights(bandwidth=7.5, server_time=0.25)._asdict()
        assert [reply | one for reply, one in zip(replies, given, strict=True)] == replies
    async with running(url) as made:
        assert made.state.chooser.weights._asdict() == shown


async def test_a_run_is_taken_over_under_load_and_switched_back(url: str) -> None:
    """Runs that want opposite plans alternate while events flow: no change is wrong, missing or doubled."""
    async with running(url, measure_percent=0) as made:
        await prepared(made)
        await made.call(publish(*[upsert(k=k, x=k, y=50 + k % 7) for k in range(0, 100, 3)]))
        seen: list[tuple[float, ...]] = []
        await made.call(c.Inspect(lambda state: seen.append(descriptor_of(state))))
        one = a_run(url, seen[0], {"reformulate": DEAR, "enumerate": CHEAP})
        await in_force(made, one)
        assert (await explained(made))["chosen"] == "enumerate"
        listener = await Listener(made, *[f"s{at}" for at in range(0, 80, 4)]).attached()
        two = a_run(url, seen[0], {"reformulate": CHEAP, "enumerate": DEAR})
        await in_force(made, two)
        assert (await explained(made))["chosen"] == "reformulate"
        chance, done = random.Random(4), asyncio.Event()

        async def load() -> int:
            last = 0
            while not done.is_set():
                events = [
                    upsert(k=chance.randrange(2, 100), x=chance.randrange(100), y=chance.randrange(100))
                    for _ in range(5)
                ]
                last = (await made.call(publish(*events)))["last_seq"]
            return last

        publishing = asyncio.create_task(load())
        for number in itertools.islice(itertools.cycle((one, two)), 8):
            use_run(url, number)
            await in_force(made, number)
            assert (await explained(made))["chosen"] == ("enumerate" if number == one else "reformulate")
        done.set()
        await listener.progress(await publishing)
        for id, folded in listener.answers.items():
            answer = await made.call(c.Result(id))
            assert folded["value"] == answer["result"]["value"], id
        plans = {decision.plan for decision in made.state.chooser.decisions.last(1000)}
        assert plans == {"reformulate", "enumerate"}
        await listener.close()
    async with running(url) as made:
        assert (made.state.statistics or {})["run"] == two, "a restart takes the active run"


async def test_what_was_measured_when_a_group_was_another_is_not_used(url: str) -> None:
    """A run that knows of five times as many subscriptions is stale: decisions fall back to the histogram."""
    async with running(url, measure_percent=0) as made:
        await prepared(made)
        seen: list[tuple[float, ...]] = []
        await made.call(c.Inspect(lambda state: seen.append(descriptor_of(state))))
        fresh = a_run(url, seen[0], {"reformulate": DEAR, "enumerate": DEAR}, 20, (0.9, 0.1))
        await in_force(made, fresh)
        assert await sources(made) == {"measured"}
        assert made.state.group_store.figures.event_shares == {1: 0.9, 2: 0.1}
        stale = a_run(url, seen[0], {"reformulate": DEAR, "enumerate": DEAR}, 101)
        await in_force(made, stale)
        assert await sources(made) == {"histogram"}
    async with running(url) as made:
        assert made.state.group_store.figures.event_shares == {1: 0.5, 2: 0.5}, (
            "known before spaces are opened"
        )


def descriptor_of(state: Any) -> tuple[float, ...]:
    """Of the event that the tests explain."""
    found: list[tuple[float, ...]] = []
    consider = state.chooser.consider
    state.chooser.consider = lambda of, description: (
        found.append(of.descriptor(description)),
        consider(of, description),
    )[1]
    state.execute(c.Explain("t", EVENT))
    state.chooser.consider = consider
    return found[0]


@pytest.mark.parametrize("plan", ["auto", "random:3", "enumerate"])
async def test_decisions_agree_with_the_outbox(url: str, plan: str) -> None:
    async with running(url, plan=plan) as made:
        await prepared(made)
        chance = random.Random(1)
        for _ in range(20):
            await made.call(
                publish(
                    *[
                        upsert(k=chance.randrange(30), x=chance.randrange(100), y=chance.randrange(50))
                        for _ in range(10)
                    ]
                )
            )
        decisions = made.state.chooser.decisions.last(1000)
    with psycopg.connect(url) as connection:
        stored: dict[tuple[int, int], tuple[str, int]] = {
            (seq, space): (name, count)
            for seq, space, name, count in connection.execute(
                "SELECT seq, space, min(plan), count(*) FROM prosem.outbox GROUP BY seq, space"
                " HAVING min(plan) = max(plan)"
            )
        }
        total = connection.execute("SELECT count(DISTINCT (seq, space)) FROM prosem.outbox").fetchone()
        measured = connection.execute(
            "SELECT plan, server_time_us, send_us, bytes_out, affected, cardinality(descriptor), group_id"
            " FROM prosem.plan_measurement"
        ).fetchall()
    assert total == (len(stored),)
    made_messages = {(d.seq, d.space): (d.plan, d.messages) for d in decisions if d.messages}
    assert made_messages == stored
    assert {row[0] for row in measured} == {"reformulate", "enumerate"}, "every plan is measured on a sample"
    for _, time, send, size, affected, length, group in measured:
        assert time > 0
        assert (send >= 0, size >= 0, affected >= 0, length, group) == (True, True, True, 7, 1)


async def test_measurements_survive_a_restart(url: str) -> None:
    async with running(url, measure_percent=100_000) as made:  # so every event is measured
        await prepared(made)
        for y in range(100, 0, -1):
            await made.call(publish(upsert(k=1, x=50, y=y)))
        before = made.state.chooser.entries(1)
        assert before["reformulate"] > 50
    async with running(url) as made:
        assert made.state.chooser.entries(1) == before
        assert await sources(made) == {"measured"}


async def test_what_was_measured_since_a_run_survives_a_restart(url: str) -> None:
    async with running(url, measure_percent=100_000) as made:
        await prepared(made)
        for y in range(60, 0, -1):
            await made.call(publish(upsert(k=1, x=50, y=y)))
        before, upto = made.state.chooser.entries(1), made.view.seq - 20
    with psycopg.connect(url) as connection:
        since: dict[str, int] = dict(
            connection.execute(
                "SELECT plan, count(*) FROM prosem.plan_measurement WHERE seq > %s GROUP BY plan", [upto]
            ).fetchall()
        )
    assert 5 < since["reformulate"] < before["reformulate"]
    trained = (1, 0, "reformulate", [1.0] * 7, *CHEAP)
    make_run(url, training=[trained], upto=upto)
    async with running(url) as made:
        assert made.state.chooser.entries(1) == since | {"reformulate": 1 + since["reformulate"]}
    make_run(url, points=[point(1, "x >=", [1], 81)], training=[trained], upto=upto)
    async with running(url) as made:
        assert made.state.chooser.entries(1) == since, (
            "of a stale group what was measured since is all there is"
        )


async def test_what_was_measured_of_the_parts_of_a_join_survives_a_restart(url: str) -> None:
    """Parts have other numbers then: from the server's own measurements, and from a run."""
    sql = "SELECT * FROM r JOIN s USING (b) JOIN u USING (d) WHERE s.x < :x AND u.y < :y"

    async def measured(made: RunningServer) -> dict[str, dict[str, int]]:
        """By the tables of each part."""
        state = made.state
        (group,) = state.groups.values()
        numbers = [state.group_store.measured_spaces()[group.id, part] for part in (1, 2)]
        names = ["".join(table.name for table in state.spaces[at].model.shape.tables) for at in numbers]  # type: ignore[attr-defined]
        return {name: state.chooser.entries(at) for name, at in zip(names, numbers, strict=True)}

    async with running(url, measure_percent=100_000) as made:
        for name, columns in (("r", "bd"), ("s", "bx"), ("u", "dy")):
            described = [{"name": column, "type": "integer"} for column in f"k{columns}"]
            await made.call(c.CreateTable({"name": name, "columns": described, "primary_key": ["k"]}))
        rows: Any = [(f"j{at}", {"x": 10 * at, "y": 10 * at}) for at in range(9)]
        await made.call(c.Subscribe(parse(sql), None, rows, batch=True))
        for at, name in enumerate(["s", "u", "r"] * 15):
            columns = {"r": "bd", "s": "bx", "u": "dy"}[name]
            row = {"k": at, columns[0]: 1, columns[1]: 1 if name == "r" else at}
            await made.call(c.Publish(name, [{"op": "insert", "row": row}]))
        before = await measured(made)
        (group,) = made.state.groups
    assert all(sum(entries.values()) > 10 for entries in before.values())
    async with running(url) as made:
        assert await measured(made) == before
    training = [(group, part, "enum-sj", [1.0] * 6, *CHEAP) for part in (1, 2, 2)]
    make_run(url, training=training)
    async with running(url) as made:
        assert await measured(made) == {"rs": {"enum-sj": 1}, "ru": {"enum-sj": 2}}


async def test_what_was_measured_of_a_part_outlives_the_group_it_was_measured_for(url: str) -> None:
    """Two joins have r and s in common; the first one ends, and the part goes on with the second one."""
    rs = "SELECT * FROM r JOIN s USING (b) JOIN {} USING (d) WHERE s.x < :x AND {}.y < :y"

    def entries(made: RunningServer) -> dict[str, int]:
        """Of the part of r and s."""
        spaces = made.state.spaces.items()
        (found,) = [
            number
            for number, space in spaces
            if isinstance(space, JoinSpace) and [one.name for one in space.model.shape.tables] == ["r", "s"]
        ]
        return made.state.chooser.entries(found)

    async def insert(made: RunningServer, keys: range) -> None:
        for key in keys:
            for name, row in (("r", {"b": 1, "d": 1}), ("s", {"b": 1, "x": key})):
                await made.call(c.Publish(name, [{"op": "insert", "row": {"k": key, **row}}]))

    async with running(url, measure_percent=100_000) as made:
        for name, columns in (("r", "bd"), ("s", "bx"), ("t", "dy"), ("u", "dy")):
            described = [{"name": column, "type": "integer"} for column in f"k{columns}"]
            await made.call(c.CreateTable({"name": name, "columns": described, "primary_key": ["k"]}))
        for name in "tu":
            rows: Any = [(f"{name}{at}", {"x": 10 * at, "y": 10 * at}) for at in range(9)]
            await made.call(c.Subscribe(parse(rs.format(name, name)), None, rows, batch=True))
            await insert(made, range(100 * len(rows), 100 * len(rows) + 9) if name == "t" else range(9))
        for at in range(9):
            await made.call(c.Delete(f"t{at}"))
        await insert(made, range(20, 29))
        before = entries(made)
        assert len(made.state.groups) == 1
    assert sum(before.values()) > 40
    async with running(url) as made:
        assert entries(made) == before


def test_measurements_are_bounded(url: str, writer: Writer, retention: Retention) -> None:
    for seq in range(1, 101):
        row = (seq, 1, 0, 1, "reformulate", (1.0, 2.5), 5.0, 1.0, 100, 0, 6.0, 3)
        writer.write(WriteSet(last_seq=seq, measurements=[row], weights={"bandwidth": 1.0}))
        retention.trim(30)
    with psycopg.connect(url) as connection:
        counted = connection.execute(
            "SELECT count(*), max(seq), max(descriptor) FROM prosem.plan_measurement"
        ).fetchone()
    assert counted is not None
    assert 30 <= counted[0] <= 34
    assert counted[1:] == (100, [1.0, 2.5])


async def test_a_run_arranges_a_join_at_the_next_start_and_its_answers_stay(url: str) -> None:
    """The routing column flips, EXPLAIN names the statistic, and a stream folds to the answers of the server."""
    sql = "SELECT * FROM r JOIN s USING (b) WHERE s.x BETWEEN :x1 AND :x2 AND s.y BETWEEN :y1 AND :y2"
    chance = random.Random(2)

    def table(name: str, *columns: str) -> Any:
        made = [{"name": column, "type": "integer"} for column in columns]
        return {"name": name, "columns": made, "primary_key": ["k"]}

    def event(name: str) -> Any:
        row = {"k": chance.randrange(9), "b": chance.randrange(3)}
        if name == "s":
            row |= {"x": chance.randrange(99), "y": chance.randrange(99)}
        return {"op": "upsert", "row": row}

    async def arrangement(made: RunningServer) -> Any:
        row = {"k": 99, "b": 1, "x": 5, "y": 5}
        (group,) = (await made.call(c.Explain("s", {"op": "upsert", "row": row})))["groups"]
        return group["arrangement"]["routing"]

    async with running(url) as made:
        for one in (table("r", "k", "b"), table("s", "k", "b", "x", "y")):
            await made.call(c.CreateTable(one))
        ranges = [(at, at + 9) for at in range(0, 90, 9)]
        rows: Any = [(f"j{low}", {"x1": low, "x2": high, "y1": low, "y2": high}) for low, high in ranges]
        await made.call(c.Subscribe(parse(sql), None, rows, batch=True))
        for name in "rs" * 20:
            await made.call(c.Publish(name, [event(name)]))
        assert await arrangement(made) == {"columns": {"s": "x"}, "statistic": "position"}
        group = next(iter(made.view.groups))
        numbers = {one.name: one.id for one in made.view.tables().values()}
    every = list(range(99))
    lows, highs = ([float(one[at]) for one in ranges] for at in (0, 1))
    ends = [(f"s.{name} {op}", bounds) for name in "xy" for op, bounds in ((">=", lows), ("<=", highs))]
    changes = {"b": 0, "x": 900, "y": 0}  # what moves most finds subscriptions worst
    columns = [
        column(numbers["s"], at, name, "integer", every, 50, changes[name])
        for at, name in enumerate("bxy", 1)
    ]
    number = make_run(url, columns, [point(group, name, bounds, 10) for name, bounds in ends])
    async with running(url) as made:
        assert (made.view.statistics or {})["run"] == number
        routing = await arrangement(made)
        assert routing == {
            "columns": {"s": "y"},
            "statistic": "point and column histograms, update rates and join frequencies of the run",
        }
        listener = await Listener(made, *[id for id, _ in rows]).attached()
        for name in "srs" * 20:
            last = await made.call(c.Publish(name, [event(name)]))
        await listener.progress(last["last_seq"])
        for id, folded in listener.answers.items():
            answer = decode(encode((await made.call(c.Result(id)))["result"]))
            assert in_any_order(folded) == in_any_order(answer), id
        await listener.close()
    stale = [point(group, name, bounds, 41) for name, bounds in ends]
    make_run(url, columns, stale)
    async with running(url) as made:
        assert "distinct values, hot keys, update rates and join frequencies of the run" in str(
            await arrangement(made)
        )


# -- over HTTP ---------------------------------------------------------------------------------------------
def test_explain_weights_statistics_and_decisions_over_http(api: Api, server: str, tmp_path: Any) -> None:
    table = api.table({"k": "integer", "x": "integer", "y": "integer"}, ["k"])
    group = api.subscribe(f"SELECT MIN(y) FROM {table} WHERE x BETWEEN 0 AND 100")["group"]
    seq = api.publish(table, [upsert(k=1, x=5, y=9)])["last_seq"]
    decisions = api.call("GET", f"/v1/optimizer/decisions?group={group}")["decisions"]
    assert [(d["seq"], d["group"], d["actual"]["messages"]) for d in decisions] == [(seq, group, 1)]
    assert decisions[0]["estimates"].keys() == {"reformulate", "enumerate"}
    event = upsert(k=1, x=5, y=3)
    plans = api.call("POST", "/v1/explain", json={"table": table, "event": event, "analyze": True})
    assert [entry["group"] for entry in plans["groups"]] == [group]
    assert all(row["measured"]["affected"] == 1 for row in plans["groups"][0]["plans"])
    before = api.call("GET", "/v1/optimizer/weights")
    changed = api.call("PUT", "/v1/optimizer/weights", json={"bandwidth": 2.5})
    assert changed == before | {"bandwidth": 2.5} == api.call("GET", "/v1/optimizer/weights")
    api.call("PUT", "/v1/optimizer/weights", json=before)
    statistics = api.call("GET", "/v1/optimizer/statistics")
    assert {"run", "created", "job", "since", "rows", "entries"} <= statistics.keys()
    for method, path, body, at in (
        ("PUT", "/v1/optimizer/weights", {"bandwidth": -1}, "/bandwidth"),
        ("PUT", "/v1/optimizer/weights", {"bandwidth": "much"}, "/bandwidth"),
        ("PUT", "/v1/optimizer/weights", {"speed": 1}, "/speed"),
        ("POST", "/v1/explain", {"event": event}, "/table"),
        ("POST", "/v1/explain", {"table": table}, "/event"),
        ("POST", "/v1/explain", {"table": table, "event": event, "analyze": 1}, "/analyze"),
        (
            "POST",
            "/v1/explain",
            {"table": table, "event": {"op": "insert", "row": {"k": 1, "z": 1}}},
            "/event/row/z",
        ),
        ("GET", "/v1/optimizer/decisions?limit=0", None, "/limit"),
    ):
        with pytest.raises(Refused) as caught:
            api.call(method, path, json=body)
        assert (caught.value.status, caught.value.problem["errors"][0]["at"]) == (422, at)
    file = tmp_path / "event.json"
    file.write_text(json.dumps(event))
    shown = run("explain", table, str(file), "--analyze", "--url", server)
    assert shown.returncode == 0, shown.stderr
    for text in (group, "→", "reformulate", "enumerate", "measured", "nothing was applied"):
        assert text in shown.stdout
    assert json.loads(run("explain", table, "-", "--json", "--url", server, stdin=json.dumps(event)).stdout)[
        "groups"
    ]
    for arguments, code, word in (
        ((table, str(tmp_path / "none")), 2, "there is no file"),
        (("nowhere", str(file)), 1, "there is no table"),
    ):
        refused = run("explain", *arguments, "--url", server)
        assert (refused.returncode, word in refused.stderr) == (code, True)
    assert api.publish(table, [upsert(k=1, x=5, y=9)])["last_seq"] == seq + 1, "nothing was applied"
