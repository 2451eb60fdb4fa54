"""Brokers as real processes, fed over a real NATS: exact streams, and nothing lost when a part stops or dies."""

from __future__ import annotations

import json
import random
import signal
import sys
from collections.abc import Iterator

import httpx
import pytest
from prosem_client import Client
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from api.server.deployment import Deployment
from api.server.settings import Settings
from prosem.values.errors import SetupError
from tests.support.broker_checks import QUERIES, assert_exact, event, last_seq, resumed
from tests.support.command_line import run
from tests.support.deployed import Deployed
from tests.support.live import (
    Api,
    Json,
    Socket,
    attached,
    delete,
    insert,
    lowest,
    update,
    upsert,
)
from tests.support.waiting import WAIT_S, until

PATCHES: list[Json] = [
    {"a": 30, "b": 90},
    {"a": 0, "b": 40, "c": 1},
    {"a": 10},
    {"a": "c"},
    {"a": 20, "b": 80},
    {"a": 80, "b": 1},
    {"a": 5},
    {"r": 20},
    {"a": 0, "b": 70},
    {"r": 2},
]


@pytest.fixture(scope="module")
def deployed() -> Iterator[Deployed]:
    """Two brokers at the server, and one below the first of them; what the last is sent comes late and in another order."""
    with Deployed(options=("--network", "cbn", "--network-options", "fan_out=2"), reordering=1) as made:
        yield made


@pytest.fixture
def api(deployed: Deployed) -> Iterator[Api]:
    with Api(deployed.server.url) as made:
        yield made


@pytest.fixture
def table(api: Api) -> str:
    return api.table({"k": "integer", "x": "integer", "y": "integer", "z": "integer", "s": "text"}, ["k"])


# -- exactness -----------------------------------------------------------------------------------------------------
def test_all_brokers_tell_the_same(deployed: Deployed, api: Api, table: str) -> None:
    rng = random.Random(5)
    ids = [
        api.subscribe(sql.format(table), params, **({"notify": notify} if notify else {}))["id"]
        for sql, params, notify in QUERIES
    ]
    api.publish(table, [event(rng) for _ in range(30)])
    sockets = [attached(url, ids) for url in deployed.urls]
    publishers = [Api(url) for url in deployed.urls]
    for step in range(40):
        rng.choice(publishers).publish(table, [event(rng) for _ in range(5)])
        at = step % len(ids)
        if step < len(ids):
            rng.choice(publishers).patch(ids[at], params=PATCHES[at])
        elif step < 2 * len(ids):
            rng.choice(publishers).patch(ids[at], active=False)
        elif step < 3 * len(ids):
            rng.choice(publishers).patch(ids[at], active=True)
    seq = last_seq(api)
    for socket in sockets:
        socket.progress(seq)
    assert any(socket.seqs(id) for id in ids for socket in sockets)
    assert_exact(api, ids, sockets)
    (proxy,) = deployed.proxies
    assert proxy.reordered
    publishers[0].delete(ids[0])
    for publisher in publishers:
        publisher.http.close()
    for socket in sockets:
        assert socket.until(lambda frame: "error" in frame)["error"]["status"] == 404
        socket.close()


def test_the_optimizer_counts_what_links_carry(deployed: Deployed, api: Api, table: str) -> None:
    with attached(deployed.urls[0], [lowest(api, table, 0, 10)]) as one:
        for y in range(20, 10, -1):
            seq = api.publish(table, [upsert(k=1, x=5, y=y)])["last_seq"]
        one.progress(seq)
        question = {"table": table, "event": upsert(k=1, x=5, y=1), "analyze": True}
        (group,) = api.call("POST", "/v1/explain", json=question)["groups"]
    found = {row["plan"]: row["measured"] for row in group["plans"]}
    assert found["reformulate"]["bandwidth"] >= found["reformulate"]["server_stress"] > 0, "each takes a link"


def test_a_link_without_a_match_carries_nothing(deployed: Deployed, api: Api, table: str) -> None:
    near, far = [one["name"] for one in deployed.network()["brokers"] if one["parent"] == "server"]
    with attached(deployed.broker(near).url, [lowest(api, table, 0, 10)]) as one:
        first, second = deployed.messages(near), deployed.messages(far)
        api.publish(table, [insert(k=1, x=5, y=5)])
        one.progress(api.publish(table, [insert(k=2, x=50, y=1)])["last_seq"])
        assert deployed.messages(near) == first + 1
        with Socket(deployed.broker(far).url) as other:
            other.progress(api.publish(table, [insert(k=3, x=5, y=3)])["last_seq"])
        assert deployed.messages(far) == second


def test_who_detaches_leaves_the_network(deployed: Deployed, api: Api, table: str) -> None:
    id, other = lowest(api, table), lowest(api, table)
    with attached(deployed.urls[0], [id, other]) as socket:
        assert hosted(deployed, "broker-1") == 2
        socket.send({"op": "detach", "id": id})
        until(lambda: hosted(deployed, "broker-1") == 1)
        socket.attach(id)
        socket.pong()
        assert hosted(deployed, "broker-1") == 2
        socket.progress(api.publish(table, [insert(k=1, x=1, y=1)])["last_seq"])
        assert len(socket.seqs(id)) == len(socket.seqs(other)) == 1
    until(lambda: hosted(deployed, "broker-1") == 0)


def hosted(deployed: Deployed, name: str) -> int:
    (found,) = [broker["hosted"] for broker in deployed.network()["brokers"] if broker["name"] == name]
    return int(found)


def test_an_ephemeral_subscription_ends_with_its_last_stream(
    deployed: Deployed, api: Api, table: str
) -> None:
    id = lowest(api, table, durable=False)
    with attached(deployed.urls[0], [id]):
        with attached(deployed.urls[1], [id]), attached(deployed.urls[-1], [id]):
            pass
        until(lambda: hosted(deployed, "broker-2") == 0)
        assert api.result(id)["id"] == id
    until(lambda: api.http.get(f"/v1/subscriptions/{id}").status_code == 404)


def test_resume_through_another_broker(deployed: Deployed, api: Api, table: str) -> None:
    """Also a replay that is longer than what a listener may hold at once."""
    rng = random.Random(6)
    ids = [api.subscribe(sql.format(table), params)["id"] for sql, params, _ in QUERIES[:6]]
    start = api.publish(table, [event(rng)])["last_seq"]
    with attached(deployed.urls[0], ids) as first:
        for _ in range(20):
            api.publish(table, [event(rng) for _ in range(20)])
        for id, params in zip(ids, PATCHES, strict=False):
            api.patch(id, params=params)
        first.progress(last_seq(api))
        with Socket(deployed.urls[1]) as second:
            for id in ids:
                second.attach(id, start)
            second.pong()
            for id in ids:
                assert [frame for frame in second.of(id) if frame["seq"] > start] == second.of(id)
                assert second.of(id) == [frame for frame in first.of(id) if frame["seq"] > start]
                assert not second.of(id, "snapshot")


# -- everything else is the server's -------------------------------------------------------------------------------
def test_a_broker_forwards(deployed: Deployed, api: Api, table: str) -> None:
    with Api(deployed.urls[0]) as broker:
        many = "".join(json.dumps(insert(k=k, x=k, y=k)) + "\n" for k in range(20_000))
        path, kind = f"/v1/tables/{table}/events", {"Content-Type": "application/x-ndjson"}
        assert broker.call("POST", path, content=many, headers=kind)["count"] == 20_000
        assert broker.http.post(path, content="{").status_code == 400
        odd = "/v1/tables/a%2Fb%20c?x=%20y&z=a+b"
        passed, direct = broker.http.get(odd), api.http.get(odd)
        assert (passed.status_code, passed.json()) == (404, direct.json())
        assert [*passed.headers] == [*direct.headers]
        assert len(passed.headers.get_list("date")) == 1
        assert broker.call("GET", "/v1/status")["tables"][table] == 20_000
        id = lowest(broker, table)
        assert broker.metric("prosem_ready") == 1
        uri = "ws" + deployed.urls[0].removeprefix("http") + "/v1/publish"
        with connect(uri, proxy=None, compression=None) as publisher:
            publisher.send(json.dumps({"table": table, "events": [delete(0)], "tag": 7}))
            reply = json.loads(publisher.recv(10))
            assert reply["tag"] == 7
            with httpx.stream(
                "GET", f"{deployed.urls[1]}/v1/subscriptions/{id}/stream", trust_env=False
            ) as events:
                lines = events.iter_lines()
                assert next(
                    line for line in lines if line.startswith("data")
                ) == 'data: {"value":1,"row":' + ('{"k":1,"x":1,"y":1,"z":null,"s":null}}')
                publisher.send(json.dumps({"table": table, "events": [update(1, y=0)]}))
                assert next(line for line in lines if line.startswith("event")) == "event: change"
        assert broker.http.get("/v1/subscriptions/none/stream").status_code == 404


# -- parts that stop or die ----------------------------------------------------------------------------------------
def test_stopped_brokers_deliver_nothing_and_lose_nothing(deployed: Deployed, api: Api, table: str) -> None:
    """Once within the lease, once beyond it."""
    rng = random.Random(7)
    ids = [api.subscribe(sql.format(table), params)["id"] for sql, params, _ in QUERIES[:6]]
    sockets = [attached(url, ids) for url in deployed.urls]
    lives = [deployed.lives(broker) for broker in deployed.brokers]
    seq = last_seq(api)
    for socket in sockets:
        socket.progress(seq)
    for is_long in (False, True):
        for broker in deployed.brokers:
            deployed.signal(signal.SIGSTOP, broker)
        seq = api.publish(table, [event(rng) for _ in range(50)])["last_seq"]
        sockets[-1].progress(seq)  # the server's own
        if is_long:
            until(lambda: not deployed.names())
        for socket in sockets[:-1]:
            with pytest.raises(TimeoutError):
                socket.connection.recv(timeout=0.05)
        for broker in deployed.brokers:
            deployed.signal(signal.SIGCONT, broker)
        api.publish(table, [event(rng) for _ in range(20)])
        seq = last_seq(api)
        for socket in sockets:
            socket.progress(seq)
        assert_exact(api, ids, sockets)
    assert all(now > before for now, before in zip(map(deployed.lives, deployed.brokers), lives, strict=True))
    for socket in sockets:
        socket.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_those_below_a_lost_broker_miss_nothing(
    deployed: Deployed, api: Api, table: str, number: signal.Signals
) -> None:
    """They stay what they are: nobody has to attach again."""
    rng = random.Random(10)
    ids = [api.subscribe(sql.format(table), params)["id"] for sql, params, _ in QUERIES[:6]]
    until(lambda: len(deployed.names()) == 3)
    (child,) = [broker for broker in deployed.network()["brokers"] if broker["parent"] != "server"]
    inner, below = deployed.broker(child["parent"]), deployed.broker(child["name"])
    lives = deployed.lives(below)
    with attached(below.url, ids) as socket, attached(deployed.server.url, ids) as other:
        for step in range(20):
            if step == 5 and number == signal.SIGKILL:
                inner.kill()
            elif step == 5:
                deployed.signal(number, inner)
            api.publish(table, [event(rng) for _ in range(5)])
            if step in (4, 12):
                api.patch(ids[step % 3], params=PATCHES[step % 3])
        until(lambda: child["parent"] not in deployed.names())
        for late in (False, True):
            if late and number == signal.SIGSTOP:
                deployed.signal(signal.SIGCONT, inner)  # what it still passes on was overtaken
            api.publish(table, [event(rng) for _ in range(20)])
            seq = last_seq(api)
            socket.progress(seq)
            other.progress(seq)
            assert_exact(api, ids, [socket, other])
    assert deployed.lives(below) == lives
    if number == signal.SIGKILL:
        inner.start()
    until(lambda: len(deployed.names()) == 3)


def test_a_killed_nats(deployed: Deployed, api: Api, table: str) -> None:
    rng = random.Random(8)
    ids = [api.subscribe(sql.format(table), params)["id"] for sql, params, _ in QUERIES[:6]]
    sockets = [attached(url, ids) for url in deployed.urls]
    for _ in range(3):
        api.publish(table, [event(rng) for _ in range(20)])
        deployed.kill_nats()
        for _ in range(10):
            api.publish(table, [event(rng) for _ in range(5)])
    seq = last_seq(api)
    for socket in sockets:
        socket.progress(seq)
        socket.close()
    assert_exact(api, ids, sockets)


def test_a_killed_broker_and_a_killed_server(deployed: Deployed, api: Api, table: str) -> None:
    rng = random.Random(9)
    ids = [api.subscribe(sql.format(table), params)["id"] for sql, params, _ in QUERIES[:6]]
    sockets = [attached(url, ids) for url in deployed.urls[:-1]]
    api.publish(table, [event(rng) for _ in range(30)])

    deployed.brokers[0].kill()
    with pytest.raises(ConnectionClosed):
        sockets[0].until(lambda frame: False)
    api.publish(table, [event(rng) for _ in range(30)])
    moved = resumed(sockets[0], deployed.urls[1], ids)  # fails over to another broker
    deployed.brokers[0].start(wait=False)

    deployed.server.kill()
    with Api(deployed.urls[1]) as broker:
        assert broker.http.get("/v1/status").status_code == 503
    deployed.server.start()
    for _ in range(10):
        api.publish(table, [event(rng) for _ in range(10)])
    seq = last_seq(api)
    for socket in (moved, *sockets[1:]):
        socket.progress(seq)
        socket.close()
    assert_exact(api, ids, [sockets[1], sockets[2]])
    for id in ids:
        assert moved.seqs(id) == sockets[1].seqs(id)


# -- starting ------------------------------------------------------------------------------------------------------
def test_a_server_without_nats_takes_no_brokers(server: str) -> None:
    answer = httpx.post(server + "/v1/network/brokers", json={"name": "one"}, trust_env=False)
    assert answer.status_code == 409
    assert "--nats" in answer.json()["detail"]
    done = run("broker", "--server", server, "--port", "0")
    assert done.returncode == 1
    assert "--nats" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)
    with pytest.raises(SetupError, match=r"pip install 'prosem\[nats\]'"):
        Deployment.prepare(Settings(nats="embedded"))


def test_names_of_brokers(api: Api) -> None:
    for name in ("", "server", "a.b", "x" * 65, 7, None):
        answer = api.http.post("/v1/network/brokers", json={"name": name})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["at"] == "/name"
    assert api.http.put("/v1/network/brokers/broker-1", json={"node": "unknown"}).status_code == 404


def test_a_client_with_several_addresses_fails_over(deployed: Deployed, table: str) -> None:
    """The last test: it leaves a broker dead."""
    deployed.brokers[0].wait_ready()
    with Client(",".join(deployed.urls[:2])) as client:
        subscription = client.subscribe(f"SELECT COUNT(*) FROM {table}")
        client.publish(table, [insert(k=1, x=1, y=1)])
        assert subscription.next(timeout_s=WAIT_S).change == {"value": 1}
        deployed.brokers[0].kill()
        client.publish(table, [insert(k=2, x=1, y=1)])
        assert subscription.next(timeout_s=WAIT_S).change == {"value": 2}
        assert client.url == deployed.urls[1]
