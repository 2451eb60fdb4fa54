"""What an error of PostgreSQL means for the batch it ended: by its SQLSTATE.

the data      22, 23, 42, 54, …   a request holds what PostgreSQL does not take: the same again fails again
resources     53, 58, 25006       no disk, no memory: nothing can be written for a while, whatever it is
anything else                     the connection broke, a lock, a cancelled statement: the same may succeed
"""

from __future__ import annotations

import psycopg

from prosem.values.errors import CommitError, ProsemError, RefusedError, ResourceError

_DATA = (
    "0A", "09", "21", "22", "23", "27", "2B", "2F", "38", "39", "42", "44", "54", "P0"
)  # fmt: skip
_IN_USE = ("55000", "55006")  # a trigger or a prepared state of the operator's own
_RESOURCES = ("53", "58")
_READ_ONLY = "25006"  # how some hosted databases say that the disk is nearly full


def refusal(error: psycopg.Error) -> ProsemError:
    """The error as the engine takes it; nothing of the batch was applied."""
    state = error.sqlstate or ""
    said = str(error).strip() or type(error).__name__
    if isinstance(error, psycopg.errors.UniqueViolation) and _is_log(error):
        return CommitError(f"the log holds events that this server has not written: {said}")
    if state[:2] in _DATA or state in _IN_USE or isinstance(error, psycopg.DataError):
        return RefusedError(f"PostgreSQL refuses it: {said}")
    if state[:2] in _RESOURCES or state == _READ_ONLY:
        return ResourceError(f"PostgreSQL cannot write: {said}")
    return CommitError(f"PostgreSQL refused the batch: {said}")


def _is_log(error: psycopg.Error) -> bool:
    """Whether it is about the order of events itself, which no request can spoil."""
    name = error.diag.table_name or ""
    return error.diag.schema_name == "prosem" and name.startswith(("event_log", "outbox"))
