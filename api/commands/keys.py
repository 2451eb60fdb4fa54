"""`prosem keys`: make, list and revoke keys in the database itself. A running server is notified at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from api.commands.plain_table import plain_table
from api.server.key_requests import read_key_request
from prosem.store.keys import create_key, load_keys, revoke_key
from prosem.values.errors import InputError
from prosem.values.model import DEFAULT_TENANT


def create(
    url: str,
    name: str,
    tenant: str,
    roles: Sequence[str],
    rows: Sequence[str],
    limits: Sequence[str],
    as_json: bool,
) -> int:
    """Print the new key, alone on standard output: `KEY=$(prosem keys create …)`."""
    body: dict[str, Any] = {"name": name, "tenant": tenant, "roles": list(roles), "rows": {}, "limits": {}}
    for item in rows:
        table, separator, condition = item.partition(":")
        if not separator:
            raise InputError(f"--rows {item!r} is not of the form \"table: sector = 'tech'\"")
        body["rows"][table.strip()] = condition.strip()
    for item in limits:
        limit, separator, number = item.partition("=")
        if not separator or not number.strip().isdigit():
            raise InputError(f"--limit {item!r} is not of the form name=number")
        body["limits"][limit.strip()] = int(number)
    key, stored = create_key(url, *read_key_request(body, DEFAULT_TENANT))
    if as_json:
        print(json.dumps({"secret": key, **stored.shown()}, default=str))
        return 0
    Console(stderr=True).print(
        f"key {stored.caller.key} of the tenant {stored.caller.tenant}; it is shown this once:",
        highlight=False,
    )
    print(key)
    return 0


def show(url: str, as_json: bool) -> int:
    found = load_keys(url)
    if as_json:
        print(json.dumps([key.shown() for key in found], default=str))
        return 0
    table = plain_table("key", "name", "tenant", "roles", "created", "revoked", whole=["created", "revoked"])
    restrictions = []
    for key in found:
        shown = key.shown()
        table.add_row(
            str(shown["key"]),
            shown["name"],
            shown["tenant"],
            ", ".join(shown["roles"]),
            f"{key.created:%Y-%m-%d}",
            f"{key.revoked:%Y-%m-%d}" if key.revoked else "",
        )
        rows = [
            f"{name}: " + " AND ".join(_condition(column, values) for column, values in predicate.items())
            for name, predicate in shown["rows"].items()
        ]
        limits = [f"{name}={number}" for name, number in shown["limits"].items()]
        if rows or limits:
            restrictions.append(f"key {shown['key']} is restricted to {'; '.join([*rows, *limits])}")
    console = Console()
    console.print(table)
    for line in restrictions:
        console.print(line, highlight=False, markup=False)
    return 0


def _condition(column: str, values: Sequence[object]) -> str:
    written = ", ".join(repr(value) if isinstance(value, str) else str(value) for value in values)
    return f"{column} = {written}" if len(values) == 1 else f"{column} IN ({written})"


def revoke(url: str, number: int) -> int:
    stored = revoke_key(url, number)
    Console(stderr=True).print(f"key {number} ({stored.caller.name}) is revoked", highlight=False)
    return 0
