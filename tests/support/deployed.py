"""A server, NATS and brokers as real processes, for the tests of brokers."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import msgspec

from api.commands.process import free_port
from api.http.models.preview_responses import NetworkDescription
from prosem.store import postmaster
from tests.support.live import Api
from tests.support.nats_proxy import ReorderingProxy, SlowProxy
from tests.support.processes import ServerProcess, open_folder
from tests.support.waiting import until

LEASE_S = 2


class Deployed:
    """`prosem serve --nats …` and some `prosem broker`s, each of which a test may stop or kill.

    `reordering`: so many of the last brokers are sent everything late and in another order. `slow`: each of so many of the
    first brokers reaches NATS by a proxy of its own, which a test may slow down.
    """

    def __init__(
        self,
        brokers: int = 3,
        nats: str = "embedded",
        options: tuple[str, ...] = (),
        reordering: int = 0,
        slow: int = 0,
    ) -> None:
        self.folder = open_folder("prosem-brokers-")
        lease = ("--lease-s", str(LEASE_S))
        self.server = ServerProcess(
            "--nats", nats, *lease, *options, folder=self._made("server"), port=free_port()
        )
        address = f"http://127.0.0.1:{self.server.port}"
        self.brokers = [
            ServerProcess(
                *("--server", address, "--name", f"broker-{number}"),
                folder=self._made(f"broker-{number}"),
                command="broker",
                port=free_port(),
            )
            for number in range(1, brokers + 1)
        ]
        self.proxies: list[ReorderingProxy] = []
        self.slow: dict[str, SlowProxy] = {}
        if reordering or slow:
            self._put_between(self.brokers[-reordering:] if reordering else [], self.brokers[:slow])

    def _put_between(self, reordered: list[ServerProcess], slow: list[ServerProcess]) -> None:
        """The address of NATS is made here, not by the server, so that it is known before it starts."""
        port, other = free_port(), free_port()
        folder = self.server.folder / "data" / "nats"
        folder.mkdir(parents=True)
        (folder / "address").write_text(f"nats://prosem:secret@127.0.0.1:{port}\n")
        if reordered:
            self.proxies.append(ReorderingProxy(other, port))
        for broker in reordered:
            broker.options += ("--nats", f"nats://prosem:secret@127.0.0.1:{other}")
        for broker in slow:
            own = free_port()
            made = self.slow[broker.folder.name] = SlowProxy(own, port)
            self.proxies.append(made)
            broker.options += ("--nats", f"nats://prosem:secret@127.0.0.1:{own}")

    def _made(self, name: str) -> Path:
        (self.folder / name).mkdir(mode=0o755)
        return self.folder / name

    def __enter__(self) -> Deployed:
        for proxy in self.proxies:
            proxy.start()
        for process in (self.server, *self.brokers):
            process.start(wait=False)
        try:
            for process in (self.server, *self.brokers):
                process.wait_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        if kind is not None:
            for one in (self.server, *self.brokers):
                print(f"-- the end of the log of {one.folder.name}:\n{one.log[-4000:]}")
        for processes in (self.brokers, [self.server]):
            left = [one for one in processes if one.process is not None and one.process.poll() is None]
            for one in left:
                self.signal(signal.SIGCONT, one)
                self.signal(signal.SIGTERM, one)
            for one in left:
                one.stop()
        for proxy in self.proxies:
            proxy.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def urls(self) -> list[str]:
        """Of every process that holds sockets, the server last."""
        return [process.url for process in (*self.brokers, self.server)]

    def network(self) -> dict[str, Any]:
        with Api(self.server.url) as api:
            found: dict[str, Any] = api.call("GET", "/v1/network")
        msgspec.convert(found, NetworkDescription)  # as the OpenAPI document describes it
        return found

    def messages(self, broker: str) -> int:
        """Carried from the server to this broker, in its present life."""
        return sum(
            link["messages"]
            for link in self.network()["links"]
            if (link["from"], link["to"]) == ("server", broker)
        )

    def names(self) -> set[str]:
        return {broker["name"] for broker in self.network()["brokers"]}

    def broker(self, name: str) -> ServerProcess:
        return next(broker for broker in self.brokers if broker.folder.name == name)

    def signal(self, number: int, process: ServerProcess) -> None:
        assert process.process is not None
        os.kill(process.process.pid, number)

    def kill_nats(self) -> None:
        """The server's own NATS; if it is just being started again after the last time, the next one."""
        written = self.server.folder / "data" / "nats" / "nats.pid"

        def kill() -> bool:
            try:
                os.kill(int(written.read_text()), signal.SIGKILL)
            except (ProcessLookupError, ValueError, FileNotFoundError):
                return False
            return True

        until(kill)

    def kill_postgres(self) -> None:
        """The server's own PostgreSQL; if it is just being started again after the last time, the next one."""
        cluster = self.server.folder / "data" / "cluster"

        def kill() -> bool:
            running = postmaster.find(cluster)
            if running is None or running.port is None:
                return False
            os.kill(running.pid, signal.SIGKILL)
            return True

        until(kill)

    def lives(self, broker: ServerProcess) -> int:
        """How often a broker has joined."""
        return len(re.findall(r": joined ", broker.log))
