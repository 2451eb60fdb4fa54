"""Events of select-joins by semijoins in one call: what the rule in Python says, region by region."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.match import kernels
from cn.model.geometry import Interval
from prosem.index.joins.stabbing_set import StabbingSet
from prosem.types.base import Bound, Draft, SpaceContext
from prosem.types.join.semijoin import SemijoinMode
from prosem.types.join.space import JoinSpace
from prosem.types.join.table import Placed
from tests.support.effort import examples
from tests.support.makers import COMPILED, is_built
from tests.types.test_join_rule import CASES, Case, Oracle, deltas, events, points

INTEGERS = [name for name, one in CASES.items() if one.shape.int64]


def opened(one: Case, oracle: Oracle, places: list[tuple[int, ...]], *, is_compiled: bool) -> JoinSpace:
    found = (
        kernels._Choice(COMPILED, kernels.Found.USED)
        if is_compiled
        else kernels._Choice(None, kernels.Found.OFF)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_choice", found)
        rows = tuple(dict(some) for some in oracle.rows)
        context = SpaceContext(rows, lambda sid: Bound(b"", places[sid]), 64)
        space = JoinSpace(one.shape, 1, context, oracle.decomposition, "semijoin")
        space.add(range(len(places)), [Bound(b"", place) for place in places])
    assert isinstance(space._mode, SemijoinMode)
    assert (space._mode._compiled is not None) == is_compiled
    return space


def named(drafts: list[Draft]) -> list[Draft]:
    """Subscriptions are named in no order."""
    return [
        one if one.targets is None else one._replace(targets=tuple(sorted(one.targets))) for one in drafts
    ]


@is_built
@pytest.mark.parametrize("name", INTEGERS)
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_both_describe_an_event_alike(name: str, data: st.DataObject) -> None:
    one = CASES[name]
    oracle = Oracle(one.shape, data.draw(st.sampled_from(one.decompositions)))
    *_, _ = *deltas(oracle, data.draw(events(one), label="before")), None
    places = points(one.shape, Random(data.draw(st.integers(0, 9))), data.draw(st.sampled_from([0, 3, 40])))
    python, native = (opened(one, oracle, places, is_compiled=is_compiled) for is_compiled in (False, True))
    unused = data.draw(st.sets(st.sampled_from(range(len(one.shape.tables)))))
    for space in (python, native):
        assert isinstance(space._mode, SemijoinMode)
        space._mode.unused = frozenset(unused)
    for delta in deltas(oracle, data.draw(events(one), label="events")):
        expected, found = python.step(delta), native.step(delta)
        assert (found is None) == (expected is None)
        if found is None:
            continue
        assert (found.old, found.new) == (expected.old, expected.new)
        assert all(type(placed) is Placed for placed in (found.old, found.new) if placed is not None)
        assert [(shift.table.number, *shift[1:]) for shift in found.shifts] == [
            (shift.table.number, *shift[1:]) for shift in expected.shifts
        ]
        for plan in native.plans:
            assert named(native.messages(found, plan)) == named(python.messages(expected, plan))
    native.check()


@is_built
def test_what_the_compiled_step_refuses() -> None:
    """A row that is not there, tables without a partner, and descriptions of tables that make no sense."""
    one = CASES["two tables"]
    oracle = Oracle(one.shape, (1, 0))
    oracle.rows[0][1,] = (1, 2, 1, 0)
    space = opened(one, oracle, [], is_compiled=True)
    with pytest.raises(KeyError):
        space._mode.step(space.model.tables[0], (2, 2, 1, 0), None)
    with pytest.raises(TypeError):
        space._mode.step(space.model.tables[0], None, [2, 2, 1, 0])  # type: ignore[arg-type]
    with pytest.raises(IndexError):
        space._mode.step(space.model.tables[0], None, (2, 2))
    space.check()
    points_ = COMPILED.PointIndex(2, True)
    bare = COMPILED.JoinStep(COMPILED.JoinRegions(points_, 2, Interval), points_, 2, Interval, Placed)
    bare.add_table(7, (1,), (0,), [(2, None, (0, 1))], 0, [((), COMPILED.JoinKeys())])
    with pytest.raises(ValueError, match="partner"):
        bare.step(0, None, (1, 2, 3))
    with pytest.raises(IndexError):
        bare.step(1, None, None)
    with pytest.raises(ValueError, match="routed"):
        bare.visible(0, Placed((3, (1,), (1, 2, 3)), (3,)), StabbingSet(True), False)
    with pytest.raises(ValueError, match="other points"):
        COMPILED.JoinStep(
            COMPILED.JoinRegions(COMPILED.PointIndex(2, True), 2, Interval), points_, 2, Interval, Placed
        )
    for table in [
        ((1,), (0,), [(2, None, (0, 1))], 1, []),
        ((1,), (0,), [(2, None, (0, 2))], 0, []),
        ((1,), (0,), [(2, None)], 0, []),
        ((1,), (0,), [], -1, [()]),
    ]:
        with pytest.raises(ValueError, match=r"condition|dimension|order"):
            bare.add_table(8, *table)
