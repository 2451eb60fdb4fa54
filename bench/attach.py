"""How fast `prosem attach` follows a busy PostgreSQL: a backlog it finds, then a steady load of half that rate.

`pgbench -c 4` writes the transactions of its TPC-B script (three updates and an insert each) into a source of its own.
Source, pgbench, `prosem attach`, `prosem serve` and its PostgreSQL share the machine. The lag of a transaction is the time
from its start in the source to the arrival of its line of the history at a subscriber's socket, by one clock. At the end the
balances must agree.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import psycopg
from prosem_client import Client, Closed

from api.commands.process import free_port, start_command, start_server, wait_ready
from bench.common import Report, fail, progress
from bench.end_to_end import children, cpu_s
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.installation import account, installation

CLIENTS = 4
EVENTS = 4  # of a transaction of pgbench: an account, a teller, a branch, a line of the history
TELLERS = 10  # of a branch
WAIT_S = 600.0
TABLES = ("pgbench_accounts", "pgbench_tellers", "pgbench_branches", "pgbench_history")
TOTALS = {  # pgbench keeps them equal
    "pgbench_accounts": ("abalance", "aid"),
    "pgbench_tellers": ("tbalance", "tid"),
    "pgbench_branches": ("bbalance", "bid"),
    "pgbench_history": ("delta", "id"),
}
SCRIPT = r"""
\set aid random(1, :accounts)
\set bid random(1, :branches)
\set tid random(1, 10 * :branches)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
"""
MINIMUM = "SELECT MIN(abalance) FROM pgbench_accounts WHERE aid BETWEEN :lo AND :hi"


def run(quick: bool) -> Report:
    accounts, backlog, seconds, subscriptions = (
        (10_000, 4_000, 5, 100) if quick else (400_000, 40_000, 30, 10_000)
    )
    report = Report(
        "attach",
        {
            "clients": CLIENTS,
            "accounts": accounts,
            "backlog_transactions": backlog,
            "seconds": seconds,
            "subscriptions": subscriptions,
        },
    )
    figures = measure(accounts, backlog, seconds, subscriptions)
    report.figures = figures
    lag = figures["lag_ms"]
    rows = [
        ("rows/s copied", figures["rows_per_s"]),
        ("pgbench alone, events/s", figures["source_events_per_s"]),
        ("backlog drained, events/s", figures["drained_events_per_s"]),
        *((f"{name}, CPU µs per event", us) for name, us in figures["cpu_us_per_event"].items()),
        ("pgbench --rate, events/s", figures["rate_events_per_s"]),
        ("lag p50, ms", lag["p50"]),
        ("lag p99, ms", lag["p99"]),
        ("lag at most, ms", lag["most"]),
    ]
    title = f"pgbench -c {CLIENTS}, {accounts:,} accounts, {subscriptions:,} subscriptions"
    report.tables = [(title, [dict(zip(("figure", "measured"), row, strict=True)) for row in rows])]
    return report


def measure(accounts: int, backlog: int, seconds: int, subscriptions: int) -> dict[str, Any]:
    """`backlog`: transactions that `prosem attach` finds; `seconds`: how long the steady load lasts."""
    with _folder() as folder, _source(folder) as source, _served(folder) as (server, served):
        pgbench = Pgbench(folder, source, accounts)
        pgbench.fill()
        copied_s = _copied(source, server, folder)
        _subscribe(server, accounts, subscriptions)
        with Arrivals(server) as arrivals:
            alone = pgbench.run("-t", str(backlog // CLIENTS))
            with attached(source, server, folder) as process:
                arrivals.wait(1)
                watched = {"attach": process.pid, "server": served.pid}
                before = cpu(folder, watched)
                first = len(arrivals.all)
                drained = (backlog - 1) / arrivals.drained_s(backlog)
                used = {name: after - before[name] for name, after in cpu(folder, watched).items()}
                events = EVENTS * max(1, backlog - first)  # a short backlog may have arrived at once
                progress(f"attach: {drained * EVENTS:,.0f} events/s drained")
                pgbench.run("-T", str(seconds), "--rate", f"{drained / 2:.1f}")
                total = pgbench.transactions()
                arrivals.wait(total)
        lags = [1000 * arrived.lag_s for arrived in arrivals.all[backlog:]]
        _compare(source, server)
    p50, p99 = np.percentile(lags, [50, 99])
    return {
        "rows_per_s": round(accounts / copied_s),
        "source_events_per_s": round(alone * EVENTS),
        "drained_events_per_s": round(drained * EVENTS),
        "cpu_us_per_event": {name: round(1e6 * used_s / events, 1) for name, used_s in used.items()},
        "rate_events_per_s": round(drained / 2 * EVENTS),
        "lag_ms": {
            "p50": round(float(p50), 1),
            "p99": round(float(p99), 1),
            "most": round(max(lags), 1),
            "samples": len(lags),
        },
    }


class Pgbench:
    """The program that comes with PostgreSQL, on one source."""

    def __init__(self, folder: Path, source: str, accounts: int) -> None:
        user = account(folder / "x")
        self._program = installation(user, folder / "x", folder / "postgresql") / "bin" / "pgbench"
        self._script, self._source, self._accounts = folder / "script.sql", source, accounts
        self._script.write_text(SCRIPT)

    def fill(self) -> None:
        """Its tables, with as many branches as clients. The history gets the key that `prosem attach` needs."""
        self._call("-i", "-q", "-I", "dtp")
        with psycopg.connect(self._source, autocommit=True) as connection:
            connection.execute("ALTER TABLE pgbench_history ADD id bigserial PRIMARY KEY")
            for text, count in (
                ("branches (bid, bbalance) SELECT n, 0", CLIENTS),
                ("tellers (tid, bid, tbalance) SELECT n, 1 + n %% %s, 0", TELLERS * CLIENTS),
                ("accounts (aid, bid, abalance, filler) SELECT n, 1 + n %% %s, 0, ''", self._accounts),
            ):
                given = [CLIENTS, count] if "%s" in text else [count]
                query = f"INSERT INTO pgbench_{text} FROM generate_series(1, %s) n"
                connection.execute(query.encode(), given)

    def run(self, *options: str) -> float:
        """Transactions per second."""
        progress(f"attach: pgbench -c {CLIENTS} {' '.join(options)}")
        given = ("-D", f"accounts={self._accounts}", "-D", f"branches={CLIENTS}", "-f", str(self._script))
        said = self._call("-n", "-c", str(CLIENTS), *given, *options)
        found = re.search(r"tps = ([\d.]+)", said)
        return float(found[1]) if found else 0.0

    def transactions(self) -> int:
        """How many there were: lines of the history."""
        with psycopg.connect(self._source) as connection:
            ((count,),) = connection.execute("SELECT count(*) FROM pgbench_history").fetchall()
        return int(count)

    def _call(self, *options: str) -> str:
        done = subprocess.run(
            [self._program, *options, self._source], capture_output=True, text=True, check=False
        )
        if done.returncode:
            fail(f"pgbench {' '.join(options)}: {done.stderr[-1000:]}")
        return done.stdout


# -- the parts ------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="prosem-bench-"))
    folder.chmod(0o755)  # the databases' own user must reach it
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _source(folder: Path) -> Iterator[str]:
    postgres = EmbeddedPostgres(folder / "source")
    try:
        yield postgres.start()
    finally:
        postgres.stop()


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    port, log = free_port(), folder / "server.log"
    process = start_server(port, folder / "server", log)
    try:
        url = f"http://127.0.0.1:{port}"
        if not wait_ready(url, process):
            fail(f"the server did not start: {log.read_text()[-1000:]}")
        yield url, process
    finally:
        _end(process)


@contextlib.contextmanager
def attached(source: str, server: str, folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """`prosem attach` while the block runs."""
    log = folder / "attach.log"
    process = start_command(
        log, "attach", source, "--url", server, "--tables", ",".join(TABLES), "--report", "1", *options
    )
    try:
        yield process
        if process.poll():
            fail(f"prosem attach has ended: {log.read_text()[-1000:]}")
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    process.wait(60)


def _copied(source: str, server: str, folder: Path) -> float:
    """Seconds until the tables were copied, by a run that ends with that."""
    progress("attach: copying the tables")
    start = time.perf_counter()
    with attached(source, server, folder, "--once") as process:
        process.wait(WAIT_S)
        return time.perf_counter() - start


def _subscribe(server: str, accounts: int, subscriptions: int) -> None:
    """Ranges of a thousandth of the accounts."""
    low = np.random.default_rng(7).integers(1, accounts, subscriptions).tolist()
    with httpx.Client(base_url=server, timeout=120, trust_env=False) as client:
        for start in range(0, subscriptions, 10_000):
            rows = [{"params": {"lo": lo, "hi": lo + accounts // 1000}} for lo in low[start : start + 10_000]]
            client.post("/v1/subscriptions/batch", json={"sql": MINIMUM, "rows": rows}).raise_for_status()


def cpu(folder: Path, processes: dict[str, int]) -> dict[str, float]:
    """CPU seconds so far of these processes, and of both databases."""
    found = {name: cpu_s(Path(f"/proc/{pid}")) for name, pid in processes.items()}
    for name in ("source", "server"):
        first = int((folder / name / "cluster" / "postmaster.pid").read_text().split()[0])
        found[f"PostgreSQL of the {name}"] = sum(
            cpu_s(Path(f"/proc/{pid}")) for pid in (first, *children(first))
        )
    return found


# -- what is measured -----------------------------------------------------------------------------------------------
class Arrival(NamedTuple):
    at: float
    lag_s: float


class Arrivals:
    """A subscriber to the history, which has a line per transaction; `all` has an entry for each."""

    def __init__(self, server: str) -> None:
        self.all: list[Arrival] = []
        self._client = Client(server)
        self._subscription = self._client.subscribe("SELECT id, mtime FROM pgbench_history")
        self._failure = ""
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Arrivals:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._subscription.close()
        self._client.close()
        self._thread.join()

    def _read(self) -> None:
        while True:
            try:
                change = self._subscription.next()
            except Closed:
                return
            except Exception as error:
                self._failure = repr(error)
                return
            now, changed = time.time(), change.change or {}
            for row in changed.get("add", ()):
                self.all.append(Arrival(now, now - datetime.fromisoformat(row["mtime"]).timestamp()))

    def wait(self, count: int) -> None:
        _until(lambda: self._failure or len(self.all) >= count, f"{count:,} transactions")
        if self._failure:
            fail(f"the subscriber: {self._failure}")

    def drained_s(self, count: int) -> float:
        """Seconds from the first transaction of a backlog to the last."""
        self.wait(count)
        return self.all[count - 1].at - self.all[0].at


def _until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            fail(f"{what} did not come within {WAIT_S:.0f} s")
        time.sleep(0.01)


def _compare(source: str, server: str) -> None:
    """Both sides have the same sums and counts, and the sums of all tables are equal, as pgbench keeps them."""
    sums = set()
    with psycopg.connect(source) as connection, httpx.Client(base_url=server, trust_env=False) as client:
        for table, (column, key) in TOTALS.items():
            items = f"SUM({column})", "COUNT(*)"
            here = connection.execute(f"SELECT {', '.join(items)} FROM {table}".encode()).fetchone()
            there = []
            for item in items:
                body = {"sql": f"SELECT {item} FROM {table} WHERE {key} > :least", "params": {"least": 0}}
                made = client.post("/v1/subscriptions", json={**body, "durable": False}).raise_for_status()
                there.append(made.json()["result"]["value"])
            if here is None or list(here) != there:
                fail(f"{table} has {here} in the source, {there} on the server")
            sums.add(there[0])
    if len(sums) > 1:
        fail(f"the sums of the tables differ: {sums}")
