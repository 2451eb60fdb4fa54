"""How long publishers wait while a view over many rows is built: a real server, one publisher, one request after another."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import httpx
import msgspec
import numpy as np

from bench.common import fail, progress
from bench.end_to_end import Served

VIEW = "SELECT o.id, s.id AS seller_id, s.score, o.price FROM offers o JOIN sellers s ON o.seller_id = s.id"
CHUNK = 20_000
EVENTS = 10  # in a request


class Publishing(threading.Thread):
    """A publisher that sends one request after another and remembers how long each took."""

    def __init__(self, url: str, rows: int) -> None:
        super().__init__(daemon=True)
        self._url, self._rows, self._is_over = url, rows, threading.Event()
        self.times: list[tuple[float, float]] = []  # when it was sent, and the seconds until its answer

    def run(self) -> None:
        chance = random.Random(5)
        with httpx.Client(base_url=self._url, trust_env=False, timeout=120) as http:
            while not self._is_over.is_set():
                events = [
                    {"op": "update", "key": {"id": chance.randrange(self._rows)}, "set": {"price": chance.randrange(10_000)}}
                    for _ in range(EVENTS)
                ]  # fmt: skip
                start = time.perf_counter()
                http.post("/v1/tables/offers/events", json={"events": events}).raise_for_status()
                self.times.append((start, time.perf_counter() - start))

    def stop(self) -> None:
        self._is_over.set()
        self.join()

    def between(self, start: float, stop: float) -> list[float]:
        """The ms of the requests that were under way in this time."""
        return [1000 * took for sent, took in self.times if sent < stop and sent + took > start]


def measure(rows: int, sellers: int) -> dict[str, Any]:
    """The seconds of building, and the ms of a request before and meanwhile."""
    with Served() as served, httpx.Client(base_url=served.url, trust_env=False, timeout=900) as http:
        _load(http, rows, sellers)
        publisher = Publishing(served.url, rows)
        publisher.start()
        calm_s = min(10.0, rows / 50_000)
        began = time.perf_counter()
        while time.perf_counter() < began + calm_s or not publisher.times:
            time.sleep(0.05)
        progress(f"views: building a view over {rows:,} rows")
        start = time.perf_counter()
        made = http.post("/v1/views", json={"name": "placed", "sql": VIEW})
        stop = time.perf_counter()
        publisher.stop()
        if made.status_code != 201:
            fail(f"the view was not made: {made.status_code} {made.text[:300]}")
        built = http.get("/v1/views/placed").json()["rows"]
        if built != rows:
            fail(f"the view has {built} rows, not {rows}")
        before, during = publisher.between(began, start), publisher.between(start, stop)
    figures = {
        "rows": rows,
        "seconds": round(stop - start, 2),
        "rows_per_s": round(rows / (stop - start)),
        "requests": len(during),
    }
    for name, times in (("before", before), ("during", during)):
        p50, p99 = np.percentile(times, [50, 99])
        figures |= {
            f"p50_ms_{name}": round(float(p50), 1),
            f"p99_ms_{name}": round(float(p99), 1),
            f"longest_ms_{name}": round(max(times), 1),
        }
    return figures


def _load(http: httpx.Client, rows: int, sellers: int) -> None:
    chance = random.Random(3)
    tables = {"sellers": ("id", "score"), "offers": ("id", "seller_id", "price")}
    content: dict[str, list[tuple[int, ...]]] = {
        "sellers": [(n, chance.randrange(10_000)) for n in range(sellers)],
        "offers": [(n, chance.randrange(sellers), chance.randrange(10_000)) for n in range(rows)],
    }
    encode = msgspec.json.encode
    for name, columns in tables.items():
        described = [{"name": column, "type": "integer"} for column in columns]
        body = {"name": name, "columns": described, "primary_key": ["id"]}
        http.post("/v1/tables", json=body).raise_for_status()
        for start in range(0, len(content[name]), CHUNK):
            progress(f"views: {start:,} rows of {name} published")
            lines = [
                encode({"op": "insert", "row": dict(zip(columns, row, strict=True))})
                for row in content[name][start : start + CHUNK]
            ]
            headers = {"Content-Type": "application/x-ndjson"}
            path = f"/v1/tables/{name}/events"
            http.post(path, content=b"\n".join(lines), headers=headers).raise_for_status()
