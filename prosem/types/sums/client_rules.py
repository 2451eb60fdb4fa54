"""Client rules of range COUNT, SUM and AVG: differences are added up."""

from __future__ import annotations

from prosem.types.shared.rules import Rules


def rules(answer: str) -> Rules:
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
