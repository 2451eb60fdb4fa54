"""A subscription's state in a SQLite of the user's, kept by the server's rules ([ProSem thesis] 2.4 and 6.2.1).

`GET /v1/types` gives for each type the tables of the state, the update rule of each message and the transformation rule, all
in SQL. Nothing here knows a type. One database holds one subscription; a frame of messages is one transaction of it, so
other readers of the file see the state between two events.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prosem_client import exact
from prosem_client.errors import OutOfStep, ProsemError
from prosem_client.values import JsonObject

MINIMUM = (3, 38)  # of SQLite: the operators -> and ->>


class LocalState:
    """The tables of one subscription. `apply` runs update rules, `result` the transformation rule."""

    def __init__(self, rules: Mapping[str, Any], path: str = ":memory:") -> None:
        if sqlite3.sqlite_version_info < MINIMUM:
            raise ProsemError(
                0, "sqlite", f"raw mode needs SQLite 3.38, and this one is {sqlite3.sqlite_version}"
            )
        self._update: Mapping[str, Sequence[str]] = rules["update"]
        self._transform: str = rules["transform"]
        self.database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        exact.install(self.database)
        with _transaction(self.database):
            for name, kind in _made(self.database):
                self.database.execute(f"DROP {kind} {_quoted(name)}")
            for statement in rules["schema"]:
                self.database.execute(statement)

    def apply(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Run the update rules of the messages of one event, in their order: all or none."""
        with _transaction(self.database):
            for message in messages:
                statements = self._update.get(message["message"])
                if statements is None:
                    raise OutOfStep(f"there is no update rule for the message {message['message']!r}")
                given = {"message": json.dumps(message, ensure_ascii=False)}
                for statement in statements:
                    self.database.execute(statement, given)

    def result(self) -> JsonObject | None:
        """The answer, by the transformation rule; None before the first message."""
        found = self.database.execute(self._transform).fetchone()
        if found is None or found[0] is None:
            return None
        result: JsonObject = json.loads(found[0])
        return result

    def close(self) -> None:
        self.database.close()


class _transaction:
    """BEGIN, and COMMIT or ROLLBACK."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._database.execute("COMMIT" if kind is None else "ROLLBACK")


def _made(database: sqlite3.Connection) -> list[tuple[str, str]]:
    """The tables that an earlier subscription left in the file."""
    return database.execute(
        "SELECT name, type FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ).fetchall()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
