"""Two ways to a broker below another one: the weights decide, every stream is exact, and what was chosen is shown."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from io import StringIO

import msgspec
import pytest
from rich.console import Console

from api.commands.explain import show
from api.http.models.preview_responses import ExplainedEvent
from optimizer.cost import STRAIGHT, TREE
from prosem.engine.measuring import MOST_TRIED
from tests.support.broker_checks import QUERIES, assert_exact, event, last_seq
from tests.support.deployed import Deployed
from tests.support.live import Api, Json, Socket, attached, upsert
from tests.support.waiting import until

pytest.importorskip("nats")
NOTHING = dict.fromkeys(("server_time", "response_time", "server_stress", "bandwidth"), 0.0)
# The way that each prefers where all subscriptions are at the last of three brokers; by one link or another is the same.
KNOBS = {"server_time": TREE, "response_time": STRAIGHT, "server_stress": TREE, "bandwidth": STRAIGHT}


def test_messages_take_the_way_that_the_weights_prefer() -> None:
    rng = random.Random(11)
    chain = ("--network", "cbn", "--network-options", "fan_out=1", "--lease-s", "5")
    chain += ("--measure-percent", "100000")
    # Brokers hear late from NATS, so that the way over them is the slow one however busy the machine is.
    with Deployed(options=chain, reordering=3) as deployed, Api(deployed.server.url) as api:
        table = api.table(
            {"k": "integer", "x": "integer", "y": "integer", "z": "integer", "s": "text"}, ["k"]
        )
        ids = [
            api.subscribe(sql.format(table), params, **({"notify": notify} if notify else {}))["id"]
            for sql, params, notify in QUERIES
        ]
        depth = {one["name"]: one["parent"] for one in deployed.network()["brokers"]}
        sockets = [attached(url, ids) for url in deployed.urls]
        (last,) = set(depth) - set(depth.values())
        wide, lower = many_at_once(api, deployed.broker(last).url, sockets)

        def ways() -> Json:
            found: Json = deployed.network()["ways"]
            return found

        def publish(count: int, table: str = table) -> None:
            for _ in range(count):
                api.publish(table, [event(rng) if table != wide else lower() for _ in range(3)])
            seq = last_seq(api)
            for socket in sockets:
                socket.progress(seq)

        def takes(way: str, other: str, table: str = table) -> bool:
            """Whether messages take one way alone; on a busy machine latencies may be the other way round for a moment."""
            before = ways()
            publish(10, table)
            after = ways()
            return bool(after[way] > before[way] and after[other] == before[other])

        publish(5)
        publish(5, wide)
        until(lambda: latency(deployed, last)["tree"] > latency(deployed, last)["straight"] > 0)
        until(lambda: is_learned(deployed.network(), last))
        api.call("PUT", "/v1/optimizer/weights", json=NOTHING | {"response_time": 1.0})
        until(lambda: takes("straight", "tree"))
        (group, *_) = api.call("POST", "/v1/explain", json={"table": table, "event": event(rng)})["groups"]
        assert any(plan["straight"] > 0 for plan in group["plans"])
        api.call("PUT", "/v1/optimizer/weights", json=NOTHING | {"server_stress": 1.0})
        assert takes("tree", "straight")
        for metric, way in KNOBS.items():
            api.call("PUT", "/v1/optimizer/weights", json=NOTHING | {metric: 1.0})
            until(lambda way=way: explained_way(api, wide, lower()) == way)  # type: ignore[misc]
            until(lambda way=way: takes(way, TREE if way == STRAIGHT else STRAIGHT, wide))  # type: ignore[misc]
        assert_exact(api, ids, sockets[:-1])
        assert_exact(api, ["wide-0", f"wide-{MOST_TRIED}"], sockets[-1:])
        for socket in sockets:
            socket.close()


def many_at_once(api: Api, broker: str, sockets: list[Socket]) -> tuple[str, Callable[[], Json]]:
    """A table with more subscriptions at a broker than a plan that names each is tried for, and an event for all."""
    table = api.table({"k": "integer", "x": "integer", "y": "integer"}, ["k"])
    ids = [f"wide-{number}" for number in range(MOST_TRIED + 1)]
    sql = f"SELECT MIN(y) FROM {table} WHERE x BETWEEN :a AND :b"
    rows = [{"id": id, "params": {"a": number % 40, "b": 60 + number % 40}} for number, id in enumerate(ids)]
    api.call("POST", "/v1/subscriptions/batch", json={"sql": sql, "rows": rows})
    sockets.append(attached(broker, ids))
    falling = itertools.count(0, -1)
    return table, lambda: upsert(k=1, x=50, y=next(falling))


def explained_way(api: Api, table: str, event: Json) -> str:
    """By which way the chosen plan is priced, once all plans are measured; none of them is free on the network."""
    report = api.call("POST", "/v1/explain", json={"table": table, "event": event})
    msgspec.convert(report, ExplainedEvent)  # as the OpenAPI document describes it
    shown = Console(file=StringIO(), width=100)
    show(shown, report, analyze=False)
    (group,) = report["groups"]
    assert {plan["plan"] for plan in group["plans"]} == {"reformulate", "enumerate"}
    for plan in group["plans"]:
        assert plan["source"] == "measured"
        assert plan["bandwidth"] >= plan["server_stress"] > 0, plan
        (priced,) = (one for one in plan["ways"] if one["chosen"])
        assert plan["cost"] == priced["cost"] == min(one["cost"] for one in plan["ways"])
        tree, straight = plan["ways"]
        assert tree["bandwidth"] > straight["bandwidth"], "three links, and one"
        assert tree["response_time"] > straight["response_time"] > straight["server_time"] / 2
    (chosen,) = (plan for plan in group["plans"] if plan["chosen"])
    assert chosen["cost"] == min(plan["cost"] for plan in group["plans"])
    way = next(str(way["way"]) for way in chosen["ways"] if way["chosen"])
    assert f"  → {way}" in shown.file.getvalue()  # type: ignore[attr-defined]
    return way


def is_learned(network: Json, broker: str) -> bool:
    """Whether the latency down the tree is the sum of those that the links on the way were measured to have."""
    brokers = {one["name"]: one for one in network["brokers"]}
    links = {(one["from"], one["to"]): one.get("latency_us") for one in network["links"]}
    sum_us, at = 0.0, broker
    while (parent := brokers[at]["parent"]) != "server":
        if links.get((parent, at)) is None:
            return False
        sum_us, at = sum_us + links[parent, at], parent
    sum_us += brokers[at]["latency_us"]["straight"]
    return at != broker and abs(sum_us - brokers[broker]["latency_us"]["tree"]) < 1.0


def latency(deployed: Deployed, broker: str) -> Json:
    (found,) = (one["latency_us"] for one in deployed.network()["brokers"] if one["name"] == broker)
    return dict(found)


def test_a_broker_on_the_tree_may_die_while_messages_go_straight_past_it() -> None:
    rng = random.Random(12)
    chain = ("--network", "cbn", "--network-options", "fan_out=1,straight=1")
    with Deployed(options=chain) as deployed, Api(deployed.server.url) as api:
        table = api.table(
            {"k": "integer", "x": "integer", "y": "integer", "z": "integer", "s": "text"}, ["k"]
        )
        ids = [api.subscribe(sql.format(table), params)["id"] for sql, params, _ in QUERIES[:6]]
        parents = {one["parent"]: one["name"] for one in deployed.network()["brokers"]}
        first = parents["server"]
        below = deployed.broker(parents[parents[first]])
        sockets = [attached(below.url, ids), attached(deployed.server.url, ids)]
        for step in range(20):
            if step == 10:
                deployed.broker(first).kill()
            api.publish(table, [event(rng) for _ in range(3)])
        until(lambda: first not in deployed.names())
        api.publish(table, [event(rng) for _ in range(3)])
        seq = last_seq(api)
        for socket in sockets:
            socket.progress(seq)
        assert_exact(api, ids, sockets)
        assert deployed.network()["ways"]["straight"]
        assert deployed.lives(below) == 1, "it went on below another parent"
        for socket in sockets:
            socket.close()
