"""The minima of a space by key, in both implementations: whole events against the rule in Python."""

from __future__ import annotations

from datetime import date
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.match.point_index import PointIndex
from cn.model.geometry import Interval, contains
from prosem.index.ranges.a2b_tree import A2BTree
from prosem.types.base import Draft
from prosem.types.extreme import rule, tracked_rule
from prosem.types.extreme.rule import Piece
from prosem.types.extreme.trees import ExtremeTrees
from prosem.values.model import Delta
from prosem.values.wire import encode
from tests.support.effort import examples
from tests.support.makers import COMPILED, is_built

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
RULES: Any = {False: rule.step, True: tracked_rule.step}


def in_python(is_tracked: bool = False) -> tuple[Any, Any]:
    points = PointIndex(2, True)
    return points, ExtremeTrees(points, is_tracked)


def compiled(is_tracked: bool = False) -> tuple[Any, Any]:
    points = COMPILED.PointIndex(2, True)
    return points, COMPILED.RangeMinima(points, is_tracked, Interval, Piece)


judged = pytest.mark.parametrize(
    "make", [pytest.param(in_python, id="python"), pytest.param(compiled, id="compiled", marks=is_built)]
)


def ends(code: int, last: int) -> int:
    return INT64_MIN if code == 0 else INT64_MAX if code == last else code


topics = st.sampled_from([b"", b"x"])
places = st.one_of(st.none(), st.tuples(st.integers(0, 7), st.integers(0, 4)))
histories = st.lists(
    st.tuples(st.integers(0, 11), topics, st.one_of(places, st.just("touched"))), max_size=60
)


@judged
@pytest.mark.parametrize("is_tracked", RULES)
@given(
    history=histories,
    ranges=st.lists(st.tuples(topics, st.integers(0, 7), st.integers(0, 7)), max_size=6),
    at_the_ends=st.booleans(),
    built=st.integers(0, 60),
)
@settings(max_examples=examples(60), deadline=None)
def test_events_are_those_of_the_rule(
    make: Any, is_tracked: bool, history: Any, ranges: Any, at_the_ends: bool, built: int
) -> None:
    """Interval by interval, for the pieces that hold a subscription; `built` rows are there from the beginning."""
    points, minima = make(is_tracked)
    for sid, (topic, low, high) in enumerate(ranges):
        points.insert(sid, topic, (ends(low, 7), ends(high, 7)) if at_the_ends else (low, high))
    trees = {topic: A2BTree() for topic in (b"", b"x")}
    table: dict[Any, tuple[bytes, Any]] = {}
    is_built = False
    for number, (ref, topic, place) in enumerate(history):
        if number >= built and not is_built:
            is_built = True
            entries: Any = {}
            for key, (where, (x, y)) in table.items():
                entries.setdefault((where, "group"), []).append((x, y, key))
            minima.build(entries)
        old = table.pop(ref, None)
        if place == "touched":
            new = old
        else:
            codes = place and ((ends(place[0], 7), ends(place[1], 4)) if at_the_ends else place)
            new = None if codes is None else (topic, codes)
        if new is not None:
            table[ref] = new
        moves = [(old, new)] if old and new and old[0] == new[0] else [(old, None), (None, new)]
        for before, after in moves:
            if before is None and after is None:
                continue
            where = (before or after)[0]  # type: ignore[index]
            spots = before and before[1], after and after[1]
            made = RULES[is_tracked](trees[where], *spots, ref)
            if not is_built:
                continue
            found = minima.step((where, "group"), where, *spots, ref)
            shown = [(piece.region, piece.y) for piece in made if points.any(where, piece.region)]
            assert [(piece.region, piece.y) for piece in found] == shown
            for piece in found:
                assert type(piece) is Piece
                assert all(type(side) is Interval for box in piece.region for side in box)
                assert piece.y is None or (table[piece.ref][0], table[piece.ref][1][1]) == (where, piece.y)
    for topic, tree in trees.items() if is_built else ():
        held = minima.get((topic, "group"))
        assert sorted(tree) == ([] if held is None else sorted(held))
        for low, high in product([*range(-1, 8, 3), None], [*range(0, 9, 2), None]):
            lowest = tree.lowest(low, high)
            best = minima.lowest((topic, "group"), (Interval(low, high),))
            assert (lowest and lowest[0]) == (best and best[0])
    minima.check()


@judged
def test_keys_are_known_while_they_have_rows(make: Any) -> None:
    _, minima = make()
    minima.build({b"a": [(1, 5, "r")], b"none": []})
    assert minima.get(b"none") is None
    assert len(minima.get(b"a")) == 1
    minima.step(b"a", b"", (1, 5), None, "r")
    assert minima.get(b"a") is None
    assert minima.lowest(b"a", (Interval(),)) is None
    minima.step(b"a", b"", None, (2, 6), "r")
    assert minima.lowest(b"a", (Interval(),)) == (6, "r")


@is_built
def test_what_an_event_must_be() -> None:
    """Nothing is changed by an event that is refused, with subscriptions or without."""
    for has_points in (False, True):
        points, minima = compiled()
        if has_points:
            points.insert(1, b"", (0, 9))
        minima.build({b"": [(1, 5, "a"), (2, 5, "b")]})
        with pytest.raises(KeyError):
            minima.step(b"", b"", (1, 5), (1, 4), "c")
        with pytest.raises(KeyError):
            minima.step(b"other", b"", (1, 5), None, "a")
        with pytest.raises(ValueError, match="already"):
            minima.step(b"", b"", None, (1, 5), "a")
        with pytest.raises(ValueError, match="already"):
            minima.step(b"", b"", None, (2, 5), "b")
        with pytest.raises(OverflowError):
            minima.step(b"", b"", (1, 5), (1, 2**63), "a")
        with pytest.raises(TypeError):
            minima.step(b"", b"", (1, 5), (1, "4"), "a")
        minima.check()
        assert sorted(minima.get(b"")) == [(1, 5, "a"), (2, 5, "b")]
    with pytest.raises(ValueError, match="two dimensions"):
        COMPILED.RangeMinima(COMPILED.PointIndex(4, True), False, Interval, Piece)


@is_built
@pytest.mark.parametrize("is_tracked", RULES)
@pytest.mark.parametrize("is_descending", [False, True])
def test_rows_are_read_in_one_call(is_tracked: bool, is_descending: bool) -> None:
    """As if x and y had been read in Python: NULLs keep a row out, encoders are asked, MAX is the complement."""
    points, minima = compiled(is_tracked)
    with pytest.raises(ValueError, match="first"):
        minima.step_row((1,), None, (1, 2, 3))
    minima.read_rows(1, date.toordinal, 2, None, is_descending)
    first = date(2024, 1, 1)
    points.insert(1, b"", (0, first.toordinal() + 5))
    spotted = COMPILED.RangeMinima(points, is_tracked, Interval, Piece)
    days = [date.fromordinal(first.toordinal() + day) for day in range(0, 8, 2)]
    rows: list[Any] = [None, *product([7], [*days, None], [INT64_MIN, -1, 0, 5, INT64_MAX, None])]

    def spot(row: Any) -> Any:
        if row is None or None in row:
            return None
        return row[1].toordinal(), ~row[2] if is_descending else row[2]

    minima.step_row((8,), None, (8, days[1], 0))
    spotted.step(b"", b"", None, spot((8, days[1], 0)), (8,))
    seen = 0
    table: Any = None
    deltas: list[Delta] = []
    alone: list[Any] = []
    for before, after in product(rows, rows):
        for old, new in ((None, before), (before, after), (after, None)):
            deltas.append(Delta(len(deltas), table, (7,), old, new))
            alone.append(minima.step_row((7,), old, new))
        found = alone[-2]
        if spot(before):
            spotted.step(b"", b"", None, spot(before), (7,))
        expected = (
            spotted.step(b"", b"", spot(before), spot(after), (7,)) if spot(before) or spot(after) else []
        )
        if spot(after):
            spotted.step(b"", b"", spot(after), None, (7,))
        assert found == ([(b"", piece) for piece in expected] or None)
        seen += found is not None
    assert seen
    assert minima.step_rows(deltas) == alone, "all of a request as one by one"
    assert minima.step_rows([]) == []
    with pytest.raises(TypeError):
        minima.step_rows([(None, None)])
    with pytest.raises(IndexError):
        minima.step_row((9,), None, (1, days[0]))
    with pytest.raises(TypeError):
        minima.step_row((9,), None, [1, days[0], 3])


@judged
@given(
    rows=st.dictionaries(
        st.integers(-3, 30) | st.sampled_from([INT64_MIN, INT64_MAX, 2**62, -(2**62) - 1]),
        st.tuples(st.integers(0, 9), st.integers(0, 4)),
        max_size=40,
    )
)
@settings(max_examples=examples(60), deadline=None)
def test_columns_are_rows(make: Any, rows: dict[int, tuple[int, int]]) -> None:
    """Built from columns, a tree holds what it would hold of entries, and takes events of these keys."""
    _, minima = make()
    columns = zip(*((x, y, key) for key, (x, y) in rows.items()), strict=True)
    xs, ys, keys = (np.array(column, np.int64) for column in columns) if rows else [np.empty(0, np.int64)] * 3
    minima.build_columns(b"", xs, ys, keys)
    minima.check()
    tree = minima.get(b"")
    held = [] if tree is None else list(tree)
    assert sorted(held) == sorted((x, y, (key,)) for key, (x, y) in rows.items())
    for key, place in rows.items():
        minima.step(b"", b"", place, None, (key,))
    assert minima.get(b"") is None
    with pytest.raises(ValueError, match=r"equally long|broadcast|strict|same"):
        minima.build_columns(b"x", np.zeros(2, np.int64), np.zeros(1, np.int64), np.zeros(2, np.int64))


@is_built
@pytest.mark.parametrize("longest", [40, 4_000, 2**63])
@pytest.mark.parametrize("seed", range(examples(2)))
def test_among_many_ranges(longest: int, seed: int) -> None:
    """Short ranges are kept apart where there are many: while they come and go, pieces are those with a subscription."""
    random = np.random.default_rng(seed)
    points, minima = compiled()
    scale = max(1, longest // 4_000)
    spots = {row: (int(x) * scale, int(y)) for row, (x, y) in enumerate(random.integers(0, 4_000, (300, 2)))}
    minima.build({b"": [(x, y, row) for row, (x, y) in spots.items()]})
    tree = A2BTree()
    for row, (x, y) in spots.items():
        rule.step(tree, None, (x, y), row)
    ranges: dict[int, tuple[int, int]] = {}
    shown = 0
    for event in range(150):
        for sid in range(event * 40, event * 40 + 40):
            low = int(random.integers(0, 4_000)) * scale
            length = min(longest - 1, int(random.exponential(longest / 50)))
            ranges[sid] = low, min(INT64_MAX, low + length)
            points.insert(sid, b"", ranges[sid])
            if event > 75:
                gone = int(random.choice(list(ranges)[:50]))
                points.remove(gone, b"", ranges.pop(gone))
        row = int(random.integers(0, 300))
        old, new = spots[row], (spots[row][0], int(random.integers(0, 4_000)))
        spots[row] = new
        made = rule.step(tree, old, new, row)
        told = [
            piece.region for piece in made if any(contains(piece.region, place) for place in ranges.values())
        ]
        shown += len(told)
        assert [piece.region for piece in minima.step(b"", b"", old, new, row)] == told
        if event % 15 == 0:
            points.check()
    assert shown


fields = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(INT64_MIN, INT64_MAX),
    st.text(),
    st.text(st.characters(max_codepoint=0x80)),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
    st.dates(),
)


@is_built
@given(row=st.tuples(fields, fields, fields), y=st.integers(0, 2))
@settings(max_examples=examples(300), deadline=None)
def test_messages_are_written_as_in_python(row: Any, y: int) -> None:
    names = ("sym bol", "Ünïcode", 'a "quoted" one')

    def answer(shown: Any) -> bytes:
        if shown is None:
            return encode({"value": None, "row": None})
        return encode({"value": shown[y], "row": dict(zip(names, shown, strict=True))})

    writer = COMPILED.ExtremeDrafts(Draft, "range", [encode(name).decode() for name in names], y, answer)
    region = ((Interval(0, 1), Interval(2, 3)),)
    made = writer.make([(b"t", Piece(region, 5, "key")), (b"", Piece(region, None, None))], {"key": row})
    assert made == [
        Draft("range", b"t", region, payload=answer(row)),
        Draft("range", payload=answer(None), region=region),
    ]
    assert all(type(draft) is Draft for draft in made)
    with pytest.raises(KeyError):
        writer.make([(b"t", Piece(region, 5, "other"))], {"key": row})
