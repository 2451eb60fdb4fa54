"""Value notification in memory: state, network and edge against a brute force that keeps every last notified value."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.model.geometry import Interval, contains
from cn.model.message import Message
from cn.networks.local import LocalNetwork
from optimizer.choose import chooser
from prosem.delivery.edge import Edge
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.index.radii.bw_tree import classes
from prosem.language.notify import check_notify, duration
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import complete
from prosem.store.lookback import Lookback, LookbackPoint
from prosem.types.base import MarkedSpace
from prosem.types.value.measure import measure_of
from prosem.types.value.space import DECISION, ValueSpace
from prosem.values.access import WHOLE
from prosem.values.codes import value_of
from prosem.values.columns import column_type
from prosem.values.errors import InputError, LanguageError, ProsemError
from prosem.values.model import PlaceMark
from prosem.values.wire import decode, is_same
from tests.support.effort import rounds
from tests.support.heard import Heard

read_message = msgspec.msgpack.Decoder(Message).decode
MOMENT = datetime(2024, 2, 28, 23, 59, 58, tzinfo=UTC)
Draw = Callable[[random.Random], Any]
VALUES: dict[str, Draw] = {
    "integer": lambda chance: chance.randint(-9, 9),
    "bigint": lambda chance: chance.choice([-(2**63), 2**63 - 1, *range(-5, 6)]),
    "double precision": lambda chance: chance.choice([0.1, 0.2, 0.3, 1e-9, -0.5, 3.0, 7.25, 1e300, -1e300]),
    "numeric(6,2)": lambda chance: f"{chance.randint(-300, 300) / 100:.2f}",
    "numeric(30,10)": lambda chance: f"{chance.choice([0, 10**19])}.{chance.randint(0, 9)}000000001",
    "date": lambda chance: str(date(2024, 2, 20) + timedelta(chance.randrange(20))),
    "timestamptz": lambda chance: (MOMENT + timedelta(microseconds=chance.randrange(20))).isoformat(),
    "text": lambda chance: chance.choice(["", "a", "b"]),
    "boolean": lambda chance: chance.random() < 0.5,
}
RADII: dict[str, list[Any]] = {
    "integer": [1, 2, 2.5, 3, "4"],
    "bigint": [1, 2, 2**63, 2**64 - 1, 2**70],
    "double precision": [0.1, 0.2, 1, 5, 1e300],
    "numeric(6,2)": [0.05, 0.333, 1, "0.70"],
    "numeric(30,10)": [1, "0.0000000002", 10**19],
    "date": ["P1D", "P3D", "PT36H"],
    "timestamptz": ["PT0.000001S", "PT0.000003S", "PT1S"],
}
RELATIVE = {"percent": [12.5, 25, 100, 150], "factor": [1.25, 1.5, 2, 4]}


def is_due(kind: str, notify: Any, before: Any, now: Any, *, heard: bool = False) -> bool:
    """The contract's condition, with exact arithmetic; doubles as IEEE has it. `heard`: it was notified, if due or not."""
    if before == now or before is None or now is None or notify is None:
        return bool(before != now)
    name = "must" if "must" in notify and not heard else next(iter(notify))
    if kind in ("date", "timestamptz"):
        return bool(abs(now - before) >= duration(notify[name]))
    number: Any = float if kind == "double precision" else lambda v: Fraction(str(v))
    before, now, r = number(before), number(now), number(notify[name])
    if name == "factor":
        return bool(before <= 0 or now <= 0 or now >= before * r or now <= before / r)
    if name == "percent":
        r = abs(before) * r / 100
    return bool(now >= before + r or now <= before - r)


def by_name(notify: Any) -> tuple[Any, Any]:
    """The same with parameters for radii, and their values."""
    return {form: f":{form}_" for form in notify}, {f"{form}_": size for form, size in notify.items()}


class World:
    """A state with its edge, the stored history and outbox, and what each subscription should have been notified of."""

    def __init__(self, kind: str, plan: str = "reformulate") -> None:
        self.kind, self.plan = kind, plan
        self.type = column_type(kind)
        self.state = self._state()
        self.edge = Edge(Metrics(), LocalNetwork, lambda stream, frame: None, lambda sid: None)
        self.sink = Heard()
        self.messages: list[Message] = []
        self.marks: dict[int, tuple[int, PlaceMark]] = {}
        self.kept: dict[tuple[int, bytes], bytes | None] = {}
        self.rows: dict[int, Any] = {}
        self.touched: set[int] = set()  # the rows whose z is true
        self.subs: dict[str, tuple[int, Any, Any]] = {}  # id → key, notify, last notified value
        self.run(c.CreateTable(self.definition))

    @property
    def definition(self) -> Any:
        kinds = {"k": "integer", "y": self.kind, "z": "boolean"}
        columns = [{"name": name, "type": kind} for name, kind in kinds.items()]
        return {"name": "t", "columns": columns, "primary_key": ["k"]}

    def _state(self) -> EngineState:
        state = EngineState(chooser(self.plan), Metrics())
        state.marks.seqs = 10  # marks are renewed all the time
        return state

    def run(self, command: Any) -> Any:
        """Carry out, store and deliver."""
        answer = self.state.execute(command)
        batch = self.state.begin()
        self.messages += [read_message(body) for *_, body in batch.writes.messages if body is not None]
        for sid, seq, _, _, _, _, mark in batch.writes.history:
            assert mark is not None
            self.marks[sid] = seq, msgspec.json.decode(mark, type=PlaceMark)
        for place, kept in batch.writes.items.items():
            self.kept[place] = kept
        complete(self.edge.release(batch.frames, self.state.seq))
        return answer

    def changes(self) -> dict[str, Any]:
        frames, self.sink.frames = self.sink.frames, []
        assert all(kind == "change" and seq == self.state.seq for _, kind, seq, _ in frames)
        assert len({id for id, *_ in frames}) == len(frames), "notified twice"
        return {id: body for id, _, _, body in frames}

    def plain(self, value: Any) -> Any:
        return decode(msgspec.json.encode(value))

    def expect(self, wanted: dict[str, tuple[Any, Any]], heard: dict[str, Any] | None = None) -> None:
        assert (self.changes() if heard is None else heard) == {
            id: {"value": self.plain(now), "previous": self.plain(before)}
            for id, (before, now) in wanted.items()
        }

    def set(self, key: int, value: Any) -> None:
        now = None if value is None else self.type.read(value)
        self.run(c.Publish("t", [{"op": "upsert", "row": {"k": key, "y": value, "z": False}}]))
        if key not in self.rows or not is_same(self.rows[key], now) or key in self.touched:
            self._expect_event(key, now)
        else:  # no event for anybody
            self.expect({})
        self.touched.discard(key)

    def drop(self, key: int) -> None:
        self.run(c.Publish("t", [{"op": "delete", "key": {"k": key}}]))
        self._expect_event(key, None)
        del self.rows[key]
        self.touched.discard(key)

    def _expect_event(self, key: int, now: Any) -> None:
        self.rows[key] = now
        heard, wanted = self.changes(), {}
        for id, (item, notify, before) in self.subs.items():
            if item == key and is_due(self.kind, notify, before, now, heard=id in heard):
                wanted[id] = before, now
                self.subs[id] = item, notify, now
        self.expect(wanted, heard)

    def subscribe(self, key: int, notify: Any, named: bool = False) -> None:
        """`named`: the radii are parameters."""
        query = parse("SELECT y FROM t WHERE k = :k")
        asked, radii = by_name(notify) if named else (notify, {})
        answer = self.run(c.Subscribe(query, check_notify(asked), [(None, {"k": key} | radii)]))
        now = self.rows.get(key)
        assert self.plain(answer["result"]) == {"value": self.plain(now)}
        self.attach(answer["id"])
        self.subs[answer["id"]] = key, notify, now

    def attach(self, id: str) -> None:
        self.run(c.Attach(id, None, self.sink))
        ((_, kind, _, _),) = [frame for frame in self.sink.frames if frame[0] == id]
        assert kind == "snapshot"
        self.sink.frames = []

    def patch(self, id: str, key: int) -> None:
        item, notify, before = self.subs[id]
        now = self.rows.get(key)
        self.run(c.Patch(id, {"k": key}))
        if key == item:  # the same subscription as before
            self.expect({})
            return
        self.expect({} if before == now else {id: (before, now)})
        self.subs[id] = key, notify, now

    def retune(self, id: str, notify: Any) -> None:
        """Other radii notify of nothing by themselves."""
        item, _, before = self.subs[id]
        answer = self.run(c.Patch(id, by_name(notify)[1]))
        assert self.plain(answer["result"]) == {"value": self.plain(before)}
        self.expect({})
        self.subs[id] = item, notify, before

    def retuned(self) -> list[str]:
        """Those whose radii are parameters."""
        return [id for id in self.subs if set(self.params(id)) != {"k"}]

    def params(self, id: str) -> Any:
        sid = self.state.registry.sid(id, WHOLE)
        assert sid is not None
        return decode(self.state.registry.params(sid))

    def touch(self, key: int) -> None:
        """An event of the row that leaves the value as it is."""
        self.run(c.Publish("t", [{"op": "update", "key": {"k": key}, "set": {"z": key not in self.touched}}]))
        self.touched ^= {key}
        self._expect_event(key, self.rows[key])

    def suspend_and_resume(self, id: str, key: int, value: Any) -> None:
        item, notify, before = self.subs.pop(id)
        self.run(c.Patch(id, None, active=False))
        self.set(key, value)
        self.run(c.Patch(id, None, active=True))
        now = self.rows.get(item)
        self.expect({} if before == now else {id: (before, now)})
        self.subs[id] = item, notify, now

    def delete(self, id: str) -> None:
        self.run(c.Delete(id))
        del self.subs[id]

    def check(self) -> None:
        for id, (_, _, before) in self.subs.items():
            assert self.plain(self.run(c.Result(id))["result"]) == {"value": self.plain(before)}
        for space in self.state.spaces.values():
            assert isinstance(space, ValueSpace)
            space.check()

    def recover(self) -> None:
        """Another state from what was stored; it must go on as if nothing had happened."""
        old, self.state = self.state, self._state()
        self.run(c.CreateTable(self.definition))
        self.state.seq, self.state.marks.moves = old.seq, old.marks.moves
        table = self.state.tables()["t"]
        for row in old.rows[table.id].values():
            self.state.table_store.put(table, table.key_of(row), row)
        groups, registry = self.state.group_store, old.registry
        for statement in old.group_store.statements.values():
            groups.add_statement(statement)
        groups.next_statement = old.group_store.next_statement
        groups.next_group = old.group_store.next_group
        for group in old.groups.values():
            query = replace(parse(group.sample_sql), per=group.per)
            groups.add_group(group, groups.recognise(query, group.sample_notify))
        self.state.registry.reserve(registry.next_sid)
        sids = list(registry.sids())
        for sid in sids:
            place = (registry.statement(sid), registry.group(sid), registry.params(sid))
            stored: Any = (
                sid,
                registry.id(sid),
                *place,
                True,
                True,
                registry.created(sid),
                None,
                "default",
                0,
            )
            self.state.subscribing.restore([stored])
        self.state.marks.restore(self._marks_by_now(sids, old))
        for at, keeping in groups.keeping.items():
            stored = [kept for (space, _), kept in self.kept.items() if space == at and kept is not None]
            keeping.restore_items(stored)

    def _marks_by_now(self, sids: list[int], old: EngineState) -> dict[int, tuple[int, PlaceMark]]:
        found = {sid: self.marks[sid][1] for sid in sids}
        for space in old.spaces:
            mine = [sid for sid in sids if old.groups[old.registry.group(sid)].space == space]
            standings = [
                LookbackPoint(sid, self.marks[sid][0], old.seq, found[sid].topic, place, sid)
                for sid in mine
                if (place := found[sid].place) is not None
            ]
            look = Lookback(standings)
            for message in reversed(self.messages):
                if message.space == space and message.kind in ("value", DECISION, "notified"):
                    look.take(message)
            for sid, payload in look.payloads.items():
                found[sid] = PlaceMark(found[sid].topic, found[sid].place, msgspec.Raw(payload))
        return {sid: (self.marks[sid][0], mark) for sid, mark in found.items()}


def forms(kind: str) -> list[Any]:
    made: list[Any] = [None]
    made += [{"change": r} for r in RADII.get(kind, [])]
    if kind not in ("date", "timestamptz", "text", "boolean"):
        made += [{form: r} for form, sizes in RELATIVE.items() for r in sizes]
        made += [{"percent": "12.50000001"}, {"factor": "1.00000000000000000001"}]
    pairs = [{"may": may, "must": must} for may, must in permutations(RADII.get(kind, []), 2)]
    return made + [pair for pair in pairs if is_pair(pair)]


def is_pair(notify: Any) -> bool:
    try:
        return check_notify(notify) is not None
    except InputError:
        return False


@pytest.mark.parametrize("plan", ["reformulate", "enumerate", "relax", "random:3"])
@pytest.mark.parametrize("kind", VALUES)
def test_exactly_those_are_notified_whose_value_moved_far_enough(kind: str, plan: str) -> None:
    for seed in range(rounds(4)):
        chance = random.Random(f"{kind} {plan} {seed}")
        world, choices = World(kind, plan), forms(kind)
        if seed % 2:
            choices = chance.sample(choices, min(2, len(choices)))  # many of one radius
        draw = VALUES[kind]
        for step in range(160):
            dice, key = chance.random(), chance.randint(1, 3)
            ids = list(world.subs)
            if dice < 0.5:
                world.set(key, None if dice < 0.03 else draw(chance))
            elif dice < 0.54 and key in world.rows:
                world.drop(key)
            elif dice < 0.56 and key in world.rows:
                world.touch(key)
            elif dice < 0.8 or not ids:
                notify = chance.choice(choices)
                world.subscribe(key, notify, notify is not None and chance.random() < 0.5)
            elif dice < 0.84:
                world.patch(chance.choice(ids), key)
            elif dice < 0.88 and (named := world.retuned()):
                id = chance.choice(named)
                asked = world.subs[id][1]
                world.retune(
                    id, chance.choice([one for one in choices if one and one.keys() == asked.keys()])
                )
            elif dice < 0.91:
                world.suspend_and_resume(chance.choice(ids), key, draw(chance))
            elif dice < 0.95:
                world.delete(chance.choice(ids))
            elif dice < 0.97:
                world.recover()
            if step % 8 == 0:
                world.check()


def test_relabelled_subscriptions_are_still_found() -> None:
    """So many last notified values of one radius that labels must move, each time where the last one stands."""
    world = World("integer")
    world.state.marks.seqs = 10**6  # no mark is new for another reason
    low, high = 0, 1 << 20
    world.set(1, low)
    world.subscribe(1, {"change": 1 << 22})
    moved = 0
    for turn in range(150):  # halving the gap on one side uses up the labels between two neighbours
        world.set(1, high - 1 - turn)
        world.subscribe(1, {"change": 1 << 22})
        moved += sum(seq == world.state.seq for seq, _ in world.marks.values()) - 1
    world.check()
    assert moved > 0, "labels were moved"
    world.recover()
    world.set(1, 1 << 25)
    world.check()


# -- parts -------------------------------------------------------------------------------------------------------
@given(st.dictionaries(st.integers(0, 30), st.tuples(st.integers(0, 3), st.integers(1, 2)), min_size=1))
def test_classes_hold_every_label_once(labels: dict[int, tuple[int, int]]) -> None:
    found = classes(labels)
    assert sorted((label, value, times) for value, run in found for label, times in run) == sorted(
        (label, *rest) for label, rest in labels.items()
    )
    assert [value for value, _ in found] == sorted({value for value, _ in labels.values()})


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 5)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5), st.integers(0, 5), st.booleans()), max_size=20),
)
def test_looking_back_finds_what_going_forward_tells(points: Any, sent: Any) -> None:
    standings = [
        LookbackPoint(key, min(a, b), max(a, b), b"", (place,), key % 5)
        for key, (a, b, place) in enumerate(points)
    ]
    messages = []
    for number, (seq, low, high, named) in enumerate(sorted(sent)):
        target = {"targets": (low,)} if named else {"region": ((Interval(low, high),),)}
        messages.append(Message(seq, number, 1, "value", payload=b"%d" % number, **target))
    wanted = {}
    for message in messages:
        for key, since, upto, _, place, sid in standings:
            hit = sid in message.targets if message.targets is not None else contains(message.region, place)
            if hit and since < message.seq <= upto:
                wanted[key] = message.payload
    look = Lookback(standings)
    for message in reversed(messages):
        look.take(message)
    assert look.payloads == wanted


@pytest.mark.parametrize("kind", [*VALUES, "bytea"])
def test_values_come_back_from_their_codes(kind: str) -> None:
    type_, chance = column_type(kind), random.Random(kind)
    for _ in range(50):
        value = b"\0a" if kind == "bytea" else type_.read(VALUES[kind](chance))
        assert value_of(type_, type_.code(value)) == value
        measure = measure_of(type_)
        if measure is not None:
            back = measure.value(measure.number(value))
            assert (back, str(back)) == (value, str(value))


@pytest.mark.parametrize("kind", RADII)
def test_radii_keep_their_order_as_coordinates(kind: str) -> None:
    measure = measure_of(column_type(kind))
    assert measure is not None
    radii = sorted({measure.radius("change", "change", size, "") for size in RADII[kind]})
    coordinates = [measure.code(radius) for radius in radii]
    assert coordinates == sorted(coordinates)
    assert [measure.radius_of(code) for code in coordinates] == radii


def test_a_double_radius_beyond_all_doubles_is_the_greatest() -> None:
    measure = measure_of(column_type("double precision"))
    assert measure is not None
    assert math.isfinite(measure.radius("change", "change", Decimal("1e400"), ""))


@pytest.mark.parametrize(
    ("kind", "notify", "at"),
    [
        ("text", {"change": 1}, "/notify"),
        ("integer", {"change": "P1D"}, "/notify/change"),
        ("date", {"change": 3}, "/notify/change"),
        ("date", {"percent": 3}, "/notify/percent"),
        ("timestamptz", {"may": "P1D", "must": "P1M"}, "/notify/must"),
        ("integer", {"percent": "1e-31"}, "/notify/percent"),
        ("numeric(6,2)", {"factor": "1e30"}, "/notify/factor"),
    ],
)
def test_a_radius_that_does_not_fit_the_column_is_refused(kind: str, notify: Any, at: str) -> None:
    world = World(kind)
    with pytest.raises(InputError) as caught:
        world.subscribe(1, notify)
    assert caught.value.at == at


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT y FROM t WHERE k = 1 AND y > 3", "WHERE k = "),
        ("SELECT y FROM t WHERE k > 1", "WHERE k = "),
        ("SELECT y FROM t WHERE FALSE", "never true"),
    ],
)
def test_other_conditions_are_refused_with_what_is_served(sql: str, word: str) -> None:
    world = World("integer")
    with pytest.raises(LanguageError, match=word):
        world.run(c.Subscribe(parse(sql), None, [(None, {})]))


def test_a_key_that_no_row_can_have_is_notified_of_nothing() -> None:
    world = World("integer")
    answer = world.run(
        c.Subscribe(parse("SELECT y FROM t WHERE k = :k"), {"change": 1}, [(None, {"k": Decimal("1.5")})])
    )
    assert answer["result"] == {"value": None}
    world.set(1, 5)
    (space,) = world.state.spaces.values()
    assert isinstance(space, MarkedSpace)
    world.recover()
    assert world.run(c.Result(answer["id"]))["result"] == {"value": None}
    world.run(c.Delete(answer["id"]))


def test_notify_is_for_values_only() -> None:
    world = World("integer")
    with pytest.raises(ProsemError, match="value notification"):
        world.run(c.Subscribe(parse("SELECT * FROM t"), {"change": 1}, [(None, {})]))
