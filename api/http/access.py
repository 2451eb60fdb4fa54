"""The gate: every request has a caller before a route sees it.

A key comes as `Authorization: Bearer …`; where a browser cannot send that header (WebSockets, event streams) also as
`?access_token=…`, which is taken out of the address at once so that no log ever holds it, or as a socket's first frame. A
server without keys serves pages and programs of this machine alone: it refuses pages of other hosts that a browser has
open, whatever name they reach it by.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from fastapi import Request, WebSocket
from starlette.types import ASGIApp, Receive, Scope, Send

from api.http.json_slices import decode
from api.http.problems import response
from api.http.websocket_frames import admit
from api.server.keyring import Keys, is_loopback
from prosem.values.access import Caller, Role
from prosem.values.errors import (
    ForbiddenError,
    ProsemError,
    RecoveringError,
    TooLargeError,
    UnauthorizedError,
)

PUBLIC = frozenset({"/", "/healthz", "/readyz", "/docs", "/openapi.json"})
FIRST_FRAME_S = 10.0
REFUSED = 4401  # close code of a socket without a key; 1008 of one whose key was revoked


class AuthenticationMiddleware:
    """ASGI middleware. `scope["state"]["caller"]` is the caller, None for a socket that has not authenticated yet.

    A broker `forwards` what it does not answer itself; the server has a gate of its own for that.
    """

    def __init__(self, app: ASGIApp, keys: Keys, forwards: bool = False) -> None:
        self._app, self._keys, self._forwards = app, keys, forwards

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and not self._passes(scope):
            token = take_token(scope)
            state = scope.setdefault("state", {})
            state["token"] = token
            try:
                caller = state["caller"] = await self._keys.caller(token)
                if caller.is_service and scope["type"] == "http":
                    check_of_service(scope["path"])
                if self._keys.is_open:
                    check_local(scope)
            except UnauthorizedError as error:
                if token is not None or scope["type"] == "http":
                    return await refuse(error, scope, receive, send)
                state["caller"] = None
            except ProsemError as error:
                if scope["path"] != "/metrics" or not isinstance(error, RecoveringError):
                    return await refuse(error, scope, receive, send)
        await self._app(scope, receive, send)

    def _passes(self, scope: Scope) -> bool:
        path = scope["path"]
        if scope["type"] == "websocket":
            return False
        if self._forwards and path != "/metrics" and not path.endswith("/stream"):
            return True
        return path in PUBLIC or path.startswith("/console/")


def take_token(scope: Scope) -> str | None:
    """The key of a request. One in the query is removed from it, in place: servers log addresses."""
    found = None
    query = scope.get("query_string", b"")
    if b"access_token" in query:
        pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        found = next((value for name, value in pairs if name == "access_token"), None)
        scope["query_string"] = urlencode([pair for pair in pairs if pair[0] != "access_token"]).encode()
        if scope["type"] == "http" and not scope["path"].endswith("/stream"):
            found = None  # elsewhere addresses are kept in histories and by proxies
    header = _header(scope, b"authorization")
    if header is not None:
        scheme, _, value = header.partition(" ")
        if scheme.lower() == "bearer" and value.strip():
            return value.strip()
    return found or None


def check_local(scope: Scope) -> None:
    """ForbiddenError for what a browser sends on behalf of a page of another host."""
    origin, host = _header(scope, b"origin"), _header(scope, b"host")
    names = [] if origin is None else [_hostname(origin)]
    if host is not None:
        names.append(_hostname(f"//{host}"))
    if not all(map(is_loopback, names)):
        raise ForbiddenError(
            "without keys this server is for this machine alone: make a key with prosem keys create"
        )


def check_of_service(path: str) -> None:
    """ForbiddenError for what is a tenant's: a key of the role metrics or broker reaches nothing of it."""
    if path not in ("/metrics", "/v1/whoami", "/v1/network") and not path.startswith("/v1/network/"):
        raise ForbiddenError("a key of the role metrics or broker alone reaches /metrics or /v1/network only")


def _hostname(address: str) -> str:
    """Empty for what is no address."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _header(scope: Scope, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), None)


async def refuse(error: ProsemError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with a problem document, a handshake too."""
    answer = response(error)
    if scope["type"] == "http":
        await answer(scope, receive, send)
    else:
        await WebSocket(scope, receive, send).send_denial_response(answer)


# -- in routes -----------------------------------------------------------------------------------------------------
def caller_of(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


async def admitted(socket: WebSocket, keys: Keys) -> Caller | None:
    """Accept a socket; one that came without a key says it in its first frame. None: it was refused and closed."""
    caller: Caller | None = socket.state.caller
    if caller is not None:
        admit(socket)
    await socket.accept()
    if caller is not None:
        return caller
    try:
        async with asyncio.timeout(FIRST_FRAME_S):
            frame = decode(received(await socket.receive()))
        token = frame.get("key") if isinstance(frame, dict) and frame.get("op") == "authenticate" else None
        if not isinstance(token, str):
            raise UnauthorizedError('the first frame must be {"op": "authenticate", "key": …}')
        socket.state.token = token
        caller = await keys.caller(token)
        admit(socket)
        return caller
    except TimeoutError:
        error: ProsemError = UnauthorizedError("no key came")
    except ProsemError as refused:
        error = refused
    except Disconnected:
        return None
    await dismiss(socket, error)
    return None


async def attend(
    socket: WebSocket, keys: Keys, role: Role, serve: Callable[[Caller], Awaitable[None]]
) -> None:
    """Serve a socket whose key has the role, within the key's limits; others get the reason."""
    caller = await admitted(socket, keys)
    if caller is None:
        return
    try:
        caller.check(role)
        with keys.usage.socket(caller, closer(socket)):
            await keys.caller(socket.state.token)  # a key revoked before the socket was registered
            await serve(caller)
    except ProsemError as error:
        await dismiss(socket, error)


async def dismiss(socket: WebSocket, error: ProsemError) -> None:
    """Say why, and close."""
    await socket.send_text(msgspec.json.encode({"error": error.problem()}).decode())
    await socket.close(REFUSED if isinstance(error, UnauthorizedError) else 1008)


class Disconnected(Exception):
    """The client has gone."""


def received(message: Any, limit: int | None = None) -> str | bytes:
    """The text of a frame, at most so many bytes of it."""
    if message["type"] == "websocket.disconnect":
        raise Disconnected
    text: str | bytes = message.get("text") or message.get("bytes") or b""
    if limit is not None and len(text) > limit:
        raise TooLargeError(f"a frame of this key has at most {limit} bytes, this one has {len(text)}")
    return text


def closer(socket: WebSocket) -> Callable[[], None]:
    """Closes a socket whose key was revoked."""
    loop = asyncio.get_running_loop()
    tasks = set()

    async def close() -> None:
        with contextlib.suppress(RuntimeError):  # it has gone meanwhile
            await socket.close(1008)

    def run() -> None:
        task = loop.create_task(close())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    return run
