"""Limits of keys, and TLS, on a running server."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prosem_client import Client, ProsemError
from websockets.asyncio.client import connect

from api.commands.serve import check_tls
from api.server.keyring import Usage
from prosem.values.access import Caller, Limits
from prosem.values.errors import LimitError, SetupError
from tests.support.processes import ServerProcess
from tests.support.secured import ADMIN_KEY, Keyed, frames, refused, start_secured, stock


@given(st.integers(1, 50), st.lists(st.tuples(st.floats(0, 3), st.integers(1, 120)), max_size=60))
def test_a_rate_is_kept_and_what_is_refused_may_come_after_retry_after(
    rate: int, requests: list[tuple[float, int]]
) -> None:
    now = 0.0
    usage, caller = Usage(lambda: now), Caller(key=1, limits=Limits(events_per_second=rate))
    taken = largest = 0
    for wait_s, events in requests:
        now += wait_s
        try:
            usage.spend(caller, events)
        except LimitError as error:
            now += error.retry_after_s
            usage.spend(caller, events)
        taken, largest = taken + events, max(largest, events)
        assert taken <= rate * (now + 1) + largest, "at most a second's worth ahead, and one request"


@pytest.fixture(scope="module")
def admin() -> Iterator[Keyed]:
    made, admin = start_secured()
    publisher = admin.make_key("publisher", tenant="limited")
    publisher.stocks(("A", "tech", 1, 1))
    yield admin
    made.remove()


def limited(admin: Keyed, **limits: int) -> Keyed:
    return admin.make_key("subscriber", "publisher", tenant="limited", limits=limits)


def test_subscriptions(admin: Keyed) -> None:
    caller, other = limited(admin, subscriptions=3), limited(admin)
    ids = [caller.subscribe("SELECT * FROM stocks")["id"] for _ in range(2)]
    rows = {"sql": "SELECT * FROM stocks WHERE risk = :r", "rows": [{"params": {"r": n}} for n in range(2)]}
    error = refused(caller.call, "POST", "/v1/subscriptions/batch", json=rows)
    assert (error.status, error.problem["type"]) == (429, "urn:prosem:error:limit")
    assert int(error.headers["retry-after"]) > 0
    ids.append(caller.subscribe("SELECT * FROM stocks")["id"])
    assert refused(caller.subscribe, "SELECT * FROM stocks").status == 429
    other.subscribe("SELECT * FROM stocks")
    caller.delete(ids[0])
    caller.subscribe("SELECT * FROM stocks")


def test_events_a_second(admin: Keyed) -> None:
    caller = limited(admin, events_per_second=5)
    caller.publish("stocks", [stock("A", "tech", n, 1) for n in range(40)])
    error = refused(caller.publish, "stocks", [stock("A", "tech", 1, 1)])
    assert (error.status, int(error.headers["retry-after"]) >= 5) == (429, True)
    with caller.listen("/v1/publish") as socket:
        socket.send(json.dumps({"table": "stocks", "events": [stock("A", "tech", 1, 1)], "tag": 7}))
        reply = json.loads(socket.recv())
        assert (reply["tag"], reply["error"]["status"]) == (7, 429)
    slow = limited(admin, events_per_second=1_000)
    body = "\n".join(json.dumps(stock("A", "tech", n, 1)) for n in range(2_500))
    ndjson = {"Content-Type": "application/x-ndjson"}
    done = slow.call("POST", "/v1/tables/stocks/events", content=body, headers=ndjson)
    assert done["count"] == 2_500, "a body of many lines waits instead"


def test_sockets(admin: Keyed) -> None:
    caller = limited(admin, sockets=2)
    id = caller.subscribe("SELECT * FROM stocks")["id"]
    with caller.listen() as first, caller.listen("/v1/publish"):
        assert frames(first) == []
        with caller.listen() as third:
            assert json.loads(third.recv())["error"]["status"] == 429
        error = refused(caller.call, "GET", f"/v1/subscriptions/{id}/stream")
        assert (error.status, "retry-after" in error.headers) == (429, True)
    with caller.listen() as again:
        assert [frame["id"] for frame in frames(again, {"op": "attach", "id": id})] == [id]


def test_frames_and_bodies(admin: Keyed) -> None:
    caller = limited(admin, frame_bytes=300)
    large = {"sql": "SELECT * FROM stocks WHERE symbol = '" + "x" * 300 + "'"}
    assert refused(caller.call, "POST", "/v1/subscriptions", json=large).status == 413
    with caller.listen() as socket:
        (reply,) = frames(socket, {"op": "attach", "id": "x" * 300})
        assert reply["error"]["status"] == 413
        assert frames(socket) == [], "the socket goes on"


def test_complexity(admin: Keyed) -> None:
    caller = limited(admin, comparisons=4)
    caller.subscribe("SELECT * FROM stocks WHERE risk < 1 AND per < 2 OR risk > 3 AND per > 4")
    error = refused(
        caller.subscribe, "SELECT * FROM stocks WHERE (risk < 1 OR per < 2) AND (risk > 3 OR per > 4)"
    )
    assert (error.status, "8 comparisons" in error.problem["detail"]) == (422, True)
    body = {
        "sql": "SELECT * FROM stocks WHERE risk < 1 AND per < 2 AND risk > 0 AND per > 0 AND symbol < 'a'"
    }
    assert refused(caller.call, "POST", "/v1/describe", json=body).status == 422


# -- TLS -----------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for localhost that nobody has signed but itself."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    made = folder / "server.pem", folder / "server-key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", str(made[0]), "-keyout", str(made[1])],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


async def test_https(
    certificate: tuple[Path, Path], own_server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    public, private = map(str, certificate)
    own_server.options = ("--admin-key", ADMIN_KEY, "--tls-certificate", public, "--tls-key", private)
    plain = own_server.start(wait=False)
    secure = plain.replace("http:", "https:")
    monkeypatch.setenv("SSL_CERT_FILE", public)
    with Client(secure, api_key=ADMIN_KEY, reconnect_s=60) as client:
        client.create_table("t", {"k": "integer"}, ["k"])
        with client.subscribe("SELECT COUNT(*) FROM t") as counted:
            client.publish("t", [{"op": "insert", "row": {"k": 1}}])
            assert counted.next(20).result == {"value": 1}
    with pytest.raises(ProsemError, match="connection-lost"), Client(plain, reconnect_s=0.1) as client:
        client.tables()
    context = ssl.create_default_context(cafile=public)
    # Not by two threads on one connection: on Python 3.11 they lose an answer now and then.
    async with connect(secure.replace("https:", "wss:") + "/v1/stream", ssl=context, proxy=None) as socket:
        await socket.send(json.dumps({"op": "authenticate", "key": ADMIN_KEY}))
        await socket.send(json.dumps({"op": "ping"}))
        while "pong" not in (frame := json.loads(await socket.recv())):
            assert "progress" in frame
    with pytest.raises(httpx.ConnectError):
        httpx.get(secure + "/healthz", trust_env=False)  # nobody else has signed it


def test_a_certificate_that_cannot_be_served_is_refused_at_the_start(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    public, private = map(str, certificate)
    check_tls("", "")
    check_tls(public, private)
    (tmp_path / "empty.pem").write_text("")
    for pair in (
        (public, ""),
        ("", private),
        (public, "missing.pem"),
        (private, private),
        (public, str(tmp_path / "empty.pem")),
    ):
        with pytest.raises(SetupError):
            check_tls(*pair)
