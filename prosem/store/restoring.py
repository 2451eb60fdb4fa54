"""A backup becomes a database again: in one transaction, so that a restore that fails leaves the database as it was.

The schema is made as of the backup's revision, filled, and then migrated as any older database is. A new timeline begins:
the seqs after the backup will be those of other events. The epoch is greater than every one before, so that a server that
ran on the database before the restore cannot take it for its own.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psycopg
from psycopg import sql

from prosem.store import catalog
from prosem.store.acquire import check_server
from prosem.store.backup import FORMATS, own_tables, tenants_tables
from prosem.store.backup_file import BackupReader, Manifest, Part, Progress
from prosem.store.partitions import Connection, attach
from prosem.store.schema import ENGINE_LOCK, HEAD, alchemy_connection, current_revision, upgrade
from prosem.store.timeline import begin
from prosem.values.errors import ConflictError, InputError, SetupError
from prosem.values.timeline import Timeline

if TYPE_CHECKING:
    import sqlalchemy

log = logging.getLogger("prosem")


def restore(
    url: str, path: Path, progress: Progress, *, is_replacing: bool = False
) -> tuple[Manifest, Timeline]:
    """Make the database of a backup; `is_replacing`: what the database holds of prosem is dropped first."""
    from sqlalchemy.exc import SQLAlchemyError

    with BackupReader.open(path) as backup:
        backup.verify(progress)
        try:
            with alchemy_connection(url) as target, target.begin():
                return backup.manifest, _restore(target, backup, progress, is_replacing)
        except (psycopg.Error, SQLAlchemyError) as error:
            text = str(getattr(error, "orig", None) or error).strip()
            raise SetupError(f"the backup cannot be restored: {text}; the database is as it was") from error


def _restore(
    target: sqlalchemy.Connection, backup: BackupReader, progress: Progress, is_replacing: bool
) -> Timeline:
    connection = cast("Connection", target.connection.driver_connection)
    check_server(connection)
    connection.execute(FORMATS.replace("SET ", "SET LOCAL "))
    row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", [ENGINE_LOCK]).fetchone()
    if row is None or not row[0]:
        raise ConflictError("a prosem serve uses this database: stop it, then restore")
    epoch = _clear(connection, is_replacing)
    manifest = backup.manifest
    upgrade(target, manifest.schema)
    _fill(connection, backup, progress)
    upgrade(target, HEAD)
    connection.execute("UPDATE prosem.engine_state SET epoch = greatest(epoch, %s) + 1, token = 0", [epoch])
    return begin(connection, reason=f"a backup of {manifest.made} was restored")


def _clear(connection: Connection, is_replacing: bool) -> int:
    """Drop what the database holds, if that is asked for or nothing is lost by it; the epoch that it had."""
    if current_revision(connection) is None:
        connection.execute("DROP SCHEMA IF EXISTS prosem")
        return 0
    if (
        not is_replacing
        and connection.execute(
            "SELECT FROM prosem.tenant_table UNION ALL SELECT FROM prosem.subscription"
            " UNION ALL SELECT FROM prosem.api_key LIMIT 1"
        ).fetchall()
    ):
        raise ConflictError(
            "the database holds data of prosem already: restore into an empty one, or give --replace to drop what it holds"
        )
    epoch = 0
    if _has_epoch(connection):
        (epoch,) = connection.execute("SELECT epoch FROM prosem.engine_state").fetchone() or (0,)
    tables = tenants_tables(connection)
    for table in reversed(tables):
        connection.execute(catalog.drop(table))
    for name in {str(catalog.schema_of(table)): catalog.schema_of(table) for table in tables}.values():
        _drop_if_empty(connection, name)
    connection.execute("DROP SCHEMA prosem CASCADE")
    return int(epoch)


def _has_epoch(connection: Connection) -> bool:
    return bool(
        connection.execute(
            "SELECT FROM pg_attribute WHERE attrelid = 'prosem.engine_state'::regclass AND attname = 'epoch'"
        ).fetchall()
    )


def _drop_if_empty(connection: Connection, schema: sql.Identifier) -> None:
    """A tenant's schema may hold something of an operator's own."""
    try:
        with connection.transaction():
            connection.execute(sql.SQL("DROP SCHEMA {}").format(schema))
    except psycopg.errors.DependentObjectsStillExist:
        log.info("%s is kept: it holds more than tables of prosem", schema.as_string(connection))


def _fill(connection: Connection, backup: BackupReader, progress: Progress) -> None:
    manifest = backup.manifest
    own = {source.member: source.relation for source in own_tables(connection)}
    parts = {part.member: part for part in manifest.parts}
    if own.keys() != {member for member in parts if member.startswith("prosem/")}:
        raise InputError(
            f"the backup does not hold the tables of schema {manifest.schema}: use another copy of the backup"
        )
    for relation in reversed(own.values()):  # a new schema has first rows of its own
        connection.execute(sql.SQL("DELETE FROM {}").format(relation))
    for start, end in manifest.partitions:
        attach(connection, start, end)
    for member, relation in own.items():
        _load(connection, backup, parts.pop(member), relation, progress)
    for table in tenants_tables(connection):
        part = parts.pop(f"tables/{table.id}", None)
        if part is None:
            raise InputError(f"the backup lacks the rows of {table.name}: use another copy of the backup")
        for statement in catalog.create(table):
            connection.execute(statement)
        _load(connection, backup, part, catalog.relation(table), progress)
    if parts:
        raise InputError(f"the backup holds {', '.join(parts)} of no table: use another copy of the backup")
    for name, (value, is_called) in manifest.sequences.items():
        qualified = sql.Identifier("prosem", name).as_string(connection)
        connection.execute("SELECT setval(%s::regclass, %s, %s)", [qualified, value, is_called])


def _load(
    connection: Connection, backup: BackupReader, part: Part, relation: sql.Identifier, progress: Progress
) -> None:
    text = sql.SQL("COPY {} ({}) FROM STDIN").format(
        relation, sql.SQL(", ").join(map(sql.Identifier, part.columns))
    )
    cursor: psycopg.Cursor[Any]
    with connection.cursor() as cursor:
        with cursor.copy(text) as copy:
            for block in backup.blocks(part):
                copy.write(block)
                progress(part.name, len(block))
        if cursor.rowcount != part.rows:
            raise InputError(
                f"{part.name} has {cursor.rowcount} rows and the manifest says {part.rows}: use another copy of the backup"
            )
