"""Transactions of pgbench through `prosem attach`: a subscriber per transaction never sees half of one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from prosem.store.installation import account, installation
from tests.support.attached import WAIT_S, Attacher, execute, rows_here, rows_there, slot_name
from tests.support.bank import ACCOUNTS, BRANCHES, EACH, GROUPS, QUERIES, ROWS, VIEW, Totals
from tests.support.live import Api, Socket
from tests.support.processes import ServerProcess, open_folder
from tests.support.waiting import until

# Accounts are locked in their order, so that no two transfers wait for each other.
TRANSFER = f"""
\\set one random(0, {ACCOUNTS - 2})
\\set other random(:one + 1, {ACCOUNTS - 1})
\\set amount random(-50, 50)
BEGIN;
UPDATE accounts SET balance = balance - :amount WHERE id = :one;
UPDATE accounts SET balance = balance + :amount WHERE id = :other;
END;
"""
SCHEMA = f"""
    CREATE TABLE accounts (id integer PRIMARY KEY, branch integer NOT NULL, balance bigint NOT NULL);
    INSERT INTO accounts SELECT n, n % {BRANCHES}, {EACH} FROM generate_series(0, {ACCOUNTS - 1}) n;
"""


@pytest.fixture
def pgbench() -> Iterator[Path]:
    """The program; PostgreSQL's own programs are found or unpacked as for the embedded server."""
    folder = open_folder("prosem-bench-")
    yield installation(account(folder / "x"), folder / "x", folder / "postgresql") / "bin" / "pgbench"
    shutil.rmtree(folder, ignore_errors=True)


class Bench:
    """pgbench with two clients on the source."""

    def __init__(self, program: Path, source: str, folder: Path, transactions: int) -> None:
        script = folder / "transfer.sql"
        script.write_text(TRANSFER)
        options = ["-n", "-c", "2", "-t", str(transactions // 2), "-R", "300", "-f", str(script)]
        self._process = subprocess.Popen([program, *options, source], stdout=subprocess.DEVNULL)

    def end(self) -> None:
        assert self._process.wait(WAIT_S * 5) == 0

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def read_to_the_end(api: Api, socket: Socket, totals: Totals) -> int:
    seq: int = api.call("GET", "/v1/status")["seq"]
    if seq:
        socket.progress(seq)
    totals.take(socket)
    return seq


def check(
    source: str, server: ServerProcess, pgbench: Path, folder: Path, transactions: int, kills: int
) -> None:
    execute(source, SCHEMA)
    attacher = Attacher(source, server.start(), "accounts", folder / "log", "--slot", slot_name())
    bench: Bench | None = None
    attacher.begin()
    try:
        with Api(server.url) as api:
            api.call("POST", "/v1/views", json=VIEW)
            totals = Totals(api)
            with api.socket() as socket:
                totals.attach(socket)
                bench = Bench(pgbench, source, folder, transactions)
                for _ in range(kills):
                    goal = sum(totals.changes.values()) + transactions // (kills + 1)
                    until(
                        lambda goal=goal: (
                            read_to_the_end(api, socket, totals) and sum(totals.changes.values()) > goal
                        )
                    )
                    attacher.kill()
                    attacher.begin()
                bench.end()
                assert attacher.stop() == 0, attacher.said[-3000:]
                attacher.catch_up()
                read_to_the_end(api, socket, totals)
        assert rows_there(server.url, "accounts") == rows_here(source, "accounts")
        assert all(totals.changes[sql] > transactions // 2 for sql in QUERIES[2:])
        assert totals.branches[ROWS] == totals.branches[GROUPS]
    finally:
        if bench is not None:
            bench.kill()
        if attacher.process is not None and attacher.process.poll() is None:
            attacher.kill()


def test_totals_are_constant(source: str, own_server: ServerProcess, pgbench: Path, tmp_path: Path) -> None:
    check(source, own_server, pgbench, tmp_path, transactions=400, kills=0)


@pytest.mark.slow
def test_totals_are_constant_at_length(
    source: str, own_server: ServerProcess, pgbench: Path, tmp_path: Path
) -> None:
    check(source, own_server, pgbench, tmp_path, transactions=8_000, kills=3)
