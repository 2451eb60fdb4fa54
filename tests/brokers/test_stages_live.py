"""Multi-stage filtering over real brokers: the order of attributes and the stages of brokers are options, and are shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.deployed import Deployed
from tests.support.live import Api, Json, Socket, attached, upsert
from tests.support.waiting import until

pytest.importorskip("nats")

COLUMNS = {"k": "integer", "price": "integer", "sector": "text"}


@pytest.fixture(scope="module")
def chain() -> Iterator[Deployed]:
    """The server, and three brokers in a row, of which the first is said to be of stage 2."""
    stages = ("--network", "stages", "--network-options", "fan_out=1", "--stage-order", "stocks=sector,price")
    options = (*stages, "--plan", "match")  # messages by their attributes, not to names
    made = Deployed(brokers=3, options=options)
    first, *others = made.brokers
    first.options += ("--stage", "2")
    made.brokers = [first]
    with made:
        for broker in others:
            made.brokers.append(broker)
            broker.start(wait=False)
            broker.wait_ready()
            until(lambda: len(made.names()) == len(made.brokers))
        yield made


@pytest.fixture(scope="module")
def api(chain: Deployed) -> Iterator[Api]:
    with Api(chain.server.url) as made:
        for table in ("stocks", "others"):
            made.table(COLUMNS, ["k"], name=table)
        yield made


def test_orders_and_stages_are_shown(chain: Deployed) -> None:
    def stages() -> dict[str, int]:
        return {one["name"]: one.get("stage", 0) for one in chain.network()["brokers"]}

    until(lambda: stages() == {"broker-1": 2, "broker-2": 2, "broker-3": 1}, what=lambda: str(stages()))
    found = chain.network()
    assert found["stage"] == 4
    assert found["stage_order"] == {"stocks": ["sector", "price"]}
    assert [one["parent"] for one in found["brokers"]] == ["server", "broker-1", "broker-2"]


@pytest.mark.parametrize(("table", "least", "most"), [("stocks", 0, 0), ("others", 20, 20)])
def test_the_server_filters_on_the_most_general_attribute(
    chain: Deployed, api: Api, table: str, least: int, most: int
) -> None:
    """Without an order it would filter on the first column, the key, which the subscription leaves open."""
    where = f"SELECT * FROM {table} WHERE sector = :sector AND price < :price"
    tech, oil = (api.subscribe(where, {"sector": one, "price": 50})["id"] for one in ("tech", "oil"))
    with attached(chain.brokers[2].url, [tech]) as below, attached(chain.server.url, [oil]) as here:
        before = chain.messages("broker-1")
        for k in range(20):
            seq = api.publish(table, [upsert(k=k, price=k, sector="oil")])["last_seq"]
        below.progress(seq)
        here.progress(seq)
        assert len(here.seqs(oil)) == 20
        assert least <= chain.messages("broker-1") - before <= most
        seq = api.publish(table, [upsert(k=1, price=7, sector="tech")])["last_seq"]
        below.progress(seq)
        assert below.seqs(tech) == [seq]
        assert below.answer(tech, ("k",)) == api.result(tech)["result"]


def answered(url: str, id: str) -> Json:
    with Socket(url) as socket:
        socket.send({"op": "attach", "id": id, "redirects": True})
        return socket.until(lambda frame: frame.get("id") == id)


def test_a_subscription_that_leaves_the_most_general_attribute_open_is_hosted_above(
    chain: Deployed, api: Api
) -> None:
    first, _, third = chain.brokers
    open_id = api.subscribe("SELECT * FROM stocks WHERE price < :price", {"price": 5})["id"]
    assert answered(third.url, open_id) == {"redirect": first.url, "id": open_id}
    closed = "SELECT * FROM stocks WHERE price < :price AND sector = :sector"
    closed_id = api.subscribe(closed, {"price": 5, "sector": "coal"})["id"]
    assert "snapshot" in answered(third.url, closed_id)
