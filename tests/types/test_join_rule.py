"""Whom an event on a select-join concerns: every plan of every mode, folded by hand, against all rows and subscriptions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.model.geometry import BOTTOM, TOP, Point, contains
from cn.model.message import Message
from prosem.types.base import Bound, Draft, SpaceContext
from prosem.types.join import regions as join_regions
from prosem.types.join.envelope import envelope
from prosem.types.join.message import JoinCodec, JoinedRows, Lose, Remove, Upsert
from prosem.types.join.shape import MODES, JoinShape
from prosem.types.join.space import JoinSpace
from prosem.values.columns import column_type
from prosem.values.model import Column, Delta, Key, Row, Table
from prosem.values.wire import pack
from tests.support.effort import examples
from tests.support.makers import kernels_used as kernels_used

pytestmark = pytest.mark.usefixtures("kernels_used")
MAX = 3  # range columns hold 0..3, join columns 0..1, payloads 0..1
Held = list[dict[Key, Row]]


class Case(NamedTuple):
    """A shape, and the decompositions it can have."""

    shape: JoinShape
    decompositions: tuple[tuple[int, ...], ...]


def table(number: int, name: str, columns: str, kind: str = "integer") -> Table:
    kinds = [kind if column in "ac" else "integer" for column in columns]
    made = [Column(one, column_type(of)) for one, of in zip(columns, kinds, strict=True)]
    return Table(number + 1, name, (Column("k", column_type("integer"), False), *made), ("k",))


def case(
    tables: str, conditions: str, decompositions: tuple[tuple[int, ...], ...], kind: str = "integer"
) -> Case:
    """`rabp sbcp`: tables r(k, a, b, p) and s(k, b, c, p). `a c`: conditions on r.a and s.c; the last one routes.

    Join columns are those with a name of b, d, e.
    """
    made = tuple(table(number, name[0], name[1:], kind) for number, name in enumerate(tables.split()))
    classes = [{n: t.position[name] for n, t in enumerate(made) if name in t.position} for name in "bde"]
    ranged = tuple(
        tuple(sorted(t.position[name] for name in some.strip("-")))
        for t, some in zip(made, conditions.split(), strict=True)
    )
    routing = tuple(some[-1] if some else None for some in ranged)
    shape = JoinShape(made, tuple(one for one in classes if len(one) > 1), ranged, routing)
    return Case(shape, decompositions)


CASES = {
    "two tables": case("rabp sbcp", "a c", ((1, 0),)),
    "text routing": case("rabp sbcp", "a c", ((1, 0),), "text"),
    "composite key, two conditions": case("rabdp sbdcx", "a cx", ((1, 0),)),
    "condition on one side": case("rabp sbp", "a -", ((1, 0),)),
    "no condition": case("rbp sbp", "- -", ((1, 0),)),
    "condition on the join column": case("rabp sbcp", "a b", ((1, 0),)),
    "chain": case("rabp sbxd tdcp", "a x c", ((1, 0, 1), (1, 2, 1))),
    "star": case("rabp sbdex tdcp uey", "a x c y", ((1, 0, 1, 1), (1, 2, 1, 1), (1, 3, 1, 1))),
    "cycle": case("rabd sbex tdec", "a x c", ((1, 2, 0), (2, 0, 1), (1, 0, 0))),
    "one class": case("rabp sbcp ubx", "a c x", ((1, 2, 0), (2, 2, 0))),
}


class Oracle:
    """All rows, and what they say by nested loops."""

    def __init__(self, shape: JoinShape, decomposition: tuple[int, ...]) -> None:
        self.shape, self.decomposition = shape, decomposition
        self.rows: Held = [{} for _ in shape.tables]

    def selected(self, number: int, point: Point) -> dict[Key, Row]:
        place, holds = self.shape.placer(number), self.shape.holder(number)
        return {
            key: row
            for key, row in self.rows[number].items()
            if (codes := place(row)) is not None and holds(point, codes)
        }

    def semijoin(self, number: int, point: Point) -> dict[Key, Row]:
        partner = self.decomposition[number]
        classes = self.shape.shared(number, partner)
        at = self.shape.routing[partner]
        keys = set()  # of partners: no matter what else is NULL in them
        for row in self.rows[partner].values():
            if at is not None:
                if row[at] is None:
                    continue
                low, high = self.shape.sides(partner, at)
                code = self.shape.tables[partner].columns[at].type.code(row[at])
                if not point[low] <= code <= point[high]:
                    continue
            if None not in (key := self.shape.key_of(partner, classes)(row)):
                keys.add(key)
        own = self.shape.key_of(number, classes)
        return {key: row for key, row in self.selected(number, point).items() if own(row) in keys}

    def joined(self, point: Point) -> set[tuple[Row, ...]]:
        selected = [self.selected(number, point).values() for number in range(len(self.rows))]
        return {
            rows
            for rows in product(*selected)
            if all(
                len({rows[number][at] for number, at in members.items()}) == 1
                for members in self.shape.classes
            )
        }

    def held(self, mode: str, point: Point) -> Held:
        numbers = range(len(self.rows))
        if mode == "selection":
            return [self.selected(number, point) for number in numbers]
        if mode == "envelope":
            return [self.enveloped(number, point) for number in numbers]
        return [self.semijoin(number, point) if mode == "semijoin" else {} for number in numbers]

    def enveloped(self, number: int, point: Point) -> dict[Key, Row]:
        """With a partner that satisfies all conditions."""
        partner = self.decomposition[number]
        classes = self.shape.shared(number, partner)
        keys = {self.shape.key_of(partner, classes)(row) for row in self.selected(partner, point).values()}
        own = self.shape.key_of(number, classes)
        return {key: row for key, row in self.selected(number, point).items() if own(row) in keys}


def received(drafts: list[Draft], sid: int, point: Point) -> list[tuple[str, bytes, tuple[bytes, ...]]]:
    return [
        (draft.kind, draft.payload, draft.contents)
        for draft in drafts
        if (sid in draft.targets if draft.targets is not None else contains(draft.region, point))
    ]


def fold(
    codec: JoinCodec, held: Held, messages: list[tuple[str, bytes, tuple[bytes, ...]]], shape: JoinShape
) -> None:
    for message in messages:
        body = codec.read(*message)
        if isinstance(body, Upsert):
            held[body.table][body.key] = body.row
        elif isinstance(body, Remove):
            del held[body.table][body.key]
        else:
            assert isinstance(body, Lose)
            own = shape.key_of(body.table, body.classes)
            for key in [key for key, row in held[body.table].items() if own(row) == body.values]:
                del held[body.table][key]


def values(shape: JoinShape, number: int) -> st.SearchStrategy[Row]:
    """A row without its key. NULLs are rare."""
    columns = []
    for column in shape.tables[number].columns[1:]:
        most = 1 if column.name in "bdep" else MAX
        some: Any = st.integers(0, most)
        if column.type.name == "text":
            some = some.map(lambda value: "abcd"[value])
        columns.append(st.one_of(*[some] * 9, st.none()))
    return st.tuples(*columns)


def points(shape: JoinShape, random: Random, count: int) -> list[Point]:
    """Subscriptions of a small domain, each range a part of it; some without an end."""
    sides: list[list[tuple[Any, Any]]] = []
    for number, ranged in enumerate(shape.ranged):
        for at in ranged:
            kind = shape.tables[number].columns[at].type
            codes: list[Any] = [kind.code(v) for v in ("abcd" if kind.name == "text" else range(MAX + 1))]
            least, most = (-(2**63), 2**63 - 1) if shape.int64 else (BOTTOM, TOP)
            ends = [(low, high) for low in codes for high in codes if low <= high]
            sides.append([*ends, (least, codes[1]), (codes[2], most), (least, most)])
    if not sides:
        return [(0, 0)]
    drawn = {tuple(end for side in sides for end in random.choice(side)) for _ in range(count)}
    return sorted(drawn, key=repr)


def events(one: Case) -> st.SearchStrategy[list[tuple[int, int, Row | None]]]:
    def event(number: int) -> st.SearchStrategy[tuple[int, int, Row | None]]:
        row = values(one.shape, number)
        return st.tuples(st.just(number), st.integers(0, 3), st.one_of(row, row, row, st.none()))

    return st.lists(st.one_of([event(number) for number in range(len(one.shape.tables))]), max_size=14)


def deltas(oracle: Oracle, happened: list[tuple[int, int, Row | None]]) -> Iterator[Delta]:
    """The events one by one; the oracle's rows are changed before each is given."""
    for seq, (number, key, rest) in enumerate(happened):
        new = None if rest is None else (key, *rest)
        old = oracle.rows[number].get((key,))
        if new is None:
            oracle.rows[number].pop((key,), None)
        else:
            oracle.rows[number][key,] = new
        yield Delta(seq, oracle.shape.tables[number], (key,), old, new)


def as_rows(held: list[list[Row]], shape: JoinShape) -> Held:
    keyed = [{one.key_of(row): row for row in rows} for one, rows in zip(shape.tables, held, strict=True)]
    assert [len(some) for some in keyed] == [len(rows) for rows in held], "no row twice"
    return keyed


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=examples(20))
@given(data=st.data())
def test_every_plan(name: str, mode: str, data: st.DataObject) -> None:
    one = CASES[name]
    shape = one.shape
    decomposition = data.draw(st.sampled_from(one.decompositions))
    oracle = Oracle(shape, decomposition)
    *_, _ = *deltas(oracle, data.draw(events(one), label="before")), None
    random = Random(data.draw(st.integers(0, 9)))
    subscriptions = dict(enumerate(points(shape, random, 40), 1))
    rows = tuple(dict(some) for some in oracle.rows)
    most = data.draw(st.sampled_from([64, 64, 2]), label="boxes of a region") if mode == "envelope" else 64
    space = JoinSpace(
        shape, 1, SpaceContext(rows, lambda sid: Bound(b"", subscriptions[sid]), most), decomposition, mode
    )
    space.add([*subscriptions], [Bound(b"", point) for point in subscriptions.values()])
    space.check()
    codec = JoinCodec(shape)
    held = {sid: oracle.held(mode, point) for sid, point in subscriptions.items()}
    joined = {sid: oracle.joined(point) for sid, point in subscriptions.items()}
    for delta in deltas(oracle, data.draw(events(one), label="events")):
        description = space.step(delta)
        plans = [[] if description is None else space.messages(description, plan) for plan in space.plans]
        assert all(pack(Message(1, 0, 1, *draft)) for drafts in plans for draft in drafts), "all can travel"
        space.check()
        for sid, point in subscriptions.items():
            messages, *others = [sorted(received(drafts, sid, point)) for drafts in plans]
            for plan, other in zip(space.plans[1:], others, strict=True):
                if plan != "enum-j":
                    assert other == messages, plan
            before, joined[sid] = joined[sid], oracle.joined(point)
            if mode == "join":
                for drafts in plans:
                    bodies = [codec.read(*message) for message in received(drafts, sid, point)]
                    added = [row for body in bodies if isinstance(body, JoinedRows) for row in body.added]
                    removed = [row for body in bodies if isinstance(body, JoinedRows) for row in body.removed]
                    assert sorted(added) == sorted(joined[sid] - before)
                    assert sorted(removed) == sorted(before - joined[sid])
                assert space.semijoins(point) == [[] for _ in shape.tables]
                continue
            fold(codec, held[sid], received(plans[0], sid, point), shape)
            expected = oracle.held(mode, point)
            assert held[sid] == expected
            assert as_rows(space.semijoins(point), shape) == expected


@pytest.mark.parametrize("name", ["chain", "cycle", "text routing"])
@settings(max_examples=examples(15))
@given(data=st.data())
def test_points_and_partners_change_between_events(name: str, data: st.DataObject) -> None:
    """Points come, move, go and come back, and the tables get other partners: the next event concerns the right ones."""
    one = CASES[name]
    shape = one.shape
    oracle = Oracle(shape, one.decompositions[0])
    *_, _ = *deltas(oracle, data.draw(events(one), label="before")), None
    random = Random(data.draw(st.integers(0, 9)))
    places: dict[int, Point] = {}
    rows = tuple(dict(some) for some in oracle.rows)
    space = JoinSpace(
        shape, 1, SpaceContext(rows, lambda sid: Bound(b"", places[sid]), 64), one.decompositions[0]
    )
    codec = JoinCodec(shape)
    for delta in deltas(oracle, data.draw(events(one), label="events")):
        for sid, point in enumerate(points(shape, random, 25)):
            before, after = places.pop(sid, None), random.choice([point, point, None])
            if before is None:
                space.add([sid], [Bound(b"", after)])
            elif random.random() < 0.5:
                space.move(sid, Bound(b"", before), Bound(b"", after))
            else:
                space.remove(sid, Bound(b"", before))
                after = None
            if after is not None:
                places[sid] = after
        oracle.decomposition = random.choice(one.decompositions)
        space.redecompose(oracle.decomposition)
        space.check()
        held = {sid: as_rows(space.semijoins(point), shape) for sid, point in places.items()}
        description = space.step(delta)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(join_regions, "FEW", random.choice([0, 16]))  # the points, or each narrow range
            drafts = [] if description is None else space.messages(description, random.choice(space.plans))
        for sid, point in places.items():
            fold(codec, held[sid], received(drafts, sid, point), shape)
            assert held[sid] == oracle.held("semijoin", point)


def test_an_event_that_nobody_sees_is_not_described() -> None:
    shape = CASES["two tables"].shape
    one, other = shape.tables
    rows = ({(1,): (1, 2, 0, 0)}, {(7,): (7, 0, 3, 0)})
    space = JoinSpace(shape, 1, SpaceContext(rows, lambda sid: Bound(b"", (2, 3, 0, 3)), 64), (1, 0))
    unseen = Delta(1, one, (2,), None, (2, 1, 0, 0))
    assert space.step(unseen) is None, "no subscription at all"
    space.add([1], [Bound(b"", (2, 3, 0, 3))])
    assert space.step(Delta(2, one, (3,), None, (3, 1, 0, 0))) is None, "nobody selects it"
    assert space.step(Delta(3, one, (4,), None, (4, 2, 1, 0))) is None, "nothing joins"
    assert space.step(Delta(4, one, (5,), None, (5, None, 0, 0))) is None, "a NULL keeps it out"
    assert space.step(Delta(5, one, (1,), rows[0][1,], rows[0][1,])) is None, "the same row"
    seen = space.step(Delta(6, other, (8,), None, (8, 0, 1, 0)))
    assert [draft.kind for draft in space.messages(seen, "ref-sj-clu+")] == ["upsert"]
    gone = space.step(Delta(7, one, (1,), rows[0][1,], None))
    assert [draft.kind for draft in space.messages(gone, "ref-sj-clu+")] == ["drop", "lose"]
    back = space.step(Delta(8, one, (1,), None, (1, 3, 0, 0)))
    assert [draft.kind for draft in space.messages(back, "ref-sj-tup")] == ["upsert"] * 3
    moved = space.step(Delta(9, one, (1,), (1, 3, 0, 0), (1, 2, 0, 0)))
    assert [draft.kind for draft in space.messages(moved, "ref-sj-tup")] == ["drop", "upsert"], (
        "who held the old row alone holds the new one: nothing is lost or gained"
    )
    assert space.step(Delta(10, one, (1,), (1, 2, 0, 0), (1, 3, 0, 0))) is not None
    note = space.step(Delta(11, one, (1,), (1, 3, 0, 0), (1, 3, 0, 1)))
    (only,) = space.messages(note, "ref-sj-clu")
    assert (only.kind, only.contents) == ("upsert", (b"[1]",)), "only the payload changed"
    space.check()


@pytest.mark.parametrize("name", ["two tables", "text routing"])
def test_a_missing_end_can_travel(name: str) -> None:
    """A subscription without an end is described by the joining rows instead."""
    shape = CASES[name].shape
    r = shape.tables[0]
    of = "abcd".__getitem__ if name == "text routing" else int
    least, most = (-(2**63), 2**63 - 1) if shape.int64 else (BOTTOM, TOP)
    code = r.columns[1].type.code
    places = {
        1: (least, most, least, most),
        2: (least, code(of(2)), code(of(2)), most),
        3: (code(of(1)), most, least, code(of(1))),
    }
    rows: tuple[dict[Key, Row], ...] = ({}, {(7,): (7, 0, of(1), 0), (8,): (8, 0, of(3), 0)})
    space = JoinSpace(shape, 1, SpaceContext(rows, lambda sid: Bound(b"", places[sid]), 64), (1, 0))
    space.add([*places], [Bound(b"", place) for place in places.values()])
    description = space.step(Delta(1, r, (1,), None, (1, of(2), 0, 0)))
    for plan in space.plans:
        drafts = space.messages(description, plan)
        assert all(pack(Message(1, 0, 1, *draft)) for draft in drafts)
        reached = [sid for draft in drafts for sid in places if received([draft], sid, places[sid])]
        assert sorted(set(reached)) == [1, 2, 3], plan


CODE = st.integers(0, 5)


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(CODE, CODE), max_size=12, unique=True), st.tuples(CODE, CODE))
def test_a_box_with_the_centre_and_a_point_holds_one_of_the_envelope(
    some: list[tuple[int, int]], centre: tuple[int, int]
) -> None:
    found = envelope(some, centre)
    assert {*found} <= {*some}
    for low, high in product(product(range(6), repeat=2), repeat=2):
        box = [*zip(low, high, strict=True)]

        def holds(point: tuple[int, int], box: Any = box) -> bool:
            return all(end[0] <= code <= end[1] for code, end in zip(point, box, strict=True))

        if holds(centre):
            assert any(map(holds, found)) == any(map(holds, some))
    for one in found:
        spanned = [sorted(ends) for ends in zip(centre, one, strict=True)]
        inside = [x for x in some if all(a <= c <= b for c, (a, b) in zip(x, spanned, strict=True))]
        assert inside == [one], "nothing lies between the centre and a point of the envelope"


@settings(max_examples=examples(25))
@given(data=st.data())
def test_envelopes_of_anchors_describe_who_sees_a_row(data: st.DataObject) -> None:
    """Few subscriptions and many rows of one key: the anchors are fewer than the rows."""
    one = CASES["composite key, two conditions"]
    shape = one.shape
    codes = data.draw(st.lists(st.tuples(CODE, CODE), min_size=6, max_size=20))
    ranges = st.tuples(CODE, CODE).map(sorted)
    places: dict[int, Point] = {
        sid: (0, 9, *data.draw(ranges), *data.draw(ranges))
        for sid in range(1, data.draw(st.integers(1, 3)) + 1)
    }
    rows: tuple[dict[Key, Row], ...] = (
        {},
        {(key,): (key, 0, 0, c, x) for key, (c, x) in enumerate(codes)},
    )
    context = SpaceContext(rows, lambda sid: Bound(b"", places[sid]), data.draw(st.sampled_from([64, 3])))
    space = JoinSpace(shape, 1, context, (1, 0), "envelope")
    space.add([*places], [Bound(b"", place) for place in places.values()])
    space.check()
    description = space.step(Delta(1, shape.tables[0], (1,), None, (1, 5, 0, 0, 0)))
    drafts = [] if description is None else space.messages(description, "ref-sj-env")
    reached = {
        sid
        for draft in drafts
        if draft.kind == "upsert" and JoinCodec(shape).read(draft.kind, draft.payload, draft.contents)[0] == 0
        for sid, place in places.items()
        if received([draft], sid, place)
    }
    assert reached == {
        sid
        for sid, (_, _, c_low, c_high, x_low, x_high) in places.items()
        if any(c_low <= c <= c_high and x_low <= x <= x_high for c, x in codes)
    }


def test_the_envelope_sends_what_satisfies_all_conditions() -> None:
    """A partner with the routing column in range and another condition that fails: the semijoin mode sends the row."""
    shape = CASES["composite key, two conditions"].shape
    rows: tuple[dict[Key, Row], ...] = ({}, {(7,): (7, 0, 0, 1, 3)})
    place = (0, 3, 2, 3, 0, 3)  # s.c from 2 to 3: the row has 1; s.x routes
    kinds = {}
    for mode in ("semijoin", "envelope"):
        space = JoinSpace(shape, 1, SpaceContext(rows, lambda sid: Bound(b"", place), 64), (1, 0), mode)
        space.add([1], [Bound(b"", place)])
        description = space.step(Delta(1, shape.tables[0], (1,), None, (1, 2, 0, 0, 0)))
        drafts = [] if description is None else space.messages(description, space.plans[0])
        kinds[mode] = [draft.kind for draft in drafts]
    assert kinds == {"semijoin": ["upsert"], "envelope": []}
