"""Errors as problem+json (RFC 9457), whatever their origin."""

from __future__ import annotations

import logging
from http import HTTPStatus

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from prosem.values.errors import (
    BusyError,
    InputError,
    LimitError,
    ProsemError,
    UnauthorizedError,
    UnknownOutcomeError,
    pointer,
)

log = logging.getLogger("prosem.api")


class BrokenOff(Response):
    """Announces a body that never comes: the client sees a lost connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 502, "headers": [(b"content-length", b"1")]})


def response(error: ProsemError) -> Response:
    if isinstance(error, UnknownOutcomeError):
        return BrokenOff()
    headers = None
    if isinstance(error, BusyError | LimitError):
        headers = {"Retry-After": str(error.retry_after_s)}
    elif isinstance(error, UnauthorizedError):
        headers = {"WWW-Authenticate": "Bearer"}
    return Response(msgspec.json.encode(error.problem()), error.status, headers, "application/problem+json")


def install(app: FastAPI) -> None:
    @app.exception_handler(ProsemError)
    async def known(request: Request, error: ProsemError) -> Response:
        return response(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return response(InputError(str(first["msg"]), pointer(*first["loc"][1:])))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        title = HTTPStatus(error.status_code).phrase
        detail = f"{request.method} {request.url.path[:200]}: {error.detail}"
        document = {"type": "about:blank", "title": title, "status": error.status_code, "detail": detail}
        return Response(
            msgspec.json.encode(document), error.status_code, error.headers, "application/problem+json"
        )

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # the connection is closed, the response goes nowhere

    @app.exception_handler(Exception)
    async def unknown(request: Request, error: Exception) -> Response:
        log.exception("unexpected error in %s %s", request.method, request.url.path[:200])
        return response(ProsemError("an unexpected error; the server's log has the details"))
