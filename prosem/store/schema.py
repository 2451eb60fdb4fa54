"""The schema's revision: which one the code knows, which one the database has, and how to get from one to
the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from prosem.values.errors import SetupError

if TYPE_CHECKING:
    import sqlalchemy

SCHEMA = "prosem"
MIGRATIONS = Path(__file__).parents[2] / "migrations"
REVISIONS = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0008",
    "0007",
    "0009",
    "0010",
    "0011",
    "0012",
)  # all that ever were, oldest first
HEAD = REVISIONS[-1]
MIGRATION_LOCK = 0x70726F73656D01  # advisory locks of this database: "prosem" and a number
ENGINE_LOCK = 0x70726F73656D02
STATISTICS_LOCK = 0x70726F73656D03


def current_revision(connection: psycopg.Connection[tuple[str, ...]]) -> str | None:
    """The revision of the database, None if it has none of our schema yet."""
    present = connection.execute("SELECT to_regclass('prosem.alembic_version') IS NOT NULL").fetchone()
    if present is None or not present[0]:
        return None
    row = connection.execute("SELECT version_num FROM prosem.alembic_version").fetchone()
    return row[0] if row is not None else None


def check_revision(connection: psycopg.Connection[tuple[str, ...]]) -> None:
    """Refuse a database whose schema is not exactly the one this code was written for."""
    revision = current_revision(connection)
    if revision == HEAD:
        return
    if revision is None:
        raise SetupError("the database has no prosem schema yet: run prosem migrate")
    if revision in REVISIONS:
        raise SetupError(f"the database has schema {revision}, this version needs {HEAD}: run prosem migrate")
    raise SetupError(
        f"this database was made by a newer version of prosem (schema {revision}; this one knows {HEAD}): "
        "install that version; there is no way back but a backup"
    )


def migrate(url: str) -> str | None:
    """Bring the database to HEAD in one transaction; the revision it had before."""
    from sqlalchemy.exc import SQLAlchemyError  # with Alembic 0.3 s to import, and a server rarely migrates

    try:
        with psycopg.connect(url) as connection:
            before = current_revision(connection)
            if before == HEAD:
                return before
            if before is not None and before not in REVISIONS:
                check_revision(connection)
        with alchemy_connection(url) as target:
            upgrade(target, HEAD)
    except (psycopg.Error, SQLAlchemyError) as error:
        raise SetupError(f"the database could not be migrated: {error}") from error
    return before


def upgrade(target: sqlalchemy.Connection, revision: str) -> None:
    """Bring the database to a revision: within the transaction that is open, else in one of its own."""
    from alembic import command
    from alembic.config import Config

    configuration = Config()
    configuration.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    configuration.attributes["connection"] = target
    command.upgrade(configuration, revision)


def alchemy_connection(url: str) -> sqlalchemy.Connection:
    """A connection for `upgrade`; SQLAlchemy is imported only for that."""
    from sqlalchemy import create_engine, pool

    return create_engine(alchemy_url(url), poolclass=pool.NullPool).connect()


def alchemy_url(url: str) -> str:
    """The same address for SQLAlchemy with psycopg 3.

    >>> alchemy_url("postgresql://u:p@h/d")
    'postgresql+psycopg://u:p@h/d'
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in ("postgresql", "postgres"):
        raise SetupError("the database address must look like postgresql://user:password@host:port/name")
    return f"postgresql+psycopg://{rest}"
