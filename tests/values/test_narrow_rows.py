"""Rows of which some columns are held, against a dictionary of whole rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.values.columns import column_type
from prosem.values.model import Column, Key, Row, Table
from prosem.values.narrow_rows import UNHELD, NarrowRows, answer_rows
from prosem.values.packed_rows import codes_of
from prosem.values.wire import encode

TYPES = ("integer", "text", "bigint", "double precision", "boolean", "text")


def table_of(width: int, key: Sequence[int]) -> Table:
    columns = tuple(Column(f"c{at}", column_type(TYPES[at])) for at in range(width))
    return Table(1, "t", columns, tuple(f"c{at}" for at in key))


def row_of(number: int, width: int, seed: int) -> Row:
    every = (number, f"t{number}", seed * 10**12, seed / 3, bool(seed % 2), "x" * (seed % 5))
    return every[:width]


def shown(row: Row, held: Sequence[int]) -> list[Any]:
    return [row[at] if at in held else "unheld" for at in range(len(row))]


def seen(row: Row) -> list[Any]:
    return ["unheld" if value is UNHELD else value for value in row]


def agree(rows: NarrowRows, model: Mapping[Key, Row]) -> None:
    rows.check()
    assert len(rows) == len(model) == len(rows.values()) == len(rows.items())
    assert set(rows) == set(model)
    assert {*rows.held} | {*rows.unheld} == {*range(len(rows.table.columns))}
    for key, row in model.items():
        expected = shown(row, rows.held)
        assert seen(rows[key]) == expected == seen(rows.get(key))
        assert rows.whole(key, tuple(row[at] for at in rows.unheld)) == row
    assert {key: seen(row) for key, row in rows.items()} == {
        key: shown(row, rows.held) for key, row in model.items()
    }
    assert sorted(map(repr, rows.values())) == sorted(repr(rows[key]) for key in rows)


@settings(deadline=None)
@given(data=st.data())
def test_held_columns_are_those_of_a_dictionary(data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 6), "columns")
    key = data.draw(st.sampled_from([[0], [1, 0]] if width > 1 else [[0]]), "key")
    table = table_of(width, key)
    some = st.sets(st.integers(0, width - 1))
    rows, model = NarrowRows(table, data.draw(some, "held")), dict[Key, Row]()
    copies: list[tuple[NarrowRows, dict[Key, Row]]] = []
    for _ in range(data.draw(st.integers(0, 20), "steps")):
        row = row_of(data.draw(st.integers(0, 6)), width, data.draw(st.integers(0, 9)))
        at = table.key_of(row)
        step = data.draw(st.sampled_from(["put", "put", "pop", "copy", "load", "widen"]))
        if step == "put":
            rows[at] = model[at] = row
        elif step == "pop":
            assert (rows.pop(at, None) is None) == (model.pop(at, None) is None)
        elif step == "copy":
            copies.append((copy(rows), dict(model)))
        elif step == "load":
            rows.update({at: row})
            model[at] = row
        else:
            wider = NarrowRows(table, {*rows.held, *data.draw(some)})
            wider.load_held([tuple(one[at] for at in wider.held) for one in model.values()])
            rows.adopt(wider)
    agree(rows, model)
    for copied, before in copies:
        agree(copied, before)


def test_a_column_that_is_not_held_cannot_be_used_by_mistake() -> None:
    rows = NarrowRows(table_of(3, [0]), [])
    rows[7,] = (7, "a", 3)
    value = rows[7,][1]
    uses: list[Any] = [
        lambda: value == "a",
        lambda: value != "a",
        lambda: value < "b",
        lambda: {value},
        lambda: bool(value),
        lambda: encode(value),
        lambda: sorted([value, value]),
    ]
    for use in uses:
        with pytest.raises(TypeError):
            use()
    with pytest.raises(ValueError, match="a value for each column"):
        rows[8,] = (8, "b")
    with pytest.raises(KeyError):
        rows.codes(1)


def test_columns_that_are_not_held_take_no_memory() -> None:
    table = table_of(6, [0])
    whole, narrow = NarrowRows(table, range(6)), NarrowRows(table, [2])
    for number in range(1_000):
        for rows in (whole, narrow):
            rows[number,] = row_of(number, 6, number)
    assert (whole.is_whole, narrow.is_whole, narrow.held) == (True, False, (0, 2))
    assert whole.nbytes - narrow.nbytes >= 1_000 * (8 + 8 + 1 + 8), "two texts, a double and a boolean"
    found = codes_of(narrow, [2, 0])
    assert found is not None
    assert sorted(found[1].tolist()) == list(range(1_000))


def test_answers_have_whole_rows() -> None:
    asked: list[Sequence[Key]] = []

    def fetch(rows: NarrowRows, keys: Sequence[Key]) -> dict[Key, Row]:
        asked.append(keys)
        return {key: row_of(key[0], 3, 5) for key in keys}  # type: ignore[arg-type]

    rows = NarrowRows(table_of(3, [0]), [2], fetch)
    for number in range(3):
        rows[number,] = row_of(number, 3, 5)
    found = answer_rows(rows, [(1,), (2,), (1,)])
    assert dict(found) == {(1,): row_of(1, 3, 5), (2,): row_of(2, 3, 5)}
    assert asked == [[(1,), (2,)]]
    plain: dict[Key, Row] = {(1,): (1,)}
    assert answer_rows(plain, [(1,)]) is plain
    whole = NarrowRows(table_of(3, [0]), range(3), fetch)
    assert answer_rows(whole, [(1,)]) is whole
