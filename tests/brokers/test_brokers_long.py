"""Long checks of brokers: a NATS cluster whose nodes are killed, and parts that die at random."""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator

import pytest
from websockets.exceptions import ConnectionClosed

from api.commands.process import free_port
from cn.networks.registry import SCHEMES
from prosem.brokers.embedded_nats import find_binary
from tests.support.broker_checks import QUERIES, assert_exact, event, last_seq, resumed
from tests.support.deployed import Deployed
from tests.support.live import Api, Refused, Socket, attached
from tests.support.processes import open_folder
from tests.support.waiting import until

pytestmark = pytest.mark.slow
WAIT_S = 90.0


class Cluster:
    """Three NATS servers on this machine."""

    def __init__(self) -> None:
        self._folder = open_folder("prosem-nats-")
        self.ports = [free_port() for _ in range(3)]
        self._routes = [free_port() for _ in range(3)]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def url(self) -> str:
        return ",".join(f"nats://127.0.0.1:{port}" for port in self.ports)

    def start(self, node: int) -> None:
        config = self._folder / f"{node}.conf"
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes)
        config.write_text(
            f'server_name: n{node}\nlisten: "127.0.0.1:{self.ports[node]}"\n'
            f'jetstream {{ store_dir: "{self._folder / str(node)}" }}\n'
            f'cluster {{ name: c, listen: "127.0.0.1:{self._routes[node]}", routes: [{routes}] }}\n'
        )
        with open(self._folder / f"{node}.log", "ab") as log:
            self._processes[node] = subprocess.Popen(
                [find_binary(), "-c", str(config)], stdout=log, stderr=log
            )

    def kill(self, node: int) -> None:
        self._processes[node].kill()
        self._processes[node].wait()

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    for node in range(3):
        made.start(node)
    yield made
    made.stop()


def test_each_node_of_a_nats_cluster_is_killed(cluster: Cluster) -> None:
    rng = random.Random(11)
    with (
        Deployed(nats=cluster.url, options=("--nats-replicas", "3")) as deployed,
        Api(deployed.server.url) as api,
    ):
        table = api.table(
            {"k": "integer", "x": "integer", "y": "integer", "z": "integer", "s": "text"}, ["k"]
        )
        ids = [api.subscribe(sql.format(table), params)["id"] for sql, params, _ in QUERIES[:6]]
        sockets = [attached(url, ids) for url in deployed.urls]
        for node in range(3):
            api.publish(table, [event(rng) for _ in range(20)])
            cluster.kill(node)
            for _ in range(10):
                seq = api.publish(table, [event(rng) for _ in range(5)])["last_seq"]
                sockets[0].until(lambda frame, seq=seq: frame.get("progress", -1) >= seq, wait_s=WAIT_S)  # type: ignore[misc]
            seq = last_seq(api)
            for socket in sockets:
                socket.until(lambda frame, seq=seq: frame.get("progress", -1) >= seq, wait_s=WAIT_S)  # type: ignore[misc]
            cluster.start(node)
        assert_exact(api, ids, sockets)
        for socket in sockets:
            socket.close()


@pytest.mark.parametrize("network", SCHEMES)
def test_parts_die_at_random(network: str) -> None:
    """Brokers, in a tree where there is one, the server and NATS are killed or stopped; lost sockets resume elsewhere.

    Brokers remember one of three long texts that rows carry (CN*).
    """
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    rng = random.Random(seed)
    options = ("--network", network, "--network-options", "fan_out=1,repository=1")
    with Deployed(options=options) as deployed, Api(deployed.server.url) as api:
        columns = {"k": "integer", "x": "integer", "y": "integer", "z": "integer", "s": "text"}
        table = api.table({**columns, "long": "text"}, ["k"])
        ids = [api.subscribe(sql.format(table), params)["id"] for sql, params, _ in QUERIES[:6]]
        sockets, where = [attached(url, ids) for url in deployed.urls[:-1]], list(range(3))
        for _ in range(12):
            _strike(rng, deployed, api, table, sockets, where, ids)
            for _ in range(5):
                publish(api, table, rng)
        seq = last_seq(api)
        for socket in sockets:
            socket.until(lambda frame: frame.get("progress", -1) >= seq, wait_s=WAIT_S)
        assert_exact(api, ids, sockets)
        for socket in sockets:
            socket.close()


def publish(api: Api, table: str, rng: random.Random) -> None:
    """It may be refused while the server starts; nothing of it was applied then."""
    events = [event(rng) for _ in range(5)]
    for one in events:
        one["row"]["long"] = rng.choice("abc") * 200
    with contextlib.suppress(Refused):
        api.publish(table, events)


def _strike(
    rng: random.Random,
    deployed: Deployed,
    api: Api,
    table: str,
    sockets: list[Socket],
    where: list[int],
    ids: list[str],
) -> None:
    """Something happens to a part; `where` says at which broker each socket is."""
    at = rng.randrange(len(deployed.brokers))
    broker = deployed.brokers[at]
    what = rng.choice(("broker", "server", "nats", "stop", "stop long"))
    print(what, at)
    if what == "broker":
        broker.kill()
        for number in [number for number, there in enumerate(where) if there == at]:
            with pytest.raises(ConnectionClosed):
                sockets[number].until(lambda frame: False)
            where[number] = (at + 1) % len(deployed.brokers)
            sockets[number] = resumed(sockets[number], deployed.brokers[where[number]].url, ids)
        broker.start()
    elif what == "server":
        deployed.server.kill()
        deployed.server.start()
    elif what == "nats":
        deployed.kill_nats()
    else:
        deployed.signal(signal.SIGSTOP, broker)
        if what == "stop long":  # until its lease is over
            until(lambda: broker.folder.name not in deployed.names(), WAIT_S)
        else:
            publish(api, table, rng)
        deployed.signal(signal.SIGCONT, broker)
