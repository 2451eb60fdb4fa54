"""A running server together with a connection to its PostgreSQL, which is asked the same questions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg

from api.commands.database import address
from tests.support.live import Api
from tests.support.processes import ServerProcess

Served = tuple[Api, psycopg.Connection[Any]]


def serving(*options: str) -> Iterator[Served]:
    """Both, until the generator is closed."""
    made = ServerProcess(*options)
    with (
        Api(made.start()) as api,
        psycopg.connect(address("", made.folder / "data"), autocommit=True) as connection,
    ):
        connection.execute("SET search_path TO tenant_default")
        connection.execute("SET timezone TO 'UTC'")
        yield api, connection
    made.remove()
