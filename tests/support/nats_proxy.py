"""Between a broker and NATS: messages of the stream are held back and come in another order; all else passes as it is."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import re
import threading
from collections.abc import Coroutine, Iterable
from typing import Any

_MESSAGE = re.compile(rb"H?MSG \S+ (?:\S+ )+?(\d+)\r\n")
HELD = 6  # messages at most that are held back, for the time below at most
HELD_S = 0.05


class ReorderingProxy:
    """Listens on a port of this machine in a thread of its own; what connects is connected to `to`.

    NATS says `MSG subject … size`, a line, and then as many bytes: from the server to the client, messages whose subject is
    one of ours wait for others, and leave in a random order. `reordered` counts those that overtook another.
    """

    def __init__(self, port: int, to: int, seed: int = 3) -> None:
        self._port, self._to, self._dice = port, to, random.Random(seed)
        self.reordered = 0
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._run(),), daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._loop.close()

    async def _run(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        await self._stopping.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.close()
            return
        tasks = [asyncio.ensure_future(way) for way in self._ways(reader, back, there, writer)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        back.close()
        writer.close()

    def _ways(
        self,
        reader: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> Iterable[Coroutine[Any, Any, None]]:
        return self._pass(reader, back), self._reorder(there, writer)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()

    async def _reorder(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held: list[bytes] = []
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                try:
                    line = await asyncio.wait_for(reader.readuntil(b"\r\n"), HELD_S if held else None)
                except TimeoutError:
                    self._let_go(held, writer)
                    continue
                message = _MESSAGE.fullmatch(line)
                if message is None:
                    writer.write(line)
                    continue
                frame = line + await reader.readexactly(int(message[1]) + 2)
                if not line.split(b" ", 2)[1].startswith((b"prosem.", b"_INBOX.")):
                    writer.write(frame)
                    continue
                held.append(frame)
                if len(held) >= HELD:
                    self._let_go(held, writer)

    def _let_go(self, held: list[bytes], writer: asyncio.StreamWriter) -> None:
        order = [*range(len(held))]
        self._dice.shuffle(order)
        self.reordered += sum(later < earlier for earlier, later in itertools.pairwise(order))
        writer.writelines([held[at] for at in order])
        held.clear()


class SlowProxy(ReorderingProxy):
    """Everything comes later by `delay_s`, in both directions and in its order: a broker that is far from NATS."""

    def __init__(self, port: int, to: int) -> None:
        super().__init__(port, to)
        self.delay_s = 0.0

    def _ways(
        self,
        reader: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> Iterable[Coroutine[Any, Any, None]]:
        return self._late(reader, back), self._late(there, writer)

    async def _late(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        due = 0.0
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                due = max(due + 1e-6, self._loop.time() + self.delay_s)
                self._loop.call_at(due, writer.write, data)


class CuttingProxy:
    """Connections to `to` pass through it until it is cut; while it is, they are refused."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._open:
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        ends = {writer, back}
        self._open |= ends
        await asyncio.gather(_pump(reader, back), _pump(there, writer))
        self._open -= ends


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
