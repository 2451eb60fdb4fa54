"""Client rules of select-joins: rows of each table are held and joined."""

from __future__ import annotations

from prosem.types.shared.rules import Rules

# A table's rows are found by their link: the values of the classes that it shares with the tables before it.
_LINK = "(SELECT json_group_array(json_extract({classes}, '$.' || value)) FROM json_each(source.classes))"
_HOLD = (
    "INSERT OR REPLACE INTO held SELECT number, given ->> 'key', "
    + _LINK.format(classes="given -> 'classes'")
    + ", given -> 'classes', given -> 'row' FROM ({given}) JOIN source ON number = given ->> 'table'"
)
RULES = Rules(
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
