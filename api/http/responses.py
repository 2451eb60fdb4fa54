"""Answers are encoded by msgspec: Decimal as text, dates in ISO 8601, bytes in base64."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import Request, Response

from api.server.composition import Server


def answer(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def server(request: Request) -> Server:
    made: Server = request.app.state.server
    return made
