"""Client rules of several aggregates (the answer is replaced) and of GROUP BY (groups are replaced and removed by key)."""

from __future__ import annotations

from prosem.types.shared.rules import Rules

_ANSWER = ("DELETE FROM answer", "INSERT INTO answer SELECT json_remove(:message, '$.message')")
SEVERAL = Rules(
    schema=("CREATE TABLE answer (result TEXT)",),
    update={"state": _ANSWER, "change": _ANSWER},
    transform="SELECT result FROM answer",
)
GROUPS = Rules(
    schema=("CREATE TABLE held (key TEXT PRIMARY KEY, columns TEXT)",),
    update={
        "state": (
            "DELETE FROM held",
            "INSERT INTO held SELECT value ->> 'key', value -> 'group' FROM json_each(:message, '$.groups')",
        ),
        "group": (
            "DELETE FROM held WHERE key = :message ->> 'key'",
            "INSERT INTO held SELECT :message ->> 'key', :message -> 'group' WHERE :message ->> 'group' IS NOT NULL",
        ),
    },
    transform="SELECT json_object('groups', json_group_array(json(columns))) FROM held",
)
