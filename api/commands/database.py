"""Where the database of a command is: the one given, or the embedded PostgreSQL of a data folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from prosem.store.embedded import EmbeddedPostgres, url_of
from prosem.store.schema import migrate
from prosem.values.errors import SetupError


def address(database: str, folder: Path) -> str:
    """The database's address: the one given, or that of the embedded PostgreSQL that runs in the folder."""
    if database:
        return database
    try:
        url = url_of(folder, int((folder / "port").read_text()))
        psycopg.connect(url, connect_timeout=5).close()
    except (OSError, ValueError, psycopg.OperationalError):
        raise SetupError(
            f"no PostgreSQL runs in {folder}: start prosem serve, or give --data-dir or --database"
        ) from None
    return url


@contextmanager
def database_of(database: str, folder: Path, *, is_migrated: bool = True) -> Iterator[str]:
    """The database's address; the embedded PostgreSQL is started for the moment if no server runs it.

    `is_migrated`: to the present schema, if it has to be started.
    """
    if database:
        yield database
        return
    try:
        running = address("", folder)
    except SetupError:
        postgres = EmbeddedPostgres(folder)
        url = postgres.start()
        try:
            if is_migrated:
                migrate(url)
            yield url
        finally:
            postgres.stop()
    else:
        yield running
