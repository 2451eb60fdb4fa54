"""Select-joins in memory: which columns are one, places, messages, what an edge holds, decompositions, every plan."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import count, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.match.point_index import PointIndex
from cn.model.geometry import BOTTOM, TOP
from cn.model.message import Message
from cn.networks.local import LocalNetwork
from optimizer.choose import chooser
from prosem.delivery.edge import Edge
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.language.joins import join_classes
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import complete
from prosem.types.base import Draft, Rows, SpaceContext
from prosem.types.join.adaptation import Adaptation
from prosem.types.join.decomposition import (
    cheapest,
    first_decomposition,
    formula,
    has_choice,
    rows_per_key,
    simulation,
    total,
)
from prosem.types.join.form import JoinForm
from prosem.types.join.message import JoinCodec, JoinedRows, Lose, Remove, Upsert
from prosem.types.join.model import JoinModel
from prosem.types.join.pricing import Counted
from prosem.types.join.shape import MODES, JoinShape
from prosem.types.join.state import JoinFold, JoinState
from prosem.types.registry import recognise
from prosem.types.shared.ranges import Ranges
from prosem.values.codes import value_at
from prosem.values.columns import INT64_MAX, INT64_MIN, column_type
from prosem.values.errors import InputError, LanguageError
from prosem.values.model import Column, Row, Table
from prosem.values.statistics import JoinStatistics, RunFigures, SideStatistics
from prosem.values.wire import decode, encode
from tests.support.effort import examples
from tests.support.heard import Heard
from tests.support.live import fold, in_any_order
from tests.types.test_answers import VALUES

_ids = count(1)


def table(name: str, **columns: str) -> Table:
    """With a key k, and columns of these types (`integer` where it says `i`)."""
    made = [Column(one, column_type("integer" if kind == "i" else kind)) for one, kind in columns.items()]
    return Table(next(_ids), name, (Column("k", column_type("integer"), False), *made), ("k",))


R = table("r", a="i", b="i", d="i", note="text")
S = table("s", b="i", c="i", h="i")
T = table("t", d="i", e="i")
U = table("u", b="i", f="i")
CATALOG = {one.name: one for one in (R, S, T, U)}


def form(sql: str, catalog: Mapping[str, Table] = CATALOG, notify: Any = None) -> JoinForm:
    query = parse(sql)
    made = recognise(query, [catalog[name] for name in query.tables], notify)
    assert isinstance(made, JoinForm)
    return made


# -- which columns are one -------------------------------------------------------------------------------------------
def classes(sql: str, *tables: Table) -> list[list[str]]:
    query = parse(sql)
    found = join_classes(query, tables)
    return [[f"{tables[n].name}.{tables[n].names[at]}" for n, at in one.items()] for one in found]


def test_columns_of_using_are_merged() -> None:
    assert classes("SELECT * FROM r JOIN s USING (b)", R, S) == [["r.b", "s.b"]]
    sql = "SELECT * FROM r JOIN s USING (b) JOIN t USING (d) JOIN u USING (b)"
    assert classes(sql, R, S, T, U) == [["r.b", "s.b", "u.b"], ["r.d", "t.d"]]
    cycle = table("w", d="i", h="i")
    sql = "SELECT * FROM r JOIN s USING (b) JOIN w USING (d, h)"
    assert classes(sql, R, S, cycle) == [["r.b", "s.b"], ["r.d", "w.d"], ["s.h", "w.h"]]


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM r JOIN s USING (nosuch)", "there is no column nosuch in r"),
        ("SELECT * FROM r JOIN s USING (a)", "there is no column a in s"),
        ("SELECT * FROM r JOIN t USING (d) JOIN s USING (e)", "no column e in s"),
        ("SELECT * FROM r JOIN t USING (d) JOIN u USING (k)", "ambiguous: r, t have a column k each"),
        ("SELECT r.a, s.c FROM r JOIN s USING (b)", r"write SELECT \* FROM"),
        ("SELECT COUNT(*) FROM r JOIN s USING (b)", r"write SELECT \* FROM"),
        ("SELECT DISTINCT a FROM r JOIN s USING (b)", r"write SELECT \* FROM"),
        ("SELECT * FROM r LEFT JOIN s USING (b)", "a LEFT JOIN, ON or a self-join"),
        ("SELECT * FROM r JOIN s ON r.b = s.b", "a LEFT JOIN, ON or a self-join"),
        ("SELECT * FROM r JOIN s AS o USING (b)", "without aliases"),
        ("SELECT * FROM r JOIN r AS o USING (b)", "without aliases"),
        ("SELECT * FROM r JOIN s USING (b) WHERE a IN :some", "IN is supported in"),
        ("SELECT * FROM r JOIN s USING (b) WHERE a > 1 OR c > 2", "OR is supported"),
        ("SELECT * FROM r JOIN s USING (b) WHERE a IN (1, 2)", "IN is supported in"),
        ("SELECT * FROM r JOIN s USING (b) WHERE note LIKE 'a%'", "LIKE is supported in"),
        ("SELECT * FROM r JOIN s USING (b) WHERE a <> 1", "<> is supported in"),
        ("SELECT * FROM r JOIN s USING (b) WHERE a IS NULL", "IS NULL is supported in"),
        ("SELECT * FROM r JOIN s USING (b) WHERE k = 1", "ambiguous; write one of r.k, s.k"),
        ("SELECT * FROM r JOIN s USING (b) WHERE nosuch = 1", "no column nosuch in r, s"),
        ("SELECT * FROM r JOIN s USING (b) WHERE u.f = 1", "there is no table u in FROM; there are r, s"),
    ],
)
def test_what_a_join_cannot_be(sql: str, words: str) -> None:
    with pytest.raises(LanguageError, match=words):
        form(sql)


def test_a_join_takes_no_notify() -> None:
    with pytest.raises(InputError, match="notify applies to value notification"):
        form("SELECT * FROM r JOIN s USING (b)", notify={"change": 1})


def test_types_of_join_columns() -> None:
    sql = "SELECT * FROM p JOIN q USING (b)"
    for one, other in (("text", "integer"), ("double precision", "numeric(5,2)"), ("date", "timestamptz")):
        catalog = {"p": table("p", b=one), "q": table("q", b=other)}
        with pytest.raises(LanguageError, match=r"different types: p\.b is"):
            form(sql, catalog)
    with pytest.raises(LanguageError, match="jsonb column b cannot be compared"):
        form(sql, {"p": table("p", b="jsonb"), "q": table("q", b="jsonb")})
    form(sql, {"p": table("p", b="numeric(5,2)"), "q": table("q", b="bigint")})


# -- shapes and places -------------------------------------------------------------------------------------------------
def test_a_subscription_is_a_point() -> None:
    made = form(
        "SELECT * FROM r JOIN s USING (b) WHERE a BETWEEN :lo AND :hi AND s.c = :c AND c < 9 AND a > 0"
    )
    shape = made.shape
    assert (shape.ranged, shape.routing, shape.dimensions) == (((1,), (2,)), (1, 2), 4)
    assert shape.sides(0, 1) == (0, 1)
    assert shape.sides(1, 2) == (2, 3)
    assert made.bind({"lo": 3, "hi": 7, "c": 5}).place == (3, 7, 5, 5)
    assert made.bind({"lo": -3, "hi": 7, "c": 5}).place == (1, 7, 5, 5)
    assert made.bind({"lo": 3, "hi": 7, "c": 9}).place is None
    assert made.bind({"lo": 8, "hi": 7, "c": 5}).place is None
    assert made.bind({"lo": None, "hi": 7, "c": 5}).place is None


def test_missing_ends_and_no_condition() -> None:
    assert form("SELECT * FROM r JOIN s USING (b)").bind({}).place == (0, 0)
    assert form("SELECT * FROM r JOIN s USING (b) WHERE a >= 3").bind({}).place == (3, INT64_MAX)
    made = form("SELECT * FROM r JOIN s USING (b) WHERE note < 'm' AND c > 1")
    low, high, *rest = made.bind({}).place or ()
    assert not made.shape.int64
    assert low is BOTTOM
    assert rest == [2, INT64_MAX]
    assert high < "m\0\1"


def test_the_short_way_of_integers_is_the_long_way() -> None:
    made = form("SELECT * FROM r JOIN s USING (b) WHERE a > :a AND b = :b AND s.c <= :c")
    for params in (
        {"a": 1, "b": 2, "c": 3},
        {"a": INT64_MAX, "b": 2, "c": 3},
        {"a": 1, "b": Decimal("2.5"), "c": 3},
    ):
        slow = [
            part
            for ranges, some in zip(made.shape.ranged, made.atoms, strict=True)
            if ranges
            for part in [_bound_slowly(made, some, params)]
        ]
        expected = None if None in slow else tuple(code for part in slow for code in part or ())
        assert made.bind(params).place == expected, params


def _bound_slowly(made: JoinForm, atoms: Any, params: Any) -> tuple[Any, ...] | None:
    number = next(n for n, some in enumerate(made.atoms) if some == atoms)
    ranges = Ranges(made.tables[number], made.shape.ranged[number], ())
    return ranges.bind(replace(made.query, where=(atoms,)), params).place


def test_groups_tell_equality_from_ranges_and_ignore_order() -> None:
    text = "SELECT * FROM r JOIN s USING (b) WHERE "
    labels = [
        form(text + where).label
        for where in ("a = 1 AND c > 2", "c < :x AND r.a = :y", "a > 1 AND c > 2", "a = 1")
    ]
    assert labels[0] == labels[1]
    assert len(set(labels)) == 3


def test_routing_prefers_equality_and_no_boolean() -> None:
    flags = table("flags", b="i", x="boolean", y="i", z="i")
    sql = "SELECT * FROM r JOIN flags USING (b) WHERE x = TRUE AND y > 1 AND z {}"
    for where, routing in (("= 4", 4), ("> 4", 3)):
        assert form(sql.format(where), {"r": R, "flags": flags}).shape.routing == (None, routing)


def test_a_walk_reaches_every_table_by_all_classes_it_can() -> None:
    sql = "SELECT * FROM r JOIN s USING (b) JOIN t USING (d) JOIN u USING (b)"
    shape = form(sql).shape
    for start in range(4):
        seen = {start}
        for hop in shape.walk(start):
            assert hop.classes
            for number, (one, at) in zip(hop.classes, hop.values, strict=True):
                assert one in seen
                assert shape.classes[number][one] == at
            seen.add(hop.table)
        assert seen == {0, 1, 2, 3}


# -- codes and messages ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [*VALUES, "bytea"])
def test_a_code_leads_back_to_its_value(kind: str) -> None:
    chance, of = random.Random(kind), column_type(kind)
    for _ in range(50):
        value = of.read("AQID" if kind == "bytea" else VALUES[kind](chance))
        found = value_at(of, of.code(value))
        if kind == "boolean" or of.digits or of.code(value) in (INT64_MIN, INT64_MAX):
            assert found is None
        else:
            assert found == value
    for code in (INT64_MIN, INT64_MAX, BOTTOM, TOP):
        assert value_at(of, code) is None


def everything() -> tuple[JoinForm, Row, Row]:
    """A join of tables with a column of every type, and a row of each."""
    kinds = {f"c{at}": kind for at, kind in enumerate([*VALUES, "bytea", "jsonb"])}
    wide, narrow = table("wide", b="numeric(8,2)", **kinds), table("narrow", b="i", z="text")
    made = form("SELECT * FROM wide JOIN narrow USING (b) WHERE c1 > 2", {"wide": wide, "narrow": narrow})
    chance = random.Random(3)
    cells = [VALUES[kind](chance) for kind in VALUES] + ["AQID", {"x": [1, None, "é"]}]
    row = [1, "7.00", *cells]
    read = tuple(column.type.read(value) for column, value in zip(wide.columns, row, strict=True))
    return made, read, (5, 7, None)


def test_messages_are_read_as_they_were_written() -> None:
    made, row, other = everything()
    codec = JoinCodec(made.shape)

    def read(draft: Draft) -> Any:
        return codec.read(draft.kind, draft.payload, draft.contents)

    draft = codec.upsert(0, row)
    assert read(draft) == Upsert(0, (1,), row)
    (content,), (digest,) = draft.contents, draft.digests
    assert (len(digest), content.count(b"AQID"), draft.payload.count(b"AQID")) == (12, 1, 0)
    assert codec.upsert(0, (2, *row[1:])).digests == draft.digests, "the same payload has the same digest"
    assert read(codec.upsert(1, other)) == Upsert(1, (5,), other)
    assert read(codec.remove(0, row)) == Remove(0, (1,))
    lost = read(codec.lose(1, (0,), (row[1],)))
    assert lost == Lose(1, (0,), (7,)), "a decimal finds the whole number it equals"
    assert read(codec.joined([(row, other)], [])) == JoinedRows(((row, other),), ())


# -- the state at the edge -------------------------------------------------------------------------------------------
CHAIN = form("SELECT * FROM r JOIN s USING (b) JOIN t USING (d) WHERE a < 3 AND c < 3 AND e < 3").shape
KEYS = st.integers(0, 3)
FEW = st.integers(0, 1)
CELLS = (
    st.tuples(KEYS, st.integers(0, 4), FEW, FEW, st.sampled_from(["x", "y"])),
    st.tuples(KEYS, FEW, st.integers(0, 4), FEW),
    st.tuples(KEYS, FEW, st.integers(0, 4)),
)


def brute(shape: JoinShape, rows: list[list[Row]]) -> list[tuple[Row, ...]]:
    return [
        joined
        for joined in product(*rows)
        if all(len({joined[n][at] for n, at in members.items()}) == 1 for members in shape.classes)
    ]


@st.composite
def effects(draw: Any) -> dict[tuple[int, tuple[int]], Row | None]:
    found: dict[tuple[int, tuple[int]], Row | None] = {}
    for _ in range(draw(st.integers(1, 3))):
        number = draw(st.integers(0, 2))
        row = draw(CELLS[number])
        found[number, row[:1]] = row if draw(st.booleans()) else None
    return found


@settings(max_examples=examples(150))
@given(st.lists(effects(), max_size=12))
def test_changes_are_differences_of_joins(steps: list[Any]) -> None:
    state, held = JoinState(CHAIN), [dict[Any, Row]() for _ in range(3)]
    before: list[Any] = []
    for step in steps:
        added, removed = state.apply(step)
        for (number, key), row in step.items():
            held[number].pop(key, None)
            if row is not None:
                held[number][key] = row
        after = brute(CHAIN, [list(one.values()) for one in held])
        assert sorted(added) == sorted(row for row in after if row not in before)
        assert sorted(removed) == sorted(row for row in before if row not in after)
        assert sorted(state.answer().values()) == sorted(after)
        state.check()
        before = after
    fresh = JoinState(CHAIN, [one.values() for one in held])
    assert sorted(fresh.answer().values()) == sorted(before)


def message(draft: Draft, part: int = 0) -> Message:
    return Message(1, part, 1, *draft)


def test_messages_of_one_event_are_taken_in_their_order() -> None:
    made = form("SELECT * FROM r JOIN s USING (b) WHERE a < 5 AND c < 5")
    folding, point = JoinFold(made.shape), (INT64_MIN, 4, INT64_MIN, 4)
    codec = folding.codec
    old, new, partner = (1, 1, 1, 0, "x"), (1, 2, 1, 0, "x"), (7, 1, 3, 0)
    state = JoinState(made.shape, [[old], [partner]])

    def taken(*drafts: Draft) -> Any:
        return folding.effects([message(draft) for draft in drafts], point, state)

    assert taken(codec.remove(0, old), codec.upsert(0, new)) == {(0, (1,)): new}
    assert taken(codec.upsert(0, new), codec.remove(0, old)) == {(0, (1,)): None}
    assert taken(codec.upsert(0, (1, 9, 1, 0, "x"))) == {(0, (1,)): None}, "its own range refuses the row"
    assert taken(codec.lose(1, (0,), (1,))) == {(1, (7,)): None}
    assert taken(codec.lose(1, (0,), (2,))) == {}
    again = taken(codec.upsert(1, (8, 1, 1, 0)), codec.lose(1, (0,), (1,)))
    assert again == {(1, (7,)): None, (1, (8,)): None}, "a row that just came is lost with the others"
    assert taken(codec.lose(1, (0,), (1,)), codec.upsert(1, partner)) == {(1, (7,)): partner}


def test_joined_rows_cancel_and_are_filtered() -> None:
    made = form("SELECT * FROM r JOIN s USING (b) WHERE a < 5 AND c < 5")
    folding, point = JoinFold(made.shape), (INT64_MIN, 4, INT64_MIN, 4)
    one, other = ((1, 1, 1, 0, "x"), (7, 1, 3, 0)), ((1, 9, 1, 0, "x"), (7, 1, 3, 0))
    moved = ((1, 2, 1, 0, "x"), (7, 1, 3, 0))

    def folded(*pairs: Any) -> Any:
        return folding.joined([message(folding.codec.joined(*pair)) for pair in pairs], point)

    assert folded(([one], [])) == ([one], [])
    assert folded(([other], [])) == ([], [])
    assert folded(([], [one]), ([one], [])) == ([], []), "it went and came"
    assert folded(([], [one]), ([moved], [])) == ([moved], [one])
    assert folded(([one], []), ([], [one])) == ([], [])


# -- decompositions --------------------------------------------------------------------------------------------------
def all_decompositions(shape: JoinShape) -> Iterator[tuple[int, ...]]:
    return product(*(shape.neighbours(number) for number in range(len(shape.tables))))


@settings(max_examples=examples(60))
@given(st.data())
def test_the_cheapest_of_each_is_the_cheapest_of_all(data: st.DataObject) -> None:
    shape = form("SELECT * FROM r JOIN s USING (b) JOIN t USING (d) JOIN u USING (b)").shape
    shares = [data.draw(st.floats(0, 1)) for _ in shape.tables]
    per_key = {(number, 0): data.draw(st.floats(0, 20)) for number in range(4)}
    cost = formula(shape, Counted(shares, lambda number, _: per_key[number, 0]))
    found = cheapest(shape, cost)
    assert total(found, cost) == pytest.approx(min(total(one, cost) for one in all_decompositions(shape)))


def test_the_formula_of_the_thesis() -> None:
    shape = form("SELECT * FROM r JOIN s USING (b)").shape
    cost = formula(shape, Counted([0.25, 0.75], lambda number, _: (4.0, 2.0)[number]), 2.0, 3.0)
    assert cost(0, 1) == pytest.approx(2 * 0.25 / 3 * 2 / 4 + 3 * 0.75 * 4 / 3 * 2 / (4 * 5))


def test_the_ratios_of_the_formula_by_integration() -> None:
    """[ProSem thesis]'s two ratios, against random tuples on a unit domain: what share of all ranges is affected."""
    draw = np.random.default_rng(4)
    js, samples = 3, 200_000
    low, high = np.sort(draw.random((2, samples)), axis=0)
    values = draw.random((samples, js))
    hit = ((values >= low[:, None]) & (values <= high[:, None])).any(axis=1)
    assert hit.mean() == pytest.approx(js / (js + 2), rel=0.02)
    new = draw.random(samples)
    first = (low <= new) & (new <= high) & ~hit
    assert first.mean() == pytest.approx(2 / ((js + 2) * (js + 3)), rel=0.05)
    shape = form("SELECT * FROM r JOIN s USING (b)").shape
    cost = formula(shape, Counted([0.25, 0.75], lambda number, _: (2.0, float(js))[number]))
    assert cost(0, 1) == pytest.approx((0.25 * hit.mean() + 0.75 * 2 * first.mean()) / 3, rel=0.05)


def random_rows(shape: JoinShape, chance: random.Random, number: int) -> list[list[Row]]:
    """Tables of a join over small values; few distinct join keys."""
    return [
        [(key, *(chance.randrange(4) for _ in one.columns[1:])) for key in range(number)]
        for one in shape.tables
    ]


def test_a_simulation_counts_what_would_travel() -> None:
    """Against the definition, with all rows kept."""
    chance = random.Random(4)
    made = form("SELECT * FROM r JOIN s USING (b) JOIN u USING (b) WHERE a < :a AND c < :c AND f < :f")
    shape = made.shape
    rows = random_rows(shape, chance, 9)
    points = [made.bind({name: chance.randrange(5) for name in "acf"}).place for _ in range(12)]
    index = PointIndex(shape.dimensions, shape.int64)
    index.insert_many(range(len(points)), b"", [point for point in points if point])
    model = JoinModel(shape, index, [as_rows(some) for some in rows])
    folding = JoinFold(shape)
    cost = simulation(shape, model.tables, [point for point in points if point], [0.5, 0.2, 0.3])
    for base, partner in ((0, 1), (1, 2), (2, 0)):
        own, other = (shape.classes[0][number] for number in (base, partner))
        seen = exposed = 0
        for point in points:
            assert point is not None
            for row in rows[base]:
                if folding.holds(base, point, row):
                    met = [
                        p for p in rows[partner] if p[other] == row[own] and folding.holds(partner, point, p)
                    ]
                    seen += bool(met)
                    exposed += len(met) == 1
        wanted = (0.5, 0.2, 0.3)[base] * seen / 9 + (0.5, 0.2, 0.3)[partner] * exposed / 9
        assert cost(base, partner) == pytest.approx(wanted / len(points))


def as_rows(rows: list[Row]) -> Rows:
    return {row[:1]: row for row in rows}


def test_rows_a_key_and_the_first_decomposition() -> None:
    assert rows_per_key([(1, 5), (2, 5), (3, 6), (4, None)], lambda row: (row[1],)) == 1.5
    assert rows_per_key([], lambda row: row) == 0
    two = form("SELECT * FROM r JOIN s USING (b)").shape
    assert not has_choice(two)
    assert first_decomposition(two, [[], []]) == (1, 0)
    chain = form("SELECT * FROM r JOIN s USING (b) JOIN t USING (d)").shape
    one_s, many_t = [(1, 1, 0, 0)], [(key, 1, 0) for key in range(20)]
    rows_of_r = [(key, 0, 1, 1, "x") for key in range(12)]
    assert first_decomposition(chain, [rows_of_r, one_s, many_t]) == (2, 0, 0), (
        "t hardly ever exposes rows of r"
    )
    sides = [
        SideStatistics(one.id, ("k",), share, 1.0, 1, 1.0)
        for one, share in zip(chain.tables, (0.01, 0.01, 0.98), strict=True)
    ]
    figures = RunFigures(joins=[JoinStatistics(sides[0], sides[1]), JoinStatistics(sides[0], sides[2])])
    often_t = first_decomposition(chain, [rows_of_r, one_s, many_t], figures)
    assert often_t == (1, 0, 0), "unless nearly all events are on t"


def test_it_is_decomposed_anew_only_for_a_clear_gain() -> None:
    chance = random.Random(8)
    made = form("SELECT * FROM r JOIN s USING (b) JOIN t USING (d) WHERE a < :a AND c < :c AND e < :e")
    rows = random_rows(made.shape, chance, 30)
    index = PointIndex(made.shape.dimensions, True)
    model = JoinModel(made.shape, index, [as_rows(some) for some in rows])
    for sid in range(20):
        place = made.bind({"a": 4, "c": 4, "e": chance.randrange(2)}).place
        assert place is not None
        index.insert(sid, b"", place)
    adaptation = Adaptation(model)
    assert adaptation.better((1, 0, 0)) is None, "nothing was counted yet"
    adaptation.counts = [20, 20, 20]
    assert adaptation.better((1, 0, 0)) is None, "fewer events than rows"
    adaptation.counts = [1000, 0, 0]
    better = adaptation.better((1, 0, 0))
    assert better == (2, 0, 0), "few ranges on t are wide enough to see a row of r"
    adaptation.counts = [1000, 0, 0]
    assert adaptation.better(better) is None


def test_a_sample_is_of_the_points_there_are() -> None:
    index, chance = PointIndex(2, True, block_size=4), random.Random(1)
    assert index.sample(5, chance) == []
    for id in range(40):
        index.insert(id, b"", (id, id + 1))
    found = index.sample(200, chance)
    assert len(found) == 200
    assert {high - low for low, high in found} == {1}
    assert len(set(found)) > 30


# -- every plan through state, network and edge --------------------------------------------------------------------
class World:
    """Three tables, subscriptions that listen, and the answers by brute force."""

    def __init__(self, plan: str) -> None:
        self.state = EngineState(chooser(plan), Metrics(), plan=plan)
        self.edge = Edge(Metrics(), LocalNetwork, lambda stream, frame: None, lambda sid: None)
        self.sink = Heard()
        self.rows: dict[str, dict[int, Any]] = {"r": {}, "s": {}, "t": {}}
        self.params: dict[str, Any] = {}
        self.answers: dict[str, Any] = {}
        for one in (R, S, T):
            self.run(c.CreateTable(one.definition()))

    def run(self, command: Any) -> Any:
        answer = self.state.execute(command)
        batch = self.state.begin()
        assert all(body is None for *_, kind, _, body in batch.writes.messages if kind != "change")
        complete(self.edge.release(batch.frames, self.state.seq))
        for id, kind, seq, body in self.sink.frames:
            assert seq == self.state.seq
            self.answers[id] = body if kind == "snapshot" else fold(self.answers[id], body, ())
        notified = {id for id, kind, *_ in self.sink.frames if kind == "change"}
        assert len(self.sink.frames) == len({(id, kind) for id, kind, *_ in self.sink.frames})
        self.sink.frames.clear()
        return answer, notified

    def subscribe(self, **params: int) -> str:
        sql = "SELECT * FROM r JOIN s USING (b) JOIN t USING (d) WHERE a BETWEEN :lo AND :hi AND c < :c AND e >= :e"
        answer, _ = self.run(c.Subscribe(parse(sql), None, [(None, params)]))
        self.params[answer["id"]] = params
        self.run(c.Attach(answer["id"], None, self.sink))
        id: str = answer["id"]
        return id

    def expected(self, params: Any) -> Any:
        r, s, t = (self.rows[name].values() for name in "rst")
        rows = [
            {"r": one, "s": other, "t": third}
            for one, other, third in product(r, s, t)
            if None not in (one["b"], one["d"], one["a"], other["c"], third["e"])
            and one["b"] == other["b"]
            and one["d"] == third["d"]
            and params["lo"] <= one["a"] <= params["hi"]
            and other["c"] < params["c"]
            and third["e"] >= params["e"]
        ]
        return in_any_order({"rows": rows})

    def check(self, notified: set[str] | None = None) -> None:
        before = getattr(self, "_before", {})
        now = {id: self.expected(params) for id, params in self.params.items()}
        for id, expected in now.items():
            assert in_any_order(self.answers[id]) == expected
        if notified is not None:
            assert notified == {id for id in now if before.get(id) != now[id]}, (
                "notified if and only if it changed"
            )
        self._before = now


PLANS = [plan for plans in MODES.values() for plan in plans] + ["random:4"]


@pytest.mark.parametrize("plan", PLANS)
def test_every_plan_tells_everybody_what_changed(plan: str) -> None:
    chance, world = random.Random(plan), World(plan)
    for number in range(160):
        if number % 8 == 0:
            world.subscribe(
                lo=chance.randrange(3),
                hi=chance.randrange(5),
                c=chance.randrange(1, 5),
                e=chance.randrange(3),
            )
            world.check()
        name = chance.choice("rst")
        columns = CATALOG[name].columns[1:]
        cells: dict[str, Any] = {
            one.name: chance.choice("xy") if one.type.name == "text" else chance.choice([None, *range(4), 0, 1])
            for one in columns
        }  # fmt: skip
        key = chance.randrange(5)
        known = world.rows[name].get(key)
        if known is not None and chance.random() < 0.3:
            event = {"op": "delete", "key": {"k": key}}
            del world.rows[name][key]
        elif known is not None and chance.random() < 0.5:
            some = dict([chance.choice(list(cells.items()))])
            event = {"op": "update", "key": {"k": key}, "set": some}
            world.rows[name][key] = known | some
        else:
            world.rows[name][key] = {"k": key, **cells}
            event = {"op": "upsert", "row": world.rows[name][key]}
        _, notified = world.run(c.Publish(name, [event]))
        world.check(notified)
        if number % 10 == 5:
            id = chance.choice(list(world.params))
            world.params[id] = {**world.params[id], "hi": chance.randrange(5), "e": chance.randrange(3)}
            answer, notified = world.run(c.Patch(id, world.params[id]))
            assert in_any_order(decode_plain(answer["result"])) == world.expected(world.params[id])
            world.check(notified)


def decode_plain(answer: Any) -> Any:
    return decode(encode(answer))


def test_the_mode_follows_from_the_plan() -> None:
    made = form("SELECT * FROM r JOIN s USING (b)")
    space = made.open_space(1, SpaceContext(({}, {}), lambda sid: made.bind({}), 8, "enum-j"))
    assert space.plans == MODES["join"]
    assert made.state(space, made.bind({})) is None
    assert made.snapshot(space, {}, made.bind({})) == {"rows": []}
