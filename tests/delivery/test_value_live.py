"""Value notification on a running server: last notified values over resumes, retention, kills and restarts."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

from tests.support.live import Api, Json, delete, insert, update, upsert
from tests.support.processes import ServerProcess

COLUMNS = {"k": "integer", "y": "integer"}
VALUE = "SELECT y FROM {} WHERE k = :k"


def value(api: Api, table: str, k: int, **rest: Any) -> str:
    id: str = api.subscribe(VALUE.format(table), {"k": k}, **rest)["id"]
    return id


def heard(api: Api, id: str, after: int, upto: int) -> list[tuple[int, Json]]:
    """The changes of a stream resumed after a seq."""
    with api.socket() as listener:
        listener.attach(id, after)
        listener.progress(upto)
        listener.pong()
        assert not listener.of(id, "snapshot")
        return [(frame["seq"], frame["change"]) for frame in listener.of(id)]


def test_a_subscription_notified_and_resumed_from_every_point(api: Api) -> None:
    table = api.table(COLUMNS, ["k"])
    start = api.publish(table, [insert(k=1, y=10), insert(k=2, y=50)])["last_seq"]
    id = value(api, table, 1, notify={"change": 3})
    first = api.publish(table, [update(1, y=12), update(1, y=13), update(2, y=0), delete(1)])["first_seq"]
    moved = api.patch(id, params={"k": 2})
    assert moved["result"] == {"value": 0}
    same = api.patch(id, params={"k": 2})
    assert same["seq"] == moved["seq"], "the new answer is the old one"
    after_move = api.publish(table, [update(2, y=2), update(2, y=-3)])["last_seq"]
    suspended = api.patch(id, active=False)
    last = api.publish(table, [update(2, y=100)])["last_seq"]
    resumed = api.patch(id, active=True)
    assert resumed["seq"] == last + 1
    assert suspended["seq"] == after_move
    changes = [
        (first + 1, {"value": 13, "previous": 10}),
        (first + 3, {"value": None, "previous": 13}),
        (moved["seq"], {"value": 0, "previous": None}),
        (after_move, {"value": -3, "previous": 0}),
        (resumed["seq"], {"value": 100, "previous": -3}),
    ]
    assert api.result(id)["result"] == {"value": 100}
    for after in range(start, resumed["seq"] + 1):
        assert heard(api, id, after, resumed["seq"]) == [change for change in changes if change[0] > after]


def test_an_active_subscription_that_is_resumed_keeps_its_last_notified_value(api: Api) -> None:
    table = api.table(COLUMNS, ["k"])
    api.publish(table, [insert(k=1, y=10)])
    id = value(api, table, 1, notify={"change": 5})
    api.publish(table, [update(1, y=13)])
    assert api.patch(id, active=True)["result"] == {"value": 10}
    assert api.result(id)["result"] == {"value": 10}
    last = api.publish(table, [update(1, y=15)])["last_seq"]
    assert heard(api, id, last - 1, last) == [(last, {"value": 15, "previous": 10})]


def test_items_of_values_without_distances(api: Api) -> None:
    """Objects of jsonb, which have no hash in Python, and texts; of all rows and of some."""
    table = api.table({"k": "integer", "doc": "jsonb", "name": "text"}, ["k"])
    api.publish(table, [insert(k=1, doc={"a": 1}, name="x"), insert(k=2, doc=[{}], name="y")])
    ids = [
        api.subscribe(f"SELECT {column} FROM {table}{where}")["id"]
        for column in ("doc", "name")
        for where in ("", " WHERE k IN (1, 2)", " WHERE k = 1")
    ]
    with api.socket() as socket:
        for id in ids:
            socket.attach(id)
        socket.pong()
        events = [update(1, doc={"b": [2]}), update(1, name="z"), upsert(k=1, doc=None, name=None), delete(1)]
        last = api.publish(table, events)["last_seq"]
        socket.progress(last)
        docs = [[{"a": 1}, {"b": [2]}], [{"b": [2]}, None]]
        for id, changes in zip(ids, [*[docs] * 3, *[[["x", "z"], ["z", None]]] * 3], strict=True):
            found = [frame["change"] for frame in socket.of(id)]
            assert [[change["previous"], change["value"]] for change in found] == changes


def test_groups_are_made_by_column_and_form(api: Api) -> None:
    table = api.table(COLUMNS | {"z": "integer"}, ["k"])

    def group(column: str, notify: Any) -> str:
        sql = VALUE.format(table).replace("y", column, 1)
        name: str = api.subscribe(sql, {"k": 1}, **({} if notify is None else {"notify": notify}))["group"]
        return name

    one = group("y", {"change": 3})
    assert group("y", {"change": 4}) == one
    forms: list[Any] = [{"percent": 3}, {"factor": 3}, {"may": 1, "must": 2}, None]
    assert len({one, group("z", {"change": 3}), *(group("y", form) for form in forms)}) == 6


class Walk:
    """Random subscriptions and events, and the value each subscription should have been notified of."""

    def __init__(self, api: Api, seed: int) -> None:
        self.chance, self.api = random.Random(seed), api
        self.table = api.table(COLUMNS, ["k"])
        self.rows: dict[int, int] = {}
        self.subs: dict[str, tuple[int, int, int | None]] = {}
        self.lives: dict[str, list[tuple[int, int | None]]] = {}
        self.seq = 0

    def subscribe(self, count: int) -> None:
        for _ in range(count):
            k, r = self.chance.randint(1, 3), self.chance.choice([2, 3, 5, 8])
            id = value(self.api, self.table, k, notify={"change": r})
            self.subs[id] = k, r, self.rows.get(k)
            self.lives[id] = [(self.seq, self.rows.get(k))]

    def publish(self, count: int) -> None:
        events = []
        for _ in range(count):
            k, y = self.chance.randint(1, 3), self.chance.randint(0, 12)
            events.append(upsert(k=k, y=y))
        first = self.api.publish(self.table, events)["first_seq"]
        for seq, event in enumerate(events, first):
            k, y = event["row"]["k"], event["row"]["y"]
            self.rows[k] = y
            for id, (item, r, last) in self.subs.items():
                if item == k and (last is None or abs(y - last) >= r):
                    self.subs[id] = item, r, y
                    self.lives[id].append((seq, y))
        self.seq = first + count - 1

    def check(self, api: Api, *, resume_after: int) -> None:
        for id, (_, _, last) in self.subs.items():
            assert api.result(id)["result"] == {"value": last}
            life = self.lives[id]
            wanted = [
                (seq, {"value": now, "previous": before})
                for (_, before), (seq, now) in pairwise(life)
                if seq > resume_after
            ]
            if life[0][0] <= resume_after:
                assert heard(api, id, resume_after, self.seq) == wanted


def test_every_plan_replays_the_same(own_server: ServerProcess) -> None:
    """Messages by region, by name, and relaxed ones of which only the decision is stored."""
    own_server.options = ("--plan", "random:3")
    own_server.start()
    with Api(own_server.url) as api:
        world = Walk(api, 11)
        world.subscribe(5)
        for _ in range(4):
            world.publish(15)
            world.subscribe(2)
        for after in range(world.seq - 60, world.seq, 7):
            world.check(api, resume_after=after)


def test_last_notified_values_survive_retention_and_a_kill() -> None:
    """The messages that carried them are gone, and so is the memory; the marks have them."""
    made = ServerProcess("--retention-events", "200", "--partition-events", "100")
    made.start()
    try:
        with Api(made.url) as api:
            world = Walk(api, 7)
            world.subscribe(6)
            world.publish(20)
            api.publish(world.table, [insert(k=8, y=5)])
            quiet = value(api, world.table, 8, notify={"change": 1})
            api.publish(world.table, [update(8, y=50)])  # notified once, and never again
            for _ in range(6):
                world.publish(100)
                world.subscribe(1)
            made.kill()
        made.start()
        with Api(made.url) as api:
            world.api = api
            assert api.result(quiet)["result"] == {"value": 50}
            world.check(api, resume_after=world.seq - 150)
            last = api.publish(world.table, [update(8, y=0)])["last_seq"]
            assert heard(api, quiet, last - 150, last) == [(last, {"value": 0, "previous": 50})]
        assert made.stop() == 0
        made.start()
        with Api(made.url) as api:
            world.api = api
            world.check(api, resume_after=world.seq - 100)
    finally:
        made.remove()
