"""A backup of the whole database while a server uses it: everything as of one commit, in one file.

All tables are read in one REPEATABLE READ transaction, so commits go on and none is seen by half. Locks are those of a
reader: until the backup ends no table of it can be dropped (409), and old partitions of the log are dropped later. COPY
through psycopg instead of pg_dump: the same file restores into any version of PostgreSQL and over TLS, and no
program beside the server is needed. It loses where the database holds objects that are not the server's (grants, triggers,
views of an operator): these are not in the file, and pg_dump is the tool for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from psycopg import sql

from prosem.store import catalog
from prosem.store.acquire import check_server
from prosem.store.backup_file import FORMAT, BackupWriter, Manifest, Progress
from prosem.store.connecting import KEEPALIVE
from prosem.store.partitions import HOLD_LOG, PARENTS, Connection, read_bounds
from prosem.store.schema import REVISIONS, check_revision, current_revision
from prosem.values.errors import SetupError
from prosem.values.model import Table

UNSAVED = "alembic_version"  # made by migrating to the revision of the manifest
_ATTEMPTS = 20
# The text of a value must not depend on the settings of a database or a role.
FORMATS = (
    "SET datestyle = 'ISO, YMD'; SET intervalstyle = 'iso_8601'; SET timezone = 'UTC'; SET bytea_output = 'hex';"
    " SET extra_float_digits = 1; SET lock_timeout = '30s'; SET statement_timeout = 0;"
    " SET idle_in_transaction_session_timeout = 0"
)


@dataclass(frozen=True, slots=True)
class Source:
    """A table to be saved."""

    member: str
    name: str
    relation: sql.Identifier
    columns: list[str]
    is_partitioned: bool


def back_up(url: str, path: Path, version: str, progress: Progress) -> Manifest:
    """Write the backup; InputError if the file cannot be written, SetupError if the database cannot be read."""
    try:
        with (
            psycopg.connect(
                url, client_encoding="utf8", application_name="prosem backup", **KEEPALIVE
            ) as source,
            BackupWriter(path, progress).open() as target,
        ):
            check_server(source)
            source.execute(FORMATS)
            source.commit()
            sources = _hold(source)
            for one in sources:
                target.add(one.member, one.name, one.columns, _rows(source, one))
            manifest = _manifest(source, target, version)
            target.finish(manifest)
            return manifest
    except psycopg.Error as error:
        raise SetupError(
            f"the database cannot be backed up: {str(error).strip()}; no file was written"
        ) from error


def _hold(connection: Connection) -> list[Source]:
    """Begin the snapshot and lock what it shows; again, if a table was dropped before it was locked."""
    for _ in range(_ATTEMPTS):
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        if _revision(connection) is None:
            raise SetupError("the database holds no data of prosem: there is nothing to back up")
        connection.rollback()
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute(HOLD_LOG)
        sources = [*own_tables(connection), *_tenant_tables(connection)]
        try:
            for source in sources:
                connection.execute(sql.SQL("LOCK TABLE ONLY {} IN ACCESS SHARE MODE").format(source.relation))
            if all(_is_of_snapshot(connection, source) for source in sources):
                return sources
        except psycopg.errors.UndefinedTable:
            pass
        connection.rollback()
    raise SetupError("tables are dropped and made all the time: start the backup again when that is over")


def _revision(connection: Connection) -> str | None:
    """The schema's revision; older ones are saved as they are, newer ones refused."""
    revision = current_revision(connection)
    if revision is not None and revision not in REVISIONS:
        check_revision(connection)
    return revision


def _is_of_snapshot(connection: Connection, source: Source) -> bool:
    """Names are looked up in the present, queries see the snapshot: both must mean the same table."""
    schema, name = source.relation._obj
    return bool(
        connection.execute(
            "SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE nspname = %s AND relname = %s AND c.oid = to_regclass(%s)",
            [schema, name, source.relation.as_string(connection)],
        ).fetchall()
    )


def own_tables(connection: Connection) -> list[Source]:
    """The tables of the schema `prosem`, in the order in which they were made: referenced ones first."""
    rows = connection.execute(
        "SELECT relname, array_agg(attname::text ORDER BY attnum) FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid"
        " WHERE relnamespace = 'prosem'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition"
        " AND attnum > 0 AND NOT attisdropped AND relname <> %s GROUP BY c.oid, relname ORDER BY c.oid",
        [UNSAVED],
    ).fetchall()
    return [
        Source(
            f"prosem/{name}", f"prosem.{name}", sql.Identifier("prosem", name), list(columns), name in PARENTS
        )
        for name, columns in rows
    ]


def tenants_tables(connection: Connection) -> list[Table]:
    """The tables of all tenants, those that are extended before those that extend them."""
    found: list[Table] = []
    rows = connection.execute("SELECT id, tenant, definition::text FROM prosem.tenant_table ORDER BY id")
    for number, tenant, definition in rows.fetchall():
        found.append(catalog.table_from(number, tenant, msgspec.json.decode(definition), found))
    return found


def _tenant_tables(connection: Connection) -> Iterator[Source]:
    for table in tenants_tables(connection):
        columns = [name._obj[0] for name in catalog.column_names(table)]
        yield Source(
            f"tables/{table.id}", f"{table.tenant}.{table.name}", catalog.relation(table), columns, False
        )


def _rows(connection: Connection, source: Source) -> Iterator[bytes]:
    text = sql.SQL("COPY (SELECT {} FROM {} {}) TO STDOUT").format(
        sql.SQL(", ").join(map(sql.Identifier, source.columns)),
        sql.SQL("" if source.is_partitioned else "ONLY"),
        source.relation,
    )
    with connection.cursor() as cursor, cursor.copy(text) as copy:
        yield from map(bytes, copy)


def _manifest(connection: Connection, target: BackupWriter, version: str) -> Manifest:
    revision = current_revision(connection)
    assert revision is not None, "it was asked for at the beginning"
    timeline = ""
    if any(part.member == "prosem/timeline" for part in target.parts):
        timeline = _one(
            connection, "SELECT coalesce((SELECT id FROM prosem.timeline ORDER BY number DESC LIMIT 1), '')"
        )
    return Manifest(
        format=FORMAT,
        version=version,
        schema=revision,
        postgresql=connection.info.server_version,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        last_seq=_one(connection, "SELECT last_seq FROM prosem.engine_state"),
        timeline=timeline,
        subscriptions=_one(connection, "SELECT count(*) FROM prosem.subscription"),
        partitions=read_bounds(connection),
        sequences=_sequences(connection),
        parts=target.parts,
    )


def _sequences(connection: Connection) -> dict[str, tuple[int, bool]]:
    """The next numbers. Sequences are not part of a snapshot: read after the rows they are never behind them."""
    found = {}
    names = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'prosem'::regnamespace AND relkind = 'S'"
    )
    for (name,) in names.fetchall():
        row = connection.execute(
            sql.SQL("SELECT last_value, is_called FROM {}").format(sql.Identifier("prosem", name))
        ).fetchone()
        assert row is not None, "a sequence has one row"
        found[name] = (row[0], row[1])
    return found


def _one(connection: Connection, text: Any) -> Any:
    row = connection.execute(text).fetchone()
    assert row is not None, "the query has one row"
    return row[0]
