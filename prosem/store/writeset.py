"""What a batch changes, and the statements that write it.

Every list becomes one statement with one array per column; the lists of a large batch become several, of about
`PIECE_BYTES` each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from prosem.store import catalog
from prosem.store.packing import Packed, pack
from prosem.store.round_trip import PIECE_BYTES
from prosem.values.model import DEFAULT_TENANT, Group, Key, Row, Statement, Table, View


@dataclass(slots=True)
class Counters:
    """The next free numbers; a number is never given twice."""

    table: int = 1
    group: int = 1
    statement: int = 1
    sid: int = 1


# seq, group id, part, space, plan, descriptor, server_time_us, send_us, bytes_out, network_bytes, latency_us, affected
Measurement = tuple[int, int, int, int, str, tuple[float, ...], float, float, int, int, float, int]


@dataclass(slots=True)
class WriteSet:
    """What a batch changes, filled by the engine. JSON is given as text (bytes)."""

    last_seq: int = 0
    events: list[tuple[int, int, str, bytes | None, bytes | None, int]] = field(default_factory=list)
    """seq, table id, op, old row, new row (JSON arrays in column order), the last seq of its request"""
    messages: list[tuple[int, int, int, str, str, bytes | None]] = field(default_factory=list)
    """space, seq, part, kind, plan, body"""
    rows: dict[int, dict[Key, Row | None]] = field(default_factory=dict)
    """table id → key → the row as it is after the batch, None if there is none"""
    tables: dict[int, Table] = field(default_factory=dict)
    """the tables of `rows`"""
    subscriptions: list[tuple[int, str, int, int, bytes, bool, bool, int, str, int]] = field(
        default_factory=list
    )
    """new: sid, id, statement id, group id, params, active, durable, created seq, tenant, key"""
    updates: dict[int, tuple[bytes | None, bool, bytes | None]] = field(default_factory=dict)
    """sid → params (None: as before), active, frozen answer"""
    deleted: list[int] = field(default_factory=list)
    """sids"""
    history: list[tuple[int, int, int, str, bytes | None, bytes | None, bytes | None]] = field(
        default_factory=list
    )
    """sid, seq, part, kind, params, state of the edge before, mark"""
    items: dict[tuple[int, bytes], bytes | None] = field(default_factory=dict)
    """space, key of an item → its last notified values by subscription (JSON), None if there is nothing to keep"""
    groups: list[Group] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    unused_statements: list[int] = field(default_factory=list)
    """ids of those that no subscription uses any more"""
    unused_groups: list[int] = field(default_factory=list)
    """ids of those that no subscription is in any more"""
    idempotency: list[tuple[str, bytes | None, bool, int]] = field(default_factory=list)
    """hash of the key, answer, done, lines"""
    measurements: list[Measurement] = field(default_factory=list)
    weights: dict[str, float] | None = None
    """of the optimizer, if they changed"""
    created: Table | None = None
    dropped: Table | None = None
    views: list[View] = field(default_factory=list)
    """new ones"""
    dropped_views: list[int] = field(default_factory=list)
    """ids"""
    counters: Counters | None = None
    size_bytes: int = 0
    """about how much it is; 0: not known"""

    def rows_per_piece(self, count: int) -> int:
        """Into how long pieces a list of so many rows is cut."""
        if self.size_bytes <= PIECE_BYTES:
            return max(1, count)
        return max(1, count * PIECE_BYTES // self.size_bytes)

    def is_empty(self) -> bool:
        """Whether there is nothing to write (a `last_seq` alone is nothing)."""
        lists = (self.events, self.messages, self.subscriptions, self.deleted, self.history, self.groups)
        more = (self.statements, self.idempotency, self.updates, self.items, self.weights)
        views = (self.views, self.dropped_views)
        return not (
            any(lists) or any(more) or any(views) or any(self.rows.values()) or self.created or self.dropped
        )


Command = tuple[bytes, list[Any]]


class _Insertion:
    """Rows of one of our own tables, from one array per column."""

    def __init__(self, table: str, columns: dict[str, str], conflict: str = "") -> None:
        self.kinds = list(columns.values())
        arrays = ", ".join(f"${at}::{kind}[]" for at, kind in enumerate(self.kinds, 1))
        names = ", ".join(columns)
        self.text = f"INSERT INTO prosem.{table} ({names}) SELECT * FROM unnest({arrays}) {conflict}".encode()

    def __call__(self, rows: Sequence[tuple[Any, ...]]) -> Command:
        return self.text, _columns(self.kinds, rows)


def history(rows: Sequence[tuple[Any, ...]]) -> Command:
    """The statement that adds entries to the points' history."""
    return _HISTORY(rows)


def _columns(kinds: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> list[Packed]:
    return [pack(kind, values) for kind, values in zip(kinds, zip(*rows, strict=True), strict=True)]


_EVENTS = _Insertion(
    "event_log",
    {"seq": "bigint", "table_id": "integer", "op": "text", "old": "json", "new": "json"}
    | {"request_end": "bigint"},
)
_MESSAGES = _Insertion(
    "outbox",
    {"space": "integer", "seq": "bigint", "part": "integer", "kind": "text", "plan": "text", "body": "bytea"},
)
_SUBSCRIPTIONS = _Insertion(
    "subscription",
    {"sid": "bigint", "id": "text", "statement_id": "integer", "group_id": "integer", "params": "json"}
    | {"active": "boolean", "durable": "boolean", "created_seq": "bigint", "tenant": "text"}
    | {"key_id": "integer"},
)
_HISTORY = _Insertion(
    "history",
    {"sid": "bigint", "seq": "bigint", "part": "bigint", "kind": "text", "params": "json", "state": "json"}
    | {"mark": "json"},
    "ON CONFLICT (sid, seq, part) DO NOTHING",
)
_ITEMS = _Insertion(
    "item_told",
    {"space": "integer", "item": "bytea", "told": "json"},
    "ON CONFLICT (space, item) DO UPDATE SET told = excluded.told",
)
_IDEMPOTENCY = _Insertion(
    "idempotency",
    {"key": "text", "answer": "json", "done": "boolean", "lines": "bigint"},
    "ON CONFLICT (key) DO UPDATE SET answer = excluded.answer, done = excluded.done,"
    " lines = excluded.lines, at = now()",
)
_WEIGHTS = _Insertion(
    "optimizer_weight",
    {"metric": "text", "weight": "double precision"},
    "ON CONFLICT (metric) DO UPDATE SET weight = excluded.weight",
)
# Descriptors differ in length, and an array of arrays must not: they travel as text.
_MEASURED = {"seq": "bigint", "group_id": "integer", "part": "integer", "space": "integer", "plan": "text"} | {
    "descriptor": "text",
    "server_time_us": "double precision", "send_us": "double precision", "bytes_out": "bigint",
    "network_bytes": "bigint", "latency_us": "double precision", "affected": "bigint",
}  # fmt: skip
_MEASUREMENTS = (
    f"INSERT INTO prosem.plan_measurement ({', '.join(_MEASURED)})"
    f" SELECT {', '.join(f'v.{name}' if name != 'descriptor' else 'v.descriptor::float8[]' for name in _MEASURED)}"
    f" FROM unnest({', '.join(f'${at}::{kind}[]' for at, kind in enumerate(_MEASURED.values(), 1))})"
    f" AS v({', '.join(_MEASURED)}) ON CONFLICT DO NOTHING"
).encode()
_STATEMENTS = _Insertion(
    "statement",
    {"id": "integer", "sql": "text", "notify": "json", "digest": "text", "tenant": "text", "per": "text"},
)
_GROUP = (
    b"INSERT INTO prosem.group_ (id, name, type, label, space, tables, sample_sql, sample_notify, tenant, per)"
    b" VALUES ($1, $2, $3, $4, $5, $6::text[], $7, $8::text::json, $9, $10)"
)
_UNUSED_GROUPS = b"DELETE FROM prosem.group_ g USING unnest($1::integer[]) AS v(id) WHERE g.id = v.id"
_UPDATES = (
    b"UPDATE prosem.subscription s"
    b" SET params = coalesce(v.params, s.params), active = v.active, frozen = v.frozen"
    b" FROM unnest($1::bigint[], $2::json[], $3::boolean[], $4::json[]) AS v(sid, params, active, frozen)"
    b" WHERE s.sid = v.sid"
)
_UNUSED = b"DELETE FROM prosem.statement s USING unnest($1::integer[]) AS v(id) WHERE s.id = v.id"
_DELETED = b"DELETE FROM prosem.subscription s USING unnest($1::bigint[]) AS v(sid) WHERE s.sid = v.sid"
_FORGOTTEN = b"DELETE FROM prosem.history h USING unnest($1::bigint[]) AS v(sid) WHERE h.sid = v.sid"
_ITEMS_GONE = (
    b"DELETE FROM prosem.item_told i USING unnest($1::integer[], $2::bytea[]) AS v(space, item)"
    b" WHERE i.space = v.space AND i.item = v.item"
)
_CATALOG = (
    b"INSERT INTO prosem.tenant_table (id, tenant, name, definition, created_seq)"
    b" VALUES ($1, $2, $3, $4::text::json, $5)"
)
_VIEWS = _Insertion(
    "view_", {"id": "integer", "tenant": "text", "name": "text", "sql": "text", "created_seq": "bigint"}
)
_DROPPED_VIEWS = b"DELETE FROM prosem.view_ v USING unnest($1::integer[]) AS g(id) WHERE v.id = g.id"
_STATE = (
    b"UPDATE prosem.engine_state SET batches = batches + 1, last_seq = greatest(last_seq, $1::bigint),"
    b" next_table = greatest(next_table, $2::integer), next_group = greatest(next_group, $3::integer),"
    b" next_statement = greatest(next_statement, $4::integer), next_sid = greatest(next_sid, $5::bigint),"
    b" epoch = prosem.hold_epoch(epoch, $6::bigint), token = $7::bigint"
)


def commands(
    batch: WriteSet, known: dict[int, catalog.RowStatements], owner: tuple[int, int]
) -> Iterator[Command]:
    """The statements of a batch, packed one by one; `known` keeps the statements of the tables seen so far.

    `owner` is the epoch of the server and the token of the batch: the last statement fails if the epoch is over.

    Deletions come before insertions: an id that was given up may be taken again in the same batch.
    """
    yield from _schema_commands(batch, known)
    if batch.dropped_views:  # before new ones: a view may come back under its name
        yield _DROPPED_VIEWS, [pack("integer", batch.dropped_views)]
    if kept := [view for view in batch.views if view.id not in batch.dropped_views]:
        yield _VIEWS([(view.id, view.tenant, view.name, view.sql, batch.last_seq) for view in kept])
    for table_id, rows in batch.rows.items():
        yield from _row_commands(batch, batch.tables[table_id], rows, known)
    if batch.unused_groups:  # before new ones: a group that comes back has its name again
        yield _UNUSED_GROUPS, [pack("integer", batch.unused_groups)]
    for g in batch.groups:
        if g.id in batch.unused_groups:
            continue
        notify = None if g.sample_notify is None else msgspec.json.encode(g.sample_notify).decode()
        fields = [g.id, g.name, g.type, g.label, g.space, list(g.tables), g.sample_sql, notify]
        yield _GROUP, [*fields, g.tenant, g.per]
    if batch.unused_statements:
        yield _UNUSED, [pack("integer", batch.unused_statements)]
    unused_ids = set(batch.unused_statements)
    if new := [statement for statement in batch.statements if statement.id not in unused_ids]:
        yield _STATEMENTS([_statement(statement) for statement in new])
    if batch.deleted:
        yield _DELETED, [pack("bigint", batch.deleted)]
        yield _FORGOTTEN, [pack("bigint", batch.deleted)]
    dead = set(batch.deleted)
    yield from _inserted(batch, _SUBSCRIPTIONS, [row for row in batch.subscriptions if row[0] not in dead])
    if batch.updates:
        changes = [(sid, *change) for sid, change in batch.updates.items()]
        yield _UPDATES, _columns(["bigint", "json", "boolean", "json"], changes)
    yield from _inserted(batch, _HISTORY, [row for row in batch.history if row[0] not in dead])
    yield from _inserted(batch, _EVENTS, batch.events)
    yield from _inserted(batch, _MESSAGES, batch.messages)
    yield from _item_commands(batch.items)
    if batch.idempotency:
        yield _IDEMPOTENCY(list({row[0]: row for row in batch.idempotency}.values()))
    if batch.weights is not None:
        yield _WEIGHTS(list(batch.weights.items()))
    if batch.measurements:
        measured = [(*row[:5], f"{{{','.join(map(str, row[5]))}}}", *row[6:]) for row in batch.measurements]
        yield _MEASUREMENTS, _columns(list(_MEASURED.values()), measured)
    counters = batch.counters or Counters()
    following = [counters.table, counters.group, counters.statement, counters.sid]
    yield _STATE, [batch.last_seq, *following, *owner]


def _schema_commands(batch: WriteSet, known: dict[int, catalog.RowStatements]) -> Iterator[Command]:
    made, gone = batch.created, batch.dropped
    if made is not None:
        for statement in catalog.create(made):
            yield statement.as_bytes(), []
        definition = msgspec.json.encode(made.definition()).decode()
        yield _CATALOG, [made.id, made.tenant, made.name, definition, batch.last_seq]
    if gone is not None:
        yield catalog.drop(gone).as_bytes(), []
        yield b"DELETE FROM prosem.tenant_table WHERE id = $1", [gone.id]
        yield b"DELETE FROM prosem.group_ WHERE $1 = ANY(tables) AND tenant = $2", [gone.name, gone.tenant]
        known.pop(gone.id, None)


def _inserted(batch: WriteSet, insertion: _Insertion, rows: Sequence[tuple[Any, ...]]) -> Iterator[Command]:
    length = batch.rows_per_piece(len(rows))
    for start in range(0, len(rows), length):
        yield insertion(rows[start : start + length])


def _row_commands(
    batch: WriteSet, table: Table, rows: dict[Key, Row | None], known: dict[int, catalog.RowStatements]
) -> Iterator[Command]:
    statements = known.get(table.id)
    if statements is None:
        statements = known[table.id] = catalog.row_statements(table)
    kept = [row for row in rows.values() if row is not None]
    gone = [key for key, row in rows.items() if row is None]
    length = batch.rows_per_piece(len(rows))
    for start in range(0, len(gone), length):
        yield statements.delete, list(statements.pack_keys(gone[start : start + length]))
    for start in range(0, len(kept), length):
        yield statements.upsert, list(statements.pack_rows(kept[start : start + length]))


def _item_commands(items: dict[tuple[int, bytes], bytes | None]) -> list[Command]:
    kept: list[tuple[Any, ...]] = []
    gone: list[tuple[Any, ...]] = []
    for (space, topic), state in items.items():
        item = hashlib.blake2b(topic, digest_size=16).digest()
        if state is None:
            gone.append((space, item))
        else:
            kept.append((space, item, state))
    made: list[Command] = [(_ITEMS_GONE, list(_columns(["integer", "bytea"], gone)))] if gone else []
    return [*made, _ITEMS(kept)] if kept else made


def _statement(statement: Statement) -> tuple[int, str, bytes | None, str, str, str]:
    notify = None if statement.notify is None else msgspec.json.encode(statement.notify)
    digest = hashlib.sha256(
        statement.sql.encode()
    ).hexdigest()  # unique: it must not be possible to forge one
    if notify is not None:
        digest += "/" + hashlib.sha256(notify).hexdigest()
    if statement.tenant != DEFAULT_TENANT:
        digest += "@" + statement.tenant
    if statement.per != "event":
        digest += "%" + statement.per
    return statement.id, statement.sql, notify, digest, statement.tenant, statement.per
