"""What the source's catalog says of the tables that are followed, and whether it still holds.

The stream alone does not show everything: a table that replaces another by RENAME, a table taken out of the publication or
a partition that is detached sends no message at all. So the facts as of the copy are stored with the position, and
compared with the catalog at each start and every few seconds. Cost: three queries for all tables together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import psycopg

from api.attach.source import SourceTable
from api.attach.values import NUMERIC_OID
from prosem.values.errors import SetupError

Connection = psycopg.Connection[tuple[Any, ...]]
_TABLES = """
    SELECT c.oid::bigint, n.nspname, c.relname, c.relreplident::text,
        coalesce(r.oid, CASE WHEN p.puballtables THEN p.oid END, 0)::bigint,
        coalesce(p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate
            AND (p.pubviaroot OR c.relkind <> 'p'), false)
        AND to_jsonb(r) ->> 'prqual' IS NULL AND to_jsonb(r) ->> 'prattrs' IS NULL,
        ARRAY(SELECT a.attname::text FROM pg_index i, unnest(i.indkey) WITH ORDINALITY AS k(number, place), pg_attribute a
            WHERE i.indrelid = c.oid AND k.place <= i.indnkeyatts AND a.attrelid = c.oid AND a.attnum = k.number
            AND CASE WHEN c.relreplident = 'i' THEN i.indisreplident ELSE i.indisprimary END ORDER BY k.place)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_publication p ON p.pubname = %s
    LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid
    WHERE c.oid = ANY(%s)
"""
_COLUMNS = """
    SELECT attrelid::bigint, attname, attnum, atttypid::bigint, atttypmod FROM pg_attribute
    WHERE attrelid = ANY(%s) AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
"""
# A partition is made as one, or an existing table (which may have rows) is attached: then its two catalog rows are of
# different transactions.
_PARTITIONS = """
    SELECT root::bigint, tree.relid::oid::bigint, inherits.xmin = type.xmin
    FROM unnest(%s::oid[]) AS root, pg_partition_tree(root) AS tree
    JOIN pg_inherits inherits ON inherits.inhrelid = tree.relid
    JOIN pg_class class ON class.oid = tree.relid JOIN pg_type type ON type.oid = class.reltype
    WHERE tree.relid <> root
"""


class Column(msgspec.Struct, frozen=True, array_like=True):
    """`number` is its attnum; `modifier` that of a numeric, -1 for others (it cuts nothing there)."""

    name: str
    number: int
    type: int
    modifier: int


class Facts(msgspec.Struct, frozen=True):
    """One table; `columns` are those followed, `membership` is its entry in the publication (OID, 0: none)."""

    target: str
    schema: str
    name: str
    oid: int
    columns: list[Column]
    key: list[str]
    membership: int
    is_published_whole: bool = True
    partitions: dict[int, bool] = {}
    """each partition, and whether it was made as one"""


def written_facts(facts: Sequence[Facts]) -> str:
    return msgspec.json.encode(facts).decode()


def read_facts(text: str) -> list[Facts] | None:
    """None for what an earlier version has stored, which was a digest."""
    return msgspec.json.decode(text, type=list[Facts]) if text.startswith("[") else None


def current(
    connection: Connection, publication: str, tables: Sequence[tuple[str, int, Sequence[str]]]
) -> list[Facts | None]:
    """The facts as they are now, of tables given by target, OID and columns followed; None for one that is gone."""
    oids = [oid for _, oid, _ in tables]
    columns: dict[int, dict[str, Column]] = {}
    for oid, name, number, kind, modifier in connection.execute(_COLUMNS, [oids]):
        column = Column(name, number, kind, modifier if kind == NUMERIC_OID else -1)
        columns.setdefault(oid, {})[name] = column
    partitions: dict[int, dict[int, bool]] = {}
    for root, partition, is_made in connection.execute(_PARTITIONS, [oids]):
        partitions.setdefault(root, {})[partition] = is_made
    rows = {row[0]: row[1:] for row in connection.execute(_TABLES, [publication, oids])}
    found: list[Facts | None] = []
    for target, oid, followed in tables:
        if oid not in rows:
            found.append(None)
            continue
        schema, name, identity, membership, is_whole, key = rows[oid]
        here = columns.get(oid, {})
        found.append(
            Facts(
                target,
                schema,
                name,
                oid,
                [here[each] for each in followed if each in here],
                [] if identity == "n" else key,
                membership,
                is_whole,
                partitions.get(oid, {}),
            )
        )
    return found


def described(connection: Connection, publication: str, tables: Sequence[SourceTable]) -> list[Facts]:
    """The facts of tables that were just looked up."""
    asked = [(table.target, table.oid, [column.name for column in table.columns]) for table in tables]
    found = [facts for facts in current(connection, publication, asked) if facts is not None]
    if len(found) < len(tables):
        raise SetupError("a table of the source was dropped meanwhile; start again")
    return found


def checked(connection: Connection, publication: str, known: Sequence[Facts]) -> list[Facts]:
    """The facts now (partitions may have been made); SetupError if they do not continue those that are known."""
    asked = [(facts.target, facts.oid, [column.name for column in facts.columns]) for facts in known]
    found = []
    for before, now in zip(known, current(connection, publication, asked), strict=True):
        changed = difference(before, now)
        if changed is not None or now is None:
            raise SetupError(f"{changed}. {what_to_do(before.target)}")
        found.append(now)
    return found


def what_to_do(target: str) -> str:
    return (
        "The server has the rows as of the last position. Start again with --again, which copies the tables anew; if types, "
        f"columns or the key differ now, drop the table {target!r} on the server first"
    )


def difference(before: Facts, now: Facts | None) -> str | None:
    """What has happened to a table so that it can no longer be followed; None if nothing has."""
    name = f"{before.schema}.{before.name}"
    if now is None:
        return f"the table {name} was dropped in the source, or dropped and made again"
    if (now.schema, now.name) != (before.schema, before.name):
        return f"the table {name} is called {now.schema}.{now.name} in the source now; another may have taken its name"
    columns = {column.name: column for column in now.columns}
    for column in before.columns:
        found = columns.get(column.name)
        if found is None:
            return f"the column {column.name!r} of {name} was dropped or renamed in the source"
        if found.number != column.number:
            return f"the column {column.name!r} of {name} is another one in the source now"
        if (found.type, found.modifier) != (column.type, column.modifier):
            return f"the type of the column {column.name!r} of {name} was altered in the source"
    if now.key != before.key:
        return f"the key of {name} in the source's log is ({', '.join(now.key)}) now, not ({', '.join(before.key)})"
    if not now.membership:
        return f"the table {name} is no longer in the publication"
    if now.membership != before.membership:
        return f"the table {name} was taken out of the publication and added again, and changes between are missing"
    if not now.is_published_whole:
        return f"the publication no longer publishes all changes of {name} with all columns and rows"
    if not before.partitions.keys() <= now.partitions.keys():
        return f"a partition of {name} was dropped or detached in the source, which is not in its log"
    if not all(made for partition, made in now.partitions.items() if partition not in before.partitions):
        return f"a table was attached to {name} as a partition in the source, and its rows are not in the log"
    return None
