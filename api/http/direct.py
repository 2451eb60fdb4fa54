"""Routes that are reached without the framework: publishing, whose requests are many and small.

The framework matches some sixty routes, solves dependencies and stacks contexts for each request: that takes about as long
as the server itself needs for it. A direct route is the same function; it is declared at its router too, for the description
of the interface, and for servers below a path of another one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from api.http.problems import response
from prosem.values.errors import ProsemError

Publish = Callable[[Request, str], Awaitable[Response]]
BEFORE, AFTER = "/v1/tables/", "/events"


class DirectRoutes:
    """ASGI middleware behind the authentication: `POST /v1/tables/{table}/events`."""

    def __init__(self, app: ASGIApp, publish: Publish) -> None:
        self._app, self._publish = app, publish

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        is_direct = (
            path.startswith(BEFORE)
            and path.endswith(AFTER)
            and len(path) > len(BEFORE) + len(AFTER)
            and scope["type"] == "http"
            and scope["method"] == "POST"
            and not scope.get("root_path")
        )
        if not is_direct:
            return await self._app(scope, receive, send)
        try:
            answer = await self._publish(
                Request(scope, receive, send), path.removeprefix(BEFORE).removesuffix(AFTER)
            )
        except ProsemError as error:
            answer = response(error)
        except ClientDisconnect:
            answer = Response(status_code=400)  # the connection is closed, the response goes nowhere
        await answer(scope, receive, send)
