"""A server with NATS and brokers behind one port, as one command: what the acceptance kit takes for `--serve`.

    python -m tests.support.brokers_front --data-dir {dir} --port {port} [--brokers 3] [--killed-s 10] [--resumed FILE]
        [options of serve]

Every connection goes to the next broker that takes it. With `--killed-s` there is one broker more, the first to join, so
that others may be below it: it is killed and started again every so many seconds, as soon as a socket there has been given
a change, after twice the time at the latest. Sockets of `WS /v1/stream` begin there, and resume at another broker when it
is killed (`resuming.py`); the file of `--resumed` says how often one has. All other connections go to the brokers that
live. SIGTERM ends everything. Killed by SIGKILL with its process group, it can be started again on the same folder:
PostgreSQL and NATS live on and are adopted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import signal
import sys
from pathlib import Path

import httpx
from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection, serve

from api.commands.process import BOOT_S, free_port
from prosem.runtime.supervise import end
from tests.support.resuming import Carried
from tests.support.waiting import until_async

HOST = "127.0.0.1"


class Front:
    """The processes, and the balancer before them."""

    def __init__(
        self, data_dir: Path, brokers: int, killed_s: float, resumed: Path | None, options: list[str]
    ) -> None:
        self._data_dir, self._killed_s, self._options = data_dir, killed_s, options
        self._report, self._resumed = resumed, 0
        self.server, self._streams, self._mortal, *self.brokers = (free_port() for _ in range(3 + brokers))
        self.processes: dict[int, asyncio.subprocess.Process] = {}  # by port
        self._killing: asyncio.Task[None] | None = None
        self._turn = itertools.count()
        self._sockets: WebSocketServer | None = None
        self._carried: set[Carried] = set()

    async def start(self) -> None:
        await self._run(
            "serve", self.server, "--data-dir", str(self._data_dir), "--nats", "embedded", *self._options
        )
        if self._killed_s:
            await self._run_broker("mortal", self._mortal)
            await self._ready(self._mortal)
        for number, port in enumerate(self.brokers, 1):
            await self._run_broker(f"broker-{number}", port)
        for port in self.brokers:
            await self._ready(port)
        if self._killed_s:
            self._sockets = await serve(self._carry, HOST, self._streams, max_size=None)
            self._killing = asyncio.create_task(self._kill_often())

    async def _kill_often(self) -> None:
        while True:
            await asyncio.sleep(self._killed_s)
            with contextlib.suppress(AssertionError):
                await until_async(lambda: any(one.changes for one in self._at_mortal()), self._killed_s)
            process = self.processes[self._mortal]
            process.kill()
            await process.wait()
            await self._run_broker("mortal", self._mortal)

    def _at_mortal(self) -> list[Carried]:
        return [one for one in self._carried if one.address == _streams(self._mortal)]

    async def _run_broker(self, name: str, port: int) -> None:
        await self._run("broker", port, "--server", f"http://{HOST}:{self.server}", "--name", name)

    async def _run(self, command: str, port: int, *options: str) -> None:
        arguments = ("-m", "api.commands.cli", command, "--port", str(port), *options)
        self.processes[port] = await asyncio.create_subprocess_exec(sys.executable, *arguments)

    async def _ready(self, port: int) -> None:
        async with httpx.AsyncClient(trust_env=False) as client:

            async def is_ready() -> bool:
                try:
                    return (await client.get(f"http://{HOST}:{port}/readyz")).status_code == 200
                except httpx.HTTPError:
                    return False

            await until_async(is_ready, BOOT_S)

    async def stop(self) -> None:
        await end(self._killing)
        if self._sockets is not None:
            self._sockets.close()
        for process in reversed(self.processes.values()):
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()

    # -- the balancer --------------------------------------------------------------------------------------------
    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a connection on, byte by byte."""
        first = next(self._turn)
        ports = [self.brokers[(first + at) % len(self.brokers)] for at in range(len(self.brokers))]
        begun = b""
        if self._sockets is not None:
            with contextlib.suppress(asyncio.IncompleteReadError):
                begun = await reader.readuntil(b"\r\n")
            if begun.startswith(b"GET /v1/stream "):
                ports = [self._streams]
        for port in ports:
            with contextlib.suppress(OSError):
                there, back = await asyncio.open_connection(HOST, port)
                back.write(begun)
                await asyncio.gather(_pump(reader, back), _pump(there, writer), return_exceptions=True)
                return
        writer.close()

    async def _carry(self, client: ServerConnection) -> None:
        ports = itertools.cycle((self._mortal, *self.brokers))
        carried = Carried(client, map(_streams, ports), self._has_resumed)
        self._carried.add(carried)
        await carried.carry()
        self._carried.discard(carried)

    def _has_resumed(self) -> None:
        self._resumed += 1
        if self._report is not None:
            self._report.write_text(str(self._resumed))


def _streams(port: int) -> str:
    return f"ws://{HOST}:{port}/v1/stream"


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until one side ends."""
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


async def run(port: int, front: Front) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    try:
        starting = asyncio.ensure_future(front.start())
        stopped = asyncio.ensure_future(stopping.wait())
        await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            balancer = await asyncio.start_server(front.connected, HOST, port)
            await stopping.wait()
            balancer.close()
        starting.cancel()
    finally:
        await front.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--killed-s", type=float, default=0.0)
    parser.add_argument("--resumed", type=Path)
    given, options = parser.parse_known_args()
    asyncio.run(run(given.port, Front(given.data_dir, given.brokers, given.killed_s, given.resumed, options)))


if __name__ == "__main__":
    main()
