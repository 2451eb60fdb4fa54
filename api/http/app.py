"""The ASGI application."""

from __future__ import annotations

from fastapi import FastAPI

from api import VERSION
from api.http import openapi, problems
from api.http.access import AuthenticationMiddleware
from api.http.direct import DirectRoutes
from api.http.origins import allow_origins
from api.http.routes import (
    backtests,
    console,
    events,
    keys,
    network,
    operations,
    optimizer,
    preview,
    publish_stream,
    statistics,
    streams,
    subscriptions,
    tables,
    views,
    webhooks,
)
from api.server.lifespan import lifespan_of
from api.server.lifetime import ServerLifetime


def make_app(made: ServerLifetime) -> FastAPI:
    """The routes over one server, which starts and stops with the application."""
    app = FastAPI(
        title="ProSem",
        version=VERSION,
        summary="Live SQL subscriptions by the million",
        lifespan=lifespan_of(made),
        docs_url=None,  # they load scripts from another host; /docs is a page of the console's
        redoc_url=None,
        generate_unique_id_function=openapi.operation_id,
    )
    app.state.server = made
    problems.install(app)
    app.add_middleware(DirectRoutes, publish=events.publish)
    app.add_middleware(AuthenticationMiddleware, keys=made.keys)
    allow_origins(app, made.settings.origins)
    for router in (
        console.make_router(),
        operations.router,
        network.router,
        preview.router,
        optimizer.router,
        statistics.router,
        streams.router,
        events.router,
        publish_stream.router,
        subscriptions.router,
        backtests.router,
        tables.router,
        views.router,
        keys.router,
        webhooks.router,
    ):
        app.include_router(router)
    openapi.describe(app)
    return app
