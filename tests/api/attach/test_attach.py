"""Following a real PostgreSQL: what the server has is exactly what the source has, whoever is killed meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from prosem_client import Client

from api.attach.source import parse_tables
from api.attach.values import server_type
from api.commands.process import free_port
from prosem.store.embedded import EmbeddedPostgres
from prosem.values.errors import SetupError
from tests.support.attached import (
    WAIT_S,
    Attacher,
    Load,
    answer,
    complaint,
    execute,
    rows_here,
    rows_there,
    slot_name,
)
from tests.support.processes import ServerProcess, open_folder
from tests.support.waiting import until

KINDS = """
    CREATE TYPE mood AS ENUM ('sad', 'glad');
    CREATE TABLE kinds (
        id uuid, part smallint, flag boolean, whole integer, large bigint, real_one real, double_one double precision,
        price numeric(12,2), name varchar(20), fixed char(3), how mood, day date, at timestamptz, local timestamp,
        doc jsonb, old_doc json, raw bytea, place point, twice bigint GENERATED ALWAYS AS (large * 2) STORED,
        PRIMARY KEY (part, id)
    );
    INSERT INTO kinds SELECT gen_random_uuid(), n, n % 2 = 0, n, n * 10000000000, 0.5, 0.1 * n, n * 1.25, 'n' || n,
        'ab', 'glad', '2024-02-29', '2024-03-31 01:30:00.123456+02', '2024-01-01 12:00', '{"a": [1, 2.50]}', '{"b": 1}',
        '\\xdeadbeef', '(1,2)' FROM generate_series(1, 5) n;
    INSERT INTO kinds (id, part) VALUES (gen_random_uuid(), 9);
"""
FOLLOWED = (
    "id::text, part, flag, whole, large, real_one, double_one, price, name, fixed, how::text, day, at,"
    " local AT TIME ZONE 'UTC', doc, old_doc, raw"
)


def test_all_kinds_of_values_and_all_kinds_of_changes(source: str, server: str, tmp_path: Path) -> None:
    execute(source, KINDS)
    attacher = Attacher(
        source, server, "public.kinds=kinds", tmp_path / "log", "--slot", slot_name(), "--leave-out", "kinds.place"
    )  # fmt: skip
    attacher.catch_up()
    assert rows_there(server, "kinds") == rows_here(source, "kinds", FOLLOWED)
    execute(source, "UPDATE kinds SET part = part + 10, price = NULL WHERE part < 3")
    execute(source, "UPDATE kinds SET raw = '\\x00', how = 'sad', doc = '[null, \"ü\"]' WHERE part = 4")
    execute(source, "DELETE FROM kinds WHERE part = 9")
    attacher.catch_up()
    assert "copying" not in attacher.said.splitlines()[-1]
    assert rows_there(server, "kinds") == rows_here(source, "kinds", FOLLOWED)
    execute(
        source,
        "BEGIN; INSERT INTO kinds (id, part) VALUES (gen_random_uuid(), 70); TRUNCATE kinds;"
        " INSERT INTO kinds (id, part) VALUES (gen_random_uuid(), 71); COMMIT",
    )
    attacher.catch_up()
    assert rows_there(server, "kinds") == rows_here(source, "kinds", FOLLOWED)
    assert len(rows_there(server, "kinds")) == 1
    assert attacher.said.count("copying") <= 1
    # Copied anew, also what somebody else has changed here is as in the source again.
    row = {"id": str(uuid.uuid4()), "part": 99}
    httpx.post(
        server + "/v1/tables/kinds/events", json={"events": [{"op": "insert", "row": row}]}, trust_env=False
    )
    attacher.catch_up("--again")
    assert rows_there(server, "kinds") == rows_here(source, "kinds", FOLLOWED)


def test_writes_during_the_copy_and_kills_of_the_follower(
    source: str, own_server: ServerProcess, tmp_path: Path
) -> None:
    execute(source, Load.SCHEMA)
    url = own_server.start()
    attacher = Attacher(source, url, "accounts,moves", tmp_path / "log", "--slot", slot_name())
    load = Load(source)
    try:
        load.wait(20)
        attacher.start()
        until(lambda: answer_or(url, "accounts", 0) > 0, what=lambda: attacher.said[-3000:])
        attacher.kill()  # most likely during the copy, which begins anew
        execute(source, "DELETE FROM accounts WHERE id = 1500")
        attacher.begin()
        with Client(url) as client, client.subscribe("SELECT SUM(delta) FROM moves") as total:
            for _ in range(2):
                load.wait(40)
                attacher.kill()
                # Whole transactions only: what was moved is what is written down.
                balance = int(answer(url, "SELECT SUM(balance) FROM accounts")["value"])
                assert balance == int(answer(url, "SELECT SUM(delta) FROM moves")["value"])
                attacher.begin()
            own_server.kill()  # the server too: the follower waits for it
            load.wait(20)
            own_server.port = int(url.rpartition(":")[2])
            own_server.start()
            load.wait(20)
            load.end()
            assert attacher.stop() == 0, attacher.said[-3000:]
            attacher.catch_up()
            for table in ("accounts", "moves"):
                assert rows_there(url, table) == rows_here(source, table)
            with psycopg.connect(source) as connection:
                expected = connection.execute("SELECT SUM(delta) FROM moves").fetchone()
            assert expected is not None
            while total.result != {"value": int(expected[0])}:
                total.next(WAIT_S)
    finally:
        load.end()
        if attacher.process is not None and attacher.process.poll() is None:
            attacher.kill()


def answer_or(url: str, table: str, default: int) -> int:
    """The rows of a table that may not be there yet."""
    if httpx.get(f"{url}/v1/tables/{table}", trust_env=False).status_code != 200:
        return default
    return int(answer(url, f"SELECT COUNT(*) FROM {table}")["value"])


def test_the_source_is_killed_and_the_lag_is_shown(server: str, tmp_path: Path) -> None:
    folder = open_folder("prosem-source-")
    made = EmbeddedPostgres(folder / "data", settings={"wal_sender_timeout": "5s"})
    port = free_port()
    attacher = None
    try:
        execute(made.start(), Load.SCHEMA)
        tables = "accounts=killed_accounts,moves=killed_moves"
        attacher = Attacher(
            made.url, server, tables, tmp_path / "log", "--metrics-port", str(port), "--slot", slot_name()
        )
        attacher.start()
        load = Load(made.url)
        until(lambda: answer_or(server, "killed_moves", 0) > 30, what=lambda: attacher.said[-3000:])
        assert made.pid is not None
        os.kill(made.pid, signal.SIGKILL)
        until(lambda: "waiting" in attacher.said, what=lambda: attacher.said[-3000:])
        made.start()
        load.wait(30)
        load.end()
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
        assert "prosem_attach_slot_lag_bytes{" in text
        assert "prosem_attach_source_losses_total{" in text
        assert attacher.stop() == 0
        attacher.catch_up()
        assert "behind" in attacher.said
        for table in ("accounts", "moves"):
            assert rows_there(server, f"killed_{table}") == rows_here(made.url, table)
    finally:
        if attacher is not None and attacher.process is not None and attacher.process.poll() is None:
            attacher.kill()
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_what_cannot_be_followed_is_said(source: str, server: str) -> None:
    execute(
        source, "CREATE TABLE keyless (x integer); CREATE TABLE odd (id integer PRIMARY KEY, place point)"
    )
    assert "has no key" in complaint(source, server, "--tables", "keyless")
    assert "--leave-out odd.place" in complaint(source, server, "--tables", "odd")
    assert "has no table public.none" in complaint(source, server, "--tables", "none")


def test_names_and_types() -> None:
    assert parse_tables("a,s.b") == [("public", "a", "a"), ("s", "b", "b")]
    for text in ("", "a,s.a"):
        with pytest.raises(SetupError):
            parse_tables(text)
    assert server_type("numeric(2,3)") is None
    assert server_type("integer[]") is None
    assert server_type("character(3)") == "text"


@pytest.mark.slow
def test_pgbench_runs_on_the_source(source: str, own_server: ServerProcess, tmp_path: Path) -> None:
    from prosem.store.installation import account, installation

    folder = open_folder("prosem-bench-")
    binaries = installation(account(folder / "x"), folder / "x", folder / "postgresql") / "bin"
    url = own_server.start()
    subprocess.run([binaries / "pgbench", "-i", "-q", "-s", "1", source], check=True, capture_output=True)
    execute(source, "ALTER TABLE pgbench_history ADD COLUMN id bigserial PRIMARY KEY")
    tables = [f"pgbench_{name}" for name in ("accounts", "branches", "tellers", "history")]
    attacher = Attacher(source, url, ",".join(tables), tmp_path / "log", "--slot", slot_name())
    attacher.start()
    bench = subprocess.Popen(
        [binaries / "pgbench", "-c", "2", "-T", "20", "-R", "100", source], stdout=subprocess.DEVNULL
    )
    try:
        until(lambda: len(rows_here(source, "pgbench_history")) >= 500)  # under load, and long before its end
        attacher.kill()
        attacher.start()
        assert bench.wait(WAIT_S) == 0
        assert attacher.stop() == 0, attacher.said[-3000:]
        attacher.catch_up()
        history = "tid, bid, aid, delta, mtime AT TIME ZONE 'UTC', filler, id"
        for table in tables:
            columns = history if table == "pgbench_history" else "*"
            assert rows_there(url, table) == rows_here(source, table, columns)
        total: dict[str, Any] = answer(url, "SELECT SUM(delta) FROM pgbench_history")
        assert Decimal(total["value"]) == Decimal(
            answer(url, "SELECT SUM(abalance) FROM pgbench_accounts")["value"]
        )
        assert "behind" in attacher.said
    finally:
        bench.kill()
        bench.wait()
        shutil.rmtree(folder, ignore_errors=True)
