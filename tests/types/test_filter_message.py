"""Messages of filters: columns without a condition apart, and every filter receives what it must."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cn.model.geometry import Extent, Interval
from prosem.types.base import Bound
from prosem.types.filter.form import holds
from prosem.types.filter.message import SHORT, row_change, row_draft
from prosem.types.filter.space import FilterSpace
from prosem.values.columns import column_type
from prosem.values.model import Column, Delta, JsonObject, Row, Table

TABLE = Table(
    1,
    "products",
    tuple(
        Column(name, column_type(kind), name != "id")
        for name, kind in (("id", "integer"), ("rating", "integer"), ("ok", "boolean"), ("photo", "text"))
    ),
    ("id",),
)
LONG = "long" * SHORT
rows = st.none() | st.tuples(
    st.just(7),
    st.none() | st.integers(0, 2),
    st.none() | st.booleans(),
    st.sampled_from(["", "short", LONG, LONG[1:]]),
)


def expected(old: Row | None, new: Row | None, was: bool, now: bool, columns: tuple[int, ...]) -> JsonObject:
    """What a filter receives of an event: the rows it selects before and after."""
    chosen = lambda row: {TABLE.names[at]: row[at] for at in columns}
    change: dict[str, list[Any]] = {"add": [], "remove": [], "update": []}
    if was and now:
        assert old is not None
        assert new is not None
        if [(type(old[at]), old[at]) for at in columns] != [(type(new[at]), new[at]) for at in columns]:
            change["update"] = [chosen(new)]
    elif now:
        change["add"] = [chosen(new)]
    elif was:
        change["remove"] = [{"id": 7}]
    return change


@given(rows, rows, st.sets(st.integers(0, 3)), st.booleans(), st.booleans(), st.sets(st.integers(1, 3)))
def test_every_filter_receives_the_same_as_from_whole_rows(
    old: Row | None, new: Row | None, conditions: set[int], was: bool, now: bool, some: set[int]
) -> None:
    was, now = was and old is not None, now and new is not None
    if old is None and new is None:
        return
    draft, columns = row_draft(TABLE, old, new, conditions), (0, *sorted(some))
    change = row_change(draft.payload, draft.contents, was, now, TABLE, columns)
    wanted = expected(old, new, was, now, columns)
    assert (None if change is None else msgspec.json.decode(change)) == (
        wanted if any(wanted.values()) else None
    )
    assert draft.attributes is not None
    for vector in draft.attributes:
        assert vector is None or all(code is None for at, code in enumerate(vector) if at not in conditions)
    assert len(draft.contents) == len(draft.digests) <= 1


def test_what_no_condition_looks_at_keeps_its_digest() -> None:
    first = row_draft(TABLE, None, (7, 1, True, LONG), {1})
    again = row_draft(TABLE, (7, 1, True, LONG), (7, 2, True, LONG), {1})
    other = row_draft(TABLE, (7, 2, True, LONG), (7, 2, True, LONG[1:]), {1})
    assert first.digests == again.digests != other.digests
    assert LONG.encode() not in again.payload + str(again.attributes).encode()
    assert not row_draft(TABLE, None, (7, 1, True, "short"), {1}).digests, "a short one is not worth a digest"


def test_a_space_knows_the_columns_of_its_conditions() -> None:
    space = FilterSpace(TABLE, 1)
    rating = Bound(b"", ({1: Extent((Interval(1, 2),))},))
    encode = TABLE.columns[3].type.encode
    assert encode is not None
    code = encode(LONG)
    both = Bound(b"", ({1: Extent((Interval(1, 2),))}, {3: Extent((Interval(code, code),))}))
    delta = Delta(1, TABLE, (7,), None, (7, 1, True, LONG))

    def sent() -> tuple[int, bool]:
        description = space.step(delta)
        assert description is not None
        (draft,) = space.messages(description, "match")
        assert draft.attributes is not None
        return len(draft.contents), holds(both.place[1:], draft.attributes[1])

    space.add([1, 2], [rating, Bound(b"", None)])
    assert sent() == (1, False)
    space.move(1, rating, both)
    assert sent() == (0, True), "a condition looks at it"
    space.move(1, both, rating)
    space.add([3], [both])
    space.remove(3, both)
    assert sent() == (1, False)


def test_few_changes_of_large_rows_are_remembered() -> None:
    size, rounds = 100_000, 100
    tracemalloc.start()
    try:
        for number in range(rounds):
            new: Row = (7, number, None, str(number) * size)
            draft = row_draft(TABLE, None, new, {1})
            first = row_change(draft.payload, draft.contents, False, True, TABLE, (0, 3))
            again = row_change(draft.payload, draft.contents, False, True, TABLE, (0, 3))
            assert first is again, "all filters share it"
        del draft, first, again
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < rounds * size
