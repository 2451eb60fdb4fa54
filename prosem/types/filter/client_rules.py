"""Client rules of filters: rows are replaced and removed by key."""

from __future__ import annotations

from prosem.types.shared.rules import Rules

RULES = Rules(
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
