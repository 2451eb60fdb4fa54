"""What a client does with raw messages: update and transformation rules in SQL for a SQLite of its own.

See [ProSem thesis] 2.4, 6.2.1. Every message is one JSON object, bound as `:message`; its field `message` names the rule.
`state` begins anew, the others change what is held. After the messages of one event the transformation gives the answer, as
JSON. So a client knows no type: it runs the rules of `GET /v1/types`. Values are kept as the JSON they came as, and never
pass through SQLite's numbers.

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
    """The key of a row as the text by which it is found again."""
    return ",".join(
        [
            written(table.columns[table.position[name]].type.read(decode(row[name])))
            for name in table.primary_key
        ]
    )


_ANSWER = ("DELETE FROM answer", "INSERT INTO answer SELECT json_remove(:message, '$.message')")
EXTREME = Rules(
    schema=("CREATE TABLE answer (result TEXT)",),
    update={"state": _ANSWER, "change": _ANSWER},
    transform="SELECT result FROM answer",
)


def sums(answer: str) -> Rules:
    """`answer` is JSON, from the columns of `total`; while a subscription is suspended its answer is frozen."""
    return Rules(
        schema=("CREATE TABLE total (count INTEGER, sum TEXT, type TEXT, frozen TEXT)",),
        update={
            "state": (
                "DELETE FROM total",
                "INSERT INTO total SELECT :message ->> 'count', :message ->> 'sum', :message ->> 'type', "
                "nullif(:message -> 'frozen', 'null')",
            ),
            "delta": (
                "UPDATE total SET count = count + (:message ->> 'count'), sum = decimal_add(sum, :message ->> 'sum')",
            ),
        },
        transform=f"SELECT coalesce(frozen, json_object('value', json({answer}))) FROM total",
    )


DISTINCT = Rules(
    schema=("CREATE TABLE held (rank, value TEXT)", "CREATE INDEX held_rank ON held (rank)"),
    update={
        "state": (
            "DELETE FROM held",
            "INSERT INTO held SELECT value ->> 'rank', value -> 'value' FROM json_each(:message, '$.values')",
        ),
        "add": ("INSERT INTO held SELECT :message ->> 'rank', :message -> 'value'",),
        "remove": ("DELETE FROM held WHERE rank IS (:message ->> 'rank')",),
    },
    transform="SELECT json_object('values', json_group_array(json(value))) "
    "FROM (SELECT value FROM held ORDER BY rank IS NULL, rank)",
)

FILTER = Rules(
    schema=("CREATE TABLE held (key TEXT PRIMARY KEY, row TEXT)",),
    update={
        "state": (
            "DELETE FROM held",
            "INSERT INTO held SELECT value ->> 'key', value -> 'row' FROM json_each(:message, '$.rows')",
        ),
        "row": (
            "DELETE FROM held WHERE key = :message ->> 'key'",
            "INSERT INTO held SELECT :message ->> 'key', :message -> 'row' WHERE :message ->> 'row' IS NOT NULL",
        ),
    },
    transform="SELECT json_object('rows', json_group_array(json(row))) FROM held",
)

VALUE = Rules(
    schema=(
        "CREATE TABLE told (key TEXT PRIMARY KEY, value TEXT)",
        "CREATE TABLE shape (is_many INTEGER)",
    ),
    update={
        "state": (
            "DELETE FROM told",
            "DELETE FROM shape",
            "INSERT INTO shape SELECT :message -> 'items' IS NOT NULL",
            "INSERT INTO told SELECT '', :message -> 'value' WHERE :message -> 'value' IS NOT NULL",
            "INSERT INTO told SELECT value -> 'key', value -> 'value' FROM json_each(:message, '$.items')",
        ),
        "value": ("UPDATE told SET value = :message -> 'value'",),
        "item": (
            "DELETE FROM told WHERE key = :message -> 'key'",
            "INSERT INTO told SELECT :message -> 'key', :message -> 'value' WHERE :message ->> 'value' IS NOT NULL",
        ),
    },
    transform="SELECT CASE WHEN is_many THEN json_object('items', (SELECT json_group_array("
    "json_object('key', json(key), 'value', json(value))) FROM told)) "
    "ELSE json_object('value', json((SELECT value FROM told))) END FROM shape",
)

# A table's rows are found by their link: the values of the classes that it shares with the tables before it.
_LINK = "(SELECT json_group_array(json_extract({classes}, '$.' || value)) FROM json_each(source.classes))"
_HOLD = (
    "INSERT OR REPLACE INTO held SELECT number, given ->> 'key', "
    + _LINK.format(classes="given -> 'classes'")
    + ", given -> 'classes', given -> 'row' FROM ({given}) JOIN source ON number = given ->> 'table'"
)
JOIN = Rules(
    schema=(
        "CREATE TABLE source (number INTEGER PRIMARY KEY, name TEXT, classes TEXT)",
        "CREATE TABLE held (number INTEGER, key TEXT, link TEXT, classes TEXT, row TEXT, PRIMARY KEY (number, key))",
        "CREATE INDEX held_link ON held (number, link)",
        "CREATE TABLE joined (key TEXT PRIMARY KEY, row TEXT)",
    ),
    update={
        "state": (
            "DELETE FROM source",
            "DELETE FROM held",
            "DELETE FROM joined",
            "INSERT INTO source SELECT key, value ->> 'name', value -> 'classes' "
            "FROM json_each(:message, '$.sources')",
            _HOLD.format(given="SELECT value AS given FROM json_each(:message, '$.held')"),
            "INSERT INTO joined SELECT value ->> 'key', value -> 'row' FROM json_each(:message, '$.joined')",
        ),
        "upsert": (_HOLD.format(given="SELECT :message AS given"),),
        "drop": ("DELETE FROM held WHERE number = :message ->> 'table' AND key = :message ->> 'key'",),
        "lose": (
            "DELETE FROM held WHERE number = :message ->> 'table' AND NOT EXISTS (SELECT 1 FROM "
            "json_each(:message, '$.classes') AS lost "
            "WHERE json_extract(held.classes, '$.' || lost.key) IS NOT lost.value)",
        ),
        "joined": (
            "DELETE FROM joined WHERE key IN (SELECT value FROM json_each(:message, '$.remove'))",
            "INSERT INTO joined SELECT value ->> 'key', value -> 'row' FROM json_each(:message, '$.add')",
        ),
    },
    transform="WITH RECURSIVE part (number, classes, row) AS (SELECT 0, '{}', '' UNION ALL "
    "SELECT part.number + 1, json_patch(part.classes, held.classes), "
    "part.row || ',' || json_quote(source.name) || ':' || held.row "
    "FROM part JOIN source ON source.number = part.number "
    "JOIN held ON held.number = part.number AND held.link = " + _LINK.format(classes="part.classes") + ") "
    "SELECT json_object('rows', json_group_array(json(row))) FROM (SELECT '{' || substr(row, 2) || '}' AS row "
    "FROM part WHERE number > 0 AND number = (SELECT count(*) FROM source) UNION ALL SELECT row FROM joined)",
)
