"""CN* over real brokers: what repeats passes a link once, streams are exact, and the counts are shown."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from tests.support.deployed import Deployed
from tests.support.live import Api, Json, attached, in_any_order, upsert
from tests.support.waiting import until

PHOTO = 4_000  # bytes


@pytest.fixture(scope="module")
def deployed() -> Iterator[Deployed]:
    chain = ("--network", "cbn", "--network-options", "fan_out=1,repository=2", "--lease-s", "3")
    with Deployed(brokers=3, options=chain) as made:
        yield made


def product(rng: random.Random) -> Json:
    """A rating that changes, and one of ten pictures that does not."""
    key = rng.randrange(10)
    return upsert(k=key, b=key % 3, rating=rng.randrange(100), photo=f"{key}" * PHOTO)


def leaving(network: Json) -> int:
    """The bytes that the server has sent."""
    return sum(link["bytes"] for link in network["links"] if link["from"] == "server")


def held(deployed: Deployed) -> int:
    """The contents that brokers have said to hold."""
    return sum(one.get("contents", {}).get("held", 0) for one in deployed.network()["brokers"])


def test_a_picture_passes_a_link_once(deployed: Deployed) -> None:
    rng = random.Random(4)
    with Api(deployed.server.url) as api:
        products = api.table({"k": "integer", "b": "integer", "rating": "integer", "photo": "text"}, ["k"])
        shops = api.table({"k": "integer", "b": "integer", "c": "integer"}, ["k"])
        api.publish(shops, [upsert(k=k, b=k % 3, c=10 * k) for k in range(6)])
        filters = f"SELECT * FROM {products} WHERE rating BETWEEN :a AND :b"
        joins = f"SELECT * FROM {products} JOIN {shops} USING (b) WHERE rating >= :a AND c <= :b"
        ids = [
            api.subscribe(sql, {"a": a, "b": b})["id"]
            for sql in (filters, joins)
            for a, b in ((0, 60), (30, 90))
        ]
        sockets = [attached(broker.url, ids) for broker in deployed.brokers]
        before = leaving(deployed.network())
        count = 60
        for _ in range(count):
            seq = api.publish(products, [product(rng)])["last_seq"]
        for socket in sockets:
            socket.progress(seq)
            for id in ids:
                assert in_any_order(socket.answer(id, ("k",))) == in_any_order(api.result(id)["result"])

        def is_shown() -> bool:
            reports = [one.get("contents", {}) for one in deployed.network()["brokers"]]
            return len(reports) == 3 and all(report.get("hits") for report in reports)

        until(is_shown)
        found = deployed.network()
        assert found["contents"]["spared"] > count / 2, "the server left most of them out"
        without = 2 * count * PHOTO  # a filter and a join each carry a picture with every event
        assert leaving(found) - before < without / 2
        metrics = api.http.get("/metrics").text
        assert 'prosem_contents_hits_total{node="broker-2"}' in metrics
        assert 'prosem_contents_held{node="server"}' in metrics


def test_brokers_that_have_dropped_a_picture_are_one_request_at_the_server(deployed: Deployed) -> None:
    """Three brokers in a chain have kept two of ten pictures: each is asked for along it, and leaves the server once."""
    with Api(deployed.server.url) as api:
        table = api.table({"k": "integer", "rating": "integer", "photo": "text"}, ["k"])
        id = api.subscribe(f"SELECT * FROM {table} WHERE rating >= :a", {"a": 0})["id"]
        sockets = [attached(broker.url, [id]) for broker in deployed.brokers]

        def show(times: int) -> int:
            """All pictures so often, in one request; the bytes that have left the server."""
            before = leaving(deployed.network())
            events = [upsert(k=k, rating=at, photo=f"{k}" * PHOTO) for at in range(times) for k in range(10)]
            seq = api.publish(table, events)["last_seq"]
            for socket in sockets:
                socket.progress(seq)
                assert socket.answer(id, ("k",)) == api.result(id)["result"]
            return leaving(deployed.network()) - before

        def is_released() -> bool:
            api.publish(table, [upsert(k=10, rating=-1, photo="")])
            return held(deployed) == 2 * len(deployed.brokers)

        show(1)
        until(lambda: held(deployed) > 2 * len(deployed.brokers))
        until(is_released)
        before, times = asked(api), 6
        assert show(times) < 10 * times * PHOTO / 3, "a third of what it is without repositories"
        assert 8 <= asked(api) - before <= 10, "for what was dropped, though three brokers need it"


def asked(api: Api) -> float:
    """The contents that the server was asked for."""
    name = 'prosem_contents_asked_total{node="server"}'
    found = re.search(rf"^{re.escape(name)} (\S+)$", api.http.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_a_broker_that_needs_what_the_server_has_forgotten_starts_over() -> None:
    nothing = ("--network", "cbn", "--network-options", "repository=0,contents_mb=0", "--lease-s", "3")
    with Deployed(brokers=1, options=nothing) as made, Api(made.server.url) as api:
        (broker,) = made.brokers
        table = api.table({"k": "integer", "rating": "integer", "photo": "text"}, ["k"])
        id = api.subscribe(f"SELECT * FROM {table} WHERE rating >= :a", {"a": 0})["id"]
        socket = attached(broker.url, [id])
        lives = made.lives(broker)
        first = api.publish(table, [upsert(k=1, rating=0, photo="x" * PHOTO)])["last_seq"]

        def is_released() -> bool:
            """Marks follow commits, and say what the broker has reported to have applied."""
            api.publish(table, [upsert(k=2, rating=-1, photo="")])
            return held(made) == 0

        until(lambda: held(made) > 0)
        until(is_released)
        seq = api.publish(table, [upsert(k=1, rating=1, photo="x" * PHOTO)])["last_seq"]
        socket.progress(seq)
        assert made.lives(broker) > lives
        assert socket.seqs(id) == [first, seq], "from the log: each once, in order"
        assert socket.answer(id, ("k",)) == api.result(id)["result"]
