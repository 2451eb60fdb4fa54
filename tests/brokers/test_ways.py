"""Two ways to a broker below another one: the weights decide, every stream is exact, and what was chosen is shown."""

from __future__ import annotations

import random

import pytest

from tests.support.broker_checks import QUERIES, assert_exact, event, last_seq
from tests.support.deployed import Deployed
from tests.support.live import Api, Json, attached
from tests.support.waiting import until

pytest.importorskip("nats")
NOTHING = dict.fromkeys(("server_time", "response_time", "server_stress", "bandwidth"), 0.0)


def test_messages_take_the_way_that_the_weights_prefer() -> None:
    rng = random.Random(11)
    chain = ("--network", "cbn", "--network-options", "fan_out=1", "--lease-s", "5")
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

        def ways() -> Json:
            found: Json = deployed.network()["ways"]
            return found

        def publish(count: int) -> None:
            for _ in range(count):
                api.publish(table, [event(rng) for _ in range(3)])
            seq = last_seq(api)
            for socket in sockets:
                socket.progress(seq)

        def takes(way: str, other: str) -> bool:
            """Whether messages take one way alone; on a busy machine latencies may be the other way round for a moment."""
            before = ways()
            publish(10)
            after = ways()
            return bool(after[way] > before[way] and after[other] == before[other])

        publish(5)
        (last,) = set(depth) - set(depth.values())
        until(lambda: latency(deployed, last)["tree"] > latency(deployed, last)["straight"] > 0)
        until(lambda: is_learned(deployed.network(), last))
        api.call("PUT", "/v1/optimizer/weights", json=NOTHING | {"response_time": 1.0})
        until(lambda: takes("straight", "tree"))
        (group, *_) = api.call("POST", "/v1/explain", json={"table": table, "event": event(rng)})["groups"]
        assert any(plan["straight"] > 0 for plan in group["plans"])
        api.call("PUT", "/v1/optimizer/weights", json=NOTHING | {"server_stress": 1.0})
        assert takes("tree", "straight")
        assert_exact(api, ids, sockets)
        for socket in sockets:
            socket.close()


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
