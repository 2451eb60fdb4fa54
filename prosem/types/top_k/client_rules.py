"""Client rules of top-k: rows are replaced and removed by key, and sorted by the rank that comes with them."""

from __future__ import annotations

from prosem.types.shared.rules import Rules

RULES = Rules(
    schema=(
        "CREATE TABLE held (key TEXT PRIMARY KEY, rank TEXT, row TEXT)",
        "CREATE INDEX held_rank ON held (rank)",
    ),
    update={
        "state": (
            "DELETE FROM held",
            "INSERT INTO held SELECT value ->> 'key', value ->> 'rank', value -> 'row' "
            "FROM json_each(:message, '$.rows')",
        ),
        "row": (
            "DELETE FROM held WHERE key = :message ->> 'key'",
            "INSERT INTO held SELECT :message ->> 'key', :message ->> 'rank', :message -> 'row' "
            "WHERE :message ->> 'row' IS NOT NULL",
        ),
    },
    transform="SELECT json_object('rows', json_group_array(json(row))) FROM (SELECT row FROM held ORDER BY rank)",
)
