"""The identity of a database."""

from __future__ import annotations

from hashlib import blake2s

import psycopg

from prosem.store.connecting import KEEPALIVE


def identity(url: str) -> str:
    """The same for every server that uses this database, and for no other: of the cluster and the database in it."""
    with psycopg.connect(url, **KEEPALIVE) as connection:
        row = connection.execute(
            "SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = current_database())"
            " FROM pg_control_system()"
        ).fetchone()
    return blake2s(repr(row).encode(), digest_size=6).hexdigest()
