"""`prosem attach` as a user starts it, a source of its own, and the comparison of both sides."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Any

import httpx
import psycopg
from psycopg import sql

from api.attach.slot import connect
from prosem.values.columns import column_type
from prosem.values.wire import decode_exact
from tests.support import forked
from tests.support.processes import CommandProcess
from tests.support.waiting import until

WAIT_S = 60.0


def slot_name() -> str:
    return "slot_" + uuid.uuid4().hex[:8]


def execute(source: str, text: str) -> None:
    with psycopg.connect(source, autocommit=True) as connection:
        connection.execute(text)  # type: ignore[call-overload]


def complaint(source: str, server: str, *options: str) -> str:
    done = forked.run("attach", source, "--url", server, *options, timeout_s=WAIT_S)
    assert done.returncode == 1, done.stderr
    return done.stderr


class Attacher(CommandProcess):
    def __init__(self, source: str, server: str, tables: str, log: Path, *options: str) -> None:
        self.source, self.log = source, log
        self.arguments = [source, "--url", server, "--tables", tables, "--report", "1", *options]

    @property
    def said(self) -> str:
        """What it has written so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def start(self, *options: str) -> None:
        self.launch(self.log, "attach", *self.arguments, *options)

    def begin(self) -> None:
        """Start it and wait until it has copied what it must, and follows."""
        times = self.said.count("following")
        self.start()

        def is_following() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.said[-3000:]
            return self.said.count("following") > times

        until(is_following, WAIT_S, lambda: self.said[-3000:])

    def ended(self) -> str:
        """Wait until it has ended by an error; what it has said."""
        assert self.process is not None
        assert self.process.wait(WAIT_S) == 1, self.said[-3000:]
        return self.said

    def catch_up(self, *options: str) -> None:
        """Follow until the source's log as of now is applied."""
        self.start("--once", *options)
        assert self.process is not None
        assert self.process.wait(WAIT_S) == 0, self.said[-3000:]


def metric(port: int, name: str) -> float | None:
    """A figure of the metrics that it serves; None while there is none."""
    try:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
    except httpx.HTTPError:
        return None
    found = [line for line in text.splitlines() if line.startswith(f"prosem_attach_{name}{{")]
    return float(found[0].rpartition(" ")[2]) if found else None


def answer(server: str, query: str) -> Any:
    body = {"sql": query, "durable": False}
    got = httpx.post(server + "/v1/subscriptions", json=body, trust_env=False)
    assert got.status_code == 201, got.text
    found = decode_exact(got.content)
    httpx.delete(f"{server}/v1/subscriptions/{found['id']}", trust_env=False)
    return found["result"]


def rows_there(server: str, table: str) -> list[Any]:
    """The rows on the server, as values."""
    columns = httpx.get(f"{server}/v1/tables/{table}", trust_env=False).json()["columns"]
    types = [(column["name"], column_type(column["type"])) for column in columns]
    found = answer(server, f"SELECT * FROM {table}")["rows"]
    return sorted(
        repr([None if row[name] is None else kind.read(row[name]) for name, kind in types]) for row in found
    )


def rows_here(source: str, table: str, columns: str = "*") -> list[Any]:
    """The rows of the source, as values."""
    with connect(source) as connection:
        text = sql.SQL(f"SELECT {columns} FROM {table}")  # type: ignore[arg-type]
        return sorted(repr(list(row)) for row in connection.execute(text).fetchall())


class Load:
    """Transactions over two tables: money moves, and each move is written down. The sums agree after each."""

    SCHEMA = """
        CREATE TABLE accounts (id integer PRIMARY KEY, balance bigint NOT NULL, note text);
        CREATE TABLE moves (id bigserial PRIMARY KEY, account integer NOT NULL, delta integer NOT NULL);
        INSERT INTO accounts SELECT n, 0, repeat(md5(n::text), 200) FROM generate_series(1, 1500) n;
        ALTER TABLE accounts ALTER COLUMN note SET STORAGE EXTERNAL;
    """

    def __init__(self, source: str) -> None:
        self._source, self._ended = source, threading.Event()
        self.count = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                with psycopg.connect(self._source, connect_timeout=5) as connection:
                    while not self._ended.is_set():
                        self._transact(connection)
                        connection.commit()
                        self.count += 1
                        self._ended.wait(0.005)
            except psycopg.OperationalError:
                self._ended.wait(0.1)

    def _transact(self, connection: psycopg.Connection[Any]) -> None:
        number = self.count % 1400 + 1
        connection.execute(
            "UPDATE accounts SET balance = balance + %s WHERE id %% 100000 = %s", [self.count, number]
        )
        connection.execute("INSERT INTO moves (account, delta) VALUES (%s, %s)", [number, self.count])
        if self.count % 5 == 0:  # another key, and the long note is not sent
            connection.execute(
                "UPDATE accounts SET id = (id + 100000) %% 200000 WHERE id %% 100000 = %s", [number]
            )
        if self.count % 7 == 0:
            connection.execute("DELETE FROM moves WHERE delta = 0")

    def wait(self, more: int) -> None:
        goal = self.count + more
        until(lambda: self.count >= goal, WAIT_S, "the load does not go on")

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
