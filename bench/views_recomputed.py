"""Databases that compute a view, or a query over it, again at each event: PostgreSQL, and DuckDB if it is installed."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import psycopg

from prosem.store.embedded import EmbeddedPostgres

Tables = Mapping[str, Sequence[str]]
Content = Mapping[str, Sequence[tuple[int, ...]]]


class Recomputed(Protocol):
    """A database with the tables of a case, indexes on their columns, and the view as a plain one."""

    def load(self, tables: Tables, content: Content, view: str, definition: str) -> None: ...
    def update(self, events: Sequence[Mapping[str, Any]]) -> None: ...
    def compute_view(self) -> None:
        """All rows of the view."""

    def compute_one(self, query: str, lo: int, hi: int) -> Any:
        """The answer of one subscription, from the tables."""


class _Postgres:
    """One transaction for each event, as a publisher's would be; the view as a materialized one too."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._run = connection.execute
        self._connection = connection

    def load(self, tables: Tables, content: Content, view: str, definition: str) -> None:
        for name, columns in tables.items():
            self._run(_created(name, columns))
            with self._connection.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
                for row in content[name]:
                    copy.write_row(row)
            for column in columns[1:]:
                self._run(f"CREATE INDEX ON {name} ({column})".encode())
        self._run(f"CREATE VIEW {view} AS {definition}".encode())
        self._run(f"CREATE MATERIALIZED VIEW kept AS {definition}".encode())
        for name in tables:
            self._run(f"ANALYZE {name}".encode())

    def update(self, events: Sequence[Mapping[str, Any]]) -> None:
        with self._connection.transaction():
            for event in events:
                self._run(*_update(event, "%s"))

    def compute_view(self) -> None:
        self._run("REFRESH MATERIALIZED VIEW kept")

    def compute_one(self, query: str, lo: int, hi: int) -> Any:
        text = query.replace(":lo", "%s").replace(":hi", "%s")
        found = self._run(text.encode(), (lo, hi)).fetchone()
        return found[0] if found else None


class _Duck:
    """DuckDB in memory, in this process."""

    def __init__(self, connection: Any) -> None:
        self._run = connection.execute
        self._definition = ""

    def load(self, tables: Tables, content: Content, view: str, definition: str) -> None:
        for name, columns in tables.items():
            self._run(_created(name, columns).decode())
            lists = [[row[at] for row in content[name]] for at in range(len(columns))]
            chosen = ", ".join(f"unnest(${at + 1})" for at in range(len(columns)))
            self._run(f"INSERT INTO {name} SELECT {chosen}", lists)
        self._run(f"CREATE VIEW {view} AS {definition}")
        self._definition = definition

    def update(self, events: Sequence[Mapping[str, Any]]) -> None:
        self._run("BEGIN")
        for event in events:
            text, values = _update(event, "?")
            self._run(text.decode(), list(values))
        self._run("COMMIT")

    def compute_view(self) -> None:
        self._run(f"CREATE OR REPLACE TABLE kept AS {self._definition}")

    def compute_one(self, query: str, lo: int, hi: int) -> Any:
        return self._run(query.replace(":lo", "?").replace(":hi", "?"), [lo, hi]).fetchone()[0]


def _created(name: str, columns: Sequence[str]) -> bytes:
    described = ", ".join(f"{column} integer" for column in columns)
    return f"CREATE TABLE {name} ({described}, PRIMARY KEY ({columns[0]}))".encode()


def _update(event: Mapping[str, Any], mark: str) -> tuple[bytes, tuple[Any, ...]]:
    ((column, value),) = event["set"].items()
    text = f"UPDATE {event['table']} SET {column} = {mark} WHERE id = {mark}"
    return text.encode(), (value, event["key"]["id"])


@contextmanager
def _postgres() -> Iterator[Recomputed | None]:
    with tempfile.TemporaryDirectory(prefix="prosem-bench-") as folder:
        Path(folder).chmod(0o755)
        postgres = EmbeddedPostgres(Path(folder) / "data")
        try:
            with psycopg.connect(postgres.start(), autocommit=True) as connection:
                yield _Postgres(connection)
        finally:
            postgres.stop()


@contextmanager
def _duckdb() -> Iterator[Recomputed | None]:
    if importlib.util.find_spec("duckdb") is None:
        yield None
        return
    import duckdb

    with duckdb.connect(":memory:") as connection:
        yield _Duck(connection)


SYSTEMS: dict[str, Callable[[], AbstractContextManager[Recomputed | None]]] = {
    "PostgreSQL": _postgres,
    "DuckDB": _duckdb,
}
