"""Alembic's entry. One transaction for all missing revisions, one migration at a time a database.

The connection is the one `prosem.store.schema.migrate` puts into the attributes, or, from the alembic command
line, a new one to PROSEM_DATABASE.
"""

from __future__ import annotations

import os
from contextlib import nullcontext

from alembic import context
from sqlalchemy import Connection, create_engine, pool, text

from prosem.store.schema import MIGRATION_LOCK, SCHEMA, alchemy_url

LOCK_TIMEOUT_S = (
    60  # for tables that other sessions use: their later statements queue behind a migration that waits
)


def run(connection: Connection) -> None:
    """Bring the database up to date, or change nothing; a transaction that is open already is the caller's to end."""
    with nullcontext() if connection.in_transaction() else connection.begin():
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
        connection.execute(
            text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_S}s'")
        )  # the one above may take longer
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
        context.configure(connection=connection, version_table_schema=SCHEMA)
        context.run_migrations()


def main() -> None:
    given = context.config.attributes.get("connection")
    if given is not None:
        run(given)
        return
    url = os.environ.get("PROSEM_DATABASE")
    if not url:
        raise SystemExit("set PROSEM_DATABASE to the address of the database (postgresql://…)")
    engine = create_engine(alchemy_url(url), poolclass=pool.NullPool)
    with engine.connect() as connection:
        run(connection)


main()
