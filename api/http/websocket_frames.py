"""Many WebSocket frames in one write.

The usual way costs a task switch, a validation and a system call per frame. A batch of changes is a list of JSON texts,
so the protocol is given an ASGI extension: `{"type": "websocket.send", "frames": [bytes, …]}` writes all of them, each as a
text frame of its own (RFC 6455 §5: unmasked, not fragmented), in one call to the transport. Elsewhere, and with
compression on, frames go one by one.

What arrives at once is parsed some kilobytes at a time, the next of them when the messages before have been taken: one read
may hold thousands of small ones.

The protocol also bounds what a socket can cost. Until `admit` is called its first message may have `FIRST_FRAME_BYTES`, and
what follows it is neither read nor parsed; bytes that arrived together with it are put aside. One that does not answer a
ping is aborted: a close would wait for bytes that are never read.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable
from typing import Any, cast

from fastapi import WebSocket
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import DATA_OPCODES, Frame
from websockets.http11 import Request

EXTENSION = "prosem.frames"
ADMISSION = "prosem.admission"
_MAX_WRITE_BYTES = 1 << 16
_PARSED_BYTES = 1 << 14  # at a time: some hundred small messages
FIRST_FRAME_BYTES = 16 << 10


_SHORT = [b"\x81%c" % size for size in range(126)]  # how a short frame begins


def text_frame(payload: bytes) -> bytes:
    """One text frame from a server.

    >>> text_frame(b"hi")
    b'\\x81\\x02hi'
    """
    size = len(payload)
    if size < 126:
        return _SHORT[size] + payload
    if size < 1 << 16:
        return b"\x81\x7e" + struct.pack("!H", size) + payload
    return b"\x81\x7f" + struct.pack("!Q", size) + payload


class FrameProtocol(WebSocketsSansIOProtocol):
    """Uvicorn's protocol with the extensions."""

    _is_admitted = False
    _aside = b""  # what came with the first message, after it
    _unparsed = b""
    _unsent = 0  # bytes that waited when the last ping was sent

    def handle_connect(self, event: Request) -> None:
        self.conn.max_message_size = FIRST_FRAME_BYTES
        cast(Any, self.conn).recv_frame = self._take_frame
        super().handle_connect(event)
        scope = getattr(self, "scope", None)
        if scope is not None:
            cast(Any, scope)["extensions"][ADMISSION] = {"admit": self.admit}
            if not self.conn.extensions:
                cast(Any, scope)["extensions"][EXTENSION] = {}

    # -- before authentication -----------------------------------------------------------------------------------
    def admit(self) -> None:
        """The caller is known: messages of the full size, one after the other."""
        if not self._is_admitted:
            self._is_admitted = True
            self.conn.max_message_size = self.config.ws_max_size
            self._unparsed, self._aside = self._aside + self._unparsed, b""
            self._parse()
            self._resume()

    def _take_frame(self, frame: Frame) -> None:
        """The parser's own step; before `admit` it finds nothing more after the end of the first message."""
        type(self.conn).recv_frame(self.conn, frame)
        if not self._is_admitted and frame.fin and frame.opcode in DATA_OPCODES:
            self._aside += bytes(self.conn.reader.buffer)
            self.conn.reader.discard()

    def _resume(self) -> None:
        is_taken = self._is_admitted and self.queue.empty() and not self._unparsed
        if self.read_paused and is_taken and not self.transport.is_closing():
            self.read_paused = False
            self.transport.resume_reading()

    # -- what arrives --------------------------------------------------------------------------------------------
    def data_received(self, data: bytes) -> None:
        self._unparsed += data
        self._parse()

    def _parse(self) -> None:
        """Up to the next messages for the application; what is left waits until it has taken them."""
        while self._unparsed and self.queue.empty() and (self._is_admitted or not self.read_paused):
            if self.transport.is_closing():
                return
            data, self._unparsed = self._unparsed[:_PARSED_BYTES], self._unparsed[_PARSED_BYTES:]
            super().data_received(data)

    async def receive(self) -> Any:
        self._parse()
        self._resume()
        message = await self.queue.get()
        self._resume()
        return message

    # -- sockets that are not read -------------------------------------------------------------------------------
    def send_keepalive_ping(self) -> None:
        self._unsent = self.transport.get_write_buffer_size()
        super().send_keepalive_ping()

    def keepalive_timeout(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if (
            unsent < self._unsent and self.ping_timeout is not None
        ):  # it reads, but has not come to the ping yet
            self._unsent = unsent
            self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)
            return
        super().keepalive_timeout()
        self._abort_later(0 if unsent else self.close_timeout)

    def handle_close(self, event: Frame) -> None:
        super().handle_close(event)
        self._abort_later(self.close_timeout)

    def handle_parser_exception(self) -> None:
        super().handle_parser_exception()
        self._abort_later(self.close_timeout)

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self._abort_later(self.close_timeout)

    def _abort_later(self, wait_s: float) -> None:
        """End the connection whether or not the client reads what is left."""
        self.loop.call_later(wait_s, self.transport.abort)

    async def send(self, message: Any) -> None:
        frames = message.get("frames")
        if frames is None:
            await super().send(message)
            if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
                self.handshake_complete = True  # refused; else uvicorn logs that it never was
            return
        await self.writable.wait()
        if self.disconnected:
            raise ClientDisconnected()
        if not self.close_sent and not self.transport.is_closing():
            self.transport.write(b"".join(map(text_frame, frames)))


def admit(socket: WebSocket) -> None:
    """Lift the limits of a socket whose caller is not known yet."""
    found = socket.scope.get("extensions", {}).get(ADMISSION)
    if found is not None:
        found["admit"]()


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
            await asyncio.sleep(0)  # a connection that takes everything at once must not keep the loop
            some, size = [], 0
    if some:
        await socket.send({"type": "websocket.send", "frames": some})
