"""Two servers with one database under load: clients follow by themselves, and no change is lost or repeated."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from prosem_client import Client

from api.commands.process import free_port
from bench.takeover import Pair, Traffic, strike_once
from prosem.brokers.embedded_nats import EmbeddedNats
from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres
from tests.support.database import empty_database
from tests.support.live import Api
from tests.support.node import FOLDER, tool
from tests.support.processes import ServerProcess, open_folder
from tests.support.waiting import until

IMPATIENT = {"timeout_s": 2.0, "alive_s": 2.0, "reconnect_s": 60.0}
FOLLOW = """
import { Client } from "./src/index.js";
const client = new Client(process.argv[1], { timeoutMs: 2000, aliveMs: 1000, reconnectMs: 60000 });
const followed = await client.subscribe("SELECT * FROM t WHERE k > :k", { k: 0 }, { snapshot: true });
for await (const update of followed) console.log(JSON.stringify(update.change ?? { rows: update.result.rows.length }));
"""


@pytest.fixture
def database(postgres: EmbeddedPostgres) -> str:
    made = empty_database(postgres)
    schema.migrate(made)
    return made


class Script:
    """The JavaScript client in a process of its own; `keys` are those that were added since the snapshot."""

    def __init__(self, urls: str) -> None:
        self.process = subprocess.Popen(
            [tool("node"), "--input-type=module", "-e", FOLLOW, urls],
            cwd=FOLDER,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.first: int | None = None
        self.keys: list[int] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            update = json.loads(line)
            if "rows" in update:
                self.first = update["rows"]
            else:
                self.keys += [row["k"] for row in update["add"]]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.mark.slow
def test_both_clients_follow_every_takeover(database: str) -> None:
    with ExitStack() as opened:
        pair = opened.enter_context(Pair(database, open_folder("prosem-pair-"), takeover_s=2))
        traffic = opened.enter_context(Traffic(pair.urls, IMPATIENT).flowing())
        script = Script(pair.urls)
        opened.callback(script.close)
        until(lambda: script.first is not None)
        owners = []
        for fault in ("kill -9", "SIGSTOP", "lost network"):
            owners.append(pair.owner())
            strike_once(pair, traffic, fault)
            assert pair.owner() is not owners[-1]
        assert owners[0] is owners[2]
        goal = len(traffic.acknowledged)
        until(lambda: script.first is not None and script.first + len(script.keys) >= goal)
        assert script.first is not None
        assert script.keys == list(range(script.first + 1, script.first + 1 + len(script.keys)))


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 5])
def test_a_rolling_restart_of_servers_and_brokers(database: str, rounds: int) -> None:
    """Standby, owner, then each broker; publisher and subscriber are at the brokers' addresses."""
    folder = open_folder("prosem-rolling-")
    with ExitStack() as opened:
        nats = EmbeddedNats(folder / "nats")
        opened.callback(nats.stop)
        options = ("--nats", nats.start(), "--lease-s", "2")
        pair = opened.enter_context(Pair(database, folder, 2, *options))
        brokers = list(_brokers(opened, folder, pair.urls))
        with Traffic(",".join(broker.url for broker in brokers), IMPATIENT).flowing() as traffic:
            for _ in range(rounds):
                standby = next(member for member in pair.members if member is not pair.owner())
                pair.strike("SIGTERM", standby)
                pair.heal("SIGTERM", standby)
                strike_once(pair, traffic, "SIGTERM")
                for broker in brokers:
                    traffic.more()
                    assert broker.stop() == 0
                    traffic.more()
                    broker.start()
            traffic.more()
        with Api(pair.owner().url) as api:
            names = {broker["name"] for broker in api.call("GET", "/v1/network")["brokers"]}
        assert names == {"one", "two"}


def _brokers(opened: ExitStack, folder: Path, servers: str) -> Iterator[ServerProcess]:
    for name in ("one", "two"):
        (folder / name).mkdir()
        broker = ServerProcess(
            "--server", servers, "--name", name, folder=folder / name, command="broker", port=free_port()
        )
        broker.start()
        opened.callback(broker.stop)
        yield broker


def test_a_client_finds_the_server_behind_a_standby_at_once(database: str) -> None:
    """Calls and sockets that meet the standby first."""
    with Pair(database, open_folder("prosem-pair-"), takeover_s=2) as pair:
        standby = pair.members[1]
        until(lambda: "Application startup complete" in standby.log.read_text())
        with Client(f"{standby.url},{pair.members[0].url}") as client:
            client.create_table("t", {"k": "integer"}, ["k"])
            followed = client.subscribe("SELECT COUNT(*) FROM t")
            client.publish("t", [{"op": "insert", "row": {"k": 1}}])
            assert followed.next(20).result == {"value": 1}
            assert client.url == pair.members[0].url
        assert standby.process is not None
        standby.signal(signal.SIGTERM)
        assert standby.process.wait(30) == 0, "a standby that is stopped has not failed"
