"""Last notified values at scale: many subscriptions, a long log, a kill in the middle of a batch, and a recovery."""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from tests.support.live import Api
from tests.support.processes import ServerProcess

SQL = "SELECT y FROM {} WHERE k = :k"
RADII = (3, 7, 20, 50, 200)


class Population:
    """Subscriptions with one of a few radii to items that walk, and the last notified value of each."""

    def __init__(self, api: Api, subscriptions: int, items: int) -> None:
        self.chance = random.Random(3)
        self.table = api.table({"k": "integer", "y": "integer"}, ["k"])
        self.values = [0] * items
        api.publish(self.table, [{"op": "insert", "row": {"k": k, "y": 0}} for k in range(items)])
        self.ids: list[str] = []
        item: list[int] = []
        radius: list[int] = []
        share = subscriptions // len(RADII)
        for size in RADII:
            chosen = [self.chance.randrange(items) for _ in range(share)]
            for first in range(0, share, 10_000):
                rows = [{"params": {"k": k}} for k in chosen[first : first + 10_000]]
                body = {"sql": SQL.format(self.table), "notify": {"change": size}, "rows": rows}
                self.ids += api.call("POST", "/v1/subscriptions/batch", json=body)["ids"]
            item += chosen
            radius += [size] * share
        self.radius, order = np.array(radius), np.argsort(item, kind="stable")
        self.of_item = np.split(order, np.searchsorted(np.array(item)[order], np.arange(1, items)))
        self.last_notified = np.zeros(len(self.ids), np.int64)

    def events(self, count: int) -> list[tuple[int, int]]:
        """Where items go next."""
        made, values = [], self.values.copy()
        for _ in range(count):
            k = self.chance.randrange(len(values))
            values[k] += self.chance.randint(-6, 7)
            made.append((k, values[k]))
        return made

    def apply(self, events: list[tuple[int, int]]) -> None:
        for k, y in events:
            self.values[k] = y
            mine = self.of_item[k]
            due = mine[np.abs(self.last_notified[mine] - y) >= self.radius[mine]]
            self.last_notified[due] = y

    def body(self, events: list[tuple[int, int]]) -> Any:
        return {"events": [{"op": "update", "key": {"k": k}, "set": {"y": y}} for k, y in events]}


def recovered(subscriptions: int, items: int, batches: int, sample: int) -> dict[str, float]:
    made = ServerProcess()
    made.start()
    try:
        with Api(made.url) as api:
            world = Population(api, subscriptions, items)
            for _ in range(batches):
                events = world.events(1000)
                api.call("POST", f"/v1/tables/{world.table}/events", json=world.body(events))
                world.apply(events)
            last = world.events(1000)
            path = f"{made.url}/v1/tables/{world.table}/events"
            with under_way(path, world.body(last)):  # being read, processed, committed or answered
                made.kill()
        start = time.monotonic()
        made.start()
        seconds = time.monotonic() - start
        with Api(made.url) as api:
            rows = api.subscribe(f"SELECT * FROM {world.table}", durable=False)["result"]["rows"]
            if any(world.values[row["k"]] != row["y"] for row in rows):
                world.apply(last)  # its commit took place; all of it, then
            assert all(world.values[row["k"]] == row["y"] for row in rows), "a request is whole or not at all"
            for at in world.chance.sample(range(len(world.ids)), sample):
                assert api.result(world.ids[at])["result"] == {"value": int(world.last_notified[at])}
        return {"subscriptions": len(world.ids), "events": 1000 * batches, "seconds": round(seconds, 1)}
    finally:
        made.remove()


@contextlib.contextmanager
def under_way(path: str, body: Any) -> Iterator[None]:
    """A request that was sent; what becomes of it shows afterwards."""
    data, is_sent = json.dumps(body).encode(), threading.Event()

    def parts() -> Iterator[bytes]:
        yield data
        is_sent.set()

    def send() -> None:
        headers = {"Content-Type": "application/json", "Content-Length": str(len(data))}
        with contextlib.suppress(httpx.HTTPError):
            httpx.post(path, content=parts(), headers=headers, trust_env=False, timeout=60)

    sender = threading.Thread(target=send)
    sender.start()
    assert is_sent.wait(60)
    yield
    sender.join()


def test_last_notified_values_after_a_kill_in_the_middle_of_a_batch() -> None:
    recovered(2_000, 50, 5, 300)


@pytest.mark.slow
def test_last_notified_values_of_a_hundred_thousand_after_a_million_events() -> None:
    thousands = int(os.environ.get("PROSEM_TEST_THOUSANDS", "1000"))
    print(recovered(100_000, 1000, thousands, 5_000))
