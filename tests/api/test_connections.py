"""What a connection may cost before its request is complete, and when it is not read."""

from __future__ import annotations

import contextlib
import json
import re
import resource
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.sync.client import connect

from api.commands.process import free_port
from tests.support.live import Api, Json, insert
from tests.support.processes import ServerProcess
from tests.support.secured import ADMIN_KEY, Keyed

TIMEOUTS = ("--header-timeout-s", "1", "--body-timeout-s", "1", "--write-timeout-s", "2", "--ping-s", "1")
HEAD = (
    b"POST /v1/tables/%b/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: %b\r\nContent-Length: 1000\r\n"
)


@pytest.fixture(scope="module")
def impatient() -> Iterator[ServerProcess]:
    """A server with short time-outs."""
    made = ServerProcess(*TIMEOUTS)
    made.start()
    yield made
    made.remove()


@contextlib.contextmanager
def raw(url: str) -> Iterator[socket.socket]:
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port or 80), 60) as made:
        yield made


def answered(connection: socket.socket) -> tuple[int, bytes]:
    """The status of all that the server says until it closes the connection (0: nothing)."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            said += part
    return (int(said.split(b" ")[1]) if said else 0), said


def problem(said: bytes) -> Json:
    found: Json = json.loads(said.partition(b"\r\n\r\n")[2])
    return found


def test_headers_have_a_largest_size(impatient: ServerProcess) -> None:
    with raw(impatient.url) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
        with contextlib.suppress(OSError):
            for _ in range(160):  # 10 MB
                connection.sendall(b"x" * 65_536)
        status, said = answered(connection)
    assert status == 431
    assert "65536 bytes" in problem(said)["detail"]


def test_headers_below_it_pass(impatient: ServerProcess) -> None:
    with raw(impatient.url) as connection:
        connection.sendall(
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " + b"x" * 60_000
        )
        connection.sendall(b"\r\n\r\n")
        assert answered(connection)[0] == 200


def test_trailers_have_the_same_limit(impatient: ServerProcess) -> None:
    with raw(impatient.url) as connection:
        connection.sendall(
            b"POST /v1/describe HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX: "
        )
        with contextlib.suppress(OSError):
            for _ in range(16):
                connection.sendall(b"x" * 65_536)
        assert answered(connection)[0] == 431


def test_requests_that_follow_each_other_are_not_added_up(impatient: ServerProcess) -> None:
    one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 30_000 + b"\r\n\r\n"
    last = one.replace(b"X:", b"Connection: close\r\nX:")
    with raw(impatient.url) as connection:
        connection.sendall(one * 5 + last)
        _, said = answered(connection)
    assert re.findall(rb"HTTP/1.1 (\d+)", said) == [b"200"] * 6


@pytest.mark.parametrize("sent", [b"GET /healthz HTTP/1.1\r\nHost: loc", b"G", b""])
def test_half_sent_headers_are_not_kept(impatient: ServerProcess, sent: bytes) -> None:
    with raw(impatient.url) as connection:
        connection.sendall(sent)
        assert answered(connection)[0] == (408 if sent else 0)


def test_half_sent_headers_after_a_request_are_not_kept(impatient: ServerProcess) -> None:
    with raw(impatient.url) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /hea")
        assert answered(connection)[0] == 408


@pytest.mark.parametrize("kind", [b"application/json", b"application/x-ndjson"])
def test_a_half_sent_body_is_not_kept_and_blocks_no_retry_of_its_key(
    impatient: ServerProcess, kind: bytes
) -> None:
    with Api(impatient.url) as api, raw(impatient.url) as connection:
        table = api.table({"k": "integer"}, ["k"])
        connection.sendall(HEAD % (table.encode(), kind) + b"Idempotency-Key: half-%b\r\n\r\n{" % kind)
        said = api.publish(table, [insert(k=1)], **{"Idempotency-Key": f"half-{kind.decode()}"})
        assert said["count"] == 1
        assert answered(connection)[0] == 408
    assert "Traceback" not in impatient.log


def test_a_client_that_leaves_within_a_body_is_no_error(impatient: ServerProcess) -> None:
    with Api(impatient.url) as api:
        table = api.table({"k": "integer"}, ["k"])
        with raw(impatient.url) as connection:
            connection.sendall(HEAD % (table.encode(), b"application/json") + b"\r\n{")
        assert api.publish(table, [insert(k=1)])["count"] == 1
    assert "ERROR" not in impatient.log
    assert "Traceback" not in impatient.log


def test_a_long_line_is_refused_once_it_is_too_long(api: Api) -> None:
    table = api.table({"k": "integer"}, ["k"])
    answer = api.http.post(
        f"/v1/tables/{table}/events",
        headers={"Content-Type": "application/x-ndjson"},
        content=(b"x" * (1 << 20) for _ in range(20)),
    )
    assert answer.status_code == 413
    assert "16 MiB" in answer.json()["detail"]


def test_an_event_stream_that_is_not_read_is_ended(impatient: ServerProcess) -> None:
    with Api(impatient.url) as api, raw(impatient.url) as connection:
        table = api.table({"k": "integer", "y": "text"}, ["k"])
        id = api.subscribe(f"SELECT * FROM {table} WHERE k >= :k", {"k": 0})["id"]
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(f"GET /v1/subscriptions/{id}/stream HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert b"200 OK" in connection.recv(15)
        while api.metric("prosem_attached") < 1:
            pass
        for k in range(100):  # more than the buffers of two kernels hold
            api.publish(table, [insert(k=k, y="y" * 200_000)])
        while api.metric("prosem_attached"):
            pass


def test_a_socket_that_is_not_read_is_ended(impatient: ServerProcess) -> None:
    with Api(impatient.url) as api, api.socket(receive_buffer=4096) as unread:
        table = api.table({"k": "integer", "y": "text"}, ["k"])
        id = api.subscribe(f"SELECT * FROM {table} WHERE k >= :k", {"k": 0})["id"]
        unread.attach(id)
        unread.until(lambda frame: "snapshot" in frame)
        for k in range(100):
            api.publish(table, [insert(k=k, y="y" * 200_000)])
        while api.metric("prosem_attached"):
            pass


@pytest.fixture(scope="module")
def keyed() -> Iterator[ServerProcess]:
    made = ServerProcess("--admin-key", ADMIN_KEY)
    made.start()
    yield made
    made.remove()


def test_the_first_frame_is_small_until_the_caller_is_known(keyed: ServerProcess) -> None:
    uri = keyed.url.replace("http", "ws") + "/v1/publish"
    with connect(uri, compression=None, proxy=None) as one:
        one.send(json.dumps({"op": "authenticate", "key": "x" * 100_000}))
        with pytest.raises(ConnectionClosed) as closed:
            one.recv(30)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009
    with connect(uri, compression=None, proxy=None) as one:
        one.send(json.dumps({"op": "authenticate", "key": ADMIN_KEY}))
        one.send(json.dumps({"tag": 1, "table": "none", "events": ["x" * 1_000_000]}))
        answer = json.loads(one.recv(30))
        assert (answer["tag"], answer["error"]["status"]) == (1, 404)


def test_frames_that_arrive_with_the_first_one_wait_for_authentication(keyed: ServerProcess) -> None:
    uri = keyed.url.replace("http", "ws") + "/v1/publish"
    large = json.dumps({"tag": 1, "table": "none", "events": ["x" * 1_000_000]})
    for others in ([large], ['{"tag": 1, "table": "none", "events": [1]}'] * 3):
        with connect(uri, compression=None, proxy=None) as one:
            texts = [json.dumps({"op": "authenticate", "key": ADMIN_KEY}), *others]
            frames = [Frame(Opcode.TEXT, text.encode()).serialize(mask=True) for text in texts]
            one.socket.sendall(b"".join(frames))  # one write
            for _ in others:
                answer = json.loads(one.recv(30))
                assert (answer["tag"], answer["error"]["status"]) == (1, 404)
    with connect(uri, compression=None, proxy=None) as one:
        texts = [json.dumps({"op": "authenticate", "key": "wrong"}), large]
        one.socket.sendall(b"".join(Frame(Opcode.TEXT, text.encode()).serialize(mask=True) for text in texts))
        with pytest.raises(ConnectionClosed) as closed:
            list(one)
        assert (
            closed.value.rcvd is None or closed.value.rcvd.code == 4401
        )  # None: reset, as what follows is not read


def test_a_refused_handshake_is_no_error_of_the_server(keyed: ServerProcess) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(keyed.url.replace("http", "ws") + "/v1/stream?access_token=wrong", proxy=None)
    assert refused.value.response.status_code == 401
    httpx.get(keyed.url + "/healthz", trust_env=False)  # after what the handshake led to
    assert "ERROR" not in keyed.log


def test_connections_beyond_the_limit_of_open_files_are_refused_and_logged() -> None:
    """The kernel would refuse them in silence; the database's connections keep room."""
    made = ServerProcess()
    made.start()
    try:
        assert made.process is not None
        resource.prlimit(made.process.pid, resource.RLIMIT_NOFILE, (150, 150))
        with Api(made.url) as api, contextlib.ExitStack() as stack:
            api.call("GET", "/healthz")
            opened = [stack.enter_context(raw(made.url)) for _ in range(150)]
            assert 503 in [answered(connection)[0] for connection in reversed(opened[-30:])]
            assert api.metric("prosem_connections_refused_total") > 0
            table = api.table({"k": "integer"}, ["k"])
            assert api.publish(table, [insert(k=1)])["count"] == 1
        assert made.log.count("ulimit -n") == 1
    finally:
        made.remove()


def test_a_handshake_refused_by_a_standby_is_no_error() -> None:
    first = ServerProcess()
    first.start()
    standby = ServerProcess("--standby", folder=first.folder / "standby")
    try:
        standby.folder.mkdir()
        standby.port = free_port()
        standby.launch(
            standby.folder / "server.log", "serve", "--standby", "--port", str(standby.port),
            "--data-dir", str(first.folder / "data"),
        )  # fmt: skip
        standby.url = f"http://127.0.0.1:{standby.port}"
        _until_listening(standby)
        with pytest.raises(InvalidStatus) as refused:
            connect(standby.url.replace("http", "ws") + "/v1/stream", proxy=None)
        assert refused.value.response.status_code == 503
        assert refused.value.response.headers["Retry-After"]
        httpx.get(standby.url + "/healthz", trust_env=False)  # after what the handshake led to
        assert "ERROR" not in standby.log
        assert "Traceback" not in standby.log
    finally:
        standby.stop()
        first.remove()


def _until_listening(made: ServerProcess) -> None:
    while True:
        with contextlib.suppress(httpx.HTTPError):
            httpx.get(made.url + "/healthz", trust_env=False)
            return


def test_odd_characters_in_addresses_and_headers_are_no_fault_of_the_server(api: Api) -> None:
    odd = ("%00", "%ED%A0%80", "%FF", "9" * 30, "%0A")
    for text in odd:
        for name in ("group", "type", "after", "limit", "node", "timeline", "access_token"):
            answer = api.http.get(f"/v1/subscriptions?{name}={text}")
            assert answer.status_code < 500, answer.text
        for path in ("subscriptions/{}", "subscriptions/{}/result", "tables/{}", "webhooks/{}", "keys/{}"):
            assert api.http.get("/v1/" + path.format(text)).status_code < 500
    for name in ("Origin", "Host", "Idempotency-Key", "traceparent", "Authorization", "Content-Type"):
        for value in (b"http://[", b"\xe9", b"Bearer \xe9"):
            assert api.http.get("/v1/status", headers=[(name.encode(), value)]).status_code < 500


def test_a_repeated_answer_of_ndjson_holds_its_errors(api: Api) -> None:
    table = api.table({"k": "integer"}, ["k"])
    lines = b'{"op": "insert", "row": {"k": 1}}\n'
    for number, bad in enumerate((b"{no json\n", b'{"op": "insert", "row": {"k": "x"}}\n')):
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": f"{table}-{number}"}
        content = lines.replace(b"1", b"%d" % (number + 1)) + bad
        said = [
            api.http.post(f"/v1/tables/{table}/events", headers=headers, content=content).json()
            for _ in range(2)
        ]
        assert said[0]["count"] == 1
        assert said[0]["errors"][0]["at"].startswith("/1")
        assert said[1] == said[0]


def test_explain_and_geometry_need_a_publisher(keyed: ServerProcess) -> None:
    with Keyed(keyed.url, ADMIN_KEY) as admin:
        reader, writer = admin.make_key("subscriber"), admin.make_key("publisher")
        for path, body in (
            ("/v1/explain", {"table": "none", "event": {"op": "delete", "key": {"k": 1}}}),
            ("/v1/geometry", {"group": "none", "event": {"op": "delete", "key": {"k": 1}}}),
        ):
            assert reader.status("POST", path, json=body) == 403
            assert writer.status("POST", path, json=body) == 404
