"""A new subscription type is one package and one line of the registry, and is served like any other.

Written into a temporary folder: `SELECT COUNT(*) FROM t WHERE x <> :a`, which no built-in type serves. A real server and a
broker run with it: events, PATCH, resumption from many seqs, a kill, and EXPLAIN, against a brute-force count.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.deployed import Deployed
from tests.support.live import Api, Json, attached, delete, upsert

ROOT = Path(__file__).parents[2]
COUNT_OTHERS = '''
"""Counts the rows whose value differs from a constant: one point per subscription, two half lines per row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec

from cn.model.geometry import Interval
from prosem.language.resolve import column, evaluate
from prosem.language.syntax import Aggregate
from prosem.types.base import Bound, Draft, SubscriptionType
from prosem.types.shared.point_space import PointSpace
from prosem.types.shared.replay import FromLog, Undone
from prosem.types.shared.rules import Rules, fields
from prosem.values.wire import encode


@dataclass(frozen=True)
class Line:
    dimensions: int = 1
    int64: bool = True


@dataclass(frozen=True)
class CountOthersForm:
    query: Any
    table: Any
    x: int
    type: str = "count-others"

    @property
    def label(self):
        return f"COUNT(*) FROM {self.table.name!r}#{self.table.id} WHERE {self.x} <> ?"

    @property
    def space_label(self):
        return self.label

    @property
    def tables(self):
        return (self.table,)

    @property
    def replay(self):
        return <replay>

    def bind(self, params):
        term = self.query.where[0][0].args[0]
        value = evaluate(term, params, self.table.columns[self.x].type)
        return Bound(b"", None if value is None else (value,))

    def open_space(self, space_id, context):
        return CountOthersSpace(self, space_id, context.rows[0])

    def state(self, space, bound):
        return 0 if bound.place is None else space.others(bound.place[0])

    def snapshot(self, space, rows, bound):
        return {"value": self.state(space, bound)}

    def difference(self, before, after):
        return None if before == after else after

    def change(self, messages, bound, state):
        if messages[-1].kind == "change":
            return messages[-1].payload, state
        after = state + sum(int(message.payload) for message in messages)
        return (None if after == state else encode({"value": after})), after

    def undo(self, messages, state):
        return state - sum(int(message.payload) for message in messages)

    def pack_state(self, state):
        return b"%d" % state

    def unpack_state(self, packed):
        return int(packed)

    def opening(self, snapshot, state):
        return {"message": "state", **fields(snapshot)}

    def raw(self, messages, bound, change):
        return [] if change is None else [{"message": "change", **fields(change)}]

    def place_in_words(self, bound):
        return {"equal": {}, "point": {self.table.names[self.x]: bound.place[0]}}


class CountOthersSpace(PointSpace):
    def __init__(self, form, space_id, rows):
        super().__init__(Line(), space_id)
        self._x = form.x
        self._counts = Counter(row[form.x] for row in rows.values() if row[form.x] is not None)

    def others(self, x):
        return self._counts.total() - self._counts[x]

    def step(self, delta):
        old, new = (None if row is None else row[self._x] for row in (delta.old, delta.new))
        if old == new:
            return None
        gains = [(x, gain) for x, gain in ((old, -1), (new, 1)) if x is not None]
        for x, gain in gains:
            self._counts[x] += gain
        return gains if len(self.points) else None

    def drafts(self, description):
        return [
            Draft("gain", b"", _others(x), payload=b"%d" % gain) for x, gain in description
        ]


def _others(x):
    return (Interval(None, x, high_open=True),), (Interval(x, None, low_open=True),)


class CountOthersType(SubscriptionType):
    name = "count-others"

    def recognise(self, query, tables, notify):
        atoms = [atom for conjunction in query.where for atom in conjunction]
        if len(tables) != 1 or query.selection != Aggregate("count", None) or [a.op for a in atoms] != ["<>"]:
            return None
        table = tables[0]
        return CountOthersForm(query, table, table.position[column(query, table, atoms[0].column).name])

    def describe(self):
        answer = ("DELETE FROM answer", "INSERT INTO answer SELECT json_remove(:message, '$.message')")
        rules = Rules(
            ("CREATE TABLE answer (result TEXT)",), {"state": answer, "change": answer}, "SELECT result FROM answer"
        )
        return {
            "name": self.name,
            "sql": "SELECT COUNT(*) FROM t WHERE x <> :a",
            "notify": [],
            "messages": [{"name": "gain", "region": "constants other than x", "payload": "what is added"}],
            "update": "replace the value",
            "transform": "the value",
            "rules": rules.document(),
        }


TYPES = (CountOthersType(),)
'''
SQL = "SELECT COUNT(*) FROM {} WHERE x <> :a"


def install(folder: Path, replay: str) -> None:
    """One package, and one line of the registry of a copy."""
    for name in ("prosem", "migrations"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    package = folder / "prosem/types/count_others"
    package.mkdir()
    (package / "__init__.py").write_text(COUNT_OTHERS.replace("<replay>", replay))
    registry = folder / "prosem/types/registry.py"
    text, line = registry.read_text(), "PACKAGES = (\n"
    assert text.count(line) == 1
    registry.write_text(text.replace(line, line + '    "prosem.types.count_others",\n'))


class World:
    """The rows by brute force: what a subscription with the constant `a` must be notified of after each seq."""

    def __init__(self, api: Api, table: str, seed: int) -> None:
        self.api, self.table, self.chance = api, table, random.Random(seed)
        self.rows: dict[int, int | None] = {}
        self.counts: dict[int, dict[int, int]] = {}  # seq → constant → answer

    def publish(self, count: int) -> int:
        events = []
        states = []
        for _ in range(count):
            k = self.chance.randrange(6)
            if k in self.rows and self.chance.random() < 0.3:
                events.append(delete(k))
                del self.rows[k]
            else:
                self.rows[k] = self.chance.choice([None, 1, 2, 3])
                events.append(upsert(k=k, x=self.rows[k]))
            states.append({a: self.answer(a) for a in range(5)})
        done = self.api.publish(self.table, events)
        self.counts |= dict(enumerate(states, done["first_seq"]))
        return int(done["last_seq"])

    def answer(self, a: int) -> int:
        return sum(x is not None and x != a for x in self.rows.values())

    def expected(self, a: int, before: int, seqs: range) -> dict[int, Json]:
        """The changes of events of a subscription that stayed where it was."""
        found = {}
        for seq in seqs:
            if seq in self.counts and self.counts[seq][a] != before:
                before = self.counts[seq][a]
                found[seq] = {"value": before}
        return found


@pytest.mark.parametrize("replay", ["Undone(self)", pytest.param("FromLog()", marks=pytest.mark.slow)])
def test_one_package_and_one_line_are_served_like_any_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replay: str
) -> None:
    install(tmp_path, replay)
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Deployed(brokers=1) as deployed, Api(deployed.server.url) as api:
        assert "count-others" in [kind["name"] for kind in api.call("GET", "/v1/types")["types"]]
        table = api.table({"k": "integer", "x": "integer"}, ["k"])
        world = World(api, table, len(replay))
        world.publish(8)
        made = api.subscribe(SQL.format(table), {"a": 1})
        id, created, first = made["id"], made["seq"], world.answer(1)
        assert made["result"] == {"value": first}
        listeners = [attached(url, [id]) for url in deployed.urls]
        moved = world.publish(25)
        patched = api.patch(id, params={"a": 2})
        last = world.publish(25)
        expected = world.expected(1, first, range(created + 1, moved + 1))
        before = world.counts[moved]
        if before[1] != before[2]:
            expected[patched["seq"]] = {"value": before[2]}
        expected |= world.expected(2, before[2], range(patched["seq"] + 1, last + 1))
        for listener in listeners:
            listener.progress(last)
            assert changes(listener.of(id)) == expected
            listener.close()

        deployed.server.kill()
        deployed.server.start()
        assert api.result(id)["result"] == {"value": world.answer(2)}
        for url in deployed.urls:
            for after in range(created, last + 1, 7):
                check_resumed(url, id, after, expected)

        plans = api.call(
            "POST", "/v1/explain", json={"table": table, "event": upsert(k=0, x=4), "analyze": True}
        )
        assert {group["type"] for group in plans["groups"]} == {"count-others"}
        described = api.call("POST", "/v1/describe", json={"sql": SQL.format(table), "params": {"a": 3}})
        assert described["place"] == {"equal": {}, "point": {"x": 3}}


def changes(frames: list[Json]) -> dict[int, Any]:
    return {frame["seq"]: frame["change"] for frame in frames}


def check_resumed(url: str, id: str, after: int, expected: dict[int, Json]) -> None:
    with attached(url, []) as again:
        again.attach(id, after)
        again.pong()
        assert not again.of(id, "snapshot")
        assert changes(again.of(id)) == {seq: change for seq, change in expected.items() if seq > after}
