"""Limits of an HTTP connection, enforced before a request reaches the application.

- The bytes of a request line with its headers, and of trailers, are bounded: 431.
- Headers must be complete within a time, and a body must not pause for longer than another: 408.
- A response that makes no progress for too long ends the connection (a reader of an event stream that has stopped reading).
- A connection whose file descriptor is close to the process's limit is answered 503 before the kernel refuses it in silence.

After a refusal what still arrives is read and dropped for a moment: closing at once would reset the connection, and the
client would never see the response. One timer per connection looks at all of it a few times per time-out, so a request
costs no timer of its own.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from dataclasses import dataclass
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

log = logging.getLogger("prosem.connections")
LINGER_S = 2.0
LOOKS = 4  # per shortest time-out
SPARE_FILES = 32  # for the database, log files and brokers
LOG_INTERVAL_S = 60.0


@dataclass
class Limits:
    """Of every connection of a process; `refused` counts connections refused for want of file descriptors."""

    header_bytes: int = 64 << 10
    header_timeout_s: float = 10.0
    body_timeout_s: float = 30.0
    write_timeout_s: float = 40.0
    refused: int = 0
    _logged: float | None = None

    @property
    def look_s(self) -> float:
        return min(self.header_timeout_s, self.body_timeout_s, self.write_timeout_s) / LOOKS

    def has_room(self, descriptor: int) -> bool:
        """Whether a connection with this descriptor may be served. The kernel gives the lowest number that is free."""
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if most == resource.RLIM_INFINITY or descriptor < most - SPARE_FILES:
            return True
        self.refused += 1
        now = time.monotonic()
        if self._logged is None or now - self._logged >= LOG_INTERVAL_S:
            self._logged = now
            log.error(
                "connections are refused: the process may have %d open files (%d refused so far); raise ulimit -n",
                most,
                self.refused,
            )
        return False


def limits_of(config: Any) -> Limits:
    """The limits of the application that a protocol serves."""
    found: Limits = config.app.state.limits
    return found


class LimitedHttp(HttpToolsProtocol):
    """Uvicorn's protocol with limits."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._limits = limits_of(self.config)
        self._in_headers = True
        self._in_body = False
        self._overhead = 0  # bytes since the parser had headers or a piece of a body complete
        self._is_over = False
        self._since = 0.0  # since when headers or the next piece of the body are awaited
        self._stalled: tuple[int, float] | None = (
            None  # bytes that are unsent, and since when there are no fewer
        )
        self._look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        self._look_later()
        connected = transport.get_extra_info("socket")
        if connected is not None and not self._limits.has_room(connected.fileno()):
            self._refuse(503, "the server has no room for another connection", {"Retry-After": "5"})
            transport.close()  # at once: its descriptor is needed

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        self._is_over = True
        if self._look is not None:
            self._look.cancel()
        super().handle_websocket_upgrade()

    # -- bytes ---------------------------------------------------------------------------------------------------
    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        if self._in_body or not self._overhead:
            self._since = self.loop.time()
        most = self._limits.header_bytes
        while data and not self._is_over and not self.transport.is_closing():
            # No more is parsed at once than may be: the parser copies what it has of a header with every piece.
            room = max(1, most - self._overhead + 1) if self._in_headers else len(data)
            piece, data = data[:room], data[room:]
            self._overhead += len(piece)
            super().data_received(piece)
            if self._overhead > most and not self._is_over and not self.transport.is_closing():
                self._refuse(431, f"the headers of a request have at most {most} bytes")

    def on_headers_complete(self) -> None:
        self._in_headers, self._in_body, self._overhead = False, True, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._overhead = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_headers, self._in_body, self._overhead = True, False, 0
        super().on_message_complete()

    # -- time ----------------------------------------------------------------------------------------------------
    def _look_later(self) -> None:
        self._look = self.loop.call_later(self._limits.look_s, self._look_now)

    def _look_now(self) -> None:
        now = self.loop.time()
        if self._is_stuck(now):
            self.transport.abort()
            return
        self._look_later()
        if self._is_over or self.transport.is_closing():
            return
        if self.flow.read_paused:
            self._since = now  # it is the server that waits
        elif self._in_body and now - self._since >= self._limits.body_timeout_s:
            self._refuse(408, f"nothing more of the body came for {self._limits.body_timeout_s:g} s")
        elif self._awaits_headers() and now - self._since >= self._limits.header_timeout_s:
            if self._overhead:
                self._refuse(408, f"the headers were not complete after {self._limits.header_timeout_s:g} s")
            else:
                self.transport.close()

    def _awaits_headers(self) -> bool:
        """Whether a request has begun, or the connection is new; uvicorn's own timer ends one that was kept alive."""
        if self.cycle is not None and not self.cycle.response_complete:
            return False  # the request before it is still being answered
        return self._in_headers and (self._overhead > 0 or self.cycle is None)

    def _is_stuck(self, now: float) -> bool:
        """Whether bytes wait to be sent and have not become fewer for the whole time-out."""
        unsent = self.transport.get_write_buffer_size()
        if not unsent or self._stalled is None or unsent < self._stalled[0]:
            self._stalled = (unsent, now) if unsent else None
            return False
        return now - self._stalled[1] >= self._limits.write_timeout_s

    # -- refusals ------------------------------------------------------------------------------------------------
    def _refuse(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        """Answer by a problem document unless a response has begun, and close after a moment."""
        self._is_over = True
        self._unset_keepalive_if_required()
        cycle = self.cycle
        is_answered = cycle is not None and cycle.response_started
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True  # the application learns that the client has gone
            cycle.message_event.set()
        if is_answered and (self._in_body or not cycle.response_complete):
            self.transport.close()
            return
        line = STATUS_LINE[status]
        title = line.split(b" ", 2)[2].strip().decode()
        document = msgspec.json.encode(
            {"type": "about:blank", "title": title, "status": status, "detail": detail}
        )
        fields = {
            "content-type": "application/problem+json",
            "content-length": str(len(document)),
            "connection": "close",
            **(headers or {}),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items()).encode()
        self.transport.write(line + head + b"\r\n" + document)
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.abort)
