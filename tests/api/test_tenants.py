"""Keys, roles and tenants on a running server: who is let in, who may do what, and that tenants cannot reach each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.support.processes import ServerProcess
from tests.support.routes import all_routes
from tests.support.secured import ADMIN_KEY, Keyed, frames, refused, start_secured, stock
from tests.support.waiting import until

ROWS = "SELECT * FROM stocks WHERE risk < :risk"
ALL = {"risk": 100}


@pytest.fixture(scope="module")
def secured() -> Iterator[tuple[ServerProcess, Keyed]]:
    made, admin = start_secured()
    yield made, admin
    made.remove()


@pytest.fixture(scope="module")
def admin(secured: tuple[ServerProcess, Keyed]) -> Keyed:
    return secured[1]


@pytest.fixture(scope="module")
def two(admin: Keyed) -> tuple[Keyed, Keyed]:
    """Two tenants that both have a table `stocks`, with other rows, and a subscription `mine` on it."""
    red, blue = (
        admin.make_key("publisher", "subscriber", tenant=name, name=name) for name in ("red", "blue")
    )
    red.stocks(("R1", "tech", 10, 1), ("R2", "bio", 20, 2))
    blue.stocks(("B1", "tech", 10, 7))
    for tenant in (red, blue):
        tenant.subscribe(ROWS, ALL, id="mine")
    return red, blue


# -- who is let in -------------------------------------------------------------------------------------------------


def test_nothing_but_health_and_pages_is_answered_without_a_key(admin: Keyed) -> None:
    nobody, wrong = Keyed(admin.url), Keyed(admin.url, "psm_" + "x" * 43)
    for method, path in all_routes():
        expected = 200 if path in ("/healthz", "/readyz") else 401
        assert (path, nobody.status(method, path)) == (path, expected)
        assert (path, wrong.status(method, path)) == (path, expected)
    answer = nobody.http.get("/v1/status")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["type"] == "urn:prosem:error:unauthorized"
    assert nobody.status("GET", "/") == 200
    for odd in ("Basic abc", "Bearer", "Digest x", "Bearer \xff", ADMIN_KEY):
        assert nobody.status("GET", "/v1/tables", headers={"Authorization": odd.encode("latin-1")}) == 401  # type: ignore[dict-item]
    assert nobody.status("GET", "/v1/tables", headers={"Authorization": f"bearer {ADMIN_KEY}"}) == 200
    assert nobody.status("GET", f"/v1/tables?access_token={ADMIN_KEY}") == 401, "only streams take it there"


PUBLISHES = {
    ("POST", "/v1/tables"),
    ("DELETE", "/v1/tables/t"),
    ("POST", "/v1/views"),
    ("DELETE", "/v1/views/n"),
    ("POST", "/v1/tables/t/events"),
    ("POST", "/v1/events"),
    ("POST", "/v1/explain"),
    ("POST", "/v1/geometry"),
}
SUBSCRIBES = {
    ("POST", "/v1/subscriptions"), ("POST", "/v1/subscriptions/batch"), ("GET", "/v1/subscriptions"),
    ("GET", "/v1/subscriptions/i"), ("DELETE", "/v1/subscriptions/i"), ("PATCH", "/v1/subscriptions/i"),
    ("GET", "/v1/subscriptions/i/result"), ("GET", "/v1/subscriptions/i/stream"),
    ("GET", "/v1/webhooks"), ("POST", "/v1/webhooks"), ("GET", "/v1/webhooks/i"), ("DELETE", "/v1/webhooks/i"),
    ("GET", "/v1/webhooks/i/dead-letters"), ("POST", "/v1/webhooks/i/dead-letters/redeliver"),
    ("GET", "/v1/webhooks/i/dead-letters/{delivery}"), ("DELETE", "/v1/webhooks/i/dead-letters/{delivery}"),
    ("GET", "/v1/backtests"), ("POST", "/v1/backtests"), ("GET", "/v1/backtests/i"), ("DELETE", "/v1/backtests/i"),
    ("GET", "/v1/backtests/i/subscriptions"),
}  # fmt: skip
ADMINISTERS = {("GET", "/v1/keys"), ("POST", "/v1/keys"), ("DELETE", "/v1/keys/0")}
OPERATES = {
    ("GET", "/metrics"), ("GET", "/v1/network"), ("POST", "/v1/network/brokers"),
    ("PUT", "/v1/network/brokers/n"), ("DELETE", "/v1/network/brokers/n"), ("PUT", "/v1/optimizer/weights"),
}  # fmt: skip


def test_roles_allow_what_they_are_for_and_nothing_else(admin: Keyed) -> None:
    routes = set(all_routes())
    assert routes >= PUBLISHES | SUBSCRIBES | ADMINISTERS | OPERATES
    cases = {
        ("publisher",): PUBLISHES,
        ("subscriber",): SUBSCRIBES,
        ("publisher", "subscriber"): PUBLISHES | SUBSCRIBES,
        ("admin",): PUBLISHES | SUBSCRIBES | ADMINISTERS,
    }
    for roles, allowed in cases.items():
        caller = admin.make_key(*roles, tenant="roles")
        for method, path in sorted(PUBLISHES | SUBSCRIBES | ADMINISTERS | OPERATES):
            status = caller.status(method, path)
            assert (roles, method, path, status == 403) == (
                roles,
                method,
                path,
                (method, path) not in allowed,
            )
        for method, path in sorted(routes - PUBLISHES - SUBSCRIBES - ADMINISTERS - OPERATES):
            assert caller.status(method, path) != 403, (roles, method, path)
        with caller.listen("/v1/publish") as socket:
            if "subscriber" in roles and len(roles) == 1:
                assert json.loads(socket.recv())["error"]["status"] == 403
            else:
                socket.send(json.dumps({"table": "none", "events": [{}], "tag": 1}))
                assert json.loads(socket.recv())["error"]["status"] == 404
    with admin.make_key("publisher").listen() as socket:
        assert json.loads(socket.recv())["error"]["status"] == 403


# -- tenants -------------------------------------------------------------------------------------------------------
def test_a_tenant_sees_its_own_tables_and_subscriptions_alone(two: tuple[Keyed, Keyed]) -> None:
    red, blue = two
    for tenant, symbols in ((red, ["R1", "R2"]), (blue, ["B1"])):
        assert [row["symbol"] for row in tenant.result("mine")["result"]["rows"]] == symbols
        status = tenant.call("GET", "/v1/status")
        assert status["tables"] == {"stocks": len(symbols)}
        assert (status["subscriptions"]["total"], status["groups"]) == (1, 1)
        assert [table["name"] for table in tenant.call("GET", "/v1/tables")["tables"]] == ["stocks"]
        assert [one["id"] for one in tenant.call("GET", "/v1/subscriptions")["subscriptions"]] == ["mine"]
        assert [one["subscriptions"] for one in tenant.call("GET", "/v1/groups")["groups"]] == [1]


def test_an_event_of_one_tenant_reaches_no_other_tenant(two: tuple[Keyed, Keyed]) -> None:
    red, blue = two
    with red.listen() as mine, blue.listen() as other:
        frames(mine, {"op": "attach", "id": "mine"})
        frames(other, {"op": "attach", "id": "mine"})
        red.publish("stocks", [stock("R3", "bio", 30, 3)])
        changes = [frame for frame in frames(mine) if "change" in frame]
        assert [frame["change"]["add"][0]["symbol"] for frame in changes] == ["R3"]
        assert [frame for frame in frames(other) if "change" in frame] == []
    red.publish("stocks", [{"op": "delete", "key": {"symbol": "R3"}}])


def test_what_another_tenant_has_does_not_exist(two: tuple[Keyed, Keyed], admin: Keyed) -> None:
    """Every way to reach a thing of another tenant is tried, by an admin of that tenant: 404, as for what never was."""
    red, _ = two
    thief = admin.make_key("admin", tenant="thief")
    private = red.subscribe(ROWS, ALL, id="private")["id"]
    given = red.subscribe(ROWS, ALL)["id"]
    group = red.call("GET", "/v1/groups")["groups"][0]["group"]
    lowest = red.subscribe("SELECT MIN(per) FROM stocks WHERE risk < :risk", ALL)
    before = red.call("GET", "/v1/status")
    for id in (private, given, "mine", "never"):
        path = f"/v1/subscriptions/{id}"
        answered = {
            (method, rest, thief.status(method, path + rest, json=body))
            for method, rest, body in (
                ("GET", "", None), ("GET", "/result", None), ("GET", "/stream", None), ("DELETE", "", None),
                ("PATCH", "", {"params": {"risk": 1}}), ("PATCH", "", {"active": False}),
            )
        }  # fmt: skip
        assert {status for _, _, status in answered} == {404}, (id, answered)
        with thief.listen() as socket:
            (answer,) = frames(socket, {"op": "attach", "id": id})
            assert answer["error"]["status"] == 404
            (answer,) = frames(socket, {"op": "attach", "id": id, "after": 0})
            assert answer["error"]["status"] == 404
    assert thief.status("GET", "/v1/tables/stocks") == 404
    assert thief.status("DELETE", "/v1/tables/stocks") == 404
    assert thief.status("POST", "/v1/tables/stocks/events", json={"events": [stock("X", "x", 1, 1)]}) == 404
    transaction = {"events": [{"table": "stocks", **stock("X", "x", 1, 1)}]}
    assert thief.status("POST", "/v1/events", json=transaction) == 404
    ndjson = {"Content-Type": "application/x-ndjson"}
    body = json.dumps(stock("X", "x", 1, 1))
    assert thief.status("POST", "/v1/tables/stocks/events", content=body, headers=ndjson) == 404
    with thief.listen("/v1/publish") as socket:
        socket.send(json.dumps({"table": "stocks", "events": [stock("X", "x", 1, 1)]}))
        assert json.loads(socket.recv())["error"]["status"] == 404
    event = stock("R1", "tech", 1, 1)
    assert thief.status("POST", "/v1/explain", json={"table": "stocks", "event": event}) == 404
    for name in (group, lowest["group"]):
        assert thief.status("POST", "/v1/geometry", json={"group": name, "event": event}) == 404
        listed = thief.call("GET", f"/v1/subscriptions?group={name}")["subscriptions"]
        assert listed == []
    for name in ("stocks", "red.stocks", "tenant_red.stocks", '"red"."stocks"'):
        for path in ("/v1/subscriptions", "/v1/describe"):
            assert thief.status("POST", path, json={"sql": f"SELECT * FROM {name}"}) == 422
    child = {"name": "child", "extends": "stocks", "columns": []}
    assert thief.status("POST", "/v1/tables", json=child) == 422
    assert thief.call("GET", "/v1/groups")["groups"] == []
    assert thief.call("GET", "/v1/optimizer/decisions")["decisions"] == []
    assert thief.call("GET", "/v1/optimizer/statistics")["entries"] == {}
    assert thief.call("GET", "/v1/subscriptions")["subscriptions"] == []
    after = red.call("GET", "/v1/status")
    assert (after["tables"], after["subscriptions"]) == (before["tables"], before["subscriptions"])
    for id in (private, given, lowest["id"]):
        red.delete(id)


def test_ids_and_idempotency_keys_are_each_tenants_own(two: tuple[Keyed, Keyed]) -> None:
    red, blue = two
    for tenant in two:
        assert tenant.subscribe(ROWS, ALL, id="twice")["id"] == "twice"
        assert refused(tenant.subscribe, ROWS, ALL, id="twice").status == 409
    first = red.publish("stocks", [stock("R4", "bio", 1, 1)], **{"Idempotency-Key": "the same"})
    other = blue.publish("stocks", [stock("B4", "bio", 1, 1)], **{"Idempotency-Key": "the same"})
    assert first["first_seq"] < other["first_seq"]
    for tenant in two:
        tenant.delete("twice")
        symbol = "R4" if tenant is red else "B4"
        tenant.publish("stocks", [{"op": "delete", "key": {"symbol": symbol}}])


def test_everything_is_found_again_after_a_restart(secured: tuple[ServerProcess, Keyed]) -> None:
    made, admin = secured
    tenants = [admin.make_key("publisher", "subscriber", tenant=name) for name in ("north", "south")]
    for number, tenant in enumerate(tenants):
        tenant.stocks((f"S{number}", "tech", 10, number))
        tenant.subscribe(ROWS, ALL, id="mine")
        tenant.subscribe("SELECT MIN(per) FROM stocks WHERE risk < :risk", ALL, id="lowest")
    made.kill()
    made.port = int(made.url.rsplit(":", 1)[1])
    made.start()
    for number, tenant in enumerate(tenants):
        rows = tenant.result("mine")["result"]["rows"]
        assert [row["symbol"] for row in rows] == [f"S{number}"]
        assert tenant.result("lowest")["result"]["value"] == number
        assert tenant.call("GET", "/v1/whoami")["tenant"] == ("north", "south")[number]
        tenant.delete("mine")
        tenant.delete("lowest")
        tenant.call("DELETE", "/v1/tables/stocks")
        others = tenants[1 - number :][:1]
        assert all(other.call("GET", "/v1/tables")["tables"] for other in others if number == 0)


# -- keys ----------------------------------------------------------------------------------------------------------
def test_an_admin_makes_keys_of_its_tenant_alone(admin: Keyed) -> None:
    boss = admin.make_key("admin", tenant="boss")
    worker = boss.make_key("subscriber")
    assert worker.call("GET", "/v1/whoami")["tenant"] == "boss"
    assert refused(boss.make_key, "subscriber", tenant="default").status == 403
    assert {key["tenant"] for key in boss.call("GET", "/v1/keys")["keys"]} == {"boss"}
    assert {"boss", "default"} <= {key["tenant"] for key in admin.call("GET", "/v1/keys")["keys"]}
    stranger = admin.make_key("subscriber", tenant="default")
    assert boss.status("DELETE", f"/v1/keys/{stranger.number}") == 404
    assert stranger.status("GET", "/v1/tables") == 200
    assert boss.status("DELETE", f"/v1/keys/{worker.number}") == 200
    assert worker.status("GET", "/v1/tables") == 401
    bad: list[dict[str, Any]] = [
        {}, {"roles": ["king"]}, {"roles": []}, {"tenant": "Big"}, {"tenant": "a/b"}, {"limits": {"x": 1}},
        {"limits": {"sockets": -1}}, {"limits": {"events_per_second": 0}}, {"rows": {"t": "a > 1"}}, {"more": 1},
        {"roles": ["publisher"], "rows": {"t": "a = 1"}},
    ]  # fmt: skip
    for body in bad:
        whole = {"name": "n", "roles": ["subscriber"], **body} if body else {}
        assert admin.status("POST", "/v1/keys", json=whole) == 422, body


def test_a_key_is_stored_and_logged_nowhere(secured: tuple[ServerProcess, Keyed]) -> None:
    made, admin = secured
    caller = admin.make_key("subscriber", "publisher", name="secret holder", tenant="quiet")
    caller.stocks()
    caller.subscribe(ROWS, ALL, id="mine")
    uri = "ws" + admin.url.removeprefix("http") + f"/v1/stream?access_token={caller.key}&more=1"
    with connect(uri, proxy=None) as socket:
        frames(socket, {"op": "attach", "id": "mine"})
    path = f"/v1/subscriptions/mine/stream?access_token={caller.key}"
    with httpx.stream("GET", admin.url + path, trust_env=False) as stream:
        assert stream.status_code == 200
    listed = json.dumps(admin.call("GET", "/v1/keys"))
    assert "secret holder" in listed
    for place in (listed, made.log, json.dumps(caller.call("GET", "/v1/whoami"))):
        assert caller.key not in place
        assert ADMIN_KEY not in place
    assert "WebSocket /v1/stream?more=1" in made.log, "the address is logged, without the key"
    data = b"".join(path.read_bytes() for path in Path(made.folder, "data").rglob("*") if path.is_file())
    assert b"secret holder" in data
    assert caller.key.encode() not in data


def test_a_socket_says_its_key_by_header_query_or_first_frame(admin: Keyed, two: tuple[Keyed, Keyed]) -> None:
    red, _ = two
    uri = "ws" + admin.url.removeprefix("http") + "/v1/stream"
    for key in ("wrong", "psm_" + "x" * 43):
        with pytest.raises(InvalidStatus) as refusal:
            connect(uri, additional_headers={"Authorization": f"Bearer {key}"}, proxy=None)
        assert refusal.value.response.status_code == 401
        with pytest.raises(InvalidStatus):
            connect(f"{uri}?access_token={key}", proxy=None)
    with connect(uri, proxy=None) as socket:
        socket.send(json.dumps({"op": "authenticate", "key": red.key}))
        (answer,) = frames(socket, {"op": "attach", "id": "mine"})
        assert answer["id"] == "mine"
    for first in ({"op": "attach", "id": "mine"}, {"op": "authenticate", "key": "wrong"}, "nonsense", [1]):
        with connect(uri, proxy=None) as socket:
            socket.send(first if isinstance(first, str) else json.dumps(first))
            assert json.loads(socket.recv())["error"]["status"] in (400, 401)
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code in (4401, 1008)


def test_a_revoked_key_loses_its_sockets(admin: Keyed) -> None:
    caller = admin.make_key("subscriber", tenant="leaving")
    with caller.listen() as socket:
        assert frames(socket) == []
        admin.call("DELETE", f"/v1/keys/{caller.number}")
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=20)
    assert refused(caller.call, "GET", "/v1/tables").status == 401


# -- no keys -------------------------------------------------------------------------------------------------------
def test_without_keys_the_server_listens_on_loopback_alone(own_server: ServerProcess) -> None:
    own_server.options = ("--host", "0.0.0.0")
    own_server.start(wait=False)
    assert own_server.process is not None
    assert own_server.process.wait(90) == 1
    assert "without keys the server listens on loopback alone, not on 0.0.0.0" in own_server.log
    assert "prosem keys create" in own_server.log


def test_an_open_server_is_for_this_machine_alone(server: str) -> None:
    nobody = Keyed(server)
    assert nobody.call("GET", "/v1/whoami")["open"] is True
    port = server.rsplit(":", 1)[1]
    good = (
        {"Origin": server},
        {"Origin": f"http://localhost:{port}"},
        {"Host": f"localhost:{port}"},
        {"Host": f"[::1]:{port}"},
    )
    bad = (
        {"Origin": "https://example.org"},
        {"Origin": "null"},
        {"Host": "example.org"},
        {"Host": f"rebound.example:{port}"},
    )
    for headers in good:
        assert nobody.status("GET", "/v1/tables", headers=headers) == 200, headers
    for headers in bad:
        assert nobody.status("GET", "/v1/tables", headers=headers) == 403, headers
        if "Origin" in headers:
            with pytest.raises(InvalidStatus):
                connect(
                    "ws" + server.removeprefix("http") + "/v1/stream", additional_headers=headers, proxy=None
                )


def test_the_first_key_closes_an_open_server_at_once(own_server: ServerProcess) -> None:
    from tests.support.command_line import run

    url = own_server.start()
    assert Keyed(url).status("GET", "/v1/tables") == 200
    folder = str(own_server.folder / "data")
    made = run("keys", "create", "the first", "--role", "admin", "--data-dir", folder)
    key = made.stdout.strip()
    until(lambda: Keyed(url).status("GET", "/v1/tables") == 401, what="the server does not load the key")
    admin = Keyed(url, key)
    assert [one["name"] for one in admin.call("GET", "/v1/keys")["keys"]] == ["the first"]
    assert "the first" in run("keys", "list", "--data-dir", folder).stdout
    run("keys", "revoke", "1", "--data-dir", folder)
    until(lambda: admin.status("GET", "/v1/tables") == 401)
    assert Keyed(url).status("GET", "/v1/tables") == 401, "a server that had a key is never open again"
