"""Client rules of range MIN and MAX: the answer is replaced."""

from __future__ import annotations

from prosem.types.shared.rules import Rules

_ANSWER = ("DELETE FROM answer", "INSERT INTO answer SELECT json_remove(:message, '$.message')")
RULES = Rules(
    schema=("CREATE TABLE answer (result TEXT)",),
    update={"state": _ANSWER, "change": _ANSWER},
    transform="SELECT result FROM answer",
)
