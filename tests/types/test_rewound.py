"""Rows as of each delta of a batch, against a table that takes the deltas one after the other."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from prosem.types.shared.rewound import RewoundRows, passed_with
from prosem.values.model import Delta, Key, Row

TABLE: Any = None
changes = st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 9))), max_size=12)


@given(st.dictionaries(st.integers(0, 3), st.integers(0, 9)), changes)
def test_rows_are_those_as_of_the_deltas_that_were_passed(held: dict[int, int], moves: list[Any]) -> None:
    rows: dict[Key, Row] = {(key,): (key, value) for key, value in held.items()}
    states, deltas = [dict(rows)], []
    for seq, (key, value) in enumerate(moves, 1):
        old, new = rows.get((key,)), None if value is None else (key, value)
        deltas.append(Delta(seq, TABLE, (key,), old, new))
        if new is None:
            rows.pop((key,), None)
        else:
            rows[key,] = new
        states.append(dict(rows))
    rewound = RewoundRows(rows, deltas)
    for passed, expected in enumerate(states):
        rewound.advance(passed)
        assert dict(rewound) == expected
        assert len(rewound) == len(expected)
        for key in range(5):
            assert ((key,) in rewound) == ((key,) in expected)


@given(st.lists(st.booleans(), max_size=12))
def test_a_part_of_the_deltas_knows_how_many_of_all_are_passed(taken: list[bool]) -> None:
    every = [Delta(seq, TABLE, (seq,), None, (seq,)) for seq in range(1, len(taken) + 1)]
    some = [delta for delta, is_taken in zip(every, taken, strict=True) if is_taken]
    assert [*passed_with(every, some)] == [delta.seq for delta in some]
    assert [*passed_with(every, every)] == [delta.seq for delta in every]
