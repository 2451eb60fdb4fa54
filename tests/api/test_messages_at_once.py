"""One read of a socket may hold thousands of messages: they are parsed as the application takes them."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from api.http.websocket_frames import FrameProtocol
from bench.listener import _masked

HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Transport(asyncio.Transport):
    """What is written goes nowhere; whether it reads is noted."""

    reads = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: Any) -> None: ...

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None: ...

    def pause_reading(self) -> None:
        assert self.reads
        self.reads = False

    def resume_reading(self) -> None:
        assert not self.reads
        self.reads = True


async def _opened(app: Any) -> tuple[FrameProtocol, Transport]:
    config = uvicorn.Config(app, ws_per_message_deflate=False, ws_ping_interval=None, log_config=None)
    protocol, transport = FrameProtocol(config, ServerState(), {}), Transport()
    protocol.connection_made(transport)
    protocol.data_received(HANDSHAKE)
    await asyncio.sleep(0)
    return protocol, transport


class Application:
    """Takes a message whenever it may, and keeps it."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.may = asyncio.Semaphore(0)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "websocket.connect"
        scope["extensions"]["prosem.admission"]["admit"]()
        await send({"type": "websocket.accept"})
        while True:
            await self.may.acquire()
            message = await receive()
            self.got.append(message["text"])

    async def take(self, count: int, until: int) -> None:
        for _ in range(count):
            self.may.release()
        while len(self.got) < until:
            await asyncio.sleep(0)


def _texts(count: int, size: int = 0) -> list[str]:
    return [f"{number:05}" + "x" * size for number in range(count)]


async def test_thousands_are_parsed_some_at_a_time_and_taken_in_order() -> None:
    app = Application()
    protocol, transport = await _opened(app)
    texts = _texts(5_000, 50)
    protocol.data_received(b"".join(_masked(text.encode()) for text in texts))
    assert 0 < protocol.queue.qsize() < 500
    assert not transport.reads
    for done in range(1000, 5001, 1000):
        await app.take(1000, done)
        assert protocol.queue.qsize() < 500
    assert app.got == texts
    app.may.release()  # it waits for another
    await asyncio.sleep(0)
    assert transport.reads
    protocol.data_received(_masked(b"one more"))
    while app.got[-1] != "one more":
        await asyncio.sleep(0)


async def test_messages_longer_than_what_is_parsed_at_a_time() -> None:
    app = Application()
    protocol, transport = await _opened(app)
    texts = _texts(7, 100_000)
    sent = b"".join(
        _masked(text.encode()[:60_000], 0x01) + _masked(text.encode()[60_000:], 0x80) for text in texts
    )
    for start in range(0, len(sent), 65_536):
        protocol.data_received(sent[start : start + 65_536])  # what was read before the reading stopped
    await app.take(7, 7)
    assert app.got == texts
    app.may.release()
    await asyncio.sleep(0)
    assert transport.reads


async def test_nothing_behind_the_first_message_is_parsed_before_its_sender_is_known() -> None:
    known, got = asyncio.Event(), []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        got.append((await receive())["text"])
        await known.wait()
        scope["extensions"]["prosem.admission"]["admit"]()
        while True:
            got.append((await receive())["text"])

    protocol, transport = await _opened(app)
    texts = _texts(2_000, 50)
    protocol.data_received(b"".join(_masked(text.encode()) for text in texts))
    for _ in range(10):
        await asyncio.sleep(0)
    assert got == texts[:1]
    assert protocol.queue.empty()
    assert not transport.reads
    known.set()
    while len(got) < len(texts):
        await asyncio.sleep(0)
    assert got == texts
