"""A listener process: attaches many subscriptions over a few sockets and counts frames without decoding them.

It reads WebSocket frames from the raw socket, so that what is measured is the server and not a client library.
Counts, progress and the arrival time of recent seqs are shared through a small memory map.
"""

from __future__ import annotations

import asyncio
import base64
import json
import multiprocessing
import os
import re
import struct
import sys
import time
from multiprocessing.shared_memory import SharedMemory
from typing import Any
from urllib.parse import urlsplit

_SLOTS = 4096
_SEQ = re.compile(rb'"seq":(\d+)')


class Listener:
    """Start it as a context manager; `count`, `wait_progress` and `arrival` look into the shared memory."""

    def __init__(self, url: str, ids: list[str], sockets: int) -> None:
        self._memory = SharedMemory(create=True, size=8 * (4 + sockets + 2 * _SLOTS))
        self._sockets = sockets
        self._process = multiprocessing.get_context("spawn").Process(
            target=_listen, args=(url, ids, sockets, self._memory.name), daemon=True
        )
        self._ids = len(ids)

    def __enter__(self) -> Listener:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()
        self._memory.close()
        self._memory.unlink()

    def _read(self, at: int) -> int:
        (value,) = struct.unpack_from("q", _buffer(self._memory), 8 * at)
        return int(value)

    def count(self) -> int:
        return self._read(0)

    def wait_attached(self, seconds: float = 120.0) -> None:
        self._wait(lambda: self._read(1) >= self._ids, seconds, "the subscriptions were not attached in time")

    def wait_progress(self, seq: int, seconds: float = 60.0) -> None:
        at = range(4, 4 + self._sockets)
        self._wait(lambda: min(map(self._read, at)) >= seq, seconds, f"progress did not reach {seq}")

    def arrival(self, seq: int, seconds: float) -> float | None:
        """When the first frame of this seq came; None if none came."""
        slot = 4 + self._sockets + 2 * (seq % _SLOTS)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._read(slot) == seq:
                (moment,) = struct.unpack_from("d", _buffer(self._memory), 8 * (slot + 1))
                return float(moment)
            if min(map(self._read, range(4, 4 + self._sockets))) >= seq:
                return None
            time.sleep(0.0005)
        return None

    def _wait(self, condition: Any, seconds: float, text: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if not self._process.is_alive():
                raise ChildProcessError("the listener has ended")
            if time.monotonic() > deadline:
                raise TimeoutError(text)
            time.sleep(0.001)


def _buffer(memory: SharedMemory) -> memoryview[int]:
    assert memory.buf is not None
    return memory.buf


def _listen(url: str, ids: list[str], sockets: int, name: str) -> None:
    memory = SharedMemory(name=name)
    shares = [ids[at::sockets] for at in range(sockets)]

    async def everything() -> None:
        loop, place = asyncio.get_running_loop(), urlsplit(url)
        for number, share in enumerate(shares):
            frames = Frames(memory, number, sockets, share)
            await loop.create_connection(lambda made=frames: made, place.hostname or "", place.port or 0)  # type: ignore[misc]
        await asyncio.Event().wait()

    asyncio.run(everything())


class Frames(asyncio.Protocol):
    """One socket: a handshake, attaches, and then frames that are only counted."""

    def __init__(self, memory: SharedMemory, number: int, sockets: int, ids: list[str]) -> None:
        self._buffer, self._memory, self._number, self._sockets, self._ids = b"", memory, number, sockets, ids
        self._is_open = False
        self._last = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        key = base64.b64encode(os.urandom(16)).decode()
        host = "{}:{}".format(
            *transport.get_extra_info("peername")
        )  # a server without keys is asked by its own name
        transport.write(
            f"GET /v1/stream HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )

    def connection_lost(self, error: Exception | None) -> None:
        os._exit(1)  # no figure of such a run is worth anything

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data
        if not self._is_open:
            head, separator, buffer = buffer.partition(b"\r\n\r\n")
            if not separator:
                self._buffer = head
                return
            if not head.startswith(b"HTTP/1.1 101 "):
                sys.exit(f"the stream was refused: {head.splitlines()[0].decode()}")
            self._is_open = True
            for id in self._ids:
                self._transport.write(_masked(json.dumps({"op": "attach", "id": id}).encode()))
        at, size, changes, snapshots = 0, len(buffer), 0, 0
        while at + 2 <= size:
            length, start = buffer[at + 1], at + 2
            if length == 126:
                if start + 2 > size:
                    break
                length, start = int.from_bytes(buffer[start : start + 2]), start + 2
            elif length == 127:
                if start + 8 > size:
                    break
                length, start = int.from_bytes(buffer[start : start + 8]), start + 8
            if start + length > size:
                break
            if buffer[at] == 0x89:
                self._transport.write(_masked(buffer[start : start + length], 0x8A))
            elif buffer.startswith(b'{"progress":', start):
                self._put(4 + self._number, int(buffer[start + 12 : start + length - 1].partition(b",")[0]))
            elif buffer.startswith(b'{"id":', start):
                found = _SEQ.search(buffer, start, start + 300)
                if found and buffer.startswith(b',"change"', found.end()):
                    changes += 1
                    self._arrived(int(found[1]))
                else:
                    snapshots += 1
            at = start + length
        self._buffer = buffer[at:]
        self._add(0, changes)
        self._add(1, snapshots)

    def _arrived(self, seq: int) -> None:
        if seq != self._last:
            self._last = seq
            slot = 4 + self._sockets + 2 * (seq % _SLOTS)
            (known,) = struct.unpack_from("q", _buffer(self._memory), 8 * slot)
            if known != seq:
                struct.pack_into("d", _buffer(self._memory), 8 * (slot + 1), time.time())
                self._put(slot, seq)

    def _add(self, at: int, value: int) -> None:
        if value:
            (known,) = struct.unpack_from("q", _buffer(self._memory), 8 * at)
            struct.pack_into("q", _buffer(self._memory), 8 * at, known + value)

    def _put(self, at: int, value: int) -> None:
        struct.pack_into("q", _buffer(self._memory), 8 * at, value)


def _masked(payload: bytes, first: int = 0x81) -> bytes:
    """A client's frame; a mask of zeros leaves the payload as it is."""
    size = len(payload)
    head = (
        struct.pack("!BB", first, 0x80 | size) if size < 126 else struct.pack("!BBH", first, 0x80 | 126, size)
    )
    return head + b"\0\0\0\0" + payload
