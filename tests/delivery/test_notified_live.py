"""Notify on an aggregate on a running server: last notified values over resumes, moves, retention, kills and restarts."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from tests.delivery.test_value_live import heard
from tests.support.live import Api, Json, Refused, delete, insert, update, upsert
from tests.support.processes import ServerProcess

COLUMNS = {"k": "integer", "x": "integer", "y": "integer", "z": "integer"}
SUM = "SELECT SUM(y) FROM {} WHERE x BETWEEN :lo AND :hi"
RADIUS = {"change": ":r"}


def test_a_sum_notified_and_resumed_from_every_point(api: Api) -> None:
    table = api.table(COLUMNS, ["k"])
    start = api.publish(table, [insert(k=1, x=1, y=10), insert(k=2, x=9, y=50)])["last_seq"]
    made = api.subscribe(SUM.format(table), {"lo": 0, "hi": 5, "r": 3}, notify=RADIUS)
    id = made["id"]
    assert (made["type"], made["result"]) == ("notified-aggregate", {"value": 10})
    first = api.publish(table, [update(1, y=12), update(1, y=13), update(2, y=0), delete(1)])["first_seq"]
    moved = api.patch(id, params={"lo": 6, "hi": 10})
    assert moved["result"] == {"value": 0}
    assert api.patch(id, params={"lo": 6})["seq"] == moved["seq"], "the same place as before"
    after_move = api.publish(table, [update(2, y=2), update(2, y=-3)])["last_seq"]
    api.publish(table, [update(2, y=-2)])
    tuned = api.patch(id, params={"r": 1})
    assert (tuned["seq"], tuned["result"]) == (after_move + 1, {"value": -3}), "nothing is notified by itself"
    touched = api.publish(table, [insert(k=3, x=0, y=7), update(2, z=5)])["last_seq"]
    suspended = api.patch(id, active=False)
    last = api.publish(table, [update(2, y=100)])["last_seq"]
    assert api.result(id)["result"] == {"value": -2}, "last notified"
    resumed = api.patch(id, active=True)
    assert (suspended["seq"], resumed["seq"]) == (touched, last + 1)
    changes = [
        (first + 1, {"value": 13, "previous": 10}),
        (first + 3, {"value": None, "previous": 13}),
        (moved["seq"], {"value": 0, "previous": None}),
        (after_move, {"value": -3, "previous": 0}),
        (touched, {"value": -2, "previous": -3}),
        (resumed["seq"], {"value": 100, "previous": -2}),
    ]
    assert api.result(id)["result"] == {"value": 100}
    for after in range(start, resumed["seq"] + 1):
        assert heard(api, id, after, resumed["seq"]) == [change for change in changes if change[0] > after]


def test_an_extreme_is_notified_with_a_row(api: Api) -> None:
    table = api.table(COLUMNS, ["k"])
    api.publish(table, [insert(k=1, x=1, y=10), insert(k=2, x=2, y=12)])
    made = api.subscribe(f"SELECT MIN(y) FROM {table} WHERE x < :hi", {"hi": 9}, notify={"percent": 50})
    first_row = {"k": 1, "x": 1, "y": 10, "z": None}
    assert made["result"] == {"value": 10, "row": first_row}
    start = api.publish(table, [update(1, y=11), update(1, y=14)])["last_seq"]
    assert api.result(made["id"])["result"] == {"value": 10, "row": first_row}, (
        "last notified, with its row of then"
    )
    last = api.publish(table, [update(2, y=5), update(1, y=6), delete(2)])["last_seq"]
    row = {"k": 2, "x": 2, "y": 5, "z": None}
    assert heard(api, made["id"], start, last) == [(last - 2, {"value": 5, "previous": 10, "row": row})]
    with api.socket() as listener:
        listener.attach(made["id"])
        listener.pong()
        assert listener.of(made["id"], "snapshot")[0]["snapshot"] == {"value": 5, "row": row}


def test_templates_and_batches(api: Api) -> None:
    table = api.table(COLUMNS, ["k"])
    start = api.publish(table, [insert(k=1, x=1, y=10)])["last_seq"]
    rows = [{"params": {"lo": 0, "hi": 5, "r": r}} for r in (1, "2.5", 4)]
    body = {"sql": SUM.format(table), "notify": RADIUS, "rows": rows}
    batch = api.call("POST", "/v1/subscriptions/batch", json=body)
    one = api.subscribe(SUM.format(table), {"lo": 2, "hi": 3}, notify={"change": 7})
    assert one["group"] == batch["group"]
    assert api.subscribe(SUM.format(table), {"lo": 2, "hi": 3})["group"] != one["group"]
    last = api.publish(table, [update(1, y=11), update(1, y=13), update(1, y=14)])["last_seq"]
    received = [[change["value"] for _, change in heard(api, id, start, last)] for id in batch["ids"]]
    assert received == [[11, 13, 14], [13], [14]]
    explained = api.call(
        "POST", "/v1/explain", json={"table": table, "event": update(1, y=99), "analyze": True}
    )
    (group,) = [group for group in explained["groups"] if group["group"] == batch["group"]]
    assert [plan["plan"] for plan in group["plans"]] == ["enumerate"]
    described = api.call("POST", "/v1/describe", json=body | {"params": {"lo": 1, "hi": 2, "r": 3}})
    assert described["place"] == {"equal": {}, "point": {"x": [1, 2]}}
    with pytest.raises(Refused) as caught:
        api.subscribe(SUM.format(table), {"lo": 1, "hi": 2}, notify={"may": 1, "must": 2})
    assert caught.value.problem["errors"][0]["at"] == "/notify"


class Walk:
    """Random subscriptions and events, and the value each subscription should have been notified of."""

    def __init__(self, api: Api, seed: int) -> None:
        self.chance, self.api = random.Random(seed), api
        self.table = api.table(COLUMNS, ["k"])
        self.rows: dict[int, tuple[int, int]] = {}
        self.subs: dict[str, tuple[str, int, int, int]] = {}  # id → function, lo, hi, radius
        self.lives: dict[str, list[tuple[int, int | None]]] = {}
        self.seq = 0

    def value(self, function: str, lo: int, hi: int) -> int | None:
        values = [y for x, y in self.rows.values() if lo <= x <= hi]
        if function == "COUNT":
            return len(values)
        return {"SUM": sum, "MIN": min, "MAX": max}[function](values) if values else None  # type: ignore[operator]

    def subscribe(self, count: int) -> None:
        for _ in range(count):
            function, lo = self.chance.choice(["SUM", "MIN", "MAX", "COUNT"]), self.chance.randint(0, 5)
            hi, r = lo + self.chance.randint(0, 5), self.chance.choice([1, 2, 4, 9])
            sql = SUM.format(self.table).replace("SUM", function)
            made = self.api.subscribe(sql, {"lo": lo, "hi": hi, "r": r}, notify=RADIUS)
            self.subs[made["id"]] = function, lo, hi, r
            self.lives[made["id"]] = [(self.seq, self.value(function, lo, hi))]
            assert made["result"]["value"] == self.lives[made["id"]][0][1]

    def publish(self, count: int) -> None:
        events = [
            upsert(k=self.chance.randint(1, 6), x=self.chance.randint(0, 9), y=self.chance.randint(0, 12))
            for _ in range(count)
        ]
        first = self.api.publish(self.table, events)["first_seq"]
        for seq, event in enumerate(events, first):
            row = event["row"]
            self.rows[row["k"]] = row["x"], row["y"]
            for id, (function, lo, hi, r) in self.subs.items():
                now, before = self.value(function, lo, hi), self.lives[id][-1][1]
                if now != before and (now is None or before is None or abs(now - before) >= r):
                    self.lives[id].append((seq, now))
        self.seq = first + count - 1

    def check(self, api: Api, *, resume_after: int) -> None:
        for id, life in self.lives.items():
            result = api.result(id)["result"]
            assert result["value"] == life[-1][1]
            if self.subs[id][0] in ("MIN", "MAX"):
                assert (None if result["row"] is None else result["row"]["y"]) == result["value"]
            if life[0][0] <= resume_after:
                assert without_rows(heard(api, id, resume_after, self.seq)) == [
                    (seq, {"value": now, "previous": before})
                    for (_, before), (seq, now) in pairwise(life)
                    if seq > resume_after
                ]


def without_rows(changes: list[tuple[int, Json]]) -> list[tuple[int, Any]]:
    return [(seq, {name: change[name] for name in ("value", "previous")}) for seq, change in changes]


@pytest.mark.slow
def test_last_notified_values_survive_retention_and_a_kill() -> None:
    """The messages that carried them are gone, and so is the memory; the marks have them."""
    made = ServerProcess("--retention-events", "200", "--partition-events", "100")
    made.start()
    try:
        with Api(made.url) as api:
            world = Walk(api, 7)
            world.publish(6)
            world.subscribe(10)
            world.publish(20)
            api.publish(world.table, [insert(k=90, x=90, y=5)])
            params = {"lo": 90, "hi": 90, "r": 4}
            sql = SUM.format(world.table).replace("SUM", "MAX")
            quiet = api.subscribe(sql, params, notify=RADIUS)["id"]
            api.publish(world.table, [update(90, y=50), update(90, y=53)])  # notified once, and never again
            for _ in range(6):
                world.publish(100)
                world.subscribe(1)
            made.kill()
        for start in ("after a kill", "after a stop"):
            made.start()
            with Api(made.url) as api:
                world.api = api
                row = {"k": 90, "x": 90, "y": 50, "z": None}
                assert api.result(quiet)["result"] == {"value": 50, "row": row}, start
                world.check(api, resume_after=world.seq - 90)
            assert made.stop() == 0
        made.start()
        with Api(made.url) as api:
            last = api.publish(world.table, [update(90, y=54)])["last_seq"]
            row["y"] = 54
            assert heard(api, quiet, last - 50, last) == [(last, {"value": 54, "previous": 50, "row": row})]
    finally:
        made.remove()
