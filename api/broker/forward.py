"""A broker passes on to the server whatever it does not answer itself, bodies of any size in both directions.

An answer of 5xx promises that nothing was applied. So when the server is lost after a request was sent to it, and nothing
knows what became of it, the connection to the client is broken off instead of answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator

import httpx
from fastapi import Request, Response, WebSocket
from starlette.background import BackgroundTask
from starlette.responses import StreamingResponse
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from api.http.problems import BrokenOff, response
from api.http.websocket_frames import admit
from prosem.runtime.supervise import end
from prosem.runtime.tls import tls_for, verified
from prosem.values.errors import BusyError

_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization te trailers transfer-encoding upgrade host".split()
)  # RFC 9110 §7.6.1: of one connection, not to be passed on


class Forwarder:
    """One server, by connections that are kept open; of several addresses (its own, its standby's) one is in use."""

    def __init__(self, url: str, key: str = "") -> None:
        self._urls = deque(one.strip().rstrip("/") for one in url.split(","))
        self.url = self._urls[0]
        self.own = {"Authorization": f"Bearer {key}"} if key else {}
        self.tls = tls_for(url)
        self._http = httpx.AsyncClient(
            base_url=self.url,
            timeout=httpx.Timeout(None, connect=3.0),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=2.0),
            trust_env=False,
            verify=verified(self.tls),
        )

    def fail_over(self, failed: str) -> None:
        """Use the next address, if this one is in use."""
        if len(self._urls) > 1 and self.url == failed:
            self._urls.rotate(-1)
            self.url = self._urls[0]
            self._http.base_url = httpx.URL(self.url)

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """A request of the broker's own, with its key unless it has other headers."""
        chosen = self.own if headers is None else headers
        return await self._http.request(method, path, json=body, timeout=5.0, headers=chosen)

    async def forward(self, request: Request) -> Response:
        """The server's answer to a request, as it comes."""
        used = self.url
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        outgoing = self._http.build_request(
            request.method,
            httpx.URL(path=request.url.path, query=request.url.query.encode()),
            headers=[pair for pair in request.headers.raw if pair[0].lower() not in _HOP],
            content=request.stream() if has_body else None,
        )
        try:
            incoming = await self._http.send(outgoing, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            self.fail_over(used)
            return response(BusyError(f"the server {used} does not answer; send again after a second"))
        except httpx.TransportError:
            return BrokenOff()
        made = StreamingResponse(
            _body(incoming), incoming.status_code, background=BackgroundTask(incoming.aclose)
        )
        made.raw_headers = [pair for pair in incoming.headers.raw if pair[0].lower() not in _HOP]
        return made

    async def socket(self, socket: WebSocket) -> None:
        """A WebSocket, frame by frame in both directions."""
        uri = "ws" + self.url.removeprefix("http") + socket.url.path
        token: str | None = socket.state.token  # a socket without one sends it in the first frame
        headers = None if token is None else {"Authorization": f"Bearer {token}"}
        try:
            opening = await connect(
                uri,
                proxy=None,
                max_size=None,
                compression=None,
                open_timeout=5,
                additional_headers=headers,
                ssl=self.tls,
            )
        except InvalidStatus as refused:
            answer = refused.response
            await socket.send_denial_response(
                Response(answer.body or b"", answer.status_code, media_type="application/problem+json")
            )
            return
        except (OSError, TimeoutError, WebSocketException):
            await socket.close(1013)  # before it was accepted: the client is answered 403 and tries again
            return
        await socket.accept()
        async with opening as upstream:
            back = asyncio.create_task(_back(upstream, socket))
            with contextlib.suppress(ConnectionClosed):
                while (message := await socket.receive())["type"] != "websocket.disconnect":
                    admit(socket)  # of the first frame the server judges, within its own limit
                    text = message.get("text")
                    await upstream.send(message["bytes"] if text is None else text)
            await end(back)


async def _body(incoming: httpx.Response) -> AsyncIterator[bytes]:
    async for part in incoming.aiter_raw():
        yield part


async def _back(upstream: ClientConnection, socket: WebSocket) -> None:
    with contextlib.suppress(ConnectionClosed):
        async for message in upstream:
            if isinstance(message, str):
                await socket.send_text(message)
            else:
                await socket.send_bytes(message)
    with contextlib.suppress(RuntimeError):
        await socket.close(1012)  # the server has gone; the client connects again
