"""Client rules of DISTINCT: values are added and removed."""

from __future__ import annotations

from prosem.types.shared.rules import Rules

RULES = Rules(
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
