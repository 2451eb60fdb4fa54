"""Client rules of value notification, of one item and of many."""

from __future__ import annotations

from prosem.types.shared.rules import Rules

RULES = Rules(
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
