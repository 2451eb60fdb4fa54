"""Value notification of many items: in memory against brute force, and on a server that forgets and is killed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.language.notify import check_notify
from prosem.language.parse import parse
from prosem.types.value.many_space import ManySpace
from prosem.values.errors import LanguageError
from prosem.values.model import PlaceMark
from tests.support.effort import rounds
from tests.support.live import Api, Json, delete, insert, update
from tests.support.processes import ServerProcess
from tests.types.test_value import VALUES, World, by_name, forms, is_due

ALL, SOME = "SELECT y FROM t", "SELECT y FROM t WHERE k IN (:a, :b)"
KEYS = (1, 2, 3, 4)
Values = dict[int, Any]


class ManyWorld(World):
    """`many`: id → the keys it selects, its notify, the last notified value of each."""

    def __init__(self, kind: str, plan: str = "reformulate") -> None:
        super().__init__(kind, plan)
        self.many: dict[str, tuple[tuple[int, ...], Any, Values]] = {}

    def subscribe_many(self, keys: tuple[int, ...] | None, notify: Any, named: bool = False) -> None:
        sql, params = (ALL, {}) if keys is None else (SOME, {"a": keys[0], "b": keys[-1]})
        asked, radii = by_name(notify) if named else (notify, {})
        answer = self.run(c.Subscribe(parse(sql), check_notify(asked), [(None, params | radii)]))
        now = self._present(keys or KEYS)
        assert self.plain(answer["result"]) == self._result(now)
        self.attach(answer["id"])
        self.many[answer["id"]] = keys or KEYS, notify, now

    def _present(self, keys: tuple[int, ...]) -> Values:
        return {key: self.rows[key] for key in keys if self.rows.get(key) is not None}

    def _result(self, values: Values) -> Json:
        items = [{"key": {"k": key}, "value": self.plain(value)} for key, value in sorted(values.items())]
        return {"items": items}

    def _expect_event(self, key: int, now: Any) -> None:
        self.rows[key] = now
        heard, wanted = self.changes(), {}
        for id, (keys, notify, known) in self.many.items():
            before = known.get(key)
            if key in keys and is_due(self.kind, notify, before, now, heard=id in heard):
                wanted[id] = {"key": {"k": key}, "value": self.plain(now), "previous": self.plain(before)}
                known.pop(key, None)
                if now is not None:
                    known[key] = now
        assert heard == wanted

    def retune_many(self, id: str, notify: Any) -> None:
        keys, _, known = self.many[id]
        answer = self.run(c.Patch(id, by_name(notify)[1]))
        assert self.plain(answer["result"]) == self._result(known)
        assert not self.changes()
        self.many[id] = keys, notify, known

    def patch_many(self, id: str, keys: tuple[int, int]) -> None:
        old, notify, before = self.many[id]
        now = self._present(keys)
        self.run(c.Patch(id, {"a": keys[0], "b": keys[1]}))
        if keys == old:
            assert not self.changes()
            return
        changed = [key for key in KEYS if before.get(key) != now.get(key)]
        found = self.changes().get(id)
        assert (found is None) == (not changed)
        if found is not None:
            items = found.get("items", [found])
            assert sorted(item["key"]["k"] for item in items) == changed
            for item in items:
                sides = now.get(item["key"]["k"]), before.get(item["key"]["k"])
                assert (item["value"], item["previous"]) == tuple(map(self.plain, sides))
        self.many[id] = keys, notify, now

    def suspend_and_resume_many(self, id: str) -> None:
        keys, notify, _ = self.many[id]
        self.run(c.Patch(id, None, active=False))
        self.run(c.Patch(id, None, active=True))
        self.changes()
        self.many[id] = keys, notify, self._present(keys)

    def check(self) -> None:
        for id, (_, _, known) in self.many.items():
            assert self.plain(self.run(c.Result(id))["result"]) == self._result(known)
        for space in self.state.spaces.values():
            assert isinstance(space, ManySpace)
            space.check()

    def _marks_by_now(self, sids: list[int], old: EngineState) -> dict[int, tuple[int, PlaceMark]]:
        """The marks as they were written: what was notified since is kept with the items."""
        return {sid: self.marks[sid] for sid in sids}


@pytest.mark.parametrize("plan", ["reformulate", "enumerate", "random:3"])
@pytest.mark.parametrize("kind", VALUES)
def test_each_item_is_notified_when_it_moved_far_enough(kind: str, plan: str) -> None:
    for seed in range(rounds(4)):
        chance = random.Random(f"{kind} {plan} {seed}")
        world, choices, draw = ManyWorld(kind, plan), forms(kind), VALUES[kind]
        if seed % 2:
            choices = chance.sample(choices, min(2, len(choices)))  # many of one radius
        for step in range(150):
            dice, key, ids = chance.random(), chance.choice(KEYS), list(world.many)
            some = [id for id in ids if world.many[id][0] is not KEYS]
            pair = (chance.choice(KEYS), chance.choice(KEYS))
            named = [id for id in ids if not set(world.params(id)) <= {"a", "b"}]
            if dice < 0.56:
                world.set(key, None if dice < 0.02 else draw(chance))
            elif dice < 0.6 and key in world.rows:
                world.touch(key)
            elif dice < 0.63 and key in world.rows:
                world.drop(key)
            elif dice < 0.72 or not ids:
                notify = chance.choice(choices)
                is_named = notify is not None and chance.random() < 0.6
                world.subscribe_many(chance.choice([None, pair]), notify, is_named)
            elif dice < 0.84 and named:
                id = chance.choice(named)
                asked = world.many[id][1].keys()
                world.retune_many(id, chance.choice([one for one in choices if one and one.keys() == asked]))
                if key in world.rows and chance.random() < 0.5:
                    world.touch(key)
            elif dice < 0.88 and some:
                world.patch_many(chance.choice(some), pair)
            elif dice < 0.9:
                world.suspend_and_resume_many(chance.choice(ids))
            elif dice < 0.94:
                id = chance.choice(ids)
                world.run(c.Delete(id))
                del world.many[id]
            elif dice < 0.97:
                world.recover()
            if step % 8 == 0:
                world.check()


def test_a_composite_key_may_list_some_of_each_column() -> None:
    world = ManyWorld("integer")
    columns = [{"name": name, "type": "integer"} for name in ("k", "m", "y")]
    world.run(c.CreateTable({"name": "u", "columns": columns, "primary_key": ["k", "m"]}))
    rows = [{"op": "insert", "row": {"k": k, "m": m, "y": 10 * k + m}} for k in (1, 2) for m in (1, 2, 3)]
    world.run(c.Publish("u", rows))
    query = parse("SELECT y FROM u WHERE k = 2 AND m IN (1, 3, 9)")
    answer = world.run(c.Subscribe(query, None, [(None, {})]))
    assert answer["result"] == {
        "items": [{"key": {"k": 2, "m": 1}, "value": 21}, {"key": {"k": 2, "m": 3}, "value": 23}]
    }
    for sql in ("SELECT y FROM u WHERE k = 2", "SELECT y FROM u WHERE k IN (1, 2)"):
        with pytest.raises(LanguageError, match="the key column m has no value"):
            world.run(c.Subscribe(parse(sql), None, [(None, {})]))


def test_too_many_keys_are_refused() -> None:
    world = ManyWorld("integer")
    listed = ", ".join(map(str, range(10_001)))
    with pytest.raises(LanguageError, match="at most 10000 keys"):
        world.run(c.Subscribe(parse(f"SELECT y FROM t WHERE k IN ({listed})"), None, [(None, {})]))


def test_items_survive_retention_and_a_kill() -> None:
    made = ServerProcess("--retention-events", "200", "--partition-events", "100")
    made.start()
    try:
        with Api(made.url) as api:
            table = api.table({"k": "integer", "y": "integer"}, ["k"])
            api.publish(table, [insert(k=1, y=10), insert(k=2, y=20), insert(k=3, y=30)])
            sql = f"SELECT y FROM {table}"
            id = api.subscribe(sql, notify={"change": 5})["id"]
            some = api.subscribe(sql + " WHERE k IN (1, 4)", notify={"change": 5})["id"]
            # notified and then never again, and moved a little since
            api.publish(
                table, [update(1, y=15), update(1, y=18), delete(3), insert(k=4, y=40), update(2, y=22)]
            )
            for number in range(6):
                api.publish(table, [insert(k=100 + 100 * number + n, y=0) for n in range(100)])
            made.kill()
        made.start()
        with Api(made.url) as api:
            items = {item["key"]["k"]: item["value"] for item in api.result(id)["result"]["items"]}
            assert {k: items.get(k) for k in (1, 2, 3, 4)} == {1: 15, 2: 20, 3: None, 4: 40}
            assert len(items) == 603
            listed = [{"key": {"k": 1}, "value": 15}, {"key": {"k": 4}, "value": 40}]
            assert api.result(some)["result"] == {"items": listed}
            first = api.publish(table, [update(1, y=19), update(1, y=20), delete(4)])["first_seq"]
            with api.socket() as listener:
                listener.attach(some, first - 100)
                listener.progress(first + 2)
                listener.pong()
                assert [(frame["seq"], frame["change"]) for frame in listener.of(some)] == [
                    (first + 1, {"key": {"k": 1}, "value": 20, "previous": 15}),
                    (first + 2, {"key": {"k": 4}, "value": None, "previous": 40}),
                ]
    finally:
        made.remove()
