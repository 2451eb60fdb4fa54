"""Rows packed in columns against a dictionary, with values of every type; both implementations."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from copy import copy
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.values.columns import INT64_MAX, INT64_MIN, column_type
from prosem.values.packed_columns import kind_of
from prosem.values.packed_rows import PackedRows, codes_of
from prosem.values.wire import encode
from tests.support.makers import both

judged = both(PackedRows, "PackedRows")

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(INT64_MIN, INT64_MAX),
    "double precision": st.floats(allow_nan=False, allow_infinity=False),
    "numeric(4,0)": st.integers(-9999, 9999).map(Decimal),
    "numeric(18,6)": st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal(n).scaleb(-6)),
    "numeric(10,10)": st.integers(-(10**10) + 1, 10**10 - 1).map(lambda n: Decimal(n).scaleb(-10)),
    "numeric(40,3)": st.integers(-(10**25), 10**25).map(lambda n: Decimal(f"{n}.120")),
    "text": st.text(st.characters(codec="utf8", exclude_characters="\0"), max_size=5),
    "date": st.dates(),
    "timestamptz": st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(fold=0)),
    "jsonb": st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
        max_leaves=4,
    ),
    "bytea": st.binary(max_size=4),
}
FEW = {
    "boolean": [False, True],
    "integer": [0, 1, -5, 2**31 - 1],
    "bigint": [INT64_MIN, -1, 0, 2**40, INT64_MAX],
    "double precision": [0.0, -0.0, 1.5, -1e300, 5e-324],
    "numeric(18,6)": [Decimal("0.000000"), Decimal("-0.000001"), Decimal("999999999999.999999")],
    "numeric(40,3)": [Decimal("0.000"), Decimal("1" * 30 + ".500")],
    "text": ["", "a", "ä€𐀀"],
    "date": [date.min, date(1970, 1, 1), date(2000, 2, 29), date.max],
    "timestamptz": [datetime.min.replace(tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)],
    "bytea": [b"", b"\0\xff"],
}  # keys that meet often


def same(one: Any, other: Any) -> bool:
    """Alike in type and as written, digits and signs of zeros included."""
    if isinstance(one, tuple | list):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and type(other) is float:
        return math.copysign(1, one) == math.copysign(1, other) and (one == other or one != one)
    return type(one) is type(other) and bool(one == other) and encode(one) == encode(other)


def opened(make: Any, types: Sequence[str], key: Sequence[int]) -> Any:
    kinds = [kind_of(column_type(name)) for name in types]
    return make([kind for kind, _ in kinds], [scale for _, scale in kinds], list(key))


def agree(rows: Any, model: dict[Any, Any]) -> None:
    rows.check()
    assert len(rows) == len(model) == len(rows.values()) == len(list(rows))
    assert rows == model
    found = {key: rows[key] for key in rows}
    assert all(same(found[key], row) for key, row in model.items())
    assert all(same(row, model[key]) for key, row in rows.items())
    assert sorted(map(repr, rows.values())) == sorted(map(repr, model.values()))


@judged
@settings(deadline=None)
@given(data=st.data())
def test_rows_are_those_of_a_dictionary(make: Any, data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=4), "types")
    keys = data.draw(st.lists(st.sampled_from(sorted(FEW)), min_size=1, max_size=2), "keys")
    key = [len(types) + at for at in range(len(keys))]
    rows, model = opened(make, [*types, *keys], key), dict[Any, Any]()
    copies: list[tuple[Any, dict[Any, Any]]] = []
    for _ in range(data.draw(st.integers(0, 25), "steps")):
        at = tuple(data.draw(st.sampled_from(FEW[name])) for name in keys)
        step = data.draw(st.sampled_from(["put", "put", "put", "pop", "get", "delete", "copy"]))
        if step == "put":
            row = (*(data.draw(st.none() | VALUES[name]) for name in types), *at)
            rows[at] = row
            model.pop(at, None)
            model[at] = row
        elif step == "pop":
            assert same(rows.pop(at, None), model.pop(at, None))
        elif step == "get":
            assert same(rows.get(at), model.get(at))
            assert (at in rows) == (at in model)
        elif step == "copy":
            copies.append((copy(rows), dict(model)))
        elif at in model:
            del rows[at], model[at]
        else:
            with pytest.raises(KeyError):
                del rows[at]
            with pytest.raises(KeyError):
                rows[at]
    agree(rows, model)
    for copied, before in copies:
        agree(copied, before)


@judged
def test_many_rows_come_and_go(make: Any) -> None:
    """The index grows, and finds what moved into the place of what went."""
    rows, model = opened(make, ["bigint", "text", "double precision"], [0]), dict[Any, Any]()
    for n in range(6_000):
        key = n * 7919 % 2003
        if n % 3:
            rows[key,] = model[key,] = (key, str(n), n / 7)
        else:
            assert rows.pop((key,), "none") == model.pop((key,), "none")
    agree(rows, model)
    rows.clear()
    agree(rows, {})
    rows.load(model.values())
    agree(rows, model)


ODD = [
    ("integer", 2**31),
    ("integer", True),
    ("bigint", INT64_MAX + 1),
    ("bigint", 1.0),
    ("boolean", 1),
    ("double precision", 1),
    ("numeric(18,6)", Decimal("1.5")),
    ("numeric(18,6)", Decimal("-0.000000")),
    ("numeric(18,6)", Decimal("Infinity")),
    ("numeric(18,6)", Decimal("1" * 13 + ".000000")),
    ("numeric(18,6)", 1),
    ("date", datetime(2020, 1, 1)),
    ("timestamptz", datetime(2020, 1, 1)),
    ("timestamptz", datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
    ("timestamptz", date(2020, 1, 1)),
]


@judged
@pytest.mark.parametrize(("name", "odd"), ODD)
@pytest.mark.parametrize("key", [[0], [1], [1, 0]])
def test_a_value_that_does_not_fit_is_kept_all_the_same(
    make: Any, name: str, odd: Any, key: list[int]
) -> None:
    """The column becomes one of objects, also one of the key."""
    rows = opened(make, ["bigint", name], key)
    given_first = [(n, value) for n, value in enumerate(FEW.get(name, FEW["numeric(18,6)"]))]
    model: dict[Any, Any] = {}
    for row in [*given_first, (9, None if 1 not in key else FEW[name][-1]), (10, odd), *given_first[:1]]:
        at = tuple(row[place] for place in key)
        rows[at] = row
        model.pop(at, None)
        model[at] = row
    agree(rows, model)
    assert rows.codes(1) is None


@judged
def test_moments_of_postgresql_are_moments(make: Any) -> None:
    """psycopg gives another class for UTC; what is read is written alike."""
    rows = opened(make, ["bigint", "timestamptz"], [0])
    rows[1,] = (1, datetime(2020, 2, 29, 12, tzinfo=ZoneInfo("UTC")))
    assert same(rows[1,], (1, datetime(2020, 2, 29, 12, tzinfo=UTC)))
    assert rows.codes(1) is not None


@judged
def test_equal_keys_are_one(make: Any) -> None:
    rows = opened(make, ["double precision", "text"], [0])
    rows[0.0,] = (0.0, "a")
    rows[-0.0,] = (-0.0, "b")
    assert len(rows) == 1
    assert same(rows[0.0,], (-0.0, "b"))
    assert rows[0,] == (0.0, "b")
    whole = opened(make, ["bigint"], [0])
    whole[1,] = (1,)
    assert (True,) in whole
    assert (1.0,) in whole
    assert (1.5,) not in whole
    assert ("1",) not in whole
    assert (1, 1) not in whole
    assert (2**70,) not in whole
    exact = opened(make, ["numeric(18,6)"], [0])
    exact[Decimal("1.500000"),] = (Decimal("1.500000"),)
    assert (Decimal("1.5"),) in exact
    assert (Decimal("1.50000000"),) in exact
    assert (Decimal("1.5000001"),) not in exact
    assert (Decimal("1E+30"),) not in exact


@judged
def test_iteration_notices_that_rows_came(make: Any) -> None:
    rows = opened(make, ["bigint"], [0])
    rows.load([(1,), (2,)])
    keys = iter(rows)
    assert next(keys) in rows
    rows[5,] = (5,)
    with pytest.raises(RuntimeError):
        next(keys)
    with pytest.raises(ValueError, match="a value for each column"):
        rows[3,] = (3, 4)


@judged
@settings(deadline=None)
@given(data=st.data())
def test_codes_are_those_of_the_column_type(make: Any, data: st.DataObject) -> None:
    name = data.draw(
        st.sampled_from([name for name in sorted(VALUES) if kind_of(column_type(name))[0] != "object"])
    )
    values = data.draw(st.lists(st.none() | VALUES[name], max_size=12))
    rows = opened(make, ["bigint", name], [0])
    rows.load(enumerate(values))
    found = codes_of(rows, [1, 0])
    assert found is not None
    code = column_type(name).code
    kept = [(code(value), n) for n, value in enumerate(values) if value is not None]
    assert list(zip(*(column.tolist() for column in found), strict=True)) == kept
    assert codes_of(dict(rows), [0]) is None
    assert codes_of(opened(make, ["text"], [0]), [0]) is None


# -- arrays of PostgreSQL ------------------------------------------------------------------------------------------
FORMS = {
    "boolean": ">?",
    "integer": ">i",
    "bigint": ">q",
    "double precision": ">d",
    "date": ">i",
    "timestamptz": ">q",
}


def sent(name: str, values: Sequence[Any]) -> bytes:
    """A binary array as PostgreSQL sends it; numbers of days and microseconds count from 1970."""
    if not values:
        return struct.pack(">iii", 0, 0, 20)
    form = FORMS.get(name, ">q" if kind_of(column_type(name))[0] == "numeric" else "")
    parts = [struct.pack(">iiiii", 1, None in values, 20, len(values), 1)]
    for value in values:
        if value is None:
            parts.append(struct.pack(">i", -1))
            continue
        if form:
            one = struct.pack(form, value if name == "double precision" else column_type(name).code(value))
        else:
            one = value if name == "bytea" else encode(value) if name == "jsonb" else str(value).encode()
        parts += [struct.pack(">i", len(one)), one]
    return b"".join(parts)


READERS: dict[str, Any] = {"bytea": bytes, "numeric(40,3)": lambda text: Decimal(text.decode())}


@judged
@settings(deadline=None)
@given(data=st.data())
def test_arrays_of_postgresql_are_rows(make: Any, data: st.DataObject) -> None:
    types = data.draw(
        st.lists(st.sampled_from([name for name in sorted(VALUES) if name != "jsonb"]), max_size=3)
    )
    rows, model = opened(make, ["bigint", *types], [0]), dict[Any, Any]()
    for _ in range(data.draw(st.integers(1, 3))):
        start, count = len(model), data.draw(st.integers(0, 6))
        columns = [list(range(start, start + count))] + [
            data.draw(
                st.lists(VALUES[name] if full else st.none() | VALUES[name], min_size=count, max_size=count)
            )
            for name in types
            for full in [data.draw(st.booleans())]
        ]
        arrays = [sent(name, values) for name, values in zip(["bigint", *types], columns, strict=True)]
        rows.load_arrays(arrays, [None, *(READERS.get(name) for name in types)], [0] * len(columns))
        model.update({(row[0],): row for row in zip(*columns, strict=True)})
    agree(rows, model)


@judged
def test_arrays_are_refused_that_do_not_fit(make: Any) -> None:
    rows = opened(make, ["bigint", "bigint"], [0])
    with pytest.raises(ValueError, match="equally long"):
        rows.load_arrays([sent("bigint", [1]), sent("bigint", [1, 2])], [None, None], [0, 0])
    rows = opened(make, ["bigint"], [0])
    with pytest.raises(ValueError, match="there already"):
        rows.load_arrays([sent("bigint", [1, 1])], [None], [0])


@judged
def test_shifts_are_added(make: Any) -> None:
    """PostgreSQL counts days and microseconds from 2000."""
    rows = opened(make, ["date", "timestamptz"], [0])
    days, moments = (
        struct.pack(">iiiiiii", 1, 0, 0, 1, 1, 4, -1),
        struct.pack(">iiiiiiq", 1, 0, 0, 1, 1, 8, 1),
    )
    millennium = datetime(2000, 1, 1, tzinfo=UTC)
    rows.load_arrays(
        [days, moments],
        [None, None],
        [column_type("date").code(millennium.date()), column_type("timestamptz").code(millennium)],
    )
    assert list(rows.values()) == [(date(1999, 12, 31), millennium + timedelta(microseconds=1))]
