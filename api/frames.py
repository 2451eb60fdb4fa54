"""Many WebSocket frames in one write.

The usual way costs a task switch, a validation and a system call a frame. A batch of changes is a list of ready JSON texts,
so the protocol is given an ASGI extension: `{"type": "websocket.send", "frames": [bytes, …]}` writes all of them, each as a
text frame of its own (RFC 6455 §5: unmasked, not fragmented), in one call to the transport. Elsewhere, and with
compression on, frames go one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, cast

from fastapi import WebSocket
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

EXTENSION = "prosem.frames"
_MAX_WRITE_BYTES = 1 << 18


def text_frame(payload: bytes) -> bytes:
    """One text frame from a server.

    >>> text_frame(b"hi")
    b'\\x81\\x02hi'
    """
    size = len(payload)
    if size < 126:
        return b"\x81%c%b" % (size, payload)
    if size < 1 << 16:
        return b"\x81\x7e" + struct.pack("!H", size) + payload
    return b"\x81\x7f" + struct.pack("!Q", size) + payload


class FrameProtocol(WebSocketsSansIOProtocol):
    """Uvicorn's protocol with the extension."""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        scope = getattr(self, "scope", None)
        if scope is not None and not self.conn.extensions:
            cast(Any, scope)["extensions"][EXTENSION] = {}

    async def send(self, message: Any) -> None:
        frames = message.get("frames")
        if frames is None:
            await super().send(message)
            return
        await self.writable.wait()
        if not self.close_sent and not self.transport.is_closing():
            self.transport.write(b"".join(map(text_frame, frames)))


async def send_all(socket: WebSocket, payloads: Iterable[bytes]) -> None:
    """Send texts in order, as many a write as the connection takes well."""
    if EXTENSION not in socket.scope.get("extensions", {}):
        for payload in payloads:
            await socket.send_text(payload.decode())
        return
    some: list[bytes] = []
    size = 0
    for payload in payloads:
        some.append(payload)
        size += len(payload)
        if size >= _MAX_WRITE_BYTES:
            await socket.send({"type": "websocket.send", "frames": some})
            some, size = [], 0
    if some:
        await socket.send({"type": "websocket.send", "frames": some})
