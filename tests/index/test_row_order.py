"""Rows by one column against a scan."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prosem.index.ranges.row_order import RowOrder

ends = st.one_of(st.none(), st.integers(-1, 6))


@given(
    first=st.dictionaries(st.integers(0, 9), st.integers(0, 5)),
    changes=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=30),
    low=ends,
    high=ends,
    most=st.integers(0, 12),
)
def test_rows_within_a_range(
    first: dict[int, int], changes: list[tuple[int, int]], low: Any, high: Any, most: int
) -> None:
    """A change takes a row away, or puts it there."""
    table = {(ref, None): x for ref, x in first.items()}
    order = RowOrder((x, ref) for ref, x in table.items())
    for number, x in changes:
        ref = number, None
        if ref in table:
            order.remove(table.pop(ref), ref)
        else:
            table[ref] = x
            order.add(x, ref)
        expected = [
            ref for ref, x in table.items() if (low is None or low <= x) and (high is None or x <= high)
        ]
        found = order.within(low, high, most)
        if len(expected) > most:
            assert found is None
        else:
            assert found is not None
            assert sorted(found) == sorted(expected)
            assert [table[one] for one in found] == sorted(table[one] for one in found)  # type: ignore[index]
        assert len(order) == len(table)


def test_a_row_that_is_not_there() -> None:
    order = RowOrder([(1, "a"), (2, "b"), (2, "c")])
    for x, ref in ((1, "b"), (2, "a"), (3, "a")):
        with pytest.raises(KeyError):
            order.remove(x, ref)
    assert len(order) == 3
