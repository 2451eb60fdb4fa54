"""A broker passes on to the server whatever it does not answer itself, bodies of any size in both directions.

An answer of 5xx promises that nothing was applied. So when the server is lost after a request was sent to it, and nothing
knows what became of it, the connection to the client is broken off instead of answered.

What passes through takes aiohttp, with a quarter of the CPU time of httpx; the broker's own requests are few. Where a
connection that was kept breaks, a request that may be repeated (RFC 9110 §9.2.2) is sent once more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import httpx
from fastapi import Request, Response, WebSocket
from starlette.responses import StreamingResponse
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from api.http.problems import BrokenOff, response
from api.http.websocket_frames import admit
from prosem.runtime.supervise import end
from prosem.runtime.tls import tls_for, verified
from prosem.values.errors import BusyError

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization te trailers transfer-encoding upgrade host expect".split()
)  # RFC 9110 §7.6.1: of one connection, not to be passed on
_WRITTEN = _HOP | {b"date", b"server"}  # and those of an answer that are written here too
CONNECT_S = 3.0
KEPT_S = 2.0  # that a connection is kept without a request: less than the server keeps it


class Forwarder:
    """One server, by connections that are kept open; of several addresses (its own, its standby's) one is in use."""

    def __init__(self, url: str, key: str = "") -> None:
        self._urls = deque(one.strip().rstrip("/") for one in url.split(","))
        self.url = self._urls[0]
        self.own = {"Authorization": f"Bearer {key}"} if key else {}
        self.tls = tls_for(url)
        self._http = httpx.AsyncClient(
            base_url=self.url,
            limits=httpx.Limits(keepalive_expiry=KEPT_S),
            trust_env=False,
            verify=verified(self.tls),
        )
        self._passing: ClientSession | None = None

    def fail_over(self, failed: str) -> None:
        """Use the next address, if this one is in use."""
        if len(self._urls) > 1 and self.url == failed:
            self._urls.rotate(-1)
            self.url = self._urls[0]
            self._http.base_url = httpx.URL(self.url)

    async def close(self) -> None:
        await self._http.aclose()
        if self._passing is not None:
            await self._passing.close()

    async def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """A request of the broker's own, with its key unless it has other headers."""
        chosen = self.own if headers is None else headers
        return await self._http.request(method, path, json=body, timeout=5.0, headers=chosen)

    def _session(self) -> ClientSession:
        """Made at the first request: it belongs to the loop that runs then."""
        import aiohttp

        if self._passing is None:
            self._passing = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_S, ssl=self.tls or True),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
                auto_decompress=False,
            )
        return self._passing

    async def forward(self, request: Request) -> Response:
        """The server's answer to a request, as it comes."""
        import aiohttp
        from multidict import CIMultiDict
        from yarl import URL

        used = self.url
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        path, query = (request.scope[name].decode("latin-1") for name in ("raw_path", "query_string"))
        server = URL(used, encoded=True)
        headers = [pair for pair in request.headers.raw if pair[0].lower() not in _HOP]
        try:
            incoming = await self._session().request(
                request.method,
                URL.build(
                    scheme=server.scheme,
                    authority=server.authority,
                    path=server.raw_path.rstrip("/") + path,
                    query_string=query,
                    encoded=True,
                ),
                headers=CIMultiDict(
                    (name.decode("latin-1"), value.decode("latin-1")) for name, value in headers
                ),
                data=request.stream() if has_body else None,
                allow_redirects=False,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            self.fail_over(used)
            return response(BusyError(f"the server {used} does not answer; send again after a second"))
        except (aiohttp.ClientError, OSError):
            return BrokenOff()
        made = StreamingResponse(_body(incoming), incoming.status)
        made.raw_headers = [pair for pair in incoming.raw_headers if pair[0].lower() not in _WRITTEN]
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


async def _body(incoming: ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for part in incoming.content.iter_any():
            yield part
    finally:
        incoming.close()  # its client may have gone before the end


async def _back(upstream: ClientConnection, socket: WebSocket) -> None:
    with contextlib.suppress(ConnectionClosed):
        async for message in upstream:
            if isinstance(message, str):
                await socket.send_text(message)
            else:
                await socket.send_bytes(message)
    with contextlib.suppress(RuntimeError):
        await socket.close(1012)  # the server has gone; the client connects again
