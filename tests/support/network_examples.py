"""Spaces, placements and contents for the tests of networks."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from cn.model.geometry import Extent, Interval, difference
from cn.model.network import Place, Space

SPACES = {
    1: Space(1, 1, True),
    2: Space(2, 2, True),
    3: Space(3, 2, False),
    4: Space(4, 0, True),
    5: Space(5, 0, True),
}
TOPICS = [b"tech", b"tech", b""]
numbers = st.integers(0, 3)
words = st.sampled_from(["a", "b", "c"])


@st.composite
def intervals(draw: st.DrawFn, codes: st.SearchStrategy[Any]) -> Interval:
    low, high = sorted([draw(codes), draw(codes)])
    no_low, no_high, low_open, high_open = (draw(st.integers(0, 3)) == 3 for _ in range(4))
    return Interval(None if no_low else low, None if no_high else high, low_open, high_open)


def places(space: Space) -> st.SearchStrategy[Place]:
    if space.dimensions:
        return st.tuples(*[numbers if space.int64 else words] * space.dimensions)
    ranges = st.builds(lambda interval, null: Extent((interval,), null), intervals(numbers), st.booleans())
    equalities = st.builds(lambda code: Extent((Interval(code, code),)), numbers)
    filters = st.dictionaries(st.integers(0, 1), ranges | equalities, max_size=2)
    return st.lists(filters, max_size=2).map(tuple)


def contents(space: Space) -> st.SearchStrategy[dict[str, Any]]:
    """What a message to a space says about whom it concerns."""
    if not space.dimensions:
        row = st.none() | st.tuples(st.none() | numbers, st.none() | numbers)
        return st.fixed_dictionaries({"attributes": st.tuples(row, row)})
    box = st.tuples(*[intervals(numbers if space.int64 else words)] * space.dimensions)
    holed = st.builds(lambda one, hole: tuple(difference(one, hole)), box, box)
    regions = st.tuples(box) | holed
    return st.fixed_dictionaries({"topic": st.sampled_from(TOPICS), "region": regions})


PLACES = {space: places(space) for space in SPACES.values()}
CONTENTS = {space: contents(space) for space in SPACES.values()}
