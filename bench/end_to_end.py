"""The whole way: REST publish in batches of 100 → PostgreSQL commit → network → WebSocket.

A real `prosem serve` process with 100,000 range-min subscriptions. Publishers and listeners run in processes of their own on
the same machine and take their share of it: eight requests of 100 events in flight. Beside it stand the limits: raw COPY of
the same rows into the same PostgreSQL, a raw commit, and raw WebSocket frames of the same size from a bare server of the
same kind. Latency is measured with one process, and with two workers that hold the sockets.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import httpx
import numpy as np
import psycopg

from api.commands.database import address
from api.commands.process import free_port, start_server, wait_ready
from bench.common import Report, fail, progress
from bench.listener import Listener
from bench.random_walk import DOMAIN
from bench.range_min import SQL, TABLE

BATCH = 100
PUBLISHERS = 2  # processes, with four requests in flight each
PROBE = 10_000_000  # a row that only one subscription sees
PROMISED = 10_000  # events/s with all subscriptions attached: latency is also measured at half of this, on any machine


def run(quick: bool) -> Report:
    subscriptions, tuples, seconds = (5_000, 1_000, 2.0) if quick else (100_000, 10_000, 10.0)
    report = Report(
        "end-to-end", {"subscriptions": subscriptions, "tuples": tuples, "batch": BATCH, "quick": quick}
    )
    with Served() as served:
        served.fill(tuples, subscriptions)
        calm = served.calm_loop(seconds)
        accepted, cpu = served.accept(seconds)
        with Listener(served.url, served.ids, sockets=4) as listener:
            delivered, received = served.deliver(listener, seconds)
            idle = served.idle(listener, 100 if quick else 500)
            before = served.loop_lateness()
            together = served.together(listener, seconds)
            latency = [served.latency(listener, seconds, rate / 2) for rate in (PROMISED, together)]
            lateness = late_ms(served.loop_lateness(), before)
        memory = served.memory_mb()
        limit = {"events_per_s": served.raw_copy(), "changes_per_s": served.raw_socket(seconds)}
    by_workers = _with_workers(tuples, subscriptions, seconds, (PROMISED, together))
    report.figures = {
        "events_per_s": round(accepted),
        "cpu_us_per_event": cpu,
        "changes_per_s": round(delivered),
        "changes": received,
        "events_per_s_attached": round(together),
        "idle_ms": idle,
        "latency_ms_promised": latency[0],
        "latency_ms": latency[1],
        "latency_ms_promised_two_workers": by_workers[0],
        "latency_ms_two_workers": by_workers[1],
        "loop_late_ms": {"idle": calm, "load": lateness},
        "memory_mb": round(memory),
        "limit": {name: round(value) for name, value in limit.items()},
    }
    copied, framed = limit.values()
    rows = [
        ("events/s accepted", round(accepted), f"{copied:,.0f} (COPY)"),
        ("server, CPU µs per event", cpu["server"], "-"),
        ("PostgreSQL, CPU µs per event", cpu["postgres"], "-"),
        ("changes/s delivered", round(delivered), f"{framed:,.0f} (frames)"),
        ("events/s, all attached", round(together), "-"),
        *(
            (f"idle, {what}, {which} ms", idle[name][which], raw)
            for which in ("p50", "least")
            for what, name, raw in (
                ("one event acknowledged", "acknowledged", f"{idle['commit'][which]} (commit)"),
                ("its change at the socket", "change", "-"),
            )
        ),
        *(
            (f"latency {which} ms, {load}{how}", found[which], "-")
            for load, *both in (
                (f"{PROMISED // 2:,} events/s", latency[0], by_workers[0]),
                ("half load", latency[1], by_workers[1]),
            )
            for how, found in zip(("", ", two workers"), both, strict=True)
            for which in ("p50", "p99")
        ),
        ("loop lateness p99.9 ms up to, load", lateness, f"{calm} (idle)"),
    ]
    columns = ("figure", "measured", "raw")
    title = f"{subscriptions:,} subscriptions, batches of {BATCH}"
    report.tables = [(title, [dict(zip(columns, row, strict=True)) for row in rows])]
    return report


def _with_workers(
    tuples: int, subscriptions: int, seconds: float, loads: Sequence[float]
) -> list[dict[str, float]]:
    """Latencies at half of these loads."""
    with Served("--workers", "2") as served:
        served.fill(tuples, subscriptions)
        with Listener(served.url, served.ids, sockets=4) as listener:
            listener.wait_attached()
            return [served.latency(listener, seconds, load / 2) for load in loads]


class Counting(Protocol):
    """What listens: one process, or several."""

    def count(self) -> int: ...
    def wait_attached(self, seconds: float = 120.0) -> None: ...
    def wait_progress(self, seq: int, seconds: float = 60.0) -> None: ...


class Link:
    """One connection without a client library, which would take part of the time."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def __call__(self, method: str, path: str, body: bytes | None = None) -> bytes:
        self._connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        return self._connection.getresponse().read()


class Served:
    """A server process in a folder of its own, and what is asked of it."""

    def __init__(self, *options: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="prosem-bench-"))
        self.folder.chmod(0o755)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = self.folder / "server.log"
        self._process = start_server(port, self.folder / "data", self._log, *options)
        self._http = httpx.Client(base_url=self.url, timeout=120, trust_env=False)
        self.ids: list[str] = []
        self._tuples = 0

    def __enter__(self) -> Served:
        if not wait_ready(self.url, self._process):
            fail(f"the server did not start: {self._log.read_text()[-1000:]}")
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(40)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _post(self, path: str, body: Any) -> Any:
        answer = self._http.post(path, json=body)
        if not answer.is_success:
            fail(f"{path}: {answer.status_code} {answer.text[:300]}")
        return answer.json()

    def fill(self, tuples: int, subscriptions: int) -> None:
        self._post("/v1/tables", TABLE)
        chance = np.random.default_rng(7)
        xs, ys = chance.integers(0, DOMAIN, tuples), chance.integers(0, DOMAIN, tuples)
        for start in range(0, tuples, 1000):
            keys = range(start, min(tuples, start + 1000))
            rows = [{"op": "insert", "row": {"k": k, "x": int(xs[k]), "y": int(ys[k])}} for k in keys]
            self._post("/v1/tables/stocks/events", {"events": rows})
        self._tuples = tuples
        probe = {"op": "insert", "row": {"k": PROBE, "x": 2 * DOMAIN, "y": 0}}
        self._post("/v1/tables/stocks/events", {"events": [probe]})
        middle, length = (
            chance.normal(5000, 1500, subscriptions),
            np.abs(chance.normal(1000, 1000, subscriptions)),
        )
        for start in range(0, subscriptions, 10_000):
            progress(f"end-to-end: {start:,} subscriptions registered")
            rows = [
                {"params": {"lo": int(middle[at] - length[at] / 2), "hi": int(middle[at] + length[at] / 2)}}
                for at in range(start, min(subscriptions, start + 10_000))
            ]
            self.ids += self._post("/v1/subscriptions/batch", {"sql": SQL, "rows": rows})["ids"]
        rows = [{"params": {"lo": 2 * DOMAIN, "hi": 2 * DOMAIN}}]
        self.ids += self._post("/v1/subscriptions/batch", {"sql": SQL, "rows": rows})["ids"]

    # -- accepting -----------------------------------------------------------------------------------------------
    def accept(self, seconds: float) -> tuple[float, dict[str, float]]:
        """Events per second with eight requests in flight and no stream, and the CPU time of each in µs."""
        progress("end-to-end: publishing as fast as it goes")
        cpu = self._cpu_s()
        count, took_s = self._publish(seconds, lowest=0)
        used = {name: after - cpu[name] for name, after in self._cpu_s().items()}
        return count / took_s, {name: round(1e6 * used_s / max(1, count), 1) for name, used_s in used.items()}

    def _publish(self, seconds: float, lowest: int) -> tuple[int, float]:
        """How many events all publishers sent together, and how long that took, without the start of their processes."""
        found = [one.communicate()[0].split() for one in self.publishers(seconds, lowest)]
        return sum(int(count) for count, _ in found), max(float(took_s) for _, took_s in found)

    def publishers(self, seconds: float, lowest: int) -> list[subprocess.Popen[bytes]]:
        """Processes that publish as fast as they are answered."""
        return [self._publisher(seconds, seed, 0, lowest) for seed in range(PUBLISHERS)]

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def _publisher(self, seconds: float, seed: int, rate: float, lowest: int) -> subprocess.Popen[bytes]:
        given = (self.url, self._tuples, seconds, seed, rate, lowest)
        return subprocess.Popen(
            [sys.executable, "-m", "bench.publisher", *map(str, given)], stdout=subprocess.PIPE
        )

    def _cpu_s(self) -> dict[str, float]:
        """CPU time so far: of the server's process, and of PostgreSQL's."""
        found = {"server": cpu_s(Path(f"/proc/{self.pid}")), "postgres": 0.0}
        pid_file = next(self.folder.rglob("postmaster.pid"), None)
        if pid_file is not None:
            first = int(pid_file.read_text().split()[0])
            found["postgres"] = sum(cpu_s(Path(f"/proc/{pid}")) for pid in (first, *children(first)))
        return found

    def calm_loop(self, seconds: float) -> float:
        """The p99.9 of the loop's lateness while nothing is asked of the server."""
        before = self.loop_lateness()
        time.sleep(seconds)
        return late_ms(self.loop_lateness(), before)

    def loop_lateness(self) -> dict[float, float]:
        """Timers of the server's loop that were at most so many ms late, so far."""
        pattern = re.compile(r'prosem_loop_late_seconds_bucket\{le="([^"]+)"\} (\S+)')
        found = pattern.findall(self._http.get("/metrics").text)
        return {1000 * float(bound): float(count) for bound, count in found}

    def idle(self, listener: Listener, count: int) -> dict[str, dict[str, float]]:
        """One event at a time: ms of its acknowledgement and its change, beside a raw commit and a GET.

        The median and the least: what other work on the machine adds is in the median.
        """
        progress("end-to-end: one event at a time")
        times: dict[str, list[float]] = {"commit": [], "healthz": [], "acknowledged": [], "change": []}
        with (
            Link(self.url) as asked,
            psycopg.connect(address("", self.folder / "data"), autocommit=True) as connection,
        ):
            connection.execute("CREATE TABLE raw_commit (seq integer, body text)")
            for y in range(count):
                start = time.perf_counter()
                connection.execute("INSERT INTO raw_commit VALUES (%s, 'x')", [y], prepare=True)
                times["commit"].append(time.perf_counter() - start)
                start = time.perf_counter()
                asked("GET", "/healthz")
                times["healthz"].append(time.perf_counter() - start)
                body = json.dumps({"events": [_update(PROBE, y + 1)]}).encode()
                start, sent = time.perf_counter(), time.time()
                seq = json.loads(asked("POST", "/v1/tables/stocks/events", body))["first_seq"]
                times["acknowledged"].append(time.perf_counter() - start)
                arrived = listener.arrival(seq, 5.0)
                if arrived is not None:
                    times["change"].append(arrived - sent)
        return {
            name: {"p50": round(1000 * float(np.median(some)), 2), "least": round(1000 * min(some), 2)}
            for name, some in times.items()
            if some
        }

    # -- delivering ----------------------------------------------------------------------------------------------
    def deliver(self, listener: Counting, seconds: float) -> tuple[float, int]:
        """Changes a second at the listeners while events that affect many are published."""
        progress("end-to-end: delivering to all subscriptions")
        listener.wait_attached()
        chance = random.Random(3)
        start, before = time.perf_counter(), listener.count()
        key = 0
        while time.perf_counter() - start < seconds:
            events = []
            for _ in range(10):
                key = chance.randrange(self._tuples)
                events += [_update(key, 0), _update(key, chance.randrange(2000, DOMAIN))]
            last = self._post("/v1/tables/stocks/events", {"events": events})["last_seq"]
            listener.wait_progress(last - 200)
        listener.wait_progress(last)
        took = time.perf_counter() - start
        received = listener.count() - before
        return received / took, received

    def together(self, listener: Listener, seconds: float) -> float:
        """Events a second when all subscriptions are listened to, until every listener has everything."""
        progress("end-to-end: publishing while all listen")
        count, took_s = self._publish(seconds, lowest=5_000)
        start = time.perf_counter()
        last = self._post("/v1/tables/stocks/events", {"events": [_update(PROBE, 0)]})["last_seq"]
        listener.wait_progress(last)
        return count / (took_s + time.perf_counter() - start)

    def latency(self, listener: Listener, seconds: float, rate: float) -> dict[str, float]:
        """From the moment a publisher sends to the moment a listener has the change, at this rate of other events."""
        progress(f"end-to-end: latency at {rate:,.0f} events/s")
        background = self._publisher(seconds + 2, 11, rate, lowest=5_000)
        times, y = [], 0
        time.sleep(1.0)
        deadline = time.perf_counter() + seconds
        with Link(self.url) as asked:
            while time.perf_counter() < deadline:
                y += 1
                body = json.dumps({"events": [_update(PROBE, y)]}).encode()
                sent = time.time()
                seq = json.loads(asked("POST", "/v1/tables/stocks/events", body))["first_seq"]
                arrived = listener.arrival(seq, 5.0)
                if arrived is not None:
                    times.append((arrived - sent) * 1000)
                time.sleep(0.01)
        background.communicate()
        if not times:
            return {"p50": float("nan"), "p99": float("nan")}
        p50, p99 = np.percentile(times, [50, 99])
        return {"p50": round(float(p50), 2), "p99": round(float(p99), 2), "samples": len(times)}

    def memory_mb(self) -> float:
        statm = Path(f"/proc/{self._process.pid}/statm")
        return int(statm.read_text().split()[1]) * 4096 / 1e6 if statm.exists() else 0.0

    # -- the limits ----------------------------------------------------------------------------------------------
    def raw_copy(self) -> float:
        """Rows a second of COPY in transactions of 2000, with the same content as the event log."""
        with psycopg.connect(address("", self.folder / "data")) as connection:
            connection.execute(
                "CREATE TABLE raw (seq bigint PRIMARY KEY, table_id integer, old text, new text)"
            )
            connection.commit()
            start, count = time.perf_counter(), 0
            while time.perf_counter() - start < 2:
                with connection.cursor().copy("COPY raw FROM STDIN") as copy:
                    for _ in range(2000):
                        copy.write_row((count, 1, "[17,4711,5678]", "[17,4711,5679]"))
                        count += 1
                connection.commit()
            return count / (time.perf_counter() - start)

    def raw_socket(self, seconds: float) -> float:
        """Frames a second of a bare ASGI application under the same server."""
        command = [sys.executable, "-m", "bench.raw_socket", str(min(seconds, 5.0))]
        return float(subprocess.run(command, capture_output=True, check=True).stdout)


def _update(key: int, y: int) -> dict[str, Any]:
    return {"op": "update", "key": {"k": key}, "set": {"y": y}}


def cpu_s(process: Path) -> float:
    """The CPU time of a process or a thread (its folder in /proc) so far; 0 where the system does not tell."""
    stat = process / "stat"
    if not stat.exists():
        return 0.0
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    file = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in file.read_text().split()] if file.exists() else []


def late_ms(after: dict[float, float], before: dict[float, float], share: float = 0.999) -> float:
    """The bound of the histogram that so many of the timers between two looks stayed under."""
    new = {bound: count - before[bound] for bound, count in after.items()}
    return next(bound for bound, count in new.items() if count >= share * max(new.values()))
