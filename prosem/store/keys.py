"""API keys in PostgreSQL. Only a key's digest is stored: what is shown once, when it is made, cannot be found again.

A key is 256 random bits, so that a plain SHA-256 cannot be turned back; one that an operator chose himself must be long.
Changes are announced on the channel `prosem_keys`, and a running server takes them over at once.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import psycopg

from prosem.store.connecting import KEEPALIVE
from prosem.values.access import Caller, Limits, Predicates, Role
from prosem.values.errors import NotFoundError, SetupError
from prosem.values.model import DEFAULT_TENANT
from prosem.values.wire import decode_exact, encode_exact

CHANNEL = "prosem_keys"
PREFIX = "psm_"
SHORTEST = 24  # characters of a key that an operator chose
_FIELDS = "id, name, tenant, roles, digest, rows::text, limits::text, created, revoked"


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as it is stored; `caller` is its owner."""

    digest: bytes
    caller: Caller
    created: datetime
    revoked: datetime | None

    def shown(self) -> dict[str, Any]:
        """Its public description."""
        return {**self.caller.shown(), "created": self.created, "revoked": self.revoked}


def digest_of(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()


def create_key(
    url: str,
    name: str,
    tenant: str,
    roles: frozenset[Role],
    rows: Predicates | None = None,
    limits: Limits | None = None,
) -> tuple[str, StoredKey]:
    """A new key, and what is stored of it. The key cannot be shown again."""
    key = PREFIX + secrets.token_urlsafe(32)
    with _connect(url) as connection:
        return key, _insert(connection, key, name, tenant, roles, rows or {}, limits or Limits())


def ensure_key(url: str, key: str, role: Role) -> None:
    """Make the key that the operator chose for this role one of the tenant `default`, unless it is known."""
    option = f"--{role}-key"
    if len(key) < SHORTEST:
        raise SetupError(f"{option} is too short: choose at least {SHORTEST} random characters")
    with _connect(url) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [int.from_bytes(digest_of(key)[:7])])
        row = connection.execute(
            "SELECT revoked, tenant, roles FROM prosem.api_key WHERE digest = %s", [digest_of(key)]
        ).fetchone()
        if row is None:
            name = f"{role} key of the settings"
            _insert(connection, key, name, DEFAULT_TENANT, frozenset({role}), {}, Limits())
        elif row[0] is not None:
            raise SetupError(f"the key of {option} was revoked: choose another")
        elif row[1] != DEFAULT_TENANT or role not in row[2]:
            had = f"the key of {option} is already one of the tenant {row[1]!r} with the role {', '.join(row[2])}"
            raise SetupError(f"{had}: choose another")


def load_keys(url: str) -> list[StoredKey]:
    """All keys that ever were, oldest first."""
    with _connect(url) as connection:
        rows = connection.execute(f"SELECT {_FIELDS} FROM prosem.api_key ORDER BY id").fetchall()
    return [_stored(row) for row in rows]


def revoke_key(url: str, number: int, tenant: str | None = None) -> StoredKey:
    """End a key; of one tenant, if one is given. Revoking twice changes nothing."""
    with _connect(url) as connection:
        row = connection.execute(
            "UPDATE prosem.api_key SET revoked = coalesce(revoked, now())"
            f" WHERE id = %s AND (%s::text IS NULL OR tenant = %s) RETURNING {_FIELDS}",
            [number, tenant, tenant],
        ).fetchone()
        connection.execute(f"NOTIFY {CHANNEL}")
    if row is None:
        raise NotFoundError(f"there is no key {number}")
    return _stored(row)


def _insert(
    connection: psycopg.Connection[Any],
    key: str,
    name: str,
    tenant: str,
    roles: frozenset[Role],
    rows: Predicates,
    limits: Limits,
) -> StoredKey:
    row = connection.execute(
        "INSERT INTO prosem.api_key (name, tenant, roles, digest, rows, limits)"
        f" VALUES (%s, %s, %s, %s, %s::text::json, %s::text::json) RETURNING {_FIELDS}",
        [name, tenant, sorted(roles), digest_of(key), _json(rows), _json(asdict(limits))],
    ).fetchone()
    connection.execute(f"NOTIFY {CHANNEL}")
    assert row is not None
    return _stored(row)


def _json(value: Mapping[str, Any]) -> str:
    return encode_exact(value).decode()


def _stored(row: tuple[Any, ...]) -> StoredKey:
    number, name, tenant, roles, digest, rows, limits, created, revoked = row
    shown = {"key": number, "name": name, "tenant": tenant, "roles": roles}
    caller = Caller.read({**shown, "rows": decode_exact(rows), "limits": decode_exact(limits)})
    return StoredKey(bytes(digest), caller, created, revoked)


def _connect(url: str) -> psycopg.Connection[Any]:
    try:
        connection = psycopg.connect(url, client_encoding="utf8", application_name="prosem keys", **KEEPALIVE)
    except psycopg.OperationalError as error:
        raise SetupError(f"the database cannot be reached: {str(error).strip()}") from error
    return connection
