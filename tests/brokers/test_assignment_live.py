"""Where a subscription goes by latency: of brokers with the same interest to the nearer one, and to none that is too far."""

from __future__ import annotations

import pytest

from tests.support.deployed import Deployed
from tests.support.live import Api, Json, Socket, attached, upsert
from tests.support.waiting import until

pytest.importorskip("nats")

FAR_S, NEAR_S = 0.2, 0.0
# A copy of some 100 bytes is worth about 50 ms: more than this machine is late, and less than the way to a far broker.
WEIGHTS = {"server_time": 0, "response_time": 1, "server_stress": 100, "bandwidth": 0}
COLUMNS = {"k": "integer", "x": "integer", "y": "integer"}


def asked(url: str, id: str) -> Json:
    with Socket(url) as socket:
        socket.send({"op": "attach", "id": id, "redirects": True})
        return socket.until(lambda frame: frame.get("id") == id)


@pytest.mark.parametrize("network", ["unicast", pytest.param("cbn", marks=pytest.mark.slow)])
def test_of_brokers_with_the_same_interest_the_nearer_one_is_named(network: str) -> None:
    """What is slow is the leg from NATS to a broker, of which no acknowledgement tells the server."""
    options = ("--network", network, "--lease-s", "5")
    with Deployed(options=options, slow=2) as deployed, Api(deployed.server.url) as api:
        first, second, third = deployed.brokers
        api.call("PUT", "/v1/optimizer/weights", json=WEIGHTS)
        table = api.table(COLUMNS, ["k"])
        sql = f"SELECT * FROM {table} WHERE x < :x"

        def distances_s() -> dict[str, float]:
            shown = deployed.network()["brokers"]
            return {one["name"]: one["latency_us"]["straight"] / 1e6 for one in shown}

        def slow_down(**delays_s: float) -> None:
            """Until the server has learned it."""
            for name, proxy in deployed.slow.items():
                proxy.delay_s = delays_s[name.replace("-", "_")]

            def is_learned() -> bool:
                shown = distances_s()
                near = [shown[name] for name, one in deployed.slow.items() if one.delay_s == NEAR_S]
                far = [shown[name] for name, one in deployed.slow.items() if one.delay_s == FAR_S]
                return all(one > FAR_S * 0.7 for one in far) and all(one < FAR_S * 0.1 for one in near)

            until(is_learned, what=lambda: str(distances_s()))

        id = api.subscribe(sql, {"x": 50})["id"]
        with attached(first.url, [id]) as one, attached(second.url, [id]) as two:
            assert "snapshot" in asked(third.url, api.subscribe(sql, {"x": -50})["id"]), (
                "nothing is known yet"
            )
            for k in range(20):
                seq = api.publish(table, [upsert(k=k, x=k, y=k)])["last_seq"]
            for socket in (one, two):
                socket.progress(seq)
            like = api.subscribe(sql, {"x": 40})["id"]
            slow_down(broker_1=FAR_S, broker_2=NEAR_S)
            assert asked(third.url, like) == {"redirect": second.url, "id": like}
            slow_down(broker_1=NEAR_S, broker_2=FAR_S)
            assert asked(third.url, like) == {"redirect": first.url, "id": like}
            slow_down(broker_1=FAR_S, broker_2=FAR_S)
            assert "snapshot" in asked(third.url, like), "a copy is cheaper than the way to them"
            api.call("PUT", "/v1/optimizer/weights", json=WEIGHTS | {"response_time": 0})
            assert "redirect" in asked(third.url, like), "where only copies count, one of them"
            seq = api.publish(table, [upsert(k=1, x=7, y=7)])["last_seq"]
            for socket in (one, two):
                socket.progress(seq)
                assert socket.answer(id, ("k",)) == api.result(id)["result"]
