"""Faults between a server and its brokers: lost consumers and streams, packets that cannot be applied, other versions."""

from __future__ import annotations

import contextlib
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import msgspec
import pytest

pytest.importorskip("nats")

from api.http.models.preview_responses import JoinedBroker, LeftBroker, RenewedLease
from cn.transport.packets import Packet
from prosem.brokers.embedded_nats import EmbeddedNats
from prosem.brokers.protocol import OLDEST, PROTOCOL
from tests.support.deployed import Deployed
from tests.support.live import Api, Socket, attached, insert, lowest, upsert
from tests.support.nats_admin import NatsAdmin, running_nats
from tests.support.processes import ServerProcess, open_folder
from tests.support.waiting import until


@pytest.fixture(scope="module")
def nats() -> Iterator[EmbeddedNats]:
    folder = open_folder("prosem-nats-")
    with running_nats(folder / "nats") as made:
        yield made
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def deployed(nats: EmbeddedNats) -> Iterator[Deployed]:
    """Two brokers, and a NATS server of the operator's own. Leases are long: nobody starts over because of a hang."""
    with Deployed(brokers=2, nats=nats.url, options=("--lease-s", "10")) as made:
        yield made


@pytest.fixture
def api(deployed: Deployed) -> Iterator[Api]:
    with Api(deployed.server.url) as made:
        yield made


@pytest.fixture
def table(api: Api) -> str:
    return api.table({"k": "integer", "x": "integer", "y": "integer"}, ["k"])


@pytest.fixture
def admin(nats: EmbeddedNats) -> NatsAdmin:
    return NatsAdmin(nats.url)


class Watched:
    """A stream at each broker that was open before the fault, and what comes after it."""

    def __init__(self, deployed: Deployed, api: Api, table: str) -> None:
        until(lambda: deployed.names() == {"broker-1", "broker-2"})
        self.deployed, self.api, self.table = deployed, api, table
        self.id = lowest(api, table)
        self.sockets = [attached(url, [self.id]) for url in deployed.urls]
        self.y = 1000
        self._publish()

    def _publish(self) -> int:
        self.y -= 1
        seq: int = self.api.publish(self.table, [upsert(k=1, x=1, y=self.y)])["last_seq"]
        return seq

    def assert_whole(self) -> None:
        """New attaches are answered, and every socket received everything, once."""
        for _ in range(3):
            seq = self._publish()
        for broker in self.deployed.brokers:
            with Socket(broker.url) as fresh:
                fresh.attach(self.id)
                fresh.until(lambda frame: "snapshot" in frame, wait_s=60)
        for socket in self.sockets:
            socket.until(lambda frame: frame.get("progress", -1) >= seq, wait_s=60)
        for socket in self.sockets:
            assert socket.seqs(self.id) == self.sockets[-1].seqs(self.id)
            answer = socket.answer(self.id)
            assert answer is not None
            assert answer["value"] == self.y
            socket.close()


def faults(url: str, kind: str) -> float:
    text = httpx.get(url + "/metrics", trust_env=False).text
    found = re.search(rf'^prosem_network_faults_total{{fault="{kind}"}} (\S+)', text, re.M)
    return float(found[1]) if found else 0.0


# -- NATS forgets --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("prefix", ["control-", "broker-", ""], ids=["server", "brokers", "all"])
def test_consumers_that_nats_has_removed(
    deployed: Deployed, api: Api, table: str, admin: NatsAdmin, prefix: str
) -> None:
    """They are made again, and go on where they were: nobody starts over."""
    watched = Watched(deployed, api, table)
    lives = [deployed.lives(broker) for broker in deployed.brokers]
    (stream,) = admin.streams()
    names = admin.consumers(stream)
    assert admin.delete_consumers(stream, prefix)
    watched.assert_whole()
    assert lives == [deployed.lives(broker) for broker in deployed.brokers]
    assert set(admin.consumers(stream)) == set(names)


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "replaced"])
def test_a_stream_that_is_gone(
    deployed: Deployed, api: Api, table: str, admin: NatsAdmin, again: bool
) -> None:
    """Replaced: an empty one of the same name takes packets, and delivers none of those before."""
    watched, before = Watched(deployed, api, table), faults(deployed.server.url, "stream")
    (stream,) = admin.streams()
    admin.delete_stream(stream, again=again)
    watched.assert_whole()
    assert faults(deployed.server.url, "stream") > before
    assert "all brokers start over" in deployed.server.log


def test_nats_comes_back_without_its_files(
    deployed: Deployed, api: Api, table: str, nats: EmbeddedNats
) -> None:
    watched = Watched(deployed, api, table)
    nats.stop()
    shutil.rmtree(nats.folder / "store")
    nats.start()
    watched.assert_whole()


# -- packets that cannot be applied --------------------------------------------------------------------------------
def test_a_broker_that_cannot_apply_a_packet_starts_over(
    deployed: Deployed, api: Api, table: str, admin: NatsAdmin
) -> None:
    watched, broker = Watched(deployed, api, table), deployed.brokers[0]
    lives, before = deployed.lives(broker), faults(broker.url, "packet")
    node = re.findall(r": joined .* as (\S+) below", broker.log)[-1]
    admin.publish(subject(admin, node), packet("stranger", b"\x91\xc0"))
    until(lambda: deployed.lives(broker) == lives + 1)
    assert faults(broker.url, "packet") == before + 1
    assert "a packet from stranger cannot be applied" in broker.log
    watched.assert_whole()


def test_a_broker_whose_packets_cannot_be_applied_is_dropped(
    deployed: Deployed, api: Api, table: str, admin: NatsAdmin
) -> None:
    watched, before = Watched(deployed, api, table), faults(deployed.server.url, "packet")
    lives = [deployed.lives(broker) for broker in deployed.brokers]
    for to, body in (("control", b"\x91\xc0"), ("server", b"\x91\xc0"), ("control", b"\xc1")):
        node = join(api, "third").json()["node"]
        admin.publish(subject(admin, to), packet(node, body))
        until(lambda: deployed.names() == {"broker-1", "broker-2"})
    admin.publish(subject(admin, "control"), b"\xc1")  # no packet at all
    until(lambda: faults(deployed.server.url, "packet") == before + 4)
    watched.assert_whole()
    assert lives == [deployed.lives(broker) for broker in deployed.brokers], "the others go on"


def subject(admin: NatsAdmin, node: str) -> str:
    (stream,) = admin.streams()
    (subjects,) = admin.run(lambda manager: manager.stream_info(stream)).config.subjects
    return str(subjects).removesuffix(">") + node


def packet(sender: str, body: bytes) -> bytes:
    return msgspec.msgpack.encode(Packet(sender, 1, True, body))


# -- versions ------------------------------------------------------------------------------------------------------
def join(api: Api, name: str, **spoken: object) -> httpx.Response:
    body = {"name": name, "protocol": PROTOCOL, **spoken}
    return api.http.post("/v1/network/brokers", json=body)


def test_a_broker_of_another_protocol_gets_an_error_that_says_what_to_do(api: Api) -> None:
    newer = PROTOCOL + 5
    for spoken, elder in (
        ({"protocol": None}, "broker"),
        ({"protocol": OLDEST - 1, "version": "0.0.1"}, "broker"),
        ({"protocol": newer, "oldest_protocol": newer, "version": "9.9"}, "server"),
    ):
        refused = join(api, "other", **spoken)
        assert refused.status_code == 409, refused.text
        assert f"update the {elder}" in refused.json()["detail"]
    assert "9.9" in refused.json()["detail"]
    for spoken in ({"protocol": "2"}, {"protocol": True}, {"protocol": 0}, {"oldest_protocol": 1.5}):
        assert join(api, "other", **spoken).status_code == 422


def test_a_compatible_broker_of_another_version_is_taken(deployed: Deployed, api: Api) -> None:
    taken = join(api, "other", protocol=PROTOCOL + 5, oldest_protocol=OLDEST, version="9.9")
    assert taken.status_code == 201
    joined = msgspec.json.decode(taken.content, type=JoinedBroker)
    assert joined.protocol == PROTOCOL
    renewal = {"node": joined.node, "position": joined.since}
    renewed = api.call("PUT", "/v1/network/brokers/other", json=renewal)
    assert msgspec.convert(renewed, RenewedLease).open
    left = api.call("DELETE", f"/v1/network/brokers/other?node={joined.node}")
    assert msgspec.convert(left, LeftBroker).name == "other"
    assert f"protocol {PROTOCOL}" in deployed.brokers[0].log


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([(201, {"node": "n", "stream": "prosem-a", "open": True})], "update the server first"),
        ([(409, {"detail": "update the broker"})], "update the broker"),
    ],
    ids=["older server", "refused"],
)
def test_a_broker_that_cannot_work_ends(
    nats: EmbeddedNats, answers: list[tuple[int, dict[str, object]]], said: str
) -> None:
    with joining(answers, nats.url) as url:
        made = ServerProcess("--server", url, command="broker")
        made.start(wait=False)
        assert made.process is not None
        assert made.process.wait(60) == 1
        assert said in made.log
        assert "Traceback" not in made.log
        made.remove()


@contextlib.contextmanager
def joining(answers: list[tuple[int, dict[str, object]]], nats: str) -> Iterator[str]:
    """In the place of a server: answers so when a broker joins, and then knows it no longer."""
    left = iter(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = next(left)
            self._say(status, {**answer, "nats": nats})

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._say(404, {})

        def _say(self, status: int, answer: dict[str, object]) -> None:
            body = msgspec.json.encode(answer)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


# -- pages of other hosts ------------------------------------------------------------------------------------------
def test_a_broker_checks_the_host_as_the_server_does(deployed: Deployed, api: Api, table: str) -> None:
    """A page whose name was bound anew to this machine sends its own name as the host."""
    events = {"events": [insert(k=9, x=1, y=1)]}
    for url in deployed.urls:
        with httpx.Client(base_url=url, headers={"Host": "rebound.example"}, trust_env=False) as page:
            assert page.get("/v1/status").status_code == 403
            assert page.get("/metrics").status_code == 403
            assert page.post(f"/v1/tables/{table}/events", json=events).status_code == 403
            assert page.get("/healthz").status_code == 200
        origin = {"Origin": "http://rebound.example"}
        assert httpx.get(url + "/v1/status", headers=origin, trust_env=False).status_code == 403
        assert httpx.get(url + "/v1/status", trust_env=False).status_code == 200
    assert api.call("GET", "/v1/status")["tables"][table] == 0
