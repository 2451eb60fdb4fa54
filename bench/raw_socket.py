"""The limit of delivery: a bare ASGI application that sends 200-byte frames one by one under the same server."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from typing import Any

import uvicorn

HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Counter(asyncio.Protocol):
    def __init__(self) -> None:
        self.size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(HANDSHAKE)

    def data_received(self, data: bytes) -> None:
        self.size += len(data)


async def main(seconds: float) -> float:
    text = "x" * 200

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            return
        await receive()
        await send({"type": "websocket.accept"})
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            for _ in range(100):
                await send({"type": "websocket.send", "text": text})
            await asyncio.sleep(0)
        await send({"type": "websocket.close"})

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = uvicorn.Config(application, port=port, log_level="error", ws="websockets-sansio", lifespan="off")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.02)
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    _, counter = await loop.create_connection(Counter, "127.0.0.1", port)
    await asyncio.sleep(seconds + 0.2)
    rate = counter.size / 204 / (time.perf_counter() - start - 0.2)
    server.should_exit = True
    await running
    return rate


if __name__ == "__main__":
    print(asyncio.run(main(float(sys.argv[1]))))
