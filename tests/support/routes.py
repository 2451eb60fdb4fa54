"""The operations of the HTTP interface."""

from __future__ import annotations

from api.http.app import make_app
from api.server.lifetime import ServerLifetime
from api.server.settings import Settings


def all_routes() -> list[tuple[str, str]]:
    """Every operation that the server has, with parameters that name nothing."""
    paths = make_app(ServerLifetime(Settings())).openapi()["paths"]
    return sorted(
        (
            method.upper(),
            path.replace("{table}", "t").replace("{id}", "i").replace("{key}", "0").replace("{name}", "n"),
        )
        for path, operations in paths.items()
        for method in operations
    )
