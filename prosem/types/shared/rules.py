"""What a client does with raw messages: update and transformation rules in SQL for a SQLite of its own.

See [ProSem thesis] 2.4, 6.2.1. Every message is one JSON object, bound as `:message`; its field `message` names the rule.
`state` begins anew, the others change what is held. After the messages of one event the transformation gives the answer, as
JSON. So a client knows no type: it runs the rules of `GET /v1/types`. Values are kept as the JSON they came as, and never
pass through SQLite's numbers. Each type's package holds its rules in `client_rules.py`.

Two things SQLite cannot do alone, and a client gives it as functions: `decimal_add(a, b)` (SQLite's own decimal extension
has it) and, for the answers of SUM and AVG as PostgreSQL rounds them, `exact_sum(sum, type)` and
`exact_average(sum, count, type)`, both as JSON.

It loses against a change where the answer is large: the transformation reads all that is held.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from prosem.values.model import JsonObject, Table
from prosem.values.wire import decode, encode

fields = msgspec.json.Decoder(
    dict[str, msgspec.Raw]
).decode  # an object whose values stay as they are written
listed = msgspec.json.Decoder(
    dict[str, list[dict[str, msgspec.Raw]]]
).decode  # and one of lists of such objects


class Rules(NamedTuple):
    """`update` has the statements of each message; `transform` is one query with one value."""

    schema: tuple[str, ...]
    update: Mapping[str, tuple[str, ...]]
    transform: str

    def document(self) -> JsonObject:
        return {
            "schema": list(self.schema),
            "update": {name: list(statements) for name, statements in self.update.items()},
            "transform": self.transform,
        }


def written(value: Any) -> str:
    """A value as the text by which it is found again: equal values are written alike.

    >>> written(-0.0), written(Decimal("5.00")), written("a")
    ('0.0', '5', '"a"')
    """
    if isinstance(value, float):
        value += 0.0
    elif isinstance(value, Decimal):
        text = f"{value:f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text in ("-0", "") else text
    return encode(value).decode()


def identity(table: Table, row: Mapping[str, msgspec.Raw]) -> str:
    """The key of a row as the text by which it is found again; columns of a view's key may be NULL."""
    return ",".join([_text(table, name, decode(row[name])) for name in table.primary_key])


def _text(table: Table, name: str, value: Any) -> str:
    return "null" if value is None else written(table.columns[table.position[name]].type.read(value))
