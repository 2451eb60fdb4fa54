"""A TCP proxy whose line can be cut: a network that loses everything, without a word to either end."""

from __future__ import annotations

import asyncio
import contextlib
import threading

_BLOCK_BYTES = 1 << 16


class CutProxy:
    """Listens on a port of this machine in a thread of its own; what connects is connected to port `to`.

    While it is cut, bytes are not carried and connections are accepted but not answered, as behind a lost router.
    `mend` ends the connections that were cut and carries new ones.
    """

    def __init__(self, port: int, to: int) -> None:
        self.port, self._to = port, to
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._whole = asyncio.Event()
        self._links: set[asyncio.Task[None]] = set()
        self._failure: Exception | None = None
        self._is_open = threading.Event()
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._run(),), daemon=True
        )

    def __enter__(self) -> CutProxy:
        self._thread.start()
        self._is_open.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    def mend(self) -> None:
        asyncio.run_coroutine_threadsafe(self._mend(), self._loop).result()

    async def _cut(self) -> None:
        self._whole.clear()

    async def _mend(self) -> None:
        for link in self._links:
            link.cancel()
        self._whole.set()

    async def _run(self) -> None:
        self._whole.set()
        try:
            server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        except OSError as error:
            self._failure = error
            return
        finally:
            self._is_open.set()
        await self._closing.wait()
        server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        back: asyncio.StreamWriter | None = None
        try:
            await self._whole.wait()
            there, back = await asyncio.open_connection("127.0.0.1", self._to)
            ways = [
                asyncio.ensure_future(self._carry(reader, back)),
                asyncio.ensure_future(self._carry(there, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for end in (writer, back):
                if end is not None:
                    end.transport.abort()
            self._links.discard(link)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_BLOCK_BYTES):
                await self._whole.wait()
                writer.write(data)
                await writer.drain()
        await self._whole.wait()  # the end of a connection is not heard of either
