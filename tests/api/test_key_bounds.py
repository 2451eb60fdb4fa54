"""What keys are held to: keys made by a limited admin, roles for metrics and brokers, and revocation during an attach."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from api.broker.remote_keys import RemoteKeys
from api.http.app import make_app
from api.server.keyring import Keyring
from api.server.lifetime import ServerLifetime
from prosem.engine import commands as c
from prosem.language.parse import parse
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.keys import create_key, revoke_key
from prosem.store.schema import migrate
from prosem.values.access import Caller, Role
from prosem.values.errors import UnauthorizedError
from tests.support.database import empty_database
from tests.support.processes import ServerProcess
from tests.support.routes import all_routes
from tests.support.running import TABLE, served
from tests.support.secured import Keyed, refused, start_secured
from tests.support.waiting import until_async

METRICS_KEY, BROKER_KEY = "a-metrics-key-of-these-tests", "a-broker-key-of-these-tests"


@pytest.fixture(scope="module")
def admin() -> Iterator[Keyed]:
    made, admin = start_secured("--metrics-key", METRICS_KEY, "--broker-key", BROKER_KEY)
    yield admin
    made.remove()


# -- keys that keys make -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("tenant", ["bounded", "default"])
def test_an_admin_with_limits_makes_keys_within_them(admin: Keyed, tenant: str) -> None:
    mine = {"subscriptions": 10, "events_per_second": 5}
    limited = admin.make_key("admin", tenant=tenant, limits=mine)
    for limits in (
        {},
        None,
        {"subscriptions": 10},
        {**mine, "subscriptions": 11},
        {"sockets": 1, "webhooks": 1},
    ):
        for roles in (["admin"], ["subscriber"], ["publisher", "subscriber"]):
            body = {"name": "wider", "roles": roles, "limits": limits}
            refusal = refused(limited.call, "POST", "/v1/keys", json=body)
            assert refusal.status == 403
            assert "limit" in refusal.problem["detail"]
    for limits in (mine, {**mine, "subscriptions": 0, "sockets": 3}):
        made = limited.make_key("admin", "subscriber", limits=limits)
        assert made.call("GET", "/v1/whoami")["limits"] == limits
    assert admin.make_key("admin", tenant=tenant).call("GET", "/v1/whoami")["limits"] == {}


# -- roles of the server's own services ----------------------------------------------------------------------------
SERVICES = {
    "metrics": {("GET", "/metrics")},
    "broker": {
        ("GET", "/v1/network"), ("POST", "/v1/network/brokers"),
        ("PUT", "/v1/network/brokers/n"), ("DELETE", "/v1/network/brokers/n"),
    },
}  # fmt: skip
FREE = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/v1/whoami")}


@pytest.mark.parametrize(("role", "key"), [("metrics", METRICS_KEY), ("broker", BROKER_KEY)])
def test_a_service_key_does_one_thing(admin: Keyed, role: str, key: str) -> None:
    for service in (Keyed(admin.url, key), admin.make_key(role)):
        assert service.call("GET", "/v1/whoami")["roles"] == [role]
        for method, path in all_routes():
            allowed = (method, path) in SERVICES[role] | FREE
            assert (method, path, service.status(method, path) != 403) == (method, path, allowed)
        for path in ("/v1/stream", "/v1/publish"):
            with service.listen(path) as socket:
                assert json.loads(socket.recv(timeout=20))["error"]["status"] == 403


def test_service_keys_are_the_operators(admin: Keyed) -> None:
    chief = admin.make_key("admin", tenant="red")
    for role in SERVICES:
        for caller, tenant in ((admin, "red"), (chief, "red")):
            body = {"name": "a service", "roles": [role], "tenant": tenant}
            assert refused(caller.call, "POST", "/v1/keys", json=body).status == 422
        body = {"name": "a service", "roles": [role], "tenant": "default"}
        assert refused(chief.call, "POST", "/v1/keys", json=body).status == 403


def test_a_broker_joins_with_a_key_of_its_role() -> None:
    pytest.importorskip("nats")
    server, admin = start_secured(
        "--nats", "embedded", "--broker-key", BROKER_KEY, "--metrics-key", METRICS_KEY
    )
    made = ServerProcess("--server", admin.url, "--api-key", BROKER_KEY, command="broker")
    try:
        url = made.start()
        assert Keyed(url, METRICS_KEY).status("GET", "/metrics") == 200
        assert Keyed(url, BROKER_KEY).status("GET", "/metrics") == 403
        assert Keyed(url, METRICS_KEY).status("GET", "/v1/tables") == 403
    finally:
        made.remove()
        server.remove()


def test_one_secret_cannot_have_two_roles() -> None:
    made = ServerProcess("--admin-key", BROKER_KEY, "--broker-key", BROKER_KEY)
    made.start(wait=False)
    assert made.process is not None
    assert made.process.wait(60) == 1
    assert "--broker-key" in made.log
    assert "admin" in made.log
    made.remove()


# -- revoked between authentication and registration ---------------------------------------------------------------
Ending = Callable[[], Awaitable[None]]


async def with_subscriber(url: str, use: Callable[[ServerLifetime, str, Ending], Awaitable[None]]) -> None:
    """A server in this process with one subscription, a subscriber's key, and what ends that key."""
    create_key(url, "the first", "default", frozenset({Role.ADMIN}))
    secret, stored = create_key(url, "a subscriber", "default", frozenset({Role.SUBSCRIBER}))
    async with served(url) as lifetime:
        made = lifetime.running
        await made.call(c.CreateTable(TABLE))
        await made.call(c.Subscribe(parse("SELECT * FROM t WHERE y < 1"), None, [("q", {})]))

        async def end() -> None:
            revoke_key(url, stored.caller.key)
            await until_async(lambda: made.keys.is_revoked(stored.caller.key))

        await use(lifetime, secret, end)


@pytest.fixture
def database(postgres: EmbeddedPostgres) -> str:
    url = empty_database(postgres)
    migrate(url)
    return url


async def socket_of(lifetime: ServerLifetime, key: str, end: Ending) -> list[dict[str, Any]]:
    """What a WebSocket is sent whose key is revoked while the handshake is answered."""
    sent: list[dict[str, Any]] = []
    asked = iter(
        [{"type": "websocket.connect"}, {"type": "websocket.receive", "text": '{"op": "attach", "id": "q"}'}]
    )
    over = asyncio.Event()

    async def receive() -> dict[str, Any]:
        for message in asked:
            return message
        await over.wait()
        return {"type": "websocket.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)
        if message["type"] == "websocket.accept":
            await end()
        if message["type"] == "websocket.close" or "snapshot" in str(message):
            over.set()

    await make_app(lifetime)(_scope("websocket", "/v1/stream", key), receive, send)  # type: ignore[arg-type]
    return sent


async def event_stream_of(lifetime: ServerLifetime, key: str, end: Ending) -> list[dict[str, Any]]:
    """What an event stream is sent whose key is revoked right after it was authenticated."""
    sent: list[dict[str, Any]] = []
    over, authenticate = asyncio.Event(), lifetime.keys.caller

    async def caller(token: str | None) -> Caller:
        found = await authenticate(token)
        lifetime.keys.caller = authenticate  # type: ignore[method-assign]
        await end()
        return found

    lifetime.keys.caller = caller  # type: ignore[method-assign]

    async def receive() -> dict[str, Any]:
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)
        if message.get("body"):
            over.set()

    await make_app(lifetime)(_scope("http", "/v1/subscriptions/q/stream", key), receive, send)  # type: ignore[arg-type]
    return sent


def _scope(kind: str, path: str, key: str) -> dict[str, Any]:
    return {
        "type": kind,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"authorization", b"Bearer " + key.encode())],
        "method": "GET",
        "scheme": "http",
        "http_version": "1.1",
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
        "subprotocols": [],
        "extensions": {},
    }


async def test_a_socket_whose_key_is_revoked_during_the_handshake_is_closed(database: str) -> None:
    async def use(lifetime: ServerLifetime, key: str, end: Ending) -> None:
        sent = await socket_of(lifetime, key, end)
        assert sent[-1]["type"] == "websocket.close"
        assert "snapshot" not in str(sent)

    await with_subscriber(database, use)


async def test_an_event_stream_whose_key_is_revoked_before_it_is_registered_is_refused(database: str) -> None:
    async def use(lifetime: ServerLifetime, key: str, end: Ending) -> None:
        sent = await event_stream_of(lifetime, key, end)
        assert sent[0]["status"] == 401
        assert b"snapshot" not in b"".join(message.get("body", b"") for message in sent)

    await with_subscriber(database, use)


class Answering:
    """A server's answers to `GET /v1/whoami`."""

    def __init__(self) -> None:
        self.revoked: set[str] = set()
        self.is_open = False

    async def ask(self, method: str, path: str, headers: dict[str, str]) -> Any:
        token = headers.get("Authorization", "").removeprefix("Bearer ")
        if token in self.revoked or (not token and not self.is_open):
            return SimpleNamespace(status_code=401)
        caller = Caller(key=len(token))
        return SimpleNamespace(status_code=200, json=lambda: {**caller.shown(), "open": self.is_open})


async def test_a_broker_watches_keys_whose_sockets_were_registered_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between authentication and registration a round of the watch passes; then the key is revoked."""
    monkeypatch.setattr("api.broker.remote_keys.HOLDS_S", 0.01)

    server = Answering()
    keys = RemoteKeys(server)  # type: ignore[arg-type]
    watching = asyncio.create_task(keys.watch())
    caller, closed = await keys.caller("token"), asyncio.Event()
    await until_async(lambda: not keys._tokens)  # the watch has found no socket of this key
    with keys.usage.socket(caller, closed.set):
        await keys.caller("token")
        server.revoked.add("token")
        await asyncio.wait_for(closed.wait(), 20)
    watching.cancel()


async def test_sockets_without_a_key_are_closed_once_there_is_one(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, closed = Keyring(), []
    keys.replace([])

    with keys.usage.socket(await keys.caller(None), lambda: closed.append("server")):
        keys.replace([create_key(database, "the first", "default", frozenset({Role.ADMIN}))[1]])
    assert closed == ["server"]
    monkeypatch.setattr("api.broker.remote_keys.HOLDS_S", 0.01)

    server, over = Answering(), asyncio.Event()
    server.is_open = True
    remote = RemoteKeys(server)  # type: ignore[arg-type]
    watching = asyncio.create_task(remote.watch())
    with remote.usage.socket(await remote.caller(None), over.set):
        server.is_open = False
        await asyncio.wait_for(over.wait(), 20)
    with pytest.raises(UnauthorizedError):
        await remote.caller(None)
    watching.cancel()
