"""The whole way: REST publish in batches of 100 → PostgreSQL commit → network → WebSocket.

A real `prosem serve` process with 100,000 range-min subscriptions. Publishers and listeners run in processes of their own on
the same machine and take their share of it. Beside it stand the limits: raw COPY of the same rows into the same
PostgreSQL, and raw WebSocket frames of the same size from a bare server of the same kind.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Protocol

import httpx
import numpy as np

from api.commands.database import address
from api.commands.process import free_port, start_server, wait_ready
from bench.common import Report, fail, progress
from bench.listener import Listener
from bench.range_min import DOMAIN, SQL, TABLE

BATCH = 100
PUBLISHERS = 4
PROBE = 10_000_000  # a row that only one subscription sees


def run(quick: bool) -> Report:
    subscriptions, tuples, seconds = (5_000, 1_000, 2.0) if quick else (100_000, 10_000, 10.0)
    report = Report(
        "end-to-end", {"subscriptions": subscriptions, "tuples": tuples, "batch": BATCH, "quick": quick}
    )
    with Served() as served:
        served.fill(tuples, subscriptions)
        accepted = served.accept(seconds)
        with Listener(served.url, served.ids, sockets=4) as listener:
            delivered, received = served.deliver(listener, seconds)
            together = served.together(listener, seconds)
            latency = served.latency(listener, seconds, together / 2)
        memory = served.memory_mb()
        limit = {"events_per_s": served.raw_copy(), "changes_per_s": served.raw_socket(seconds)}
    report.figures = {
        "events_per_s": round(accepted),
        "changes_per_s": round(delivered),
        "changes": received,
        "events_per_s_attached": round(together),
        "latency_ms": latency,
        "memory_mb": round(memory),
        "limit": {name: round(value) for name, value in limit.items()},
    }
    copied, framed = limit.values()
    report.tables = [
        (
            f"{subscriptions:,} subscriptions, batches of {BATCH}",
            [
                {"figure": "events/s accepted", "measured": round(accepted), "raw": f"{copied:,.0f} (COPY)"},
                {"figure": "changes/s delivered", "measured": round(delivered), "raw": f"{framed:,.0f} (frames)"},
                {"figure": "events/s, all attached", "measured": round(together), "raw": "-"},
                {"figure": "latency p50 ms, half load", "measured": latency["p50"], "raw": "-"},
                {"figure": "latency p99 ms, half load", "measured": latency["p99"], "raw": "-"},
            ],
        )
    ]  # fmt: skip
    return report


class Counting(Protocol):
    """What listens: one process, or several."""

    def count(self) -> int: ...
    def wait_attached(self, seconds: float = 120.0) -> None: ...
    def wait_progress(self, seq: int, seconds: float = 60.0) -> None: ...


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
    def accept(self, seconds: float) -> float:
        """Events per second with several publishers at once and no stream."""
        progress("end-to-end: publishing as fast as it goes")
        command = [sys.executable, "-m", "bench.publisher", self.url, str(self._tuples), str(seconds)]
        start = time.perf_counter()
        many = [
            subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE) for seed in range(PUBLISHERS // 2)
        ]
        counts = [int(one.communicate()[0]) for one in many]
        return sum(counts) / (time.perf_counter() - start - 0.3)

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
        chance, count, last = random.Random(9), 0, 0
        start = time.perf_counter()
        while time.perf_counter() - start < seconds / 2:
            events = [self._ordinary(chance) for _ in range(BATCH)]
            last = self._post("/v1/tables/stocks/events", {"events": events})["last_seq"]
            count += BATCH
        listener.wait_progress(last)
        return count / (time.perf_counter() - start)

    def _ordinary(self, chance: random.Random) -> dict[str, Any]:
        """An event that affects few, as most do."""
        return _update(chance.randrange(self._tuples), chance.randrange(5000, DOMAIN))

    def latency(self, listener: Listener, seconds: float, rate: float) -> dict[str, float]:
        """From the moment a publisher sends to the moment a listener has the change, at half the accepted load."""
        progress(f"end-to-end: latency at {rate:,.0f} events/s")
        command = [
            sys.executable,
            "-m",
            "bench.publisher",
            self.url,
            str(self._tuples),
            str(seconds + 2),
            "11",
            str(rate),
        ]
        background = subprocess.Popen(command, stdout=subprocess.PIPE)
        times, y = [], 0
        time.sleep(1.0)
        deadline = time.perf_counter() + seconds
        with httpx.Client(base_url=self.url, trust_env=False, timeout=30) as client:
            while time.perf_counter() < deadline:
                y += 1
                sent = time.time()
                answer = client.post("/v1/tables/stocks/events", json={"events": [_update(PROBE, y)]}).json()
                arrived = listener.arrival(answer["first_seq"], 5.0)
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
        import psycopg

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
