"""Last notified values of aggregates: many subscriptions, a kill in the middle of a batch, and what a recovery knows."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import pytest

from tests.store.test_value_recovery import under_way
from tests.support.live import Api
from tests.support.processes import ServerProcess

SQL = "SELECT SUM(y) FROM {} WHERE x BETWEEN :lo AND :hi"
RADII = (3, 7, 20, 50, 200)
EVENTS = 100  # of a request; with 100,000 subscriptions each of them notifies thousands


class Population:
    """Sums over ranges of a row of places, each with a radius, and the last notified value of each."""

    def __init__(self, api: Api, subscriptions: int, places: int) -> None:
        self.chance = random.Random(3)
        self.table = api.table({"x": "integer", "y": "integer"}, ["x"])
        self.values = np.zeros(places, np.int64)
        api.publish(self.table, [{"op": "insert", "row": {"x": x, "y": 0}} for x in range(places)])
        self.low = np.array([self.chance.randrange(places) for _ in range(subscriptions)])
        self.high = np.minimum(
            self.low + [self.chance.randrange(places) for _ in range(subscriptions)], places - 1
        )
        self.radius = np.array([self.chance.choice(RADII) for _ in range(subscriptions)])
        self.ids: list[str] = []
        for first in range(0, subscriptions, 10_000):
            some = zip(
                *(each[first : first + 10_000].tolist() for each in (self.low, self.high, self.radius)),
                strict=True,
            )
            rows = [{"params": {"lo": lo, "hi": hi, "r": r}} for lo, hi, r in some]
            body = {"sql": SQL.format(self.table), "notify": {"change": ":r"}, "rows": rows}
            self.ids += api.call("POST", "/v1/subscriptions/batch", json=body)["ids"]
        self.sums = np.zeros(subscriptions, np.int64)
        self.last_notified = np.zeros(subscriptions, np.int64)

    def events(self, count: int) -> list[tuple[int, int]]:
        """Where values go next."""
        made, values = [], self.values.tolist()
        for _ in range(count):
            x = self.chance.randrange(len(values))
            values[x] += self.chance.randint(-6, 7)
            made.append((x, values[x]))
        return made

    def apply(self, events: list[tuple[int, int]]) -> None:
        for x, y in events:
            self.sums[(self.low <= x) & (x <= self.high)] += y - self.values[x]
            self.values[x] = y
            due = np.abs(self.sums - self.last_notified) >= self.radius
            self.last_notified[due] = self.sums[due]

    def body(self, events: list[tuple[int, int]]) -> Any:
        return {"events": [{"op": "update", "key": {"x": x}, "set": {"y": y}} for x, y in events]}


def recovered(subscriptions: int, places: int, batches: int, sample: int) -> dict[str, float]:
    made = ServerProcess()
    made.start()
    try:
        with Api(made.url) as api:
            world = Population(api, subscriptions, places)
            published = time.monotonic()
            for _ in range(batches):
                events = world.events(EVENTS)
                api.call("POST", f"/v1/tables/{world.table}/events", json=world.body(events))
                world.apply(events)
            published = time.monotonic() - published
            last = world.events(EVENTS)
            path = f"{made.url}/v1/tables/{world.table}/events"
            with under_way(path, world.body(last)):  # being read, processed, committed or answered
                made.kill()
        start = time.monotonic()
        made.start()
        seconds = time.monotonic() - start
        with Api(made.url) as api:
            rows = api.subscribe(f"SELECT * FROM {world.table}", durable=False)["result"]["rows"]
            if any(world.values[row["x"]] != row["y"] for row in rows):
                world.apply(last)  # its commit took place; all of it, then
            assert all(world.values[row["x"]] == row["y"] for row in rows), "a request is whole or not at all"
            for at in world.chance.sample(range(len(world.ids)), sample):
                assert api.result(world.ids[at])["result"] == {"value": int(world.last_notified[at])}
        return {
            "subscriptions": len(world.ids),
            "published_s": round(published, 1),
            "start_s": round(seconds, 1),
        }
    finally:
        made.remove()


@pytest.mark.slow
def test_last_notified_sums_after_a_kill_in_the_middle_of_a_batch() -> None:
    recovered(1_000, 40, 3, 300)


@pytest.mark.slow
def test_last_notified_sums_of_a_hundred_thousand() -> None:
    print(recovered(100_000, 1000, 4, 5_000))
