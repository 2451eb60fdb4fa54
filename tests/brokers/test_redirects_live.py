"""Redirects between real brokers: clients that follow them go where their subscriptions belong, and streams stay exact."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator

import psycopg
import pytest
from prosem_client import Client
from prosem_client.sync import SyncSubscription

from api.commands.database import address
from tests.support.deployed import Deployed
from tests.support.live import WAIT_S, Api, Json, Socket, attached, in_any_order, upsert
from tests.support.node import FOLDER, tool
from tests.support.waiting import until

pytest.importorskip("nats")

WHERE = "a BETWEEN :a AND :b AND c BETWEEN :a AND :b AND d BETWEEN :a AND :b"
WHOLE, PART, BESIDE = {"a": 0, "b": 1000}, {"a": 100, "b": 900}, {"a": 2000, "b": 3000}


@pytest.fixture(scope="module", params=["stages", "unicast", "cbn"])
def deployed(request: pytest.FixtureRequest) -> Iterator[Deployed]:
    """The lease is long, so that a broker that was killed is still named."""
    with Deployed(brokers=3, options=("--network", request.param, "--lease-s", "20")) as made:
        with Api(made.server.url) as api:  # copies alone decide, not what this machine is busy with
            weights = {"server_time": 0, "response_time": 0, "server_stress": 1, "bandwidth": 1}
            api.call("PUT", "/v1/optimizer/weights", json=weights)
        yield made


@pytest.fixture
def api(deployed: Deployed) -> Iterator[Api]:
    with Api(deployed.server.url) as made:
        yield made


@pytest.fixture
def table(api: Api) -> str:
    return api.table({"a": "integer", "c": "integer", "d": "integer", "k": "integer"}, ["k"])


def publish(api: Api, table: str, rng: random.Random, count: int = 20) -> int:
    """Events that concern both the whole range and its part."""
    for _ in range(count):
        row = {name: rng.randrange(200, 800) for name in "acd"}
        seq: int = api.publish(table, [upsert(k=rng.randrange(30), **row)])["last_seq"]
    return seq


def subscribe(api: Api, table: str, params: Json) -> str:
    id: str = api.subscribe(f"SELECT * FROM {table} WHERE {WHERE}", params)["id"]
    return id


def copies(deployed: Deployed) -> int:
    """Messages that the server has sent to brokers."""
    return sum(deployed.messages(broker.folder.name) for broker in deployed.brokers)


def asked(url: str, id: str) -> Json:
    """What a client is answered that says it follows redirects."""
    with Socket(url) as socket:
        socket.send({"op": "attach", "id": id, "redirects": True})
        answer = socket.until(lambda frame: frame.get("id") == id)
        socket.pong()
        return answer


def stored(deployed: Deployed, table: str, params: Json) -> list[Json]:
    """PostgreSQL's answer to the query."""
    where = WHERE.replace(":a", str(params["a"])).replace(":b", str(params["b"]))
    with psycopg.connect(address("", deployed.server.folder / "data")) as connection:
        found = connection.execute(f"SELECT to_jsonb(t) FROM tenant_default.{table} t WHERE {where}")  # type: ignore[arg-type]
        return [row[0] for row in found.fetchall()]


@pytest.fixture
def hosted(deployed: Deployed, api: Api, table: str) -> Iterator[Socket]:
    """The whole range is hosted by the first broker, for a client that does not follow redirects; events have come."""
    first, second, _ = deployed.brokers
    for broker in deployed.brokers:
        until(lambda name=broker.folder.name: name in deployed.names())  # type: ignore[misc]
    id = subscribe(api, table, WHOLE)
    with attached(first.url, [id]) as socket:
        assert "snapshot" in asked(second.url, subscribe(api, table, BESIDE)), (
            "no like subscription is anywhere"
        )
        socket.progress(publish(api, table, random.Random(1)))
        yield socket


def test_a_subscription_is_sent_to_where_those_are_that_cover_it(
    deployed: Deployed, api: Api, table: str, hosted: Socket
) -> None:
    first, second, third = deployed.brokers
    id = subscribe(api, table, PART)
    with attached(second.url, [id]) as stays:  # it has not said that it follows redirects
        before = copies(deployed)
        stays.progress(publish(api, table, random.Random(2)))
        apart = copies(deployed) - before
        rows = stays.answer(id, ("k",))
        assert rows is not None
        assert in_any_order(rows) == in_any_order({"rows": stored(deployed, table, PART)})
    until(
        lambda: not any(one["hosted"] for one in deployed.network()["brokers"] if one["name"] == "broker-2")
    )
    assert asked(second.url, id) == {"redirect": first.url, "id": id}
    assert "snapshot" in asked(first.url, id), "it is there already"
    assert "snapshot" in asked(third.url, subscribe(api, table, BESIDE))
    with Client(second.url) as client:
        subscription = client.attach(id)
        client.publish(table, [upsert(k=1, a=500, c=500, d=500)])
        until(lambda: host_of(deployed, 2) == "broker-1")
        before = copies(deployed)
        seq = publish(api, table, random.Random(3))
        together = copies(deployed) - before
        while subscription.seq < seq:
            subscription.next(timeout_s=WAIT_S)
        assert in_any_order(subscription.result) == in_any_order({"rows": stored(deployed, table, PART)})
    assert apart >= 2 * together, (apart, together)
    assert deployed.network()["redirected"] >= 2


def host_of(deployed: Deployed, count: int) -> str:
    """The broker that hosts so many subscriptions."""
    return next((one["name"] for one in deployed.network()["brokers"] if one["hosted"] == count), "")


def written(api: Api, table: str, count: int) -> list[int]:
    """Publish events that change the answer of both subscriptions, each; their seqs."""
    rng = random.Random(count)
    return [publish(api, table, rng, 1) for _ in range(count)]


def received(subscription: SyncSubscription, last: int) -> list[int]:
    seqs = []
    while not seqs or seqs[-1] < last:
        seqs.append(subscription.next(timeout_s=WAIT_S).seq)
    return seqs


def test_a_named_broker_that_is_dead_or_dies_loses_and_repeats_nothing(
    deployed: Deployed, api: Api, table: str, hosted: Socket
) -> None:
    first, second, _ = deployed.brokers
    with Client(second.url) as client:
        id, other = subscribe(api, table, PART), subscribe(api, table, PART)
        following = client.attach(id)
        sent = written(api, table, 5)
        seen = received(following, sent[-1])
        until(lambda: host_of(deployed, 2) == "broker-1")
        first.kill()
        sent += written(api, table, 6)
        seen += received(following, sent[-1])
        late = client.attach(other)  # the server does not know yet that the broker it names is dead
        again = written(api, table, 7)
        sent += again
        seen += received(following, sent[-1])
        assert seen == sent, "each once, in order"
        assert received(late, sent[-1])[-len(again) :] == again
        wanted = in_any_order({"rows": stored(deployed, table, PART)})
        assert in_any_order(following.result) == in_any_order(late.result) == wanted
    first.start(wait=False)
    first.wait_ready()


def test_a_join_of_several_tables_goes_where_its_parts_are(deployed: Deployed, api: Api) -> None:
    first, second, third = deployed.brokers
    for broker in deployed.brokers:
        until(lambda name=broker.folder.name: name in deployed.names())  # type: ignore[misc]
    r, s, t = (api.table(dict.fromkeys(f"k{some}", "integer"), ["k"]) for some in ("ab", "bcd", "de"))
    sql = f"SELECT * FROM {r} JOIN {s} USING (b) JOIN {t} USING (d) WHERE {r}.a < :a AND {s}.c < :c AND {t}.e < :e"
    near, far = {"a": 50, "c": 50, "e": 50}, {"a": -50, "c": -50, "e": -50}
    before = {one["name"]: one["hosted"] for one in deployed.network()["brokers"]}

    def publish_joined(count: int) -> int:
        for key in range(count):
            for table, row in (
                (r, {"a": key, "b": 1}),
                (s, {"b": 1, "c": key, "d": 2}),
                (t, {"d": 2, "e": key}),
            ):
                seq: int = api.publish(table, [upsert(k=key, **row)])["last_seq"]
        return seq

    with attached(first.url, [api.subscribe(sql, near)["id"]]) as hosting:
        assert "snapshot" in asked(third.url, api.subscribe(sql, far)["id"])
        hosting.progress(publish_joined(4))
        id = api.subscribe(sql, near)["id"]
        assert asked(second.url, id) == {"redirect": first.url, "id": id}
        with Client(second.url) as client:
            subscription = client.attach(id)
            name = first.folder.name
            until(lambda: host_of(deployed, before[name] + 2) == name)
            seq = publish_joined(6)
            while subscription.seq < seq:
                subscription.next(timeout_s=WAIT_S)
            assert in_any_order(subscription.result) == in_any_order(api.result(id)["result"])
            assert len(subscription.result["rows"]) == 6 * 6 * 6


SCRIPT = """
const { Client } = await import(process.argv[1]);
const client = new Client(process.argv[2]);
const subscription = await client.attach(process.argv[3]);
for await (const { seq, result } of subscription) {
  console.log(JSON.stringify({ seq, result, at: client._stream.redirects.addresses }));
}
"""


def test_the_javascript_client_follows_too(deployed: Deployed, api: Api, table: str, hosted: Socket) -> None:
    first, second, _ = deployed.brokers
    id = subscribe(api, table, PART)
    library = (FOLDER / "src" / "index.js").as_uri()
    command = [tool("node"), "--input-type=module", "-e", SCRIPT, library, second.url, id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = map(json.loads, process.stdout)
        try:
            until(lambda: host_of(deployed, 2) == "broker-1")
            sent = written(api, table, 5)
            got = [next(lines) for _ in sent]
            assert got[-1]["at"] == [first.url]
            first.kill()
            sent += written(api, table, 6)
            got += [next(lines) for _ in range(6)]
            assert [one["seq"] for one in got] == sent, "each once, in order"
            assert got[-1]["at"] == []
            wanted = in_any_order({"rows": stored(deployed, table, PART)})
            assert in_any_order(got[-1]["result"]) == wanted
        finally:
            process.kill()
    first.start(wait=False)
    first.wait_ready()
