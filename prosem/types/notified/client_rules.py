"""Client rules of notify on an aggregate: the answer is replaced by what was notified."""

from __future__ import annotations

from prosem.types.shared.rules import Rules

_ANSWER = (
    "DELETE FROM answer",
    "INSERT INTO answer SELECT json_remove(:message, '$.message', '$.previous')",
)
RULES = Rules(
    schema=("CREATE TABLE answer (result TEXT)",),
    update={"state": _ANSWER, "notified": _ANSWER},
    transform="SELECT result FROM answer",
)
