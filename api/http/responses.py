"""Responses are encoded by msgspec: Decimal as text, dates in ISO 8601, bytes in base64."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import Request, Response

from api.server.lifetime import ServerLifetime
from api.server.running import RunningServer


def answer(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def lifetime(request: Request) -> ServerLifetime:
    """The server, also before it runs."""
    made: ServerLifetime = request.app.state.server
    return made


def server(request: Request) -> RunningServer:
    """The server that runs; RecoveringError before."""
    return lifetime(request).running
