"""Keys at a broker: it accepts the keys that the server accepts, and sends each tenant its own."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.processes import ServerProcess
from tests.support.secured import ADMIN_KEY, Keyed, frames, start_secured, stock

pytest.importorskip("nats")


@pytest.fixture(scope="module")
def broker() -> Iterator[tuple[Keyed, Keyed]]:
    """The operator at the server, and the same at a broker of it."""
    server, admin = start_secured("--nats", "embedded")
    made = ServerProcess("--server", admin.url, "--api-key", ADMIN_KEY, command="broker")
    url = made.start()
    yield admin, Keyed(url, ADMIN_KEY)
    made.remove()
    server.remove()


def test_tenants_and_rows_hold_at_a_broker(broker: tuple[Keyed, Keyed]) -> None:
    admin, there = broker
    red, blue = (there.make_key("publisher", "subscriber", tenant=name) for name in ("red", "blue"))
    tech = there.make_key("subscriber", tenant="red", rows={"stocks": "sector = 'tech'"})
    red.stocks(("R1", "tech", 1, 1), ("R2", "bio", 1, 1))
    blue.stocks(("B1", "tech", 1, 1))
    for tenant in (red, blue):
        tenant.subscribe("SELECT * FROM stocks", id="mine")
    red.subscribe("SELECT * FROM stocks", id="red-only")
    tech.subscribe("SELECT * FROM stocks", id="of-tech")
    assert Keyed(there.url).status("GET", "/v1/tables") == 401
    assert Keyed(there.url).status("GET", "/metrics") == 401
    assert red.status("GET", "/metrics") == 403
    assert there.status("GET", "/metrics") == 200
    for path in ("/v1/stream", "/v1/publish"):
        with pytest.raises(InvalidStatus) as refusal, Keyed(there.url, "psm_wrong").listen(path):
            pass
        assert refusal.value.response.status_code == 401
    assert blue.status("GET", "/v1/subscriptions/red-only/stream") == 404
    with red.listen() as mine, blue.listen() as other, tech.listen() as desk:
        (frame,) = frames(mine, {"op": "attach", "id": "mine"})
        assert {row["symbol"] for row in frame["snapshot"]["rows"]} == {"R1", "R2"}
        (frame,) = frames(other, {"op": "attach", "id": "mine"})
        assert {row["symbol"] for row in frame["snapshot"]["rows"]} == {"B1"}
        for socket in (other, desk):
            (frame,) = frames(socket, {"op": "attach", "id": "red-only"})
            assert frame["error"]["status"] == 404
        (frame,) = frames(desk, {"op": "attach", "id": "of-tech"})
        assert {row["symbol"] for row in frame["snapshot"]["rows"]} == {"R1"}
        red.publish("stocks", [stock("R3", "bio", 1, 1), stock("R4", "tech", 1, 1)])
        added: dict[int, list[str]] = {}
        for number, (socket, expected) in enumerate(((mine, 2), (desk, 1))):
            added[number] = []
            while len(added[number]) < expected:
                frame = json.loads(socket.recv(timeout=20))
                added[number] += [row["symbol"] for row in frame.get("change", {"add": []})["add"]]
        assert added == {0: ["R3", "R4"], 1: ["R4"]}
        assert [frame for frame in frames(other) if "change" in frame] == []
        admin.call("DELETE", f"/v1/keys/{red.number}")
        with contextlib.suppress(ConnectionClosed):
            while True:
                mine.recv(timeout=30)


def test_a_broker_without_a_key_is_not_let_in(broker: tuple[Keyed, Keyed]) -> None:
    admin, _ = broker
    made = ServerProcess("--server", admin.url, command="broker")
    made.start(wait=False)
    assert made.process is not None
    assert made.process.wait(60) == 1
    assert "give the broker a key of the role broker with --api-key" in made.log
    made.remove()
