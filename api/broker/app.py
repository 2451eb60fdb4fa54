"""The web application of a broker: subscribers' sockets and the broker's own health; the rest is the server's."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response, WebSocket
from prometheus_client import CollectorRegistry, generate_latest
from starlette.responses import PlainTextResponse

from api import VERSION
from api.broker.process import Broker
from api.http import problems
from api.http.access import PUBLIC, AuthenticationMiddleware, caller_of
from api.http.origins import allow_origins
from api.http.routes import streams
from api.server.lifespan import lifespan_of
from prosem.values.access import Role
from prosem.values.errors import RecoveringError


def make_broker_app(made: Broker) -> FastAPI:
    app = FastAPI(
        title="ProSem broker", version=VERSION, lifespan=lifespan_of(made), docs_url=None, openapi_url=None
    )
    app.state.server = made
    problems.install(app)
    app.add_middleware(AuthenticationMiddleware, keys=made.keys, forwards=True)
    allow_origins(app, made.settings.origins)

    @app.get("/healthz")
    async def healthz() -> Response:
        return PlainTextResponse("ok\n")

    @app.get("/readyz")
    async def readyz() -> Response:
        if not made.is_ready:
            raise RecoveringError(made.problem or "NATS does not answer")
        return PlainTextResponse("ready\n")

    async def metrics(request: Request) -> Response:
        caller_of(request).check_service(Role.METRICS)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(made)
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    if not made.is_worker:  # at the port of a server its own metrics are expected
        app.add_api_route("/metrics", metrics)
    app.include_router(streams.router)

    @app.websocket("/{path:path}")
    async def sockets(socket: WebSocket) -> None:
        await made.forwarder.socket(socket)

    async def rest(request: Request) -> Response:
        if request.url.path not in PUBLIC and not request.url.path.startswith("/console/"):
            await made.keys.check_host(request.scope)
        return await made.forwarder.forward(request)

    app.add_route("/{path:path}", rest, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
    return app
